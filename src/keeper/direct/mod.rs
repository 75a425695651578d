//! The direct connection: a caller writes its acquire and its release to a socket itself. A caller that blocks reads the
//! answer itself (`caller.rs`); the answer to a task is read by the waker thread, which would have to wake the task
//! anyway (`task.rs`). A cycle of a lock that is free then needs no keeper.
//!
//! No renewal waits for a caller (I12 of `docs/guarantees.md`), because the keeper has its own connection and waits for
//! no lock here. It takes over each lease that lasts for half a second or more, and from then on that lease is like any
//! other; until then there is nothing to renew. So only leases of [`LEAST_LEASE`] and more are granted over the direct
//! connection.
//!
//! ```text
//!   caller: take ─▶ acquire ─▶ lease ─▶ release ─▶ give back      (`taken` from the first to the last)
//!                                 │ the keeper looks (once a second), or is asked for anything at the lock
//!                                 ▼
//!   keeper:                     Adopt ─▶ renewals, release …
//! ```
//!
//! * One caller at a time has the connection, from its acquire to its release or until the keeper has the lease. All
//!   others ask the keeper.
//! * A lock is acquired over it only while the client has no other acquire and no lease there (`presence.rs`). So a
//!   direct acquire is like the acquire of a client that has forgotten the lock. The machine may still be giving
//!   something back there; the server hears of that from those requests only.
//! * It only tries. A caller that has to wait asks the keeper, and all acquires of that lock ask the keeper for a
//!   moment.
//! * If an answer does not come, the outcome is unknown. The keeper gives up its own connection, which ends both at the
//!   server (I10), and gives back what the acquire may have been granted, or repeats the release.
//! * The keeper closes it with its own connection, and when nobody has used it for some seconds (`looks.rs`).
//!
//! It needs the right to CLIENT KILL, and a server that is no cluster. The decisions are in `machine/direct.rs` and in
//! `routes/direct.rs`.

mod caller;
mod looks;
mod presence;
mod task;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub(super) use self::caller::{Returned, Tried};
pub(crate) use self::presence::Presence;
use self::presence::Seats;
use self::task::Awaited;
pub(super) use self::task::Releasing;
use super::handle::{Caller, Message, NewAcquire};
use super::inbox::Outbox;
use super::machine::{DirectAcquire, DirectLease, Heard, Id, LeaseState, Mode, Release};
use super::routes::{Line, channel_of};
use super::shared::{Armed, Shared};
use crate::clock::Time;
use crate::mutex::{lock, try_lock};
use crate::protocol::{ClientId, Reply, Request};
use crate::server::Wire;
use crate::wakers::{Reader, Wakers};

/// The shortest lease that is granted over it: long beside the time until the keeper takes it over.
const LEAST_LEASE: Duration = Duration::from_secs(10);
/// So many acquires ask the keeper before it opens the connection: most programs acquire once, and hold.
const WORTH_IT: u32 = 8;
/// In place of the id of a lease while its caller releases it, or the keeper looks at it.
const CLAIMED: u64 = u64::MAX;

pub(crate) struct Direct {
    client: ClientId,
    channel: Arc<str>,
    wakers: Arc<Wakers>,
    messages: Outbox<Message>,
    /// By which the waker thread reads the answers to tasks.
    reader: Reader,
    /// A caller has the connection.
    taken: AtomicBool,
    /// The id of the lease, 0 if there is none.
    leased: AtomicU64,
    /// Locked only by the thread that has changed `leased` from its id to [`CLAIMED`], and before its id is there. So
    /// no thread waits for it, and the keeper finds a lease even while another thread, such as the waker thread, is
    /// `inside`.
    lease: Mutex<Option<Handover>>,
    /// The line of the connection that callers may use, 0 if there is none.
    line: AtomicU64,
    /// The client is closed, or its keeper has panicked.
    closed: AtomicBool,
    /// Acquires that would have used the connection.
    missed: AtomicU32,
    next: AtomicU64,
    seats: Seats,
    /// Locked by the caller that has the connection, and by others if it is free at that moment.
    inside: Mutex<Inside>,
    /// The seat of a task's acquire that waits for its turn, from before it is sent until it is settled; 0 if there is
    /// none, and they count from 1.
    ahead: AtomicUsize,
    /// An answer may have come while `inside` was locked: the thread that unlocks it reads the answer.
    knocked: AtomicBool,
}

#[derive(Default)]
struct Inside {
    wire: Option<(Line, Wire)>,
    /// The request of a task, while its answer is awaited.
    awaited: Option<Awaited>,
    looks_without_use: u32,
}

/// A lease that the keeper does not know, for the keeper.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) lease: DirectLease,
    pub(crate) shared: Arc<Shared>,
}

/// What the keeper has to hear of.
pub(crate) enum Trouble {
    /// Callers miss a connection.
    Missed,
    /// The connection is free, and the caller that had it is gone: a keeper that is to end may have waited for that.
    Unheard,
    /// The lease is not the only thing that its client has at the lock.
    Disturbed,
    /// The server may have granted this; that is `unlikely` if the server refused it.
    Unclear {
        of: DirectAcquire,
        unlikely: bool,
    },
    Broke(Broke),
}

/// The connection of this line broke while an answer was awaited.
#[derive(Debug)]
pub(crate) struct Broke {
    pub(crate) line: Line,
    pub(crate) cause: Arc<str>,
}

/// Why a request has no answer.
enum Unanswered {
    /// The server refused it, or nothing was sent.
    Refused,
    /// It may have been executed.
    Broke(Broke),
    /// The same, and the keeper knows that the connection is gone.
    Gone,
}

impl Unanswered {
    /// What the keeper has to hear of such an acquire.
    fn troubles(self, of: DirectAcquire) -> Vec<Trouble> {
        let unlikely = matches!(self, Unanswered::Refused);
        let broke = if let Unanswered::Broke(broke) = self { Some(Trouble::Broke(broke)) } else { None };
        broke.into_iter().chain([Trouble::Unclear { of, unlikely }]).collect()
    }
}

impl Direct {
    pub(super) fn start(client: ClientId, prefix: &str, wakers: Arc<Wakers>, messages: Outbox<Message>) -> Arc<Self> {
        let direct = Arc::new(Self {
            channel: channel_of(prefix, &client),
            client,
            messages,
            reader: Reader::new(),
            wakers,
            taken: AtomicBool::new(false),
            leased: AtomicU64::new(0),
            lease: Mutex::default(),
            line: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            missed: AtomicU32::new(0),
            next: AtomicU64::new(0),
            seats: Seats::default(),
            inside: Mutex::default(),
            ahead: AtomicUsize::new(0),
            knocked: AtomicBool::new(false),
        });
        let this: Weak<Self> = Arc::downgrade(&direct);
        direct.wakers.register(&direct.reader, this);
        direct
    }

    /// Whether a caller may acquire over the connection. If so, the caller has the connection now.
    fn admit(&self, Caller { spec, presence, .. }: &Caller) -> Result<(), Option<Trouble>> {
        // The keeper is to have the lease long before it would tell the holder of its end.
        let early = spec.lease >= LEAST_LEASE && spec.notice * 2 <= spec.lease;
        if !early || spec.replicas > 0 || !presence.is_alone() || presence.is_contended() {
            return Err(None);
        }
        if self.line.load(Ordering::SeqCst) == 0 {
            let missed = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
            return Err(missed.is_multiple_of(WORTH_IT).then_some(Trouble::Missed));
        }
        if self.taken.swap(true, Ordering::SeqCst) { Err(None) } else { Ok(()) }
    }

    /// The connection is free: its caller has got no lease, or has it no longer, or the keeper has taken it over.
    fn leave(&self) {
        self.taken.store(false, Ordering::SeqCst);
    }

    fn new_acquire(&self, inside: &mut Inside, acquire: &NewAcquire) -> DirectAcquire {
        inside.looks_without_use = 0;
        let id = Id::direct(self.next.fetch_add(1, Ordering::Relaxed));
        DirectAcquire { id, spec: acquire.caller.spec.clone(), about: acquire.about.clone() }
    }

    /// What the answer to an acquire means. A lease stays inside.
    fn acquired(
        &self,
        inside: &mut Inside,
        acquire: &NewAcquire,
        of: DirectAcquire,
        sent: Time,
        answer: Result<Reply, Unanswered>,
    ) -> Tried {
        let Caller { spec, origin, presence, .. } = &acquire.caller;
        let reply = match answer {
            Ok(reply) => reply,
            Err(unanswered) => {
                if let Unanswered::Refused = unanswered {
                    presence.contend();
                }
                return Tried::AskKeeper(unanswered.troubles(of));
            }
        };
        match of.heard(&self.client, Time::now(), sent, &reply) {
            Heard::Granted(lease) if self.is_usable(inside) => {
                let (id, token, ticket, deadline) = (lease.id, lease.token, lease.ticket, lease.term.deadline());
                let (spec, origin, wakers) = (spec.clone(), origin.clone(), self.wakers.clone());
                let shared = Arc::new(Shared::new(spec, id, token, ticket, origin, deadline, wakers));
                *lock(&self.lease) = Some(Handover { lease, shared: shared.clone() });
                self.leased.store(id.0, Ordering::SeqCst);
                Tried::Granted(shared)
            }
            // The keeper gave up the server meanwhile, or was closed.
            Heard::Granted(_) | Heard::Unclear => Tried::AskKeeper(Unanswered::Gone.troubles(of)),
            Heard::Busy(why) => {
                presence.contend();
                match why {
                    Some(why) if acquire.mode == Mode::Try => Tried::NotGranted(why),
                    _ => Tried::AskKeeper(vec![]),
                }
            }
        }
    }

    /// The lease goes to its caller. If nobody wants it any more, it is dropped and thereby released. Fails if the keeper
    /// has to hear of it and has ended.
    pub(super) fn hand_out(&self, lease: Arc<Shared>, caller: Caller) -> Result<(), ()> {
        let disturbed = caller.presence.is_disturbed();
        let _ = caller.resolved.send(Ok(Armed::new(lease, self.messages.clone(), caller.presence)));
        if disturbed { self.messages.send(Message::Direct(Trouble::Disturbed)) } else { Ok(()) }
    }

    /// Whether the caller of this lease may release it: not if the keeper has taken it over.
    fn may_release(&self, id: Id) -> bool {
        self.claim(id.0)
    }

    fn claim(&self, id: u64) -> bool {
        self.leased.compare_exchange(id, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The request that releases the lease.
    fn release_request(&self) -> Option<Request> {
        lock(&self.lease).as_ref().and_then(|handover| handover.lease.release(&self.client, Time::now()))
    }

    fn release_of(&self, reply: &Reply) -> Option<Release> {
        lock(&self.lease).as_ref()?.lease.released(&self.client, Time::now(), reply)
    }

    /// What the answer to a release means. Unless the lease is over, it is for the keeper.
    fn released(&self, id: Id, answer: Result<Reply, Unanswered>) -> Returned {
        let (state, broke) = match answer {
            Ok(reply) => match self.release_of(&reply) {
                Some(release) => {
                    *lock(&self.lease) = None;
                    self.leased.store(0, Ordering::SeqCst);
                    return Returned::Done(release);
                }
                None => (LeaseState::ReleaseSent, None),
            },
            Err(Unanswered::Refused) => (LeaseState::Released, None),
            Err(Unanswered::Broke(broke)) => (LeaseState::ReleaseSent, Some(broke)),
            Err(Unanswered::Gone) => (LeaseState::ReleaseSent, None),
        };
        if let Some(handover) = &mut *lock(&self.lease) {
            handover.lease.state = state;
        }
        self.leased.store(id.0, Ordering::SeqCst);
        Returned::AskKeeper(broke)
    }

    /// For the caller that has the connection.
    fn inside<T>(&self, act: impl FnOnce(&mut Inside) -> T) -> T {
        let result = act(&mut lock(&self.inside));
        self.after_unlocking();
        result
    }

    /// For all other threads, which do not wait: None if it is locked.
    fn look_inside<T>(&self, act: impl FnOnce(&mut Inside) -> T) -> Option<T> {
        let result = act(&mut *try_lock(&self.inside)?);
        self.after_unlocking();
        Some(result)
    }

    fn after_unlocking(&self) {
        // With the one in `read`: either this sees the knock, or the thread that knocks finds `inside` unlocked.
        fence(Ordering::SeqCst);
        if self.knocked.load(Ordering::SeqCst) {
            self.read();
        }
    }

    /// Whether the connection may be used. It is closed if not.
    fn is_usable(&self, inside: &mut Inside) -> bool {
        if self.closed.load(Ordering::SeqCst) {
            inside.wire = None;
        }
        self.is_connected(inside)
    }

    /// Whether the keeper has not withdrawn the connection. It is closed if so.
    fn is_connected(&self, inside: &mut Inside) -> bool {
        let line = self.line.load(Ordering::SeqCst);
        inside.wire.take_if(|(its, _)| its.0 != line);
        inside.wire.is_some()
    }

    /// The lease, if it is of this kind and its caller is not releasing it.
    fn take(&self, which: impl FnOnce(&DirectLease) -> bool) -> Option<Handover> {
        let id = self.leased.load(Ordering::SeqCst);
        if matches!(id, 0 | CLAIMED) || !self.claim(id) {
            return None;
        }
        let handover = lock(&self.lease).take_if(|handover| which(&handover.lease));
        self.leased.store(if handover.is_some() { 0 } else { id }, Ordering::SeqCst);
        handover
    }
}

impl Inside {
    /// The connection gave no answer.
    fn broke(&mut self, cause: Arc<str>) -> Unanswered {
        match self.wire.take() {
            Some((line, _)) => Unanswered::Broke(Broke { line, cause }),
            None => Unanswered::Gone,
        }
    }
}
