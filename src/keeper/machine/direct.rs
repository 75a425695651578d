//! Leases that callers get without the keeper, over the direct connection (`keeper/direct/`): the requests of such a
//! caller, what their replies mean, and how the machine takes a lease over.
//!
//! A direct acquire is a try by a client that has no other acquire and no lease at the lock. A machine of its own, which
//! knows nothing of the lock yet, writes its request and judges the reply. So what is asked, and what an answer means,
//! is written in one place. The keeper's machine takes over the state of the lock.

use std::sync::Arc;

use super::core::Core;
use super::lock::LockState;
use super::release::Kind;
use super::{Command, Effect, Event, Id, Machine, Mode, NotGranted, Outcome, QuestionId, Release, RequestId, Timer};
use crate::clock::Time;
use crate::error::LostReason;
use crate::options::Spec;
use crate::protocol::{About, AcquireVerdict, ClientId, Reply, Request, Ticket, Token, Verdict};
use crate::term::Term;

/// The keeper takes a direct lease over within this part of its length.
pub(crate) const TAKEN_OVER_WITHIN: u32 = 6;
/// The only question of a machine that releases a direct lease.
const RELEASE: QuestionId = QuestionId(0);

/// An acquire over the direct connection.
#[derive(Debug, Clone, Hash)]
pub(crate) struct DirectAcquire {
    pub(crate) id: Id,
    pub(crate) spec: Arc<Spec>,
    pub(crate) about: About,
}

/// What the reply to it means.
#[derive(Debug, Clone)]
pub(crate) enum Heard {
    Granted(DirectLease),
    /// The server knows nothing of this acquire. None: the lock may be free all the same.
    Busy(Option<NotGranted>),
    /// The server may have granted the lock: what this acquire has is to be given back.
    Unclear,
}

/// What a caller does with its lease when the machine takes it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LeaseState {
    Held,
    /// The release of this lease comes next.
    Released,
    /// The same, and one was sent over the direct connection and not answered.
    ReleaseSent,
}

/// A lease that the keeper's machine does not know.
#[derive(Debug, Clone, Hash)]
pub(crate) struct DirectLease {
    pub(crate) id: Id,
    pub(crate) spec: Arc<Spec>,
    pub(crate) token: Token,
    pub(crate) ticket: Ticket,
    pub(crate) granted: Time,
    pub(crate) term: Term,
    pub(crate) state: LeaseState,
    lock: LockState,
}

/// A machine that does one thing, with the request that it has sent.
struct Asking {
    machine: Machine,
    request: RequestId,
    call: Request,
}

impl Asking {
    fn new(client: &ClientId, at: Time, lock: Option<LockState>, command: Command) -> Option<Self> {
        let mut machine = Machine::new(client.clone(), "".into(), 0);
        machine.core.connected = true;
        machine.locks.extend(lock.map(|lock| (lock.keys.name.clone(), lock)));
        machine.core.locks_of = machine.ids().collect();
        machine.core.members = machine.core.locks_of.len();
        machine.handle(at, Event::Command(command));
        let sent = machine.effects(at, 1).into_iter().find_map(|effect| match effect {
            Effect::Send { request, call } => Some((request, call)),
            _ => None,
        });
        sent.map(|(request, call)| Self { machine, request, call })
    }

    fn answered(mut self, now: Time, reply: &Reply) -> (Vec<Effect>, Machine) {
        self.machine.handle(now, Event::Answered { request: self.request, result: Ok(reply.clone()) });
        (std::mem::take(&mut self.machine.core.effects), self.machine)
    }
}

impl DirectAcquire {
    fn asking(&self, client: &ClientId, at: Time) -> Option<Asking> {
        let Self { id, spec, about } = self.clone();
        // An answer counts as long as there is enough left of the lease.
        let timeout = Some(spec.lease);
        let acquire = Command::Acquire { id, spec, about, mode: Mode::Try, timeout, called: at };
        Asking::new(client, at, None, acquire)
    }

    pub(crate) fn request(&self, client: &ClientId, now: Time) -> Option<Request> {
        Some(self.asking(client, now)?.call)
    }

    pub(crate) fn heard(&self, client: &ClientId, now: Time, sent: Time, reply: &Reply) -> Heard {
        let Some(asking) = self.asking(client, sent) else { return Heard::Unclear };
        let (effects, mut machine) = asking.answered(now, reply);
        for effect in effects {
            match effect {
                // A lease of this client itself is on its way back, through the keeper.
                Effect::NotGranted { why: NotGranted::Busy { .. }, .. } if reply.common.own.is_some() => {
                    return Heard::Busy(None);
                }
                Effect::NotGranted { why: why @ NotGranted::Busy { .. }, .. } => return Heard::Busy(Some(why)),
                Effect::Granted { id, spec, token, ticket, .. } => {
                    let Some((_, lock)) = machine.locks.pop_first() else { break };
                    let Some(term) = lock.leases.get(&id).map(|lease| lease.term()) else { break };
                    // The keeper would take it over too late to tell its caller in time that it ends, so it acquires a
                    // longer one.
                    let told = term.deadline() - term.notice(spec.lease, spec.notice);
                    if told <= now + spec.lease / TAKEN_OVER_WITHIN {
                        break;
                    }
                    let (granted, state) = (now, LeaseState::Held);
                    return Heard::Granted(DirectLease { id, spec, token, ticket, granted, term, state, lock });
                }
                _ => {}
            }
        }
        match reply.verdict {
            Verdict::Acquire(AcquireVerdict::Busy(_)) => Heard::Busy(None),
            _ => Heard::Unclear,
        }
    }
}

impl DirectLease {
    fn asking(&self, client: &ClientId, at: Time) -> Option<Asking> {
        let release = Command::Release { question: Some(RELEASE), id: self.id };
        Asking::new(client, at, Some(self.lock.clone()), release)
    }

    pub(crate) fn release(&self, client: &ClientId, now: Time) -> Option<Request> {
        Some(self.asking(client, now)?.call)
    }

    /// What the reply to its release means.
    pub(crate) fn released(&self, client: &ClientId, now: Time, reply: &Reply) -> Option<Release> {
        // The script stopped at its batch limit: the keeper goes on with another release.
        if reply.common.again {
            return None;
        }
        let (effects, _) = self.asking(client, now)?.answered(now, reply);
        effects.into_iter().find_map(|effect| match effect {
            Effect::Answer { outcome: Outcome::Release(release), .. } => Some(release),
            _ => None,
        })
    }
}

impl Machine {
    /// From now on the machine renews this lease.
    pub(super) fn adopt(&mut self, now: Time, lease: DirectLease) {
        let (id, keys) = (lease.id, lease.spec.keys.clone());
        let closed = self.closed;
        let (lock, core) = self.lock(&keys);
        lock.adopt(core, now, lease);
        if closed {
            lock.lose(core, now, id, LostReason::Closed);
            lock.release(core, now, id, None);
        }
    }

    /// Gives back what an acquire may have been granted over the direct connection.
    pub(super) fn give_back_direct(&mut self, now: Time, of: &DirectAcquire, unlikely: bool) {
        let (lock, core) = self.lock(&of.spec.keys);
        let (kind, until) = match unlikely {
            true => (Kind::LeaveBestEffort, now),
            false => (Kind::Leave, now + of.spec.lease),
        };
        lock.give_back(core, now, of.id, kind, None, until);
    }
}

impl LockState {
    fn adopt(&mut self, core: &mut Core, now: Time, lease: DirectLease) {
        let DirectLease { id, spec, granted, state, mut lock, .. } = lease;
        let Some(mut lease) = lock.leases.remove(&id) else { return };
        self.learn_from(&lock);
        lease.release_sent = state == LeaseState::ReleaseSent;
        // A task may never be polled again.
        core.timers.set(Timer::Taken(id), granted + spec.lease);
        self.keep(core, now, id, lease);
        // It may have been broken since it was granted, or its data lost: then its holder is to hear of it now.
        if state == LeaseState::Held {
            self.renew(core, now, id);
        }
    }
}
