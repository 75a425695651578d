//! Acquires: from the call to the grant, or to giving up.

use std::sync::Arc;
use std::time::Duration;

use super::farewells::Kind;
use super::leases::Term;
use super::{ANSWER_TIMEOUT, Effect, Id, Machine, Refusal, RequestId, Timer, What};
use crate::clock::Time;
use crate::error::Fault;
use crate::options::Spec;
use crate::protocol::{
    About, AcquireRequest, AcquireVerdict, Common, LockKeys, OwnLease, Push, RenewRequest, RenewVerdict, Request,
    wire_id,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Wait, for ever or for its timeout.
    Wait,
    /// The same, and hear of the ticket.
    Enqueue,
    /// Take the lock now or not at all.
    Try,
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Waiter {
    pub(super) spec: Arc<Spec>,
    pub(super) about: About,
    mode: Mode,
    called: Time,
    timeout: Option<Time>,
    /// Zero until the server has given one.
    pub(super) ticket: u64,
    /// The epoch under which the server last confirmed the ticket.
    pub(super) epoch: u64,
    pub(super) rank: Option<u64>,
    announced: bool,
    /// Whether the server may know of it.
    sent: bool,
    /// Whether that is likely: it answered a request, or one was cut off. All others were refused.
    pub(super) known: bool,
    /// Its acquire is to be sent, or was sent and is not answered.
    due: bool,
    pub(super) request: Option<RequestId>,
    /// A message told of its grant, and no answer since: the lease may have begun long before.
    pub(super) told: bool,
    /// A confirmation came so late that little was left of the lease.
    late: bool,
    /// The token of a grant that is being confirmed.
    pub(super) claim: Option<u64>,
    /// What the server has granted, while replicas are asked whether they have it.
    pub(super) unsecured: Option<Term>,
    /// What they said when it was too few.
    pub(super) shortage: Option<Arc<str>>,
}

impl Machine {
    #[allow(clippy::too_many_arguments)] // The fields of Command::Acquire, in their order.
    pub(super) fn acquire(
        &mut self,
        now: Time,
        id: Id,
        spec: Arc<Spec>,
        about: About,
        mode: Mode,
        timeout: Option<Duration>,
        called: Time,
    ) {
        // A message that was made up may have named this id before it was given.
        self.forget_farewell(id);
        let session = self.session(&spec.keys);
        session.members += 1;
        session.liveness = session.liveness.max(spec.liveness);
        session.buffer = session.buffer.max(spec.buffer);
        session.longest = session.longest.max(spec.lease);
        session.pace = session.pace.max(session.liveness / 3);
        self.expect_within(spec.liveness / 3);
        let timeout = timeout.map(|timeout| called + timeout);
        let answer_by = (mode == Mode::Try).then_some(called + ANSWER_TIMEOUT);
        if let Some(at) = timeout.or(answer_by) {
            self.timers.set(Timer::Timeout(id), at);
        }
        let waiter = Waiter {
            spec,
            about,
            mode,
            called,
            timeout,
            ticket: 0,
            epoch: 0,
            rank: None,
            announced: false,
            sent: false,
            known: false,
            told: false,
            due: true,
            request: None,
            late: false,
            claim: None,
            unsecured: None,
            shortage: None,
        };
        self.waiters.insert(id, waiter);
        self.resume(now, id);
    }

    /// The acquire of this waiter: the first, or the same again with the ticket that it has.
    pub(super) fn acquire_call(&self, id: Id) -> Option<Request> {
        let waiter = self.waiters.get(&id)?;
        let session = self.sessions.get(waiter.spec.name())?;
        Some(Request::Acquire(AcquireRequest {
            keys: waiter.spec.keys.clone(),
            id: wire_id(&self.client, id),
            wait: waiter.mode != Mode::Try,
            claim: !self.can_kill,
            lease: waiter.spec.lease,
            liveness: session.liveness,
            buffer: session.buffer,
            heartbeat: session.heartbeat_interval(),
            about: waiter.about.clone(),
            ticket: waiter.ticket,
            // A newcomer speaks for those of this client who were here before it: it must not be taken for a stranger
            // by a server that lost their places.
            epoch: if waiter.ticket == 0 { session.epoch } else { waiter.epoch },
            floor: session.floor,
            // One may have been granted or renewed since the last answer.
            longest: session.longest,
            last_token: session.last_token,
            pace: session.pace,
        }))
    }

    pub(super) fn send_acquire(&mut self, now: Time, id: Id, call: Request) {
        let request = self.send(now, What::Acquire(id), call);
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = Some(request);
            waiter.sent = true;
            waiter.due = true;
        }
    }

    /// Sends what this waiter needs next, if anything: its first acquire, or the confirmation of its claim.
    pub(super) fn resume(&mut self, now: Time, id: Id) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        if !self.connected || waiter.request.is_some() {
            return;
        }
        if let Some(token) = waiter.claim {
            self.confirm(now, id, token);
        } else if waiter.due
            && let Some(call) = self.acquire_call(id)
        {
            self.send_acquire(now, id, call);
        }
    }

    pub(super) fn acquire_refused(&mut self, id: Id, again: Time) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = None;
            if let Some(session) = self.sessions.get_mut(waiter.spec.name()) {
                session.reentering.remove(&id);
            }
            self.timers.set(Timer::Acquire(id), again);
        }
    }

    pub(super) fn on_acquire(
        &mut self,
        now: Time,
        (request, sent): (RequestId, Time),
        id: Id,
        keys: &Arc<LockKeys>,
        common: &Common,
        verdict: AcquireVerdict,
    ) {
        let Some(waiter) = self.waiters.get_mut(&id) else {
            // A place or a lease that nobody here wants is given back.
            let known = self.farewells.contains_key(&id) || self.leases.contains_key(&id);
            let until = match verdict {
                AcquireVerdict::Granted { left, .. } => now + left,
                AcquireVerdict::Queued { .. } => now,
                AcquireVerdict::Busy(_) | AcquireVerdict::Disbelieved => return,
            };
            if !known {
                self.bid_farewell(now, id, keys.clone(), Kind::Leave, None, until);
            }
            return;
        };
        let name = waiter.spec.name().clone();
        waiter.known = true;
        // Also if a confirmation has overtaken it.
        if let Some(session) = self.sessions.get_mut(&name) {
            session.reentering.remove(&id);
        }
        // It may also be the answer to a question for its position.
        if waiter.request == Some(request) {
            waiter.request = None;
            waiter.due = false;
        }
        if waiter.claim.is_some() {
            return; // A push came first: its confirmation is under way and will tell.
        }
        match verdict {
            AcquireVerdict::Granted { token, left } => {
                waiter.epoch = common.epoch;
                if let Some(own) = &common.own
                    && waiter.ticket == 0
                    && waiter.mode != Mode::Try
                {
                    waiter.ticket = own.ticket;
                }
                self.claimed(now, id, token, Term::since(sent, left));
            }
            AcquireVerdict::Queued { ticket, rank } => {
                self.kept_alive(&name, sent);
                self.on_queued(id, common.epoch, ticket, rank);
                if common.again {
                    self.heartbeat(now, &name);
                }
            }
            // It stopped at its batch limit: the lock may be free behind those who died.
            AcquireVerdict::Busy(_) if common.again => {
                waiter.due = true;
                self.resume(now, id);
            }
            AcquireVerdict::Busy(holder) => {
                let recovering_for = common.recovering_for();
                let why = Refusal::Busy { holder, waiting: common.waiting, recovering_for };
                self.remove_waiter(id);
                self.leave_session(&name);
                self.effects.push(Effect::Refused { id, why });
            }
            AcquireVerdict::Disbelieved => {
                // It starts anew.
                let ticket = std::mem::replace(&mut waiter.ticket, 0);
                waiter.epoch = 0;
                waiter.due = true;
                if let Some(session) = self.sessions.get_mut(&name) {
                    session.order.remove(&(ticket, id));
                    (session.floor, session.last_token) = (0, 0);
                }
                self.resume(now, id);
            }
        }
        self.reenter(now, &name);
    }

    fn on_queued(&mut self, id: Id, epoch: u64, ticket: u64, rank: u64) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        waiter.epoch = epoch;
        waiter.rank = Some(rank);
        if let Some(session) = self.sessions.get_mut(waiter.spec.name()) {
            session.order.remove(&(waiter.ticket, id));
            session.order.insert((ticket, id));
        }
        self.has_ticket(id, ticket);
    }

    /// The server has given a waiter its place.
    pub(super) fn has_ticket(&mut self, id: Id, ticket: u64) {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.mode != Mode::Try) else { return };
        waiter.ticket = ticket;
        if !std::mem::replace(&mut waiter.announced, true) {
            self.effects.push(Effect::Queued { id, ticket });
        }
    }

    /// A grant by push. It is believed as it is only if nothing newer was answered meanwhile.
    pub(super) fn on_grant_pushed(&mut self, now: Time, id: Id, push: &Push, keys: LockKeys) {
        if self.leases.contains_key(&id) || self.farewells.contains_key(&id) {
            return;
        }
        let token = push.token;
        let Some(waiter) = self.waiters.get(&id) else {
            // Nobody here can tell whether it is true. What there may be is given back, once.
            return self.bid_farewell(now, id, Arc::new(keys), Kind::LeaveInCase, None, now);
        };
        if waiter.spec.keys.name != keys.name || *waiter.about.secret != *push.secret {
            return;
        }
        self.granted_from(id, push.ticket);
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        let Some(session) = self.sessions.get(waiter.spec.name()) else { return };
        match session.answered {
            Some((sent, liveness)) if token > session.last_token => {
                waiter.told = true;
                let span = liveness.min(waiter.spec.liveness).min(waiter.spec.lease);
                self.claimed(now, id, token, Term::since(sent, span));
            }
            _ => self.confirm(now, id, token),
        }
    }

    /// An answer names the lease that this client holds.
    pub(super) fn on_named(
        &mut self,
        now: Time,
        sent: Time,
        id: Id,
        own: &OwnLease,
        left: Duration,
        keys: &Arc<LockKeys>,
    ) {
        if let Some(lease) = self.leases.get(&id) {
            // Under another token it is from before a loss of data: the server has to hear of this one.
            if lease.token != own.token {
                self.renew(now, id);
            }
            return;
        }
        if self.farewells.contains_key(&id) {
            return;
        }
        if self.waiters.contains_key(&id) {
            self.granted_from(id, own.ticket);
            return self.claimed(now, id, own.token, Term::since(sent, left));
        }
        let kind = Kind::Release { token: own.token, epoch: 0, liveness: Duration::ZERO };
        self.bid_farewell(now, id, keys.clone(), kind, None, now + left);
    }

    /// It was granted from this place in the queue, perhaps before it heard that it stood there.
    fn granted_from(&mut self, id: Id, ticket: u64) {
        if self.waiters.get(&id).is_some_and(|waiter| waiter.ticket == 0) {
            self.has_ticket(id, ticket);
        }
    }

    /// The server has granted the lock. Hand it out, or make sure of it first if little is left.
    fn claimed(&mut self, now: Time, id: Id, token: u64, term: Term) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let spec = &waiter.spec;
        let first = spec.confirm_grants && (waiter.told || !term.is_whole(spec));
        if first || term.deadline <= now + notice_of(spec, term.span) {
            return self.confirm(now, id, token);
        }
        self.hand_out(now, id, token, term);
    }

    fn hand_out(&mut self, now: Time, id: Id, token: u64, term: Term) {
        match self.waiters.get(&id) {
            Some(waiter) if waiter.spec.replicas > 0 => self.secure_grant(now, id, token, term),
            _ => self.resolve(now, id, token, term),
        }
    }

    pub(super) fn resolve(&mut self, now: Time, id: Id, token: u64, term: Term) {
        if let Some(waiter) = self.remove_waiter(id) {
            let name = waiter.spec.name().clone();
            self.grant(now, id, waiter, token, term);
            self.plan_heartbeat(now, &name);
        }
    }

    pub(super) fn confirm(&mut self, now: Time, id: Id, token: u64) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        if waiter.claim == Some(token) && waiter.request.is_some() {
            return;
        }
        waiter.claim = Some(token);
        (waiter.known, waiter.told) = (true, false);
        let Some(session) = self.sessions.get(waiter.spec.name()) else { return };
        if !self.connected {
            return;
        }
        let call = Request::Renew(RenewRequest {
            keys: waiter.spec.keys.clone(),
            id: wire_id(&self.client, id),
            token,
            lease: waiter.spec.lease,
            liveness: waiter.spec.liveness,
            about: waiter.about.clone(),
            epoch: session.epoch,
            floor: session.floor,
            left: Duration::ZERO,
            pace: session.pace,
        });
        let request = self.send(now, What::Confirm(id), call);
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = Some(request);
        }
    }

    pub(super) fn on_confirm(
        &mut self,
        now: Time,
        (request, sent): (RequestId, Time),
        id: Id,
        common: &Common,
        verdict: RenewVerdict,
    ) {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.request == Some(request)) else { return };
        waiter.request = None;
        let Some(token) = waiter.claim.take() else { return };
        match verdict {
            RenewVerdict::Renewed { left } => {
                waiter.epoch = common.epoch;
                let term = Term::since(sent, left);
                let notice = notice_of(&waiter.spec, term.span);
                if term.deadline <= now + notice && !std::mem::replace(&mut waiter.late, true) {
                    // This process may have been stopped meanwhile: asked again, the server gives a whole lease.
                    self.confirm(now, id, token);
                } else if term.deadline > now {
                    // Be it as little as it is: the server is slow.
                    self.hand_out(now, id, token, term);
                } else {
                    let message =
                        format!("it answers more slowly than a lease of {:?} lasts", waiter.spec.lease).into();
                    self.refuse(now, id, Refusal::Fault(Fault::Refused { message }));
                }
            }
            RenewVerdict::Broken => {
                let message = "an operator broke the lease before it was handed out".into();
                self.refuse(now, id, Refusal::Fault(Fault::Refused { message }));
            }
            RenewVerdict::Lost => {
                // A claim that has expired never resolves an acquire: the waiter re-enters with its ticket.
                if let Some(call) = self.acquire_call(id) {
                    self.send_acquire(now, id, call);
                }
            }
        }
    }

    pub(super) fn timed_out(&mut self, now: Time, id: Id) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let waited = now.since(waiter.called);
        let cause = waiter.shortage.clone().or_else(|| self.cause.clone()).or_else(|| self.silence(now));
        let why = match waiter.timeout {
            Some(timeout) if timeout <= now => {
                Refusal::Timeout { waited, position: waiter.rank.map(|rank| rank + 1), cause }
            }
            _ => Refusal::Fault(Fault::Unavailable { waited, cause }),
        };
        self.refuse(now, id, why);
    }

    pub(super) fn refuse(&mut self, now: Time, id: Id, why: Refusal) {
        if self.waiters.contains_key(&id) {
            self.abandon(now, id);
            self.effects.push(Effect::Refused { id, why });
        }
    }

    /// Gives up the place of a waiter, or whatever it was granted meanwhile.
    pub(super) fn abandon(&mut self, now: Time, id: Id) {
        let Some(waiter) = self.remove_waiter(id) else { return };
        let name = waiter.spec.name().clone();
        if waiter.sent {
            let until = now + waiter.spec.liveness + waiter.spec.buffer;
            let kind = if waiter.known || waiter.request.is_some() { Kind::Leave } else { Kind::LeaveInCase };
            self.bid_farewell(now, id, waiter.spec.keys.clone(), kind, None, until);
        }
        self.leave_session(&name);
    }

    /// Takes a waiter out of all places but the count of its session's members.
    fn remove_waiter(&mut self, id: Id) -> Option<Waiter> {
        let waiter = self.waiters.remove(&id)?;
        self.timers.clear(&Timer::Timeout(id));
        self.timers.clear(&Timer::Acquire(id));
        if let Some(session) = self.sessions.get_mut(waiter.spec.name()) {
            session.order.remove(&(waiter.ticket, id));
            session.reentering.remove(&id);
            if session.order.is_empty() {
                self.timers.clear(&Timer::Heartbeat(waiter.spec.name().clone()));
            }
        }
        Some(waiter)
    }
}

/// The notice of a lease that is shorter than usual is shorter in proportion.
pub(super) fn notice_of(spec: &Spec, span: Duration) -> Duration {
    if span >= spec.lease { spec.notice } else { spec.notice.mul_f64(span.as_secs_f64() / spec.lease.as_secs_f64()) }
}
