mod explored;

use super::super::{inbox::inbox, sleep::lookout};
use super::*;
use crate::fork::Process;
use crate::keeper::handle::Origin;
use crate::keeper::machine::{Command, Mode};
use crate::options::LockOptions;
use crate::protocol::{About, AcquireVerdict, Common, LockKeys, OwnLease, Reply, Seat, Secret, Token, Verdict, WireId};

fn client() -> Arc<Direct> {
    let (bell, lookout) = lookout().unwrap();
    let (outbox, _inbox) = inbox(bell);
    let wakers = Wakers::of_this_process().unwrap();
    Direct::new(ClientId::new("client").unwrap(), "fairlock", wakers, outbox, lookout.arm())
}

impl Direct {
    /// A lease that a caller was granted just now.
    fn granted(&self) -> Held {
        let spec = LockOptions::new().of(LockKeys::new("fairlock", "x")).unwrap();
        let about = About { secret: Secret::repeated("s"), label: "".into(), owner: "".into() };
        let (id, token, called) = (Id::direct(0), Token::new(7).unwrap(), Time::now());
        let command = Command::Acquire { id, spec: spec.clone(), about, mode: Mode::Wait, timeout: None, called };
        let (mut acquire, _) = DirectAcquire::new(called, &self.client, id, command);
        let (wire, ticket, seat) = (WireId::new(&self.client, id), token.as_ticket(), Seat::NONE);
        let own = Some(OwnLease { id: wire, token, ticket, seat, claim: false });
        let common = Common { own, lease_left: spec.lease, ..Reply::sample().common };
        let verdict = Verdict::Acquire(AcquireVerdict::Granted);
        let settled = acquire.answered(Time::now(), Ok(Reply { common, verdict }));
        let Settled::Granted { ticket, deadline, .. } = settled else { panic!("{settled:?}") };
        let (client, process) = (self.client.clone(), Process::this().unwrap());
        let origin = Origin { client, process, label: "".into(), owner: "".into(), called };
        let shared = Shared::new(spec, id, token, ticket, origin, deadline, self.wakers.clone());
        Held { acquire, shared: Arc::new(shared) }
    }
}

/// The keeper looks while it offers a connection, and may have looked for the last time before the lease came.
#[test]
fn a_lease_that_comes_when_the_connection_is_withdrawn_disturbs_the_keeper() {
    for (line, others, closed, disturbed) in
        [(0, 0, false, false), (1, 0, false, true), (0, 1, false, true), (0, 0, true, true)]
    {
        let direct = client();
        let presence = direct.seats.enter("x");
        let _others: Vec<Presence> = (0..others).map(|_| direct.seats.enter("x")).collect();
        if closed {
            direct.close();
        }
        // No connection was offered, so its line is 0.
        assert_eq!(direct.keep(line, direct.granted(), &presence), disturbed);
        assert!(!direct.claim.is_free());
    }
}

/// A keeper that missed the lease would renew it for ever instead of releasing it.
#[test]
fn the_keeper_takes_a_lease_over_though_a_caller_is_at_the_slot() {
    let direct = client();
    let held = direct.granted();
    let lease = held.shared.clone();
    direct.claim.put(lease.id.0, held);
    direct.slot.busy(|| {
        assert!(direct.claim.take_if(|_| false).is_none());
        assert!(!direct.claim.is_free());
        let held = direct.claim.take_if(|held| held.shared.id == lease.id).unwrap();
        assert!(Arc::ptr_eq(&held.shared, &lease));
        assert!(direct.claim.is_free());
        assert!(direct.claim.take_if(|_| true).is_none());
    });
}

#[test]
fn the_keeper_waits_for_no_caller_at_the_slot() {
    let direct = Slot::new();
    assert!(direct.offer(1, "first"));
    direct.busy(|| {
        assert!(!direct.offer(2, "second") && !direct.is_cleared() && direct.look().is_none());
        direct.withdraw(1);
    });
    assert_eq!(direct.take(), None);
    assert!(direct.is_cleared());
}

#[test]
fn a_connection_that_nobody_uses_is_closed_after_some_looks() {
    let slot = Slot::new();
    assert!(slot.offer(1, "wire"));
    for _ in 0..3 {
        (0..5).for_each(|_| assert_eq!(slot.look(), None));
        let (line, wire) = slot.take().unwrap();
        assert_eq!(slot.look(), None);
        slot.put(line, wire);
    }
    assert_eq!((0..20).find_map(|_| slot.look()), Some(1));
    assert_eq!((slot.line(), slot.take()), (0, None));
}
