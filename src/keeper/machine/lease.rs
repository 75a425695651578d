//! Leases: renewed in time, declared lost in time, released.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::grant::Grant;
use super::lock::LockMachine;
use super::release::ReleaseKind;
use super::waiter::Waiter;
use super::{ANSWER_TIMEOUT, Effect, Id, InFlight, Outcome, QuestionId, Release, Renewal, RequestId, Timer};
use crate::clock::Time;
use crate::error::LostReason;
use crate::inspect::READERS;
use crate::options::{LEAST, LONGEST, Spec};
use crate::protocol::{CallerData, Common, Epoch, Push, RenewRequest, RenewVerdict, Request, Seat, Secret, Token};
use crate::term::{Term, span_until};

/// How soon after a grant by hand-off its holder asks for the whole lease.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

/// How long after it is handed out a claim is confirmed.
pub(super) fn confirm_after(claim: Term, now: Time) -> Duration {
    CONFIRM_AFTER.min(claim.deadline().since(now) / 3)
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Lease {
    pub(super) spec: Arc<Spec>,
    about: CallerData,
    pub(in crate::keeper) token: Token,
    /// How many may hold the lock together while it lasts: as its caller wants it, and as the server last told.
    pub(super) most: u16,
    told_most: u16,
    /// As the server last told of it, and under which epoch.
    seat: Seat,
    pub(super) epoch: Option<Epoch>,
    granted: Time,
    /// The interval of its automatic renewals; None while they are switched off.
    renew_every: Option<Duration>,
    /// The furthest term that the server has granted.
    term: Term,
    /// The last one. It may end earlier: a lease that is re-asserted keeps what is left of it, less a margin.
    last: Term,
    /// Whether it is a full lease, and no claim.
    confirmed: bool,
    lost: bool,
    /// Another lease may have been granted since.
    over: bool,
    pub(super) request: Option<RequestId>,
    /// The length that the last renewal asked for.
    asked: Duration,
    /// The term that counts once replicas have it.
    pub(super) unsecured: Option<Term>,
    /// Callers of `renew` and `extend` that await an answer.
    questions: Vec<RenewalCall>,
    cause: Option<Arc<str>>,
}

/// What a caller awaits of a renewal: a whole lease, a deadline that is no earlier than this, and its `most`.
#[derive(Debug, Clone, Hash)]
struct RenewalCall {
    question: QuestionId,
    until: Time,
    /// That so many may hold the lock while it lasts.
    most: u16,
}

impl Lease {
    /// The local deadline, if it is not renewed.
    pub(in crate::keeper) fn deadline(&self) -> Time {
        self.term.deadline()
    }

    /// Whether a message with this secret is about it.
    pub(super) fn is_about(&self, secret: &Secret) -> bool {
        self.about.secret == *secret
    }

    pub(super) fn disconnected(&mut self) {
        (self.request, self.unsecured) = (None, None);
    }
}

impl LockMachine {
    /// The lock is handed out to a waiter.
    pub(super) fn hold(&mut self, core: &mut Core, id: Id, waiter: Waiter, grant: Grant) {
        let Grant { token, slot, term, claim } = grant;
        let deadline = term.deadline();
        let Waiter { spec, about, ticket, seat, epoch, .. } = waiter;
        let ticket = ticket.unwrap_or(token.as_ticket());
        core.timers.set(Timer::Taken(id), core.now + spec.lease);
        core.effects.push(Effect::Granted { id, spec: spec.clone(), token, ticket, slot, deadline });
        core.expect_within(spec.lease / 3);
        let lease = Lease {
            confirmed: !claim,
            renew_every: spec.renew_every,
            most: spec.most,
            told_most: spec.most,
            spec,
            about,
            token,
            seat,
            epoch,
            granted: core.now,
            term,
            last: term,
            lost: false,
            over: false,
            request: None,
            asked: Duration::ZERO,
            unsecured: None,
            questions: Vec::new(),
            cause: None,
        };
        self.leases.insert(id, lease);
        core.locks_of.insert(id, self.name().clone());
        core.members += 1;
        self.watch(core, id);
    }

    /// Sets the timers of a lease.
    fn watch(&mut self, core: &mut Core, id: Id) {
        let Some(lease) = self.leases.get(&id) else { return };
        let (term, last, spec) = (lease.term, lease.last, &lease.spec);
        core.timers.set(Timer::Notice(id), term.deadline() - term.notice(spec.lease, spec.notice));
        let renew_at = match (lease.confirmed, lease.renew_every) {
            // The full lease is asked for soon, also with manual renewal: a claim does not protect its holder for long.
            // Not at once, because a hold that ends before costs no request.
            (false, _) => Some(core.now + confirm_after(term, core.now)),
            // An extended lease is renewed as often as any other: that is how its holder hears of a loss of data.
            (true, Some(every)) => Some(last.sent + last.span.min(spec.lease) + every - spec.lease),
            (true, None) => None,
        };
        let longest = spec.max_hold.map(|longest| lease.granted + longest);
        match renew_at {
            Some(at) if longest.is_none_or(|longest| at.max(core.now) < longest) => {
                core.timers.set(Timer::Renew(id), at)
            }
            _ => core.timers.clear(&Timer::Renew(id)),
        }
    }

    pub(super) fn renew(&mut self, core: &mut Core, id: Id) {
        let memory = self.memory(core.now);
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if !core.connected || lease.lost || lease.request.is_some() {
            return;
        }
        // With the margin for clocks that drift, which the deadline lacks: a server that lost its data grants this anew.
        let left = span_until(lease.deadline().since(core.now));
        let held_enough = lease.spec.max_hold.is_some_and(|longest| lease.granted + longest <= core.now);
        let automatic = lease.renew_every.is_some() && !held_enough;
        let prolongs = !lease.confirmed || automatic || !lease.questions.is_empty();
        // The server never shortens a lease. It is told the whole length, which a recovery may have to wait for.
        let whole = if prolongs { lease.spec.lease.max(left) } else { left };
        let wanted = lease.questions.iter().map(|wanted| span_until(wanted.until.since(core.now))).max();
        lease.asked = wanted.map_or(whole, |wanted| whole.max(wanted));
        let request = Request::Renew(RenewRequest {
            keys: lease.spec.keys.clone(),
            id: core.wire_id(id),
            seat: lease.seat,
            lease: lease.asked.max(LEAST), // the server refuses less, and nobody counts on more
            left,
            liveness: lease.spec.liveness,
            most: lease.most,
            about: lease.about.clone(),
            memory,
        });
        lease.request = Some(core.send(InFlight::Renew(id), request));
        self.calm = false;
    }

    pub(super) fn renew_refused(&mut self, core: &mut Core, id: Id, again: Time, cause: &Arc<str>) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.request = None;
            lease.cause = Some(cause.clone());
            core.timers.set(Timer::Renew(id), again);
        }
    }

    pub(super) fn on_renew(&mut self, core: &mut Core, sent: Time, id: Id, common: &Common, verdict: RenewVerdict) {
        self.go_on(core, common);
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.request = None;
        if lease.lost {
            return;
        }
        match verdict {
            RenewVerdict::Renewed => {
                let Some(own) = common.own(&core.wire_id(id)) else { return };
                (lease.seat, lease.epoch, lease.told_most) = (own.seat, common.known.epoch, own.most);
                let term = Term::told(sent, own.left, lease.asked);
                if lease.spec.replicas == 0 {
                    return self.prolonged(core, id, term);
                }
                let request = super::replicas::replicate(core, id, &lease.spec);
                (lease.request, lease.unsecured) = (Some(request), Some(term));
            }
            RenewVerdict::Broken => self.lose(core, id, LostReason::Broken),
            RenewVerdict::Lost => self.lose(core, id, LostReason::Ended),
        }
    }

    /// Counts a renewal.
    pub(super) fn prolonged(&mut self, core: &mut Core, id: Id, term: Term) {
        core.refusals = 0;
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.lost) else { return };
        // The renewal under way may have asked for less than a full lease: then the caller's follows it.
        let full = term.is_whole(lease.spec.lease);
        lease.confirmed |= full;
        lease.cause = None;
        let moved = term.deadline() > lease.deadline();
        lease.last = term;
        if moved {
            lease.term = term;
        }
        let (deadline, told_most) = (lease.deadline(), lease.told_most);
        if moved || full {
            let (every, most) = (lease.renew_every, told_most);
            core.effects.push(Effect::Prolonged { id, deadline, every, most });
        }
        let is_answered = |call: &RenewalCall| full && call.until <= deadline && call.most <= told_most;
        let (questions, open) = std::mem::take(&mut lease.questions).into_iter().partition(is_answered);
        lease.questions = open;
        let asked = !lease.questions.is_empty();
        self.watch(core, id);
        answer_renewals(core, id, questions, &Renewal::Renewed);
        if asked {
            self.renew(core, id);
        }
    }

    pub(super) fn renewal_timed_out(&mut self, core: &mut Core, id: Id, question: QuestionId) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.questions.retain(|wanted| wanted.question != question);
        }
        core.answer(question, Outcome::Renewal(Err(core.no_answer())));
    }

    /// A caller renews by hand, or extends the lease by this much, unless too much would be left then.
    pub(super) fn renew_for(&mut self, core: &mut Core, question: QuestionId, id: Id, extend: Option<Duration>) {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.lost) else {
            return core.answer(question, Outcome::Renewal(Ok(Renewal::Lost(LostReason::Ended))));
        };
        // Extensions that are asked for together add up.
        let furthest = lease.questions.iter().map(|wanted| wanted.until).fold(lease.deadline(), Time::max);
        let until = extend.map_or(Time(0), |extend| furthest + extend);
        let left = until.since(core.now);
        if extend.is_some() && left > LONGEST {
            return core.answer(question, Outcome::Renewal(Ok(Renewal::TooLong { left })));
        }
        lease.questions.push(RenewalCall { question, until, most: 0 });
        core.timers.set(Timer::Renewal(id, question), core.now + ANSWER_TIMEOUT);
        self.renew(core, id);
    }

    /// A writer becomes a reader. The answer has no time limit but the lease's: if it failed while the request may yet be
    /// executed, its holder could not know what it is.
    pub(super) fn downgrade(&mut self, core: &mut Core, question: QuestionId, id: Id) {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.lost) else {
            return core.answer(question, Outcome::Renewal(Ok(Renewal::Lost(LostReason::Ended))));
        };
        lease.most = READERS;
        lease.questions.push(RenewalCall { question, until: Time(0), most: READERS });
        self.renew(core, id);
    }

    pub(super) fn renew_automatically(&mut self, core: &mut Core, id: Id, on: bool) {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.lost) else { return };
        lease.renew_every = on.then(|| lease.spec.renew_every.unwrap_or_else(|| lease.spec.usual_interval()));
        self.watch(core, id);
    }

    /// The lease could not be renewed, and its end is near.
    pub(super) fn notice(&mut self, core: &mut Core, id: Id) {
        let Some(lease) = self.leases.get(&id) else { return };
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
        let Some(lease) = self.leases.get(&id) else { return };
        if lease.token == push.token && lease.is_about(&push.secret) {
            self.lose(core, id, LostReason::Broken);
        }
    }

    /// Declares a lease lost, which is final. It is released when its holder releases it, and at its deadline at the
    /// latest.
    pub(super) fn lose(&mut self, core: &mut Core, id: Id, reason: LostReason) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if std::mem::replace(&mut lease.lost, true) {
            return;
        }
        lease.over = !matches!(reason, LostReason::Closed);
        let (questions, deadline) = (std::mem::take(&mut lease.questions), lease.deadline());
        core.timers.clear(&Timer::Renew(id));
        core.timers.clear(&Timer::Notice(id));
        // What has ended, or is released at once, leaves its holder no time.
        let deadline = match reason {
            LostReason::Ended | LostReason::Closed => core.now,
            _ => deadline,
        };
        // First: whoever hears of the loss from a renewal finds that the guard knows it.
        core.effects.push(Effect::Lost { id, reason: reason.clone(), deadline });
        answer_renewals(core, id, questions, &Renewal::Lost(reason));
        if deadline <= core.now {
            self.release(core, id, None);
        } else {
            core.timers.set(Timer::Deadline(id), deadline);
        }
    }

    /// Releases a lease. The answer comes by its local deadline.
    pub(super) fn release(&mut self, core: &mut Core, id: Id, question: Option<QuestionId>) {
        let Some(lease) = self.leases.remove(&id) else {
            if let Some(question) = question {
                core.answer(question, Outcome::Release(Release::Lost(LostReason::Ended)));
            }
            return;
        };
        core.members -= 1;
        for timer in [Timer::Renew(id), Timer::Notice(id), Timer::Deadline(id), Timer::Taken(id)] {
            core.timers.clear(&timer);
        }
        let deadline = lease.deadline();
        answer_renewals(core, id, lease.questions, &Renewal::Lost(LostReason::Released));
        core.effects.push(Effect::Forgotten { id });
        if question.is_some() {
            core.timers.set(Timer::AnswerBy(id), deadline.max(core.now));
        }
        // A release of a lease that may be over must not look like that of the last one. And a seat from before a
        // downgrade says that nobody else holds the lock.
        let seat_is_true = !lease.over && lease.told_most >= lease.most;
        let seat = if seat_is_true { lease.seat } else { Seat::NONE };
        self.give_back(core, id, ReleaseKind::Release { seat, calm: seat_is_true && self.calm }, question, deadline);
    }
}

fn answer_renewals(core: &mut Core, id: Id, questions: Vec<RenewalCall>, renewal: &Renewal) {
    for RenewalCall { question, .. } in questions {
        core.timers.clear(&Timer::Renewal(id, question));
        core.answer(question, Outcome::Renewal(Ok(renewal.clone())));
    }
}
