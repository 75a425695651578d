//! Waiters: from the call of an acquire to the server's word that it is granted, or to giving up.

use std::sync::Arc;
use std::time::Duration;

use super::api::{ANSWER_TIMEOUT, AcquireCall, Effect, Mode, NotGranted, QuestionId, RequestId};
use super::core::{Core, Timer};
use super::lock::LockMachine;
use super::record::{Call, Leaving, Next, Phase, Record, State, Trace, Waiter, Wants};
use crate::clock::Time;
use crate::error::Fault;
use crate::protocol::{AcquireRequest, AcquireVerdict, Common, Id, Memory, Request, Seat, Ticket, UNBOUNDED};

impl LockMachine {
    pub(super) fn acquire(&mut self, core: &mut Core, id: Id, asked: AcquireCall) {
        let AcquireCall { spec, about, mode, timeout, called } = asked;
        self.liveness = self.liveness.max(spec.liveness);
        self.buffer = self.buffer.max(spec.buffer);
        if mode != Mode::Try {
            self.count_in(spec.liveness);
        }
        core.expect_within(spec.liveness / 3);
        let keys = spec.keys.clone();
        let waiter = Waiter {
            spec,
            about,
            mode,
            called,
            timeout: timeout.map(|timeout| called + timeout),
            phase: Phase::Asking,
            ticket: None,
            place: None,
            announced: false,
            late: false,
            shortage: None,
            asked_again: false,
        };
        self.put(core, id, Record::new(keys, core.now, State::Waiting(waiter)));
        self.look(core, id);
    }

    /// Sends the acquire of this waiter, for which there is room now.
    pub(super) fn send_acquire(&mut self, core: &mut Core, id: Id) {
        let Some(record) = core.records.get_mut(&id) else { return };
        record.in_line = false;
        if record.next(core.now) != Some(Next::Acquire) {
            return;
        }
        let known = self.memory(core);
        self.heartbeat_told = self.heartbeat_every();
        let Some(record) = core.records.get(&id) else { return };
        let Some(waiter) = record.waiter() else { return };
        // A seat from before a long sleep is of another epoch than what was heard since, and nothing was lost.
        let has_slept = record.seat != Seat::NONE && record.epoch.is_none();
        let request = Request::Acquire(AcquireRequest {
            keys: record.keys.clone(),
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
            seat: if waiter.mode == Mode::Try { Seat::NONE } else { record.seat },
        });
        core.send_of(id, request);
        if let Some(record) = core.records.get_mut(&id) {
            record.trace = record.trace.max(Trace::Unlikely);
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
        let gives_back = self.is_given_back(request);
        let own = common.own(&core.wire_id(id));
        let Some(record) = core.records.get_mut(&id) else {
            // A place or a lease that no waiter here wants is released.
            let until = match verdict {
                AcquireVerdict::Granted => core.now + own.map_or(Duration::ZERO, |own| own.left),
                AcquireVerdict::Queued { .. } => core.now,
                AcquireVerdict::Busy(_) | AcquireVerdict::Disbelieved => return,
            };
            return self.leave(core, id, Trace::Likely, until);
        };
        let State::Waiting(waiter) = &mut record.state else { return };
        record.trace = Trace::Likely;
        if record.request != Some(request) {
            return; // A push came first: its confirmation is under way and will tell.
        }
        record.request = None;
        waiter.phase = Phase::Queued;
        let asked = !record.calls.is_empty();
        match verdict {
            AcquireVerdict::Granted => {
                let Some(own) = own else { return };
                (record.seat, record.epoch) = (own.seat, common.known.epoch);
                if waiter.ticket.is_none() && waiter.mode != Mode::Try {
                    waiter.ticket = Some(own.ticket);
                }
                self.granted_by_reply(core, sent, id, own);
            }
            AcquireVerdict::Queued { ticket, seat, rank } => {
                let place = self.gone + rank; // on the line, as of a waiter that was just heard of
                (record.seat, record.epoch, waiter.place) = (seat, common.known.epoch, Some((place, core.now)));
                record.at = Some(core.now);
                let before = waiter.ticket;
                self.kept_alive(sent);
                self.leave_order(before, id);
                self.order.insert((ticket, id));
                self.has_asked(sent);
                self.has_ticket(core, id, ticket);
                if asked {
                    core.answer_positions(id, Ok(rank + 1));
                }
                self.look(core, id);
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
                self.due_now(core, id);
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
                self.waits_no_more(core, id);
                self.take_out(core, id);
                core.effects.push(Effect::NotGranted { id, why });
            }
            AcquireVerdict::Disbelieved => {
                // It starts anew.
                let ticket = waiter.ticket.take();
                waiter.phase = Phase::Asking;
                (record.seat, record.epoch) = (Seat::NONE, None);
                self.leave_order(ticket, id);
                self.known = common.known.heard(sent);
                self.due_now(core, id);
            }
        }
    }

    /// The server has given a waiter its place.
    pub(super) fn has_ticket(&mut self, core: &mut Core, id: Id, ticket: Ticket) {
        let Some(waiter) = core.waiter_mut(id).filter(|waiter| waiter.mode != Mode::Try) else { return };
        waiter.ticket = Some(ticket);
        if !std::mem::replace(&mut waiter.announced, true) {
            let rank = waiter.place.map(|(place, _)| self.rank_at(place));
            core.effects.push(Effect::Queued { id, ticket, rank });
        }
    }

    /// A caller asks for its position: the answer to its acquire, or to the same once more.
    pub(super) fn ask_position(&mut self, core: &mut Core, id: Id, question: QuestionId) {
        let by = Some(core.now + ANSWER_TIMEOUT);
        let Some(record) = core.records.get_mut(&id) else { return };
        record.calls.push(Call { question, by, wants: Wants::Position });
        if record.waiter().is_some_and(Waiter::has_grant) {
            core.answer_positions(id, Ok(0));
        }
        self.look(core, id);
    }

    pub(super) fn timed_out(&mut self, core: &mut Core, id: Id) {
        let Some(record) = core.records.get(&id) else { return };
        let Some(waiter) = record.waiter() else { return };
        let waited = core.now.since(waiter.called);
        // If the process did not run for a while, its timers are due together, and requests wait that there is room for.
        let waits = core.line.held_back && record.in_line;
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
        if core.waiter(id).is_some() {
            self.abandon(core, id);
            core.effects.push(Effect::NotGranted { id, why });
        }
    }

    /// Gives up the place of a waiter, or what it was granted meanwhile.
    pub(super) fn abandon(&mut self, core: &mut Core, id: Id) {
        let in_flight = core.records.get(&id).is_some_and(|record| record.request.is_some());
        if self.waits_no_more(core, id).is_none() {
            return;
        }
        let Some(record) = core.records.get_mut(&id) else { return };
        match record.trace {
            Trace::None => return self.take_out(core, id),
            // What is in flight may be executed.
            Trace::Unlikely if in_flight => record.trace = Trace::Likely,
            _ => {}
        }
        self.look(core, id);
    }

    pub(super) fn leave_order(&mut self, ticket: Option<Ticket>, id: Id) {
        if let Some(ticket) = ticket {
            self.order.remove(&(ticket, id));
        }
    }

    /// Takes a waiter out of the queue. Its record is leaving then, until it goes on as something else. Whoever asks for
    /// its position hears that it waits no more.
    pub(super) fn waits_no_more(&mut self, core: &mut Core, id: Id) -> Option<Waiter> {
        let spec = &core.waiter(id)?.spec;
        let until = core.now + spec.liveness + spec.buffer;
        core.answer_positions(id, Ok(0));
        let leaving = State::Leaving(Leaving { repeated: false, until });
        let State::Waiting(waiter) = core.go_on_as(id, leaving)? else { return None };
        if waiter.mode != Mode::Try {
            self.count_out(waiter.spec.liveness);
        }
        self.leave_order(waiter.ticket, id);
        if self.order.is_empty() {
            (self.gone, self.none_waits) = (0, false);
            core.timers.clear(&Timer::Heartbeat(self.name().clone()));
        }
        Some(waiter)
    }
}
