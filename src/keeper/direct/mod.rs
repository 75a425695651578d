//! The direct connection: a caller writes its acquire and its release to a socket itself. A cycle of a lock that is free
//! then needs no keeper, or only to read.
//!
//! The connection lies in a slot (`slot.rs`). A caller takes it out, and owns it until it puts it back. A caller that
//! blocks writes, reads, and puts it back. A task writes, and hands it to the keeper, which reads the answer, wakes the
//! task, and puts it back. Whoever has the answer calls [`Direct::settle`]. What is more than a lease that its caller
//! holds, or has given back, is for the keeper (`machine/direct.rs`). So a caller whose lock is not free has its place in
//! the queue with its first request (I2 of `docs/guarantees.md`).
//!
//! No renewal waits for a caller (I12): the keeper has its own connection and waits for no lock here. It takes over each
//! lease that lasts for half a second or more, and everything that its client does besides at the lock of the lease. From
//! then on that lease is like any other; until then there is nothing to renew. So only leases of [`LEAST_LEASE`] and more
//! are granted here.
//!
//! | connection | lease | what it means | who changes it |
//! |---|---|---|---|
//! | none (line 0) | none | callers ask the keeper | the keeper offers one when callers have missed it: lies |
//! | lies | none | free | a caller takes it: out. The keeper closes it when idle, or with its own: none |
//! | out | none | an acquire, or a release after its lease was claimed | the answer: lies, with a lease or without. It breaks: the keeper gives up its own connection: none |
//! | lies, or none | id | a caller holds a lock | its caller takes connection, then lease: out. The keeper takes the lease over |
//! | out | id | an acquire puts its lease here; a release has not claimed it yet; or another acquire sees the lease, and puts the connection back | the thread that has it out |
//! | any | CLAIMED | for a moment: a thread takes the lease, or looks at it. No other may | that thread: none, or id again |
//!
//! A connection that was withdrawn while it was out is dropped when it is put back, and its answer counts for nothing: the
//! server has ended it, and the keeper asks again (I10).
//!
//! *Disturbed.* An acquire or the close of the same client, and the end of the connection, take over the lease that is
//! here. If it comes just after, its caller sees them and tells the keeper.
//!
//! It needs the right to CLIENT KILL, and a server that is no cluster. `routes/direct.rs` opens and ends it.

mod presence;
mod slot;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

/// What the explored copies of these files take from elsewhere.
mod sync {
    pub(super) use std::sync::Mutex;
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    pub(super) use crate::mutex::{lock, try_lock};
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use self::presence::Presence;
use self::presence::Seats;
use self::slot::{Claim, Slot};
use super::handle::{Caller, Message, NewAcquire};
use super::inbox::Outbox;
use super::machine::{ANSWER_TIMEOUT, DirectAcquire, Id, Release, Settled, TAKEN_OVER_WITHIN};
use super::observe;
use super::routes::{Line, channel_of};
use super::shared::{Armed, Shared};
use super::sleep::Arm;
use super::{LOOK, LostReason};
use crate::clock::Time;
use crate::protocol::{ClientId, Request};
use crate::server::{Heard, Wire};
use crate::wakers::Wakers;

/// The shortest lease that is granted over it: long compared with the time until the keeper takes it over.
const LEAST_LEASE: Duration = Duration::from_secs(10);
/// The keeper takes over leases of this age.
const SHORT: Duration = Duration::from_millis(500);
const _: () = assert!((SHORT.as_millis() + LOOK.as_millis()) * TAKEN_OVER_WITHIN as u128 <= LEAST_LEASE.as_millis());
/// So many acquires ask the keeper before it opens the connection: most programs acquire once, and hold.
const WORTH_IT: u32 = 8;

pub(crate) struct Direct {
    client: ClientId,
    channel: Arc<str>,
    wakers: Arc<Wakers>,
    messages: Outbox<Message>,
    /// Has the keeper wake for the answer to a task.
    arm: Arm,
    pub(super) slot: Slot<Wire>,
    pub(super) claim: Claim<Held>,
    pub(super) seats: Seats,
    /// The client is closed, or its keeper has panicked.
    closed: AtomicBool,
    /// Acquires that would have used the connection.
    missed: AtomicU32,
    next: AtomicU64,
}

/// A lease that the keeper does not know.
pub(super) struct Held {
    pub(super) acquire: DirectAcquire,
    pub(super) shared: Arc<Shared>,
}

/// A request under way, with the connection.
pub(crate) struct Asked {
    pub(super) line: u64,
    pub(super) wire: Wire,
    pub(super) sent: Time,
    acquire: DirectAcquire,
    whose: Whose,
}

/// Who awaits what comes of it.
pub(crate) enum Whose {
    Acquire(Caller),
    Release(Arc<Shared>, oneshot::Sender<Release>),
}

/// What the keeper has to hear of.
pub(crate) enum Word {
    /// Callers miss a connection.
    Missed,
    /// A task awaits this answer.
    Asked(Box<Asked>),
    /// The lease is not the only thing that its client has at the lock.
    Disturbed,
    /// The keeper has to go on with this. `broke`: the connection did, while the answer was awaited.
    Open { acquire: DirectAcquire, whose: Whose, broke: Option<(Line, Arc<str>)> },
}

impl Direct {
    pub(super) fn new(
        client: ClientId,
        prefix: &str,
        wakers: Arc<Wakers>,
        messages: Outbox<Message>,
        arm: Arm,
    ) -> Arc<Self> {
        Arc::new(Self {
            channel: channel_of(prefix, &client),
            client,
            wakers,
            messages,
            arm,
            slot: Slot::new(),
            claim: Claim::new(),
            seats: Seats::new(),
            closed: AtomicBool::new(false),
            missed: AtomicU32::new(0),
            next: AtomicU64::new(0),
        })
    }

    // ---- callers ----

    /// Sends this acquire, if it may be sent here, under an id of its own. A caller that `blocks` waits for the answer.
    #[allow(clippy::result_large_err)] // The caller goes on with it.
    pub(super) fn acquire(&self, acquire: NewAcquire, blocks: bool) -> Result<Id, NewAcquire> {
        if !self.admits(&acquire.caller) {
            return Err(acquire);
        }
        let Some((line, wire)) = self.slot.take() else { return Err(acquire) };
        if !self.claim.is_free() || self.closed.load(Ordering::SeqCst) {
            self.slot.put(line, wire);
            return Err(acquire);
        }
        let (id, sent) = (Id::direct(self.next.fetch_add(1, Ordering::Relaxed)), Time::now());
        let (caller, command) = NewAcquire { id, ..acquire }.split();
        let (acquire, request) = DirectAcquire::new(sent, &self.client, id, command);
        self.ask(Asked { line, wire, sent, acquire, whose: Whose::Acquire(caller) }, request, blocks);
        Ok(id)
    }

    /// The same for a release. The keeper is to be asked if it has the lease, or is the one that can release it.
    pub(super) fn release(&self, lease: &Arc<Shared>, blocks: bool) -> Option<oneshot::Receiver<Release>> {
        if self.claim.is_free() {
            return None;
        }
        let (line, wire) = self.slot.take()?;
        let Some(Held { mut acquire, .. }) = self.claim.take(lease.id.0) else {
            self.slot.put(line, wire);
            return None;
        };
        let (reply, answer) = oneshot::channel();
        let sent = Time::now();
        let request = acquire.release(sent);
        self.ask(Asked { line, wire, sent, acquire, whose: Whose::Release(lease.clone(), reply) }, request, blocks);
        Some(answer)
    }

    fn admits(&self, Caller { spec, presence, .. }: &Caller) -> bool {
        // The keeper is to have the lease long before it would tell the holder of its end.
        let early = spec.lease >= LEAST_LEASE && spec.notice * 2 <= spec.lease;
        let admitted = early && spec.replicas == 0 && presence.is_alone();
        if admitted && self.slot.line() == 0 {
            let missed = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
            if missed.is_multiple_of(WORTH_IT) {
                self.say(Word::Missed);
            }
            return false;
        }
        admitted
    }

    fn ask(&self, mut asked: Asked, request: Option<Request>, blocks: bool) {
        let Some(request) = request else {
            let Asked { line, wire, acquire, whose, .. } = asked;
            self.say(Word::Open { acquire, whose, broke: None });
            return self.slot.put(line, wire);
        };
        if blocks {
            let answer = asked.wire.ask(request, &self.channel, asked.sent + ANSWER_TIMEOUT);
            return self.settle(asked, answer, |word| self.say(word));
        }
        let awake = self.messages.wake_ups();
        if let Err(cause) = asked.wire.start(request, &self.channel) {
            return self.settle(asked, Err(cause), |word| self.say(word));
        }
        // The answer itself wakes the keeper. It may have done so already.
        let armed = self.arm.arm(Line(asked.line), &asked.wire);
        let message = Message::Direct(Word::Asked(Box::new(asked)));
        let _ = if armed { self.messages.send_for_later(message, awake) } else { self.messages.send(message) };
    }

    /// If the keeper has ended, callers see their channels closed.
    fn say(&self, word: Word) {
        let _ = self.messages.send(Message::Direct(word));
    }

    // ---- whoever has the answer: the caller that blocks, or the keeper ----

    /// An error of the connection is no answer.
    pub(super) fn settle(&self, asked: Asked, answer: Heard, tell_keeper: impl FnOnce(Word)) {
        let Asked { line, wire, mut acquire, whose, .. } = asked;
        let (settled, broke) = match answer {
            Ok(result) if self.is_usable(line) => (acquire.answered(Time::now(), result), None),
            unusable => {
                acquire.unanswered();
                (Settled::Open, unusable.err())
            }
        };
        let is_whole = broke.is_none();
        let free = || is_whole.then(|| self.slot.put(line, wire));
        match (settled, whose) {
            (Settled::Granted { token, ticket, deadline }, Whose::Acquire(caller)) => {
                let Caller { spec, origin, presence, resolved, .. } = caller;
                let id = acquire.id;
                let shared = Arc::new(Shared::new(spec, id, token, ticket, origin, deadline, self.wakers.clone()));
                let disturbed = self.keep(line, Held { acquire, shared: shared.clone() }, &presence);
                free();
                if disturbed {
                    tell_keeper(Word::Disturbed);
                }
                // If nobody wants it any more, it is dropped and thereby released.
                let _ = resolved.send(Ok(Armed::new(shared, self.messages.clone(), presence)));
            }
            (Settled::NotGranted(why), Whose::Acquire(caller)) => {
                free();
                let _ = caller.resolved.send(Err(why));
            }
            (Settled::Released(release), Whose::Release(lease, reply)) => {
                free();
                observe::released(&lease, &release);
                let _ = reply.send(release);
            }
            (_, whose) => {
                // Before the connection is free: the keeper hears of acquires in the order of their ids.
                tell_keeper(Word::Open { acquire, whose, broke: broke.map(|cause| (Line(line), cause)) });
                free();
            }
        }
    }

    /// Keeps a lease for the keeper. True if the keeper is to take it over now: its client has something else at the lock,
    /// or was closed, or the connection was withdrawn and the keeper no longer looks.
    fn keep(&self, line: u64, held: Held, presence: &Presence) -> bool {
        self.claim.put(held.shared.id.0, held);
        !presence.is_alone() || !self.is_usable(line)
    }

    /// Whether answers over this line count: the keeper asks again what it has withdrawn, and a closed client is
    /// granted nothing.
    pub(super) fn is_usable(&self, line: u64) -> bool {
        self.slot.line() == line && !self.closed.load(Ordering::SeqCst)
    }

    // ---- the keeper ----

    /// A lease that has lasted for a while, or whose connection is gone.
    pub(super) fn lasting(&self, now: Time) -> Option<Held> {
        let withdrawn = self.slot.line() == 0;
        self.claim.take_if(|held| withdrawn || held.shared.renewed_at() + SHORT <= now)
    }

    /// Whether it is worth a look.
    pub(super) fn is_in_use(&self) -> bool {
        self.slot.line() != 0 || !self.claim.is_free() || !self.slot.is_cleared()
    }

    /// The client is closed: its callers hear that from the keeper.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The keeper has panicked: nobody renews a lease any more.
    pub(super) fn end(&self) {
        self.close();
        self.claim.take_if(|_| true).into_iter().for_each(|held| held.shared.end(LostReason::KeeperPanicked));
    }
}
