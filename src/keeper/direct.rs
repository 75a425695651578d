//! The direct connection: a blocking caller writes its acquire and its release to a socket itself, and reads the
//! answers. A cycle of a lock that is free then needs no keeper: no thread is woken but the server's.
//!
//! No renewal waits for a caller (I12), because the keeper has its own connection and waits for no lock here. It takes
//! over each lease that lasts for half a second or more, and from then on that lease is like any other; until then
//! there is nothing to renew. So only leases of [`LEAST_LEASE`] and more are granted over the direct connection.
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
//! * A lock is acquired over it only while the client has nothing else there. So a direct acquire is like the acquire
//!   of a client that has forgotten the lock, and what the keeper's machine knows of the lock misses nothing.
//! * It only tries. A caller that has to wait asks the keeper, and all acquires of that lock ask the keeper for a
//!   moment.
//! * If an answer does not come, the outcome is unknown. The keeper gives up its own connection, which ends both at the
//!   server (I10), and gives back what the acquire may have been granted, or repeats the release.
//! * The keeper closes it with its own connection, and when nobody has used it for some seconds.
//!
//! It needs the right to CLIENT KILL, and a server that is no cluster. The decisions are in `machine/direct.rs` and in
//! `routes/direct.rs`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use super::handle::Origin;
use super::lock;
use super::machine::{ANSWER_TIMEOUT, DirectAcquire, DirectLease, Heard, LeaseState, NotGranted, Release};
use super::routes::Line;
use super::shared::Shared;
use crate::clock::Time;
use crate::error::LostReason;
use crate::options::Spec;
use crate::protocol::{About, ClientId, Id, Reply, Request};
use crate::server::Wire;
use crate::wakers::Wakers;

/// The shortest lease that is granted over it: long beside the time until the keeper takes it over.
const LEAST_LEASE: Duration = Duration::from_secs(10);
/// The keeper takes over leases of this age.
const SHORT: Duration = Duration::from_millis(500);
/// After this many looks of the keeper without a use the connection is closed.
const IDLE_LOOKS: u32 = 10;
/// So many blocking acquires ask the keeper before it opens the connection: most programs acquire once, and hold.
const WORTH_IT: u32 = 8;
/// How long the acquires of a lock that is not free ask the keeper only.
const CONTENDED: Duration = Duration::from_millis(100);
/// In place of the id of a lease while its caller releases it.
const RELEASING: u64 = u64::MAX;
/// Locks are told apart by hashes of their names. Two with the same one lose only speed.
const SEATS: usize = 64;

pub(crate) struct Direct {
    client: ClientId,
    channel: Arc<str>,
    wakers: Arc<Wakers>,
    /// A caller has the connection.
    taken: AtomicBool,
    /// The id of the lease in `inside`, 0 if there is none. Whoever takes the lease changes this first: the keeper to 0,
    /// its caller to [`RELEASING`].
    leased: AtomicU64,
    /// The line of the connection that callers may use, 0 if there is none.
    line: AtomicU64,
    /// The client is closed, or its keeper has panicked.
    closed: AtomicBool,
    /// Acquires that would have used the connection.
    missed: AtomicU32,
    next: AtomicU64,
    seats: [Seat; SEATS],
    /// Locked by the caller that has the connection, and by the keeper if it is free at that moment.
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    wire: Option<(Line, Wire)>,
    lease: Option<Handover>,
    looks_without_use: u32,
}

/// A lease that the keeper does not know, for the keeper.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) lease: DirectLease,
    pub(crate) shared: Arc<Shared>,
}

/// What a client has at the locks of one hash.
#[derive(Default)]
struct Seat {
    /// Acquires, and leases that their holders have.
    present: AtomicU32,
    /// Until then a lock here was not free, in ns of [`Time`].
    contended: AtomicU64,
}

/// An acquire of this client, and the lease that it leads to.
pub(crate) struct Presence {
    direct: Arc<Direct>,
    seat: usize,
}

impl std::fmt::Debug for Presence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presence").finish_non_exhaustive()
    }
}

impl Presence {
    fn seat(&self) -> &Seat {
        &self.direct.seats[self.seat]
    }

    fn is_alone(&self) -> bool {
        self.seat().present.load(Ordering::SeqCst) == 1
    }

    fn is_contended(&self) -> bool {
        Time::now() < Time(self.seat().contended.load(Ordering::Relaxed))
    }

    fn contend(&self) {
        self.seat().contended.store((Time::now() + CONTENDED).0, Ordering::Relaxed);
    }

    /// Whether the keeper is to take over the lease that was just granted at once: its client has something else at the
    /// lock now, or was closed, or the keeper has withdrawn the connection and no longer looks.
    pub(super) fn is_disturbed(&self) -> bool {
        let withdrawn = self.direct.line.load(Ordering::SeqCst) == 0;
        !self.is_alone() || withdrawn || self.direct.closed.load(Ordering::SeqCst)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.seat().present.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The acquire of a blocking caller.
pub(super) struct Call<'a> {
    pub(super) spec: &'a Arc<Spec>,
    pub(super) about: &'a About,
    pub(super) origin: &'a Origin,
    pub(super) presence: &'a Presence,
    pub(super) is_try: bool,
}

/// Its outcome over the direct connection.
pub(super) enum Tried {
    Granted(Arc<Shared>),
    NotGranted(NotGranted),
    /// The keeper is to be asked. These come first.
    AskKeeper(Vec<Trouble>),
}

/// What a caller has to tell the keeper.
pub(crate) enum Trouble {
    /// Callers miss a connection.
    Missed,
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

/// The outcome of a release over the direct connection.
pub(super) enum Returned {
    Done(Release),
    /// The keeper has the lease, or takes it over when it is asked to release it. The connection may have broken.
    AskKeeper(Option<Broke>),
}

/// Why a request has no answer.
enum Unanswered {
    /// The server refused it, or nothing was sent.
    Refused,
    /// It may have been executed.
    Broke(Broke),
}

impl Direct {
    pub(super) fn new(client: ClientId, prefix: &str, wakers: Arc<Wakers>) -> Self {
        Self {
            channel: super::routes::channel_of(prefix, &client),
            client,
            wakers,
            taken: AtomicBool::new(false),
            leased: AtomicU64::new(0),
            line: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            missed: AtomicU32::new(0),
            next: AtomicU64::new(0),
            seats: std::array::from_fn(|_| Seat::default()),
            inside: Mutex::default(),
        }
    }

    // ---- for callers ----

    /// Counts an acquire of this lock, and the lease that it leads to.
    pub(super) fn enter(self: &Arc<Self>, name: &str) -> Presence {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let seat = (hasher.finish() % SEATS as u64) as usize;
        self.seats[seat].present.fetch_add(1, Ordering::SeqCst);
        Presence { direct: self.clone(), seat }
    }

    /// Tries to acquire a lock. Blocks for one round trip, at most [`ANSWER_TIMEOUT`].
    pub(super) fn acquire(&self, call: &Call<'_>) -> Tried {
        // The keeper is to have the lease long before it would tell the holder of its end.
        let early = call.spec.lease >= LEAST_LEASE && call.spec.notice * 2 <= call.spec.lease;
        let fits = early && call.spec.replicas == 0;
        if !fits || !call.presence.is_alone() || call.presence.is_contended() {
            return Tried::AskKeeper(vec![]);
        }
        if self.line.load(Ordering::SeqCst) == 0 {
            let missed = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
            return Tried::AskKeeper(Vec::from_iter(missed.is_multiple_of(WORTH_IT).then_some(Trouble::Missed)));
        }
        if self.taken.swap(true, Ordering::Acquire) {
            return Tried::AskKeeper(vec![]);
        }
        let tried = self.acquire_over(&mut lock(&self.inside), call);
        if !matches!(tried, Tried::Granted(_)) {
            self.taken.store(false, Ordering::Release);
        }
        tried
    }

    fn acquire_over(&self, inside: &mut Inside, call: &Call<'_>) -> Tried {
        if !self.is_usable(inside) {
            return Tried::AskKeeper(vec![]);
        }
        inside.looks_without_use = 0;
        let id = Id::direct(self.next.fetch_add(1, Ordering::Relaxed));
        let of = DirectAcquire { id, spec: call.spec.clone(), about: call.about.clone() };
        let sent = Time::now();
        let reply = match self.ask(inside, of.request(&self.client)) {
            Ok(reply) => reply,
            Err(Unanswered::Refused) => {
                call.presence.contend();
                return Tried::AskKeeper(vec![Trouble::Unclear { of, unlikely: true }]);
            }
            Err(Unanswered::Broke(broke)) => {
                return Tried::AskKeeper(vec![Trouble::Broke(broke), Trouble::Unclear { of, unlikely: false }]);
            }
        };
        match of.heard(Time::now(), sent, &reply) {
            Heard::Granted(lease) if self.is_usable(inside) => {
                let (token, ticket, deadline) = (lease.token, lease.ticket, lease.term.deadline());
                let (spec, origin, wakers) = (call.spec.clone(), call.origin.clone(), self.wakers.clone());
                let shared = Arc::new(Shared::new(spec, id, token, ticket, origin, deadline, wakers));
                inside.lease = Some(Handover { lease, shared: shared.clone() });
                self.leased.store(id.0, Ordering::SeqCst);
                Tried::Granted(shared)
            }
            // The keeper gave up the server meanwhile, or was closed.
            Heard::Granted(_) | Heard::Unclear => Tried::AskKeeper(vec![Trouble::Unclear { of, unlikely: false }]),
            Heard::Busy { why, again } => {
                call.presence.contend();
                if call.is_try && !again { Tried::NotGranted(why) } else { Tried::AskKeeper(vec![]) }
            }
        }
    }

    /// Releases a lease, if the keeper has not taken it over. Blocks for one round trip, at most [`ANSWER_TIMEOUT`].
    pub(super) fn release(&self, id: Id) -> Returned {
        // A caller whose lease the keeper has must not even lock `inside`: the keeper might find it locked when it takes
        // over the lease of the next caller, and would miss its release.
        if self.leased.compare_exchange(id.0, RELEASING, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Returned::AskKeeper(None);
        }
        let mut inside = lock(&self.inside);
        let Some(request) = inside.lease.as_ref().map(|handover| handover.lease.release(&self.client)) else {
            return Returned::AskKeeper(None);
        };
        let answer =
            if self.is_usable(&mut inside) { self.ask(&mut inside, request) } else { Err(Unanswered::Refused) };
        let (state, broke) = match answer {
            Ok(reply) => match DirectLease::released(&reply) {
                Some(release) => {
                    inside.lease = None;
                    self.leased.store(0, Ordering::SeqCst);
                    drop(inside);
                    self.taken.store(false, Ordering::Release);
                    return Returned::Done(release);
                }
                None => (LeaseState::ReleaseSent, None),
            },
            Err(Unanswered::Refused) => (LeaseState::Released, None),
            Err(Unanswered::Broke(broke)) => (LeaseState::ReleaseSent, Some(broke)),
        };
        if let Some(handover) = &mut inside.lease {
            handover.lease.state = state;
        }
        self.leased.store(id.0, Ordering::SeqCst);
        Returned::AskKeeper(broke)
    }

    // ---- for the keeper, which waits for no caller ----

    /// From now on callers may use this connection. If a caller is in the way, it is dropped.
    pub(super) fn offer(&self, line: Line, wire: Wire) -> bool {
        let Some(mut inside) = self.look_inside() else { return false };
        inside.wire = Some((line, wire));
        inside.looks_without_use = 0;
        self.line.store(line.0, Ordering::SeqCst);
        true
    }

    /// From now on callers may not use this connection.
    pub(super) fn withdraw(&self, line: Line) {
        if self.line.compare_exchange(line.0, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
            && let Some(mut inside) = self.look_inside()
        {
            inside.wire = None;
        }
    }

    /// Whether it is worth a look.
    pub(super) fn is_in_use(&self) -> bool {
        self.line.load(Ordering::SeqCst) != 0 || self.leased.load(Ordering::SeqCst) != 0
    }

    /// A lease that has lasted for a while, or whose connection is gone.
    pub(super) fn lasting(&self, now: Time) -> Option<Handover> {
        let withdrawn = self.line.load(Ordering::SeqCst) == 0;
        self.take_over(|lease| withdrawn || lease.granted + SHORT <= now)
    }

    /// The lease, if it is of this kind and its caller is not releasing it. Nobody is in the way when somebody speaks of
    /// a lease: its caller has it, and everybody else stays away.
    pub(super) fn take_over(&self, which: impl FnOnce(&DirectLease) -> bool) -> Option<Handover> {
        if self.leased.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut inside = self.look_inside()?;
        let handover = self.take(&mut inside, which)?;
        drop(inside);
        self.taken.store(false, Ordering::Release);
        Some(handover)
    }

    /// Closes the connection if nobody has used it for some looks. At once: a request that a caller sent meanwhile
    /// would have no line that ends it.
    pub(super) fn idle(&self) -> Option<Line> {
        let mut inside = self.look_inside()?;
        if inside.lease.is_some() {
            return None;
        }
        inside.looks_without_use += 1;
        let idle = inside.looks_without_use > IDLE_LOOKS;
        let (line, _) = inside.wire.take_if(|_| idle)?;
        self.line.store(0, Ordering::SeqCst);
        Some(line)
    }

    /// The client is closed: its callers hear that from the keeper.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The keeper has panicked: nobody renews a lease any more.
    pub(super) fn end(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // A keeper that has nothing else to do may wait.
        let mut inside = lock(&self.inside);
        if let Some(handover) = self.take(&mut inside, |_| true) {
            handover.shared.end(LostReason::KeeperPanicked);
        }
        inside.wire = None;
    }

    // ---- for both ----

    /// Waits for nobody.
    fn look_inside(&self) -> Option<MutexGuard<'_, Inside>> {
        match self.inside.try_lock() {
            Ok(inside) => Some(inside),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether the connection may be used. It is closed if not.
    fn is_usable(&self, inside: &mut Inside) -> bool {
        let line = self.line.load(Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) || inside.wire.as_ref().is_none_or(|(its, _)| its.0 != line) {
            inside.wire = None;
        }
        inside.wire.is_some()
    }

    fn take(&self, inside: &mut Inside, which: impl FnOnce(&DirectLease) -> bool) -> Option<Handover> {
        inside.lease.take_if(|Handover { lease, .. }| {
            which(lease) && self.leased.compare_exchange(lease.id.0, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        })
    }

    /// Sends a request and waits for its answer. A connection that gives none is closed.
    fn ask(&self, inside: &mut Inside, request: Request) -> Result<Reply, Unanswered> {
        let Some((line, wire)) = &mut inside.wire else { return Err(Unanswered::Refused) };
        match wire.ask(request, &self.channel, Time::now() + ANSWER_TIMEOUT) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(Unanswered::Refused),
            Err(cause) => {
                let line = *line;
                inside.wire = None;
                Err(Unanswered::Broke(Broke { line, cause }))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The keeper looks while it offers a connection, and may have looked for the last time before the lease came.
    #[test]
    fn a_lease_that_comes_when_the_connection_is_withdrawn_disturbs_the_keeper() {
        let wakers = Wakers::of_this_process().unwrap();
        let direct = Arc::new(Direct::new(ClientId::new("client").unwrap(), "fairlock", wakers));
        let presence = direct.enter("x");
        direct.line.store(1, Ordering::SeqCst);
        assert!(!presence.is_disturbed());
        direct.withdraw(Line(1));
        assert!(presence.is_disturbed());
    }
}
