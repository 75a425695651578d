//! What the keeper and a holder share: the lease as both of them see it, and its release when it is dropped.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

use super::change::Change;
use super::course::Course;
use super::inbox::Outbox;
use super::machine::{Id, Question};
use super::message::{Message, Origin};
use super::observe;
use super::questions::AnswerSender;
use crate::clock::Time;
use crate::error::{Lost, LostReason};
use crate::options::Spec;
use crate::protocol::{Ticket, Token, WireId};
use crate::wakers::Wakers;

/// A lease as the keeper, the guard and views see it.
pub(crate) struct Shared {
    pub(crate) spec: Arc<Spec>,
    pub(crate) id: Id,
    pub(crate) token: Token,
    pub(crate) ticket: Ticket,
    pub(crate) slot: u16,
    most: AtomicU16,
    pub(crate) origin: Origin,
    /// When the keeper heard of the grant.
    granted: (Time, SystemTime),
    course: Course,
    /// The renewals of the lease, and its loss.
    renewed: Change,
    /// The lease was lost or released.
    ended: Change,
    pub(crate) wakers: Arc<Wakers>,
}

impl Shared {
    pub(crate) fn new(
        spec: Arc<Spec>,
        id: Id,
        (token, ticket, slot): (Token, Ticket, u16),
        origin: Origin,
        deadline: Time,
        wakers: Arc<Wakers>,
    ) -> Self {
        let now = Time::now();
        Self {
            most: spec.most.into(),
            spec,
            id,
            token,
            ticket,
            slot,
            origin,
            granted: (now, SystemTime::now()),
            course: Course::new(now, deadline),
            renewed: Change::default(),
            ended: Change::default(),
            wakers,
        }
    }

    /// `every`: how often it is renewed, unless by hand. `most`: how many may hold the lock together from now on.
    pub(super) fn prolong(self: &Arc<Self>, deadline: Time, every: Option<Duration>, most: u16) {
        let now = Time::now();
        self.most.store(most, Ordering::Relaxed);
        if let Some(before) = self.course.prolong(now, deadline) {
            self.tell(|shared| &shared.renewed);
            let lag = every.map(|every| now.since(before).saturating_sub(every));
            observe::renewed(&self.wakers, &self.spec, self.token, self.remaining(), lag);
        }
    }

    /// The lease is over.
    pub(crate) fn end(self: &Arc<Self>, reason: LostReason) {
        self.lose(reason, Time::now());
    }

    /// The lease is lost. Until this deadline its holder can finish.
    pub(crate) fn lose(self: &Arc<Self>, reason: LostReason, deadline: Time) {
        if !self.course.end(deadline, reason.clone()) {
            return;
        }
        // A loss is recorded before the caller hears of it.
        match reason {
            LostReason::Released => observe::given_back(&self.spec, self.held()),
            reason => observe::ended(&self.wakers, &self.spec, self.token, self.held(), reason),
        }
        self.tell(|shared| &shared.ended);
        self.tell(|shared| &shared.renewed);
    }

    fn tell(self: &Arc<Self>, which: fn(&Self) -> &Change) {
        if which(self).is_awaited() {
            let shared = self.clone();
            self.wakers.call(move || which(&shared).notify());
        }
    }

    /// The keeper takes the lease back if its caller has not taken it.
    pub(crate) fn reclaim(&self) -> bool {
        self.course.reclaim()
    }

    /// How long it has been held. None if no caller has taken it.
    pub(super) fn held(&self) -> Option<Duration> {
        self.course.is_taken().then(|| Time::now().since(self.granted.0))
    }

    pub(crate) fn lost_with(&self, reason: LostReason) -> Lost {
        Lost { name: self.spec.name().clone(), token: self.token.get(), reason }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.origin.process.is_forked()
    }

    /// How many may hold the lock together while it lasts, as the server last told.
    pub(crate) fn most(&self) -> u16 {
        self.most.load(Ordering::Relaxed)
    }

    /// When it was granted, by the wall clock.
    pub(crate) fn granted_at(&self) -> SystemTime {
        self.granted.1
    }

    /// The time from the call to the grant.
    pub(crate) fn waited(&self) -> Duration {
        self.granted.0.since(self.origin.called)
    }

    pub(crate) fn renewed_at(&self) -> Time {
        self.course.renewed_at()
    }

    /// The id of the holder, as observers see it.
    pub(crate) fn id_seen(&self) -> String {
        WireId::new(&self.origin.client, self.id).to_string()
    }

    /// Nothing in a forked process: the lease stays with the parent, and nobody tells this copy how long it lasts.
    pub(crate) fn remaining(&self) -> Duration {
        if self.is_forked() {
            return Duration::ZERO;
        }
        self.course.deadline().since(Time::now())
    }

    pub(crate) fn check(&self) -> Result<(), Lost> {
        if self.is_forked() {
            return Err(self.lost_with(LostReason::Forked));
        }
        if let Some(reason) = self.course.lost() {
            return Err(self.lost_with(reason.clone()));
        }
        if self.remaining().is_zero() {
            return Err(self.lost_with(LostReason::NotRenewed { cause: None }));
        }
        Ok(())
    }

    /// The reason, once there is one.
    pub(crate) async fn ended(&self) -> LostReason {
        let reason = || if self.is_forked() { Some(LostReason::Forked) } else { self.course.lost().cloned() };
        self.ended.until(&self.origin.process, reason).await
    }

    /// How often it was renewed so far, to be given to [`Self::renewed`].
    pub(crate) fn renewals(&self) -> u64 {
        self.course.renewals()
    }

    /// The remaining time, once it was renewed more often than this.
    pub(crate) async fn renewed(&self, before: u64) -> Result<Duration, Lost> {
        let renewed = || match self.check() {
            Err(lost) => Some(Err(lost)),
            Ok(()) => (self.renewals() > before).then(|| Ok(self.remaining())),
        };
        self.renewed.until(&self.origin.process, renewed).await
    }

    pub(crate) fn show(&self, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(kind);
        shown.field("name", &self.spec.name()).field("token", &self.token.get()).field("remaining", &self.remaining());
        shown.finish()
    }
}

/// A lease on its way to a caller, and in its guard. If it is dropped, it releases the lock.
pub(crate) struct OwnedLease {
    pub(crate) shared: Arc<Shared>,
    messages: Outbox<Message>,
    armed: bool,
}

impl OwnedLease {
    pub(crate) fn new(shared: Arc<Shared>, messages: Outbox<Message>) -> Self {
        Self { shared, messages, armed: true }
    }

    /// For the guard, unless the keeper has taken the lease back: then how long it had waited to be taken.
    pub(crate) fn take(mut self) -> Result<Self, Duration> {
        if self.shared.course.take() {
            Ok(self)
        } else {
            self.armed = false;
            Err(self.shared.spec.lease)
        }
    }

    /// From now on dropping it releases nothing.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for OwnedLease {
    fn drop(&mut self) {
        if self.armed && !self.shared.is_forked() {
            self.shared.end(LostReason::Released);
            let (lease, question) = (self.shared.clone(), Question::Release { id: self.shared.id });
            let (lock, asker) = (lease.spec.name().clone(), AnswerSender::Release(lease, None));
            let _ = self.messages.send(Message::Ask { lock, question, asker });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::blocking::block_on;
    use crate::fork::Process;
    use crate::options::LockOptions;
    use crate::protocol::{ClientId, LockKeys};

    fn lease_until(deadline: Time) -> Arc<Shared> {
        let spec = LockOptions::new().of(LockKeys::new("fairlock", "x")).unwrap();
        let (token, ticket) = (Token::new(7).unwrap(), Ticket::new(6).unwrap());
        let (client, label, owner) = (ClientId::new("client").unwrap(), "".into(), "".into());
        let origin = Origin { client, process: Process::this(), label, owner, called: Time::now() };
        let wakers = Wakers::of_this_process();
        wakers.begin().unwrap();
        Arc::new(Shared::new(spec, Id(1), (token, ticket, 0), origin, deadline, wakers))
    }

    // If the machine was suspended, or the keeper did not run.
    #[test]
    fn a_lease_ends_by_the_clock_though_nobody_has_said_so() {
        let now = Time::now();
        lease_until(now + Duration::from_secs(60)).check().unwrap();
        let over = lease_until(now).check().unwrap_err();
        assert!(matches!(over.reason, LostReason::NotRenewed { cause: None }), "{over:?}");
    }

    #[test]
    fn a_lost_lease_is_not_renewed() {
        let later = |seconds| Time::now() + Duration::from_secs(seconds);
        let shared = lease_until(later(60));
        shared.prolong(later(120), None, 1);
        assert!(shared.remaining() > Duration::from_secs(60));
        shared.end(LostReason::Ended);
        shared.prolong(later(180), None, 1);
        assert!(shared.remaining().is_zero(), "{:?}", shared.remaining());
        shared.check().unwrap_err();
    }

    #[test]
    fn every_future_that_awaits_the_end_of_a_lease_hears_of_it() {
        for round in 0..3000 {
            let shared = lease_until(Time::now() + Duration::from_secs(60));
            let (say, said) = std::sync::mpsc::channel();
            let awaiting = std::thread::spawn({
                let shared = shared.clone();
                move || say.send(block_on(shared.ended())).unwrap()
            });
            // At every moment on the way to sleep.
            (0..round % 300 * 100).for_each(|_| std::hint::spin_loop());
            shared.end(LostReason::Ended);
            assert!(matches!(said.recv_timeout(Duration::from_secs(20)).unwrap(), LostReason::Ended), "round {round}");
            awaiting.join().unwrap();
            assert!(!shared.ended.is_awaited());
        }
    }

    // The thread that sets the reason may lose its processor just then.
    #[test]
    fn no_thread_waits_for_the_one_that_ends_a_lease() {
        let shared = lease_until(Time::now() + Duration::from_secs(60));
        shared.course.begin_to_end();
        shared.end(LostReason::Ended);
        assert!(shared.course.lost().is_none() && shared.remaining().is_zero());
        shared.check().unwrap_err();
    }
}
