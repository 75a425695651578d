//! A waiter: from the call of an acquire to the grant, or to giving up.
//!
//! | phase | what the waiter waits for | request in flight | leaves it by |
//! |---|---|---|---|
//! | `Asking` | the reply to its acquire: the first, or the return after a loss | acquire, none while it waits for room, disconnected or refused | `queued` → `Queued`; `granted` or a message → below |
//! | `Queued` | its turn: heartbeats keep its place | none, or an acquire that asks for its position | a grant → below; a return → `Asking` |
//! | `Confirming` | the server's word for a grant that is short, or that only a message told | renew, none while disconnected or refused | `renewed` → granted or `Securing`; `lost` → `Asking` |
//! | `Securing` | replicas, whether they have the grant | WAIT | enough → granted; too late or too few → `Confirming` |
//!
//! A grant that is long enough goes at once to `Securing`, if the lock needs replicas, or to its caller. A connection
//! that breaks turns `Securing` into `Confirming`; every other phase stays, and asks again. A waiter may give up in
//! each phase: then its place or its lease is released.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::grant::Grant;
use super::lock::LockMachine;
use super::release::ReleaseKind;
use super::unsent::Turn;
use super::{ANSWER_TIMEOUT, AcquireCall, Effect, Id, InFlight, Mode, NotGranted, QuestionId, RequestId, Timer};
use crate::clock::Time;
use crate::error::Fault;
use crate::options::Spec;
use crate::protocol::{
    AcquireRequest, AcquireVerdict, CallerData, Common, Epoch, Memory, Request, Seat, Ticket, Token, UNBOUNDED,
};

/// How long before its timeout a waiter asks for its position once more, if what it knows is as old.
const ASK_BEFORE: Duration = Duration::from_millis(250);

/// See the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::keeper) enum Phase {
    Asking,
    Queued,
    Confirming { token: Token },
    Securing { grant: Grant },
}

/// How much the server may know of a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Trace {
    /// Nothing was sent.
    None,
    /// All its requests were refused.
    Unlikely,
    /// The server answered, or a request was cut off.
    Likely,
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Waiter {
    pub(super) spec: Arc<Spec>,
    pub(super) about: CallerData,
    pub(super) mode: Mode,
    called: Time,
    timeout: Option<Time>,
    pub(super) phase: Phase,
    /// The request in flight.
    pub(super) request: Option<RequestId>,
    /// The turn of an acquire that waits for room.
    pub(super) turn: Option<Turn>,
    /// None until the server has given one.
    pub(super) ticket: Option<Ticket>,
    /// The place, or the lease that was granted, as the server last told, and under which epoch.
    pub(super) seat: Seat,
    pub(super) epoch: Option<Epoch>,
    /// Its place on the line (`lock.rs`), and when that was heard.
    pub(super) place: Option<(u64, Time)>,
    /// Whether its caller knows the ticket.
    announced: bool,
    pub(super) trace: Trace,
    /// A confirmation came so late that little was left of the lease.
    pub(super) late: bool,
    /// The answer of replicas when too few had the grant.
    pub(super) shortage: Option<Arc<str>>,
    /// It found the lock held by its own client, which was giving it back. It asks again once.
    asked_again: bool,
}

impl Waiter {
    /// Whether it knows of a grant, which is on its way to the caller.
    pub(super) fn has_grant(&self) -> bool {
        matches!(self.phase, Phase::Confirming { .. } | Phase::Securing { .. })
    }

    pub(super) fn disconnected(&mut self) {
        self.turn = None;
        if self.request.take().is_some() {
            self.trace = Trace::Likely;
        }
        if let Phase::Securing { grant } = self.phase {
            self.phase = Phase::Confirming { token: grant.token };
        }
    }
}

impl LockMachine {
    pub(super) fn acquire(&mut self, core: &mut Core, id: Id, asked: AcquireCall) {
        let AcquireCall { spec, about, mode, timeout, called } = asked;
        self.liveness = self.liveness.max(spec.liveness);
        self.buffer = self.buffer.max(spec.buffer);
        if mode != Mode::Try {
            self.count_in(spec.liveness);
        }
        core.expect_within(spec.liveness / 3);
        let timeout = timeout.map(|timeout| called + timeout);
        let answer_by = (mode == Mode::Try).then_some(called + ANSWER_TIMEOUT);
        if let Some(at) = timeout.or(answer_by) {
            core.timers.set(Timer::Timeout(id), at);
        }
        let waiter = Waiter {
            spec,
            about,
            mode,
            called,
            timeout,
            phase: Phase::Asking,
            request: None,
            turn: None,
            ticket: None,
            seat: Seat::NONE,
            epoch: None,
            place: None,
            announced: false,
            trace: Trace::None,
            late: false,
            shortage: None,
            asked_again: false,
        };
        self.waiters.insert(id, waiter);
        core.locks_of.insert(id, self.name().clone());
        core.members += 1;
        self.resume(core, id);
    }

    /// Sends the acquire of this waiter, for which there is room now.
    pub(super) fn send_acquire(&mut self, core: &mut Core, id: Id) {
        let Some(request) = self.acquire_request(core, id) else { return };
        let request = core.send(InFlight::Acquire(id), request);
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = Some(request);
            waiter.trace = waiter.trace.max(Trace::Unlikely);
        }
    }

    /// A question for a waiter's position is its acquire, sent once more.
    pub(super) fn send_position(&mut self, core: &mut Core, id: Id, question: QuestionId) {
        if let Some(request) = self.acquire_request(core, id) {
            core.send(InFlight::Position(id, question), request);
        }
    }

    fn acquire_request(&mut self, core: &Core, id: Id) -> Option<Request> {
        let known = self.memory(core.now);
        self.heartbeat_told = self.heartbeat_every();
        let waiter = self.waiters.get(&id)?;
        // A seat from before a long sleep is of another epoch than what was heard since, and nothing was lost.
        let has_slept = waiter.seat != Seat::NONE && waiter.epoch.is_none();
        Some(Request::Acquire(AcquireRequest {
            keys: waiter.spec.keys.clone(),
            id: core.wire_id(id),
            room: match (waiter.mode, waiter.spec.max_waiting) {
                (Mode::Try, _) => 0,
                (Mode::Wait | Mode::Enqueue, most) => most.map_or(UNBOUNDED, u64::from),
            },
            as_claim: !core.can_kill,
            lease: waiter.spec.lease,
            liveness: self.liveness,
            buffer: self.buffer,
            heartbeat: self.heartbeat_interval(),
            most: waiter.spec.most,
            about: waiter.about.clone(),
            memory: if has_slept { Memory::NONE } else { known },
            seat: if waiter.mode == Mode::Try { Seat::NONE } else { waiter.seat },
        }))
    }

    /// Sends what this waiter needs next, if anything: its acquire, or the confirmation of its grant.
    pub(super) fn resume(&mut self, core: &mut Core, id: Id) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        if !core.connected || waiter.request.is_some() {
            return;
        }
        match waiter.phase {
            Phase::Asking => self.await_turn(core, id),
            Phase::Confirming { token } => self.confirm(core, id, token),
            Phase::Queued | Phase::Securing { .. } => {}
        }
    }

    /// A waiter that has a ticket asks again `soon`: the others may have returned to their places already.
    pub(super) fn acquire_refused(&mut self, core: &mut Core, id: Id, again: Time, soon: Time) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = None;
            core.timers.set(Timer::Acquire(id), if waiter.ticket.is_some() { soon } else { again });
        }
    }

    pub(super) fn on_acquire(
        &mut self,
        core: &mut Core,
        (request, sent): (RequestId, Time),
        id: Id,
        common: &Common,
        verdict: AcquireVerdict,
    ) {
        let gives_back = matches!(verdict, AcquireVerdict::Busy(_)) && self.is_given_back(request);
        let Some(waiter) = self.waiters.get_mut(&id) else {
            // A place or a lease that no waiter here wants is released.
            let known = self.releases.contains_key(&id) || self.leases.contains_key(&id);
            let until = match verdict {
                AcquireVerdict::Granted => {
                    core.now + common.own(&core.wire_id(id)).map_or(Duration::ZERO, |own| own.left)
                }
                AcquireVerdict::Queued { .. } => core.now,
                AcquireVerdict::Busy(_) | AcquireVerdict::Disbelieved => return,
            };
            if !known {
                self.give_back(core, id, ReleaseKind::Leave, None, until);
            }
            return;
        };
        waiter.trace = Trace::Likely;
        // It may also be the answer to a question for its position.
        let was_asked = waiter.request == Some(request);
        if was_asked {
            waiter.request = None;
        }
        if waiter.has_grant() {
            return; // A push came first: its confirmation is under way and will tell.
        }
        if was_asked {
            waiter.phase = Phase::Queued;
        }
        match verdict {
            AcquireVerdict::Granted => {
                let Some(own) = common.own(&core.wire_id(id)) else { return };
                (waiter.seat, waiter.epoch) = (own.seat, common.known.epoch);
                if waiter.ticket.is_none() && waiter.mode != Mode::Try {
                    waiter.ticket = Some(own.ticket);
                }
                self.granted_by_reply(core, sent, id, own);
            }
            AcquireVerdict::Queued { ticket, seat, rank } => {
                let place = self.gone + rank; // on the line, as of a waiter that was just heard of
                (waiter.seat, waiter.epoch, waiter.place) = (seat, common.known.epoch, Some((place, core.now)));
                let before = waiter.ticket;
                self.kept_alive(sent);
                self.leave_order(before, id);
                self.order.insert((ticket, id));
                self.has_asked(sent);
                self.has_ticket(core, id, ticket);
                if common.again {
                    self.heartbeat(core);
                }
            }
            // It stopped at its batch limit: the lock may be free behind zombies. Or the holder is this client, which is
            // giving the lock back.
            AcquireVerdict::Busy(_)
                if common.again || gives_back && !std::mem::replace(&mut waiter.asked_again, true) =>
            {
                waiter.phase = Phase::Asking;
                self.resume(core, id);
            }
            AcquireVerdict::Busy(_) if waiter.mode != Mode::Try => {
                self.fail(core, id, NotGranted::QueueFull { waiting: common.waiting });
            }
            AcquireVerdict::Busy(holders) => {
                let why = NotGranted::Busy {
                    holders,
                    held: common.held,
                    most: waiter.spec.most,
                    waiting: common.waiting,
                    recovering_for: common.recovering_for(),
                };
                self.remove_waiter(core, id);
                core.effects.push(Effect::NotGranted { id, why });
            }
            AcquireVerdict::Disbelieved => {
                // It starts anew.
                let ticket = waiter.ticket.take();
                (waiter.seat, waiter.epoch) = (Seat::NONE, None);
                waiter.phase = Phase::Asking;
                self.leave_order(ticket, id);
                self.known = common.known.heard(sent);
                self.resume(core, id);
            }
        }
    }

    /// The server has given a waiter its place.
    pub(super) fn has_ticket(&mut self, core: &mut Core, id: Id, ticket: Ticket) {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.mode != Mode::Try) else { return };
        waiter.ticket = Some(ticket);
        if !std::mem::replace(&mut waiter.announced, true) {
            waiter.timeout.into_iter().for_each(|at| core.timers.set(Timer::Position(id), at - ASK_BEFORE));
            let place = waiter.place;
            let rank = place.map(|(place, _)| self.rank_at(place));
            core.effects.push(Effect::Queued { id, ticket, rank });
        }
    }

    /// The timeout is near, and its error is to tell a position that is not old.
    pub(super) fn ask_position(&mut self, core: &mut Core, id: Id) {
        let is_old = |waiter: &&Waiter| waiter.place.is_some_and(|(_, at)| core.now.since(at) > ASK_BEFORE);
        let queued = self.waiters.get(&id).filter(|waiter| waiter.phase == Phase::Queued && waiter.request.is_none());
        if core.connected && queued.filter(is_old).is_some() {
            self.await_turn(core, id);
        }
    }

    pub(super) fn timed_out(&mut self, core: &mut Core, id: Id) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let waited = core.now.since(waiter.called);
        // If the process did not run for a while, its timers are due together, and requests wait that there is room for.
        let waits = waiter.turn.is_some() && core.unsent.held_back;
        let unsent = || waits.then(|| Arc::from("the server has not answered the earlier requests of this client"));
        let cause = waiter.shortage.clone().or_else(|| core.cause.clone()).or_else(|| core.silence()).or_else(unsent);
        let position = waiter.place.map(|(place, at)| (self.rank_at(place) + 1, core.now.since(at)));
        let why = match waiter.timeout {
            Some(_) => NotGranted::Timeout { waited, position, cause },
            None => NotGranted::Fault(Fault::Unavailable { waited, cause: cause.map(Into::into) }),
        };
        self.fail(core, id, why);
    }

    pub(super) fn fail(&mut self, core: &mut Core, id: Id, why: NotGranted) {
        if self.waiters.contains_key(&id) {
            self.abandon(core, id);
            core.effects.push(Effect::NotGranted { id, why });
        }
    }

    /// The acquire of this waiter is to be sent: the first, or the same again with the ticket that it has, whose answer
    /// tells its position.
    pub(super) fn await_turn(&mut self, core: &mut Core, id: Id) {
        if let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.turn.is_none()) {
            let turn = (waiter.ticket.is_none(), waiter.ticket, id);
            core.unsent.acquires.insert(turn);
            waiter.turn = Some(turn);
        }
    }

    pub(super) fn turn_has_come(&mut self, core: &mut Core, id: Id) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        waiter.turn = None;
        // It may have been granted the lock by a message.
        if matches!(waiter.phase, Phase::Asking | Phase::Queued) && waiter.request.is_none() {
            self.send_acquire(core, id);
        }
    }

    /// Gives up the place of a waiter, or what it was granted meanwhile.
    pub(super) fn abandon(&mut self, core: &mut Core, id: Id) {
        let Some(waiter) = self.remove_waiter(core, id) else { return };
        let until = core.now + waiter.spec.liveness + waiter.spec.buffer;
        match waiter.trace {
            Trace::None => {}
            Trace::Unlikely if waiter.request.is_none() => {
                self.give_back(core, id, ReleaseKind::LeaveBestEffort, None, until);
            }
            Trace::Unlikely | Trace::Likely => self.give_back(core, id, ReleaseKind::Leave, None, until),
        }
    }

    fn leave_order(&mut self, ticket: Option<Ticket>, id: Id) {
        if let Some(ticket) = ticket {
            self.order.remove(&(ticket, id));
        }
    }

    /// Takes a waiter out of all places.
    pub(super) fn remove_waiter(&mut self, core: &mut Core, id: Id) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        if waiter.mode != Mode::Try {
            self.count_out(waiter.spec.liveness);
        }
        core.locks_of.remove(&id);
        core.members -= 1;
        core.timers.clear(&Timer::Timeout(id));
        core.timers.clear(&Timer::Position(id));
        core.timers.clear(&Timer::Acquire(id));
        self.leave_order(waiter.ticket, id);
        waiter.turn.map(|turn| core.unsent.acquires.remove(&turn));
        if self.order.is_empty() {
            (self.gone, self.none_waits) = (0, false);
            core.timers.clear(&Timer::Heartbeat(self.name().clone()));
        }
        Some(waiter)
    }
}
