//! Leases that callers get without the keeper, over the direct connection (`keeper/direct/`): the requests of such a
//! caller, what their replies mean, and how the machine takes a lease over.
//!
//! A direct acquire is a try by a client that has no other acquire and no lease at the lock. It names no epoch and no
//! floor, like a machine that knows nothing of the lock.

use std::sync::Arc;

use super::core::Core;
use super::lease::Lease;
use super::lock::LockState;
use super::release::Kind;
use super::{Id, Machine, NotGranted, Release, Timer};
use crate::clock::Time;
use crate::error::LostReason;
use crate::options::Spec;
use crate::protocol::{
    About, AcquireRequest, AcquireVerdict, ClientId, Known, ReleaseRequest, ReleaseVerdict, Reply, Request, Ticket,
    Token, Verdict, WireId,
};
use crate::term::Term;

/// The keeper takes a direct lease over within this part of its length.
pub(crate) const TAKEN_OVER_WITHIN: u32 = 6;

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
    /// The server knows nothing of this acquire. `again`: the lock may be free all the same.
    Busy {
        why: NotGranted,
        again: bool,
    },
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

/// A lease that the machine does not know.
#[derive(Debug, Clone, Hash)]
pub(crate) struct DirectLease {
    pub(crate) id: Id,
    pub(crate) spec: Arc<Spec>,
    pub(crate) token: Token,
    pub(crate) ticket: Ticket,
    pub(crate) granted: Time,
    pub(crate) term: Term,
    pub(crate) state: LeaseState,
    about: About,
    known: Known,
}

impl DirectAcquire {
    pub(crate) fn request(&self, client: &ClientId) -> Request {
        let spec = &self.spec;
        Request::Acquire(AcquireRequest {
            keys: spec.keys.clone(),
            id: WireId::new(client, self.id),
            room: 0,
            as_claim: false,
            lease: spec.lease,
            liveness: spec.liveness,
            buffer: spec.buffer,
            heartbeat: spec.liveness / 3,
            about: self.about.clone(),
            ticket: None,
            known: Known { longest: spec.lease, pace: spec.liveness / 3, ..Known::default() },
        })
    }

    pub(crate) fn heard(&self, now: Time, sent: Time, reply: &Reply) -> Heard {
        let Reply { common, verdict } = reply;
        match verdict {
            &Verdict::Acquire(AcquireVerdict::Granted { token, left, claim: false }) => {
                let Self { id, spec, about } = self.clone();
                let term = Term { sent, span: left };
                // The keeper would take it over too late to tell its caller in time that it ends, so it acquires a longer
                // one.
                let told = term.deadline() - term.notice(spec.lease, spec.notice);
                if told <= now + spec.lease / TAKEN_OVER_WITHIN {
                    return Heard::Unclear;
                }
                let ticket = common.own.as_ref().map_or(token.as_ticket(), |own| own.ticket);
                let known = Known {
                    epoch: common.epoch,
                    floor: common.stamp,
                    longest: common.longest.max(spec.lease),
                    last_token: Some(token),
                    pace: common.pace,
                };
                Heard::Granted(DirectLease {
                    id,
                    spec,
                    token,
                    ticket,
                    granted: now,
                    term,
                    state: LeaseState::Held,
                    about,
                    known,
                })
            }
            Verdict::Acquire(AcquireVerdict::Busy(holder)) => {
                let recovering_for = common.recovering_for();
                let why = NotGranted::Busy { holder: holder.clone(), waiting: common.waiting, recovering_for };
                // A lease of this client itself is on its way back, through the keeper.
                Heard::Busy { why, again: common.again || common.own.is_some() }
            }
            _ => Heard::Unclear,
        }
    }
}

impl DirectLease {
    pub(crate) fn release(&self, client: &ClientId) -> Request {
        Request::Release(ReleaseRequest {
            keys: self.spec.keys.clone(),
            id: WireId::new(client, self.id),
            token: Some(self.token),
            liveness: self.spec.liveness,
            known: self.known.clone(),
        })
    }

    /// What the reply to its release means.
    pub(crate) fn released(reply: &Reply) -> Option<Release> {
        match reply.verdict {
            // The script stopped at its batch limit: the keeper goes on with another release.
            _ if reply.common.again => None,
            Verdict::Release(ReleaseVerdict::Released) => Some(Release::Released),
            Verdict::Release(_) => Some(Release::Lost(LostReason::Ended)),
            _ => None,
        }
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
        let DirectLease { id, spec, token, granted, term, state, about, known, .. } = lease;
        self.epoch = self.epoch.or(known.epoch);
        self.floor = self.floor.max(known.floor);
        self.last_token = self.last_token.max(known.last_token);
        self.pace = self.pace.max(known.pace);
        self.longest = self.longest.max(known.longest);
        let mut lease = Lease::new(spec, about, token, known.epoch, granted, term);
        lease.release_sent = state == LeaseState::ReleaseSent;
        // A task may never be polled again.
        core.timers.set(Timer::Taken(id), granted + lease.spec.lease);
        self.keep(core, now, id, lease);
        // It may have been broken since it was granted, or its data lost: then its holder is to hear of it now.
        if state == LeaseState::Held {
            self.renew(core, now, id);
        }
    }
}
