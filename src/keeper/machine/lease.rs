//! Leases: renewed in time, declared lost in time, released.

use std::time::Duration;

use super::api::{ANSWER_TIMEOUT, Effect, Outcome, QuestionId, Release, Renewal, RequestId};
use super::core::Core;
use super::lock::LockMachine;
use super::record::{Call, Grant, Lease, Leaving, Record, State, Trace, Waiter, Wants};
use crate::clock::Time;
use crate::error::LostReason;
use crate::inspect::READERS;
use crate::options::{LEAST, LONGEST};
use crate::protocol::{Common, Id, Push, RenewRequest, RenewVerdict, Request, Seat};
use crate::term::{Term, span_until};

impl LockMachine {
    /// The lock is handed out to a waiter.
    pub(super) fn hold(&mut self, core: &mut Core, id: Id, waiter: Waiter, grant: Grant) {
        let Grant { token, slot, term, claim } = grant;
        let Waiter { spec, about, ticket, .. } = waiter;
        let (deadline, ticket) = (term.deadline(), ticket.unwrap_or(token.as_ticket()));
        core.effects.push(Effect::Granted { id, spec: spec.clone(), token, ticket, slot, deadline });
        core.expect_within(spec.lease / 3);
        let lease = Lease {
            confirmed: !claim,
            renew_every: spec.renew_every,
            most: spec.most,
            told_most: spec.most,
            granted: core.now,
            look_if_taken: Some(core.now + spec.lease),
            ends: deadline,
            spec,
            about,
            token,
            term,
            last: term,
            lost: false,
            over: false,
            asked: Duration::ZERO,
            unsecured: None,
            cause: None,
        };
        core.go_on_as(id, State::Held(Box::new(lease)));
        core.records.entry(id).and_modify(|record| record.trace = Trace::Lease);
        self.plan_renewal(core, id);
    }

    /// Plans what comes next for a lease.
    fn plan_renewal(&mut self, core: &mut Core, id: Id) {
        let Some(record) = core.records.get_mut(&id) else { return };
        if let State::Held(lease) = &mut record.state {
            let plan = lease.plan(core.now);
            // Callers that were not answered yet want more of it.
            record.at = if record.calls.is_empty() { plan } else { Some(core.now) };
            self.look(core, id);
        }
    }

    /// Asks for a lease anew: to renew it, or to confirm a grant.
    pub(super) fn send_renew(&mut self, core: &mut Core, id: Id) {
        let memory = self.memory(core);
        let (now, wire) = (core.now, core.wire_id(id));
        let Some(record) = core.records.get_mut(&id) else { return };
        let wanted = record.calls.iter().filter_map(Call::renewed_until).max();
        let (spec, about, most, lease, left) = match &mut record.state {
            State::Waiting(waiter) => {
                (&waiter.spec, &waiter.about, waiter.spec.most, waiter.spec.lease, Duration::ZERO)
            }
            State::Held(lease) => {
                // With the margin for clocks that drift, which the deadline lacks: a server that lost its data grants
                // this anew.
                let left = span_until(lease.deadline().since(now));
                let held_enough = lease.spec.max_hold.is_some_and(|longest| lease.granted + longest <= now);
                let automatic = lease.renew_every.is_some() && !held_enough;
                let prolongs = !lease.confirmed || automatic || wanted.is_some();
                // The server never shortens a lease. It is told the whole length, which a recovery may have to wait for.
                let whole = if prolongs { lease.spec.lease.max(left) } else { left };
                lease.asked = wanted.map_or(whole, |wanted| whole.max(span_until(wanted.since(now))));
                // The server refuses less, and nobody counts on more.
                (&lease.spec, &lease.about, lease.most, lease.asked.max(LEAST), left)
            }
            State::Leaving(_) => return,
        };
        let request = Request::Renew(RenewRequest {
            keys: record.keys.clone(),
            id: wire,
            seat: record.seat,
            lease,
            left,
            liveness: spec.liveness,
            most,
            about: about.clone(),
            memory,
        });
        core.send_of(id, request);
        self.calm = false;
    }

    pub(super) fn on_renew(
        &mut self,
        core: &mut Core,
        (request, sent): (RequestId, Time),
        id: Id,
        common: &Common,
        verdict: RenewVerdict,
    ) {
        let own = common.own(&core.wire_id(id));
        let Some(record) = core.records.get_mut(&id).and_then(|record| record.answered(request)) else { return };
        let State::Held(lease) = &mut record.state else { return };
        if lease.lost {
            return;
        }
        match verdict {
            RenewVerdict::Renewed => {
                let Some(own) = own else { return };
                (record.seat, record.epoch, lease.told_most) = (own.seat, common.known.epoch, own.most);
                let term = Term::told(sent, own.left, lease.asked);
                if lease.spec.replicas == 0 {
                    return self.prolonged(core, id, term);
                }
                lease.unsecured = Some(term);
                self.due_now(core, id);
            }
            RenewVerdict::Broken => self.lose(core, id, LostReason::Broken),
            RenewVerdict::Lost => self.lose(core, id, LostReason::Ended),
        }
    }

    /// Counts a renewal.
    pub(super) fn prolonged(&mut self, core: &mut Core, id: Id, term: Term) {
        core.refusals = 0;
        let Some(record) = core.records.get_mut(&id) else { return };
        let Some(lease) = record.lease_mut().filter(|lease| !lease.lost) else { return };
        // The renewal under way may have asked for less than a full lease: then the caller's follows it.
        let full = term.is_whole(lease.spec.lease);
        lease.confirmed |= full;
        lease.cause = None;
        let moved = term.deadline() > lease.deadline();
        lease.last = term;
        if moved {
            lease.term = term;
        }
        let (deadline, most, every) = (lease.deadline(), lease.told_most, lease.renew_every);
        if moved || full {
            core.effects.push(Effect::Prolonged { id, deadline, every, most });
        }
        let is_met = |asks: &Wants| match *asks {
            Wants::Renewal { until, most: wanted } => full && until <= deadline && wanted <= most,
            Wants::Position | Wants::Release => false,
        };
        core.answer_calls(id, is_met, &Outcome::Renewal(Ok(Renewal::Renewed)));
        self.plan_renewal(core, id);
    }

    /// A caller renews by hand, or extends the lease by this much, unless too much would be left then.
    pub(super) fn renew_for(&mut self, core: &mut Core, question: QuestionId, id: Id, extend: Option<Duration>) {
        let now = core.now;
        let Some((record, deadline)) = core.lasting(id) else { return core.renewal_of_none(question) };
        // Extensions that are asked for together add up.
        let furthest = record.calls.iter().filter_map(Call::renewed_until).fold(deadline, Time::max);
        let until = extend.map_or(Time(0), |extend| furthest + extend);
        let left = until.since(now);
        if extend.is_some() && left > LONGEST {
            return core.answer(question, Outcome::Renewal(Ok(Renewal::TooLong { left })));
        }
        let wants = Wants::Renewal { until, most: 0 };
        record.calls.push(Call { question, by: Some(now + ANSWER_TIMEOUT), wants });
        self.due_now(core, id);
    }

    /// A writer becomes a reader. The answer has no time limit but the lease's: if it failed while the request may yet be
    /// executed, its holder could not know what it is.
    pub(super) fn downgrade(&mut self, core: &mut Core, question: QuestionId, id: Id) {
        let Some((record, _)) = core.lasting(id) else { return core.renewal_of_none(question) };
        let wants = Wants::Renewal { until: Time(0), most: READERS };
        record.calls.push(Call { question, by: None, wants });
        record.lease_mut().into_iter().for_each(|lease| lease.most = READERS);
        self.due_now(core, id);
    }

    pub(super) fn renew_automatically(&mut self, core: &mut Core, id: Id, on: bool) {
        let Some(lease) = core.lease_mut(id).filter(|lease| !lease.lost) else { return };
        lease.renew_every = on.then(|| lease.spec.renew_every.unwrap_or_else(|| lease.spec.usual_interval()));
        // One that was refused is repeated first.
        if lease.cause.is_none() {
            self.plan_renewal(core, id);
        }
    }

    /// The lease could not be renewed, and its end is near.
    pub(super) fn notice(&mut self, core: &mut Core, id: Id) {
        let Some(lease) = core.records.get(&id).and_then(Record::lease) else { return };
        let over = lease.spec.max_hold.is_some_and(|longest| lease.granted + longest <= core.now + lease.spec.lease);
        let cause = lease.cause.clone().or_else(|| core.cause.clone());
        let reason = if over && cause.is_none() {
            LostReason::MaxHold
        } else {
            LostReason::NotRenewed { cause: cause.map(Into::into) }
        };
        self.lose(core, id, reason);
    }

    /// An operator broke a lease. A user with the right to publish can claim that; only the scripts know the secret.
    pub(super) fn on_break_pushed(&mut self, core: &mut Core, id: Id, push: &Push) {
        let Some(lease) = core.lease_mut(id) else { return };
        if lease.token == push.token && lease.is_about(&push.secret) {
            self.lose(core, id, LostReason::Broken);
        }
    }

    /// Declares a lease lost, which is final. It is released when its holder releases it, and at its deadline at the
    /// latest.
    pub(super) fn lose(&mut self, core: &mut Core, id: Id, reason: LostReason) {
        let Some(record) = core.records.get_mut(&id) else { return };
        let Some(lease) = record.lease_mut() else { return };
        if std::mem::replace(&mut lease.lost, true) {
            return;
        }
        lease.over = !matches!(reason, LostReason::Closed);
        // What has ended, or is released at once, leaves its holder no time.
        let deadline = match reason {
            LostReason::Ended | LostReason::Closed => core.now,
            _ => lease.deadline(),
        };
        lease.ends = deadline;
        // First: whoever hears of the loss from a renewal finds that the guard knows it.
        core.effects.push(Effect::Lost { id, reason: reason.clone(), deadline });
        core.answer_calls(id, |_| true, &Outcome::Renewal(Ok(Renewal::Lost(reason))));
        if deadline <= core.now {
            self.release(core, id, None);
        } else {
            self.look(core, id);
        }
    }

    /// Releases a lease. The answer comes by its local deadline.
    pub(super) fn release(&mut self, core: &mut Core, id: Id, question: Option<QuestionId>) {
        let Some(until) = core.lease_mut(id).map(|lease| lease.deadline()) else {
            if let Some(question) = question {
                core.answer(question, Outcome::Release(Release::Lost(LostReason::Ended)));
            }
            return;
        };
        core.answer_calls(id, |_| true, &Outcome::Renewal(Ok(Renewal::Lost(LostReason::Released))));
        core.effects.push(Effect::Forgotten { id });
        let Some(State::Held(lease)) = core.go_on_as(id, State::Leaving(Leaving { repeated: false, until })) else {
            return;
        };
        let by = Some(until.max(core.now));
        let Some(record) = core.records.get_mut(&id) else { return };
        record.calls.extend(question.map(|question| Call { question, by, wants: Wants::Release }));
        // A release of a lease that may be over must not look like that of the last one. And a seat from before a
        // downgrade says that nobody else holds the lock.
        if lease.over || lease.told_most < lease.most {
            record.seat = Seat::NONE;
        }
        self.look(core, id);
    }
}

impl Core {
    /// A lease that is not lost, and its deadline.
    fn lasting(&mut self, id: Id) -> Option<(&mut Record, Time)> {
        let record = self.records.get_mut(&id)?;
        let deadline = record.lease().filter(|lease| !lease.lost)?.deadline();
        Some((record, deadline))
    }

    pub(super) fn renewal_of_none(&mut self, question: QuestionId) {
        self.answer(question, Outcome::Renewal(Ok(Renewal::Lost(LostReason::Ended))));
    }
}
