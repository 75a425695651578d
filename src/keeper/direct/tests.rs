use std::sync::Barrier;

use super::super::handle::Origin;
use super::super::machine::Heard;
use super::super::{inbox::inbox, sleep::lookout};
use super::*;
use crate::fork::Process;
use crate::options::LockOptions;
use crate::protocol::{About, AcquireVerdict, Common, LockKeys, OwnLease, Seat, Secret, Token, Verdict, WireId};

fn client() -> Arc<Direct> {
    let (outbox, _inbox) = inbox(lookout().unwrap().0);
    let wakers = Wakers::of_this_process().unwrap();
    Direct::start(ClientId::new("client").unwrap(), "fairlock", wakers, outbox)
}

impl Direct {
    /// The lease that a caller was granted just now.
    fn granted(&self) -> Arc<Shared> {
        let spec = LockOptions::new().of(LockKeys::new("fairlock", "x")).unwrap();
        let about = About { secret: Secret::repeated("s"), label: "".into(), owner: "".into() };
        let of = DirectAcquire { id: Id::direct(0), spec: spec.clone(), about };
        let token = Token::new(7).unwrap();
        let (id, ticket, seat) = (WireId::new(&self.client, of.id), token.as_ticket(), Seat::NONE);
        let own = Some(OwnLease { id, token, ticket, seat, claim: false });
        let sample = Reply::sample().common;
        let common = Common { own, lease_left: spec.lease, ..sample };
        let (now, reply) = (Time::now(), Reply { common, verdict: Verdict::Acquire(AcquireVerdict::Granted) });
        let Heard::Granted(lease) = of.heard(&self.client, now, now, &reply) else { panic!("not granted") };
        let (client, process) = (self.client.clone(), Process::this().unwrap());
        let origin = Origin { client, process, label: "".into(), owner: "".into(), called: now };
        let (ticket, deadline) = (lease.ticket, lease.term.deadline());
        let shared = Shared::new(spec, lease.id, token, ticket, origin, deadline, self.wakers.clone());
        let shared = Arc::new(shared);
        self.taken.store(true, Ordering::SeqCst);
        *lock(&self.lease) = Some(Handover { lease, shared: shared.clone() });
        self.leased.store(shared.id.0, Ordering::SeqCst);
        shared
    }
}

/// The waker thread may still be inside after the task itself has read the answer. A keeper that missed the lease then
/// would renew it for ever instead of releasing it.
#[test]
fn the_keeper_takes_a_lease_over_though_somebody_is_inside() {
    let direct = client();
    let lease = direct.granted();
    let _late = lock(&direct.inside);
    assert!(direct.take_over(|_| false).is_none());
    assert!(direct.is_taken());
    let handover = direct.take_over(|its| its.id == lease.id).unwrap();
    assert!(Arc::ptr_eq(&handover.shared, &lease));
    assert!(!direct.is_taken());
    assert!(direct.take_over(|_| true).is_none());
}

#[test]
fn the_keeper_takes_no_lease_that_its_caller_releases() {
    let direct = client();
    let lease = direct.granted();
    assert!(direct.may_release(lease.id));
    assert!(direct.take_over(|_| true).is_none());
    assert!(direct.is_taken());
}

/// Otherwise nobody reads the answers to the tasks of a client.
#[test]
fn the_waker_thread_knows_clients_that_are_made_at_the_same_time() {
    const CLIENTS: usize = 2000;
    let together = Barrier::new(2);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                together.wait();
                for _ in 0..CLIENTS {
                    let direct = client();
                    assert!(direct.wakers.knows(&direct.reader));
                }
            });
        }
    });
}

/// The keeper looks while it offers a connection, and may have looked for the last time before the lease came.
#[test]
fn a_lease_that_comes_when_the_connection_is_withdrawn_disturbs_the_keeper() {
    let direct = client();
    let presence = direct.enter("x");
    direct.line.store(1, Ordering::SeqCst);
    assert!(!presence.is_disturbed());
    direct.withdraw(Line(1));
    assert!(presence.is_disturbed());
}
