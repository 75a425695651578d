//! Leases: renewed in time, declared lost in time, given back.

use std::sync::Arc;
use std::time::Duration;

use super::farewells::Kind;
use super::waiters::{Waiter, notice_of};
use super::{
    ANSWER_TIMEOUT, Effect, Id, Machine, Outcome, QuestionId, Release, Renewal, RequestId, Timer, What, margin,
};
use crate::clock::Time;
use crate::error::LostReason;
use crate::options::Spec;
use crate::protocol::{About, Common, LockKeys, Push, RenewRequest, RenewVerdict, Request, wire_id};

/// How soon after a grant by hand-off its holder asks for the whole lease.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

/// How long a lease lasts, as the server has said.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Term {
    /// When it ends for sure by our own clock.
    pub(in crate::keeper) deadline: Time,
    /// How much was left of it.
    pub(super) span: Duration,
}

impl Term {
    /// So much was left after what was sent then, whenever the answer came.
    pub(super) fn since(sent: Time, span: Duration) -> Self {
        Self { deadline: sent + span - margin(span), span }
    }

    /// Whether it is as long as a lease, and so no claim, unless a message told of it: then some of it is over.
    pub(super) fn is_whole(&self, spec: &Spec) -> bool {
        self.span + margin(self.span) >= spec.lease
    }
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Lease {
    pub(super) spec: Arc<Spec>,
    about: About,
    pub(super) token: u64,
    pub(super) epoch: u64,
    granted: Time,
    /// When it ends for sure by our own clock, if it is not renewed.
    pub(in crate::keeper) deadline: Time,
    /// How long before that its holder is told.
    notice: Duration,
    /// Whether it is a full lease, and no claim.
    confirmed: bool,
    lost: bool,
    pub(super) request: Option<RequestId>,
    /// What the server has prolonged it to, while replicas are asked whether they have that.
    pub(super) unsecured: Option<Term>,
    /// Callers of `renew` that await the next answer.
    questions: Vec<QuestionId>,
    cause: Option<Arc<str>>,
}

impl Machine {
    /// The lock is handed out to a waiter.
    pub(super) fn grant(&mut self, now: Time, id: Id, waiter: Waiter, token: u64, term: Term) {
        let Term { deadline, span } = term;
        let Waiter { spec, about, ticket, epoch, told, .. } = waiter;
        let ticket = if ticket == 0 { token } else { ticket };
        self.expect_within(spec.lease / 3);
        self.timers.set(Timer::Taken(id), now + spec.lease);
        self.effects.push(Effect::Granted { id, spec: spec.clone(), token, ticket, deadline });
        let lease = Lease {
            // Of one that a message told of, some is over by now.
            confirmed: !told && term.is_whole(&spec),
            notice: notice_of(&spec, span),
            spec,
            about,
            token,
            epoch,
            granted: now,
            deadline,
            lost: false,
            request: None,
            unsecured: None,
            questions: Vec::new(),
            cause: None,
        };
        self.leases.insert(id, lease);
        self.watch(now, id, span);
    }

    /// Sets the timers of a lease that runs for `span` until its deadline.
    fn watch(&mut self, now: Time, id: Id, span: Duration) {
        let Some(lease) = self.leases.get(&id) else { return };
        self.timers.set(Timer::Notice(id), lease.deadline - lease.notice);
        let renew_at = match (lease.confirmed, lease.spec.renew_every) {
            // The whole lease is asked for soon, in manual mode too: a claim protects nobody for long. Not at once: a hold
            // that ends before costs no request.
            (false, _) => Some(now + CONFIRM_AFTER.min(lease.deadline.since(now) / 3)),
            (true, Some(every)) => Some(lease.deadline + margin(span) - lease.spec.lease + every),
            (true, None) => None,
        };
        let longest = lease.spec.max_hold.map(|longest| lease.granted + longest);
        match renew_at {
            Some(at) if longest.is_none_or(|longest| at < longest) => self.timers.set(Timer::Renew(id), at),
            _ => self.timers.clear(&Timer::Renew(id)),
        }
    }

    pub(super) fn renew(&mut self, now: Time, id: Id) {
        let Some(lease) = self.leases.get(&id) else { return };
        if !self.connected || lease.lost || lease.request.is_some() {
            return;
        }
        let left = lease.deadline.since(now);
        let held_enough = lease.spec.max_hold.is_some_and(|longest| lease.granted + longest <= now);
        let automatic = lease.spec.renew_every.is_some() && !held_enough;
        let prolongs = !lease.confirmed || automatic || !lease.questions.is_empty();
        let Some(session) = self.sessions.get(lease.spec.name()) else { return };
        let call = Request::Renew(RenewRequest {
            keys: lease.spec.keys.clone(),
            id: wire_id(&self.client, id),
            token: lease.token,
            lease: if prolongs { lease.spec.lease } else { left },
            liveness: lease.spec.liveness,
            about: lease.about.clone(),
            epoch: lease.epoch,
            floor: session.floor,
            left,
            pace: session.pace,
        });
        let request = self.send(now, What::Renew(id), call);
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.request = Some(request);
        }
    }

    pub(super) fn renew_refused(&mut self, id: Id, again: Time, cause: &Arc<str>) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.request = None;
            lease.cause = Some(cause.clone());
            self.timers.set(Timer::Renew(id), again);
        }
    }

    pub(super) fn on_renew(&mut self, now: Time, sent: Time, id: Id, common: &Common, verdict: RenewVerdict) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.request = None;
        if lease.lost {
            return;
        }
        match verdict {
            RenewVerdict::Renewed { left } => {
                lease.epoch = common.epoch;
                let term = Term::since(sent, left);
                if lease.spec.replicas == 0 {
                    return self.prolonged(now, id, term);
                }
                let spec = lease.spec.clone();
                let request = self.replicate(now, id, &spec.keys, spec.replicas, spec.lease);
                if let Some(lease) = self.leases.get_mut(&id) {
                    (lease.request, lease.unsecured) = (Some(request), Some(term));
                }
            }
            RenewVerdict::Broken => self.lose(now, id, LostReason::Broken),
            RenewVerdict::Lost => self.lose(now, id, LostReason::Ended),
        }
    }

    /// A renewal counts.
    pub(super) fn prolonged(&mut self, now: Time, id: Id, term: Term) {
        let Term { deadline, span } = term;
        self.refusals = 0;
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.lost) else { return };
        // What was under way may have asked for less than a full lease: then the caller's goes after it.
        let full = term.is_whole(&lease.spec);
        lease.confirmed |= full;
        lease.cause = None;
        let questions = if full { std::mem::take(&mut lease.questions) } else { Vec::new() };
        let asked = !lease.questions.is_empty();
        if deadline > lease.deadline {
            lease.deadline = deadline;
            lease.notice = notice_of(&lease.spec, span);
            self.effects.push(Effect::Prolonged { id, deadline });
        }
        self.watch(now, id, span);
        self.answer_renewals(id, questions, &Renewal::Renewed);
        if asked {
            self.renew(now, id);
        }
    }

    fn answer_renewals(&mut self, id: Id, questions: Vec<QuestionId>, renewal: &Renewal) {
        for question in questions {
            self.timers.clear(&Timer::Renewal(id, question));
            self.answer(question, Outcome::Renewal(Ok(renewal.clone())));
        }
    }

    pub(super) fn renewal_timed_out(&mut self, id: Id, question: QuestionId) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.questions.retain(|&other| other != question);
        }
        self.answer(question, Outcome::Renewal(Err(self.no_answer())));
    }

    /// A caller renews by hand.
    pub(super) fn renew_for(&mut self, now: Time, question: QuestionId, id: Id) {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.lost) else {
            return self.answer(question, Outcome::Renewal(Ok(Renewal::Lost(LostReason::Ended))));
        };
        lease.questions.push(question);
        self.timers.set(Timer::Renewal(id, question), now + ANSWER_TIMEOUT);
        self.renew(now, id);
    }

    /// The lease could not be renewed, and its end is near.
    pub(super) fn notice(&mut self, now: Time, id: Id) {
        let Some(lease) = self.leases.get(&id) else { return };
        let over = lease.spec.max_hold.is_some_and(|longest| lease.granted + longest <= now + lease.spec.lease);
        let cause = lease.cause.clone().or_else(|| self.cause.clone());
        let reason = if over && cause.is_none() { LostReason::MaxHold } else { LostReason::NotRenewed { cause } };
        self.lose(now, id, reason);
    }

    /// An operator broke a lease. Whoever may publish can say so; only the scripts know the secret.
    pub(super) fn on_break_pushed(&mut self, now: Time, id: Id, push: &Push, keys: &LockKeys) {
        let Some(lease) = self.leases.get(&id) else { return };
        let (same_lock, same_lease) = (lease.spec.keys.name == keys.name, lease.token == push.token);
        if same_lock && same_lease && *lease.about.secret == *push.secret {
            self.lose(now, id, LostReason::Broken);
        }
    }

    /// Declares a lease lost, which is final. It is given back when its holder lets go, and at its deadline at the latest.
    pub(super) fn lose(&mut self, now: Time, id: Id, reason: LostReason) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if std::mem::replace(&mut lease.lost, true) {
            return;
        }
        let (questions, deadline) = (std::mem::take(&mut lease.questions), lease.deadline);
        self.timers.clear(&Timer::Renew(id));
        self.timers.clear(&Timer::Notice(id));
        self.answer_renewals(id, questions, &Renewal::Lost(reason.clone()));
        let over = reason == LostReason::Ended;
        self.effects.push(Effect::Lost { id, reason });
        if over || deadline <= now {
            self.release(now, id, None);
        } else {
            self.timers.set(Timer::Deadline(id), deadline);
        }
    }

    /// Gives a lease back. The answer comes by its local deadline.
    pub(super) fn release(&mut self, now: Time, id: Id, question: Option<QuestionId>) {
        let Some(lease) = self.leases.remove(&id) else {
            if let Some(question) = question {
                self.answer(question, Outcome::Release(Release::Lost(LostReason::Ended)));
            }
            return;
        };
        for timer in [Timer::Renew(id), Timer::Notice(id), Timer::Deadline(id), Timer::Taken(id)] {
            self.timers.clear(&timer);
        }
        self.answer_renewals(id, lease.questions, &Renewal::Lost(LostReason::Released));
        self.effects.push(Effect::Forgotten { id });
        if question.is_some() {
            self.timers.set(Timer::AnswerBy(id), lease.deadline.max(now));
        }
        let name = lease.spec.name().clone();
        let kind = Kind::Release { token: lease.token, epoch: lease.epoch, liveness: lease.spec.liveness };
        self.bid_farewell(now, id, lease.spec.keys.clone(), kind, question, lease.deadline);
        self.leave_session(&name);
    }
}
