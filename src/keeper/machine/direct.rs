//! An acquire over the direct connection (`keeper/direct/`), and the lease that it leads to.
//!
//! It has a machine of its own, which knows nothing of the lock yet, writes its requests and judges the replies. So what
//! is asked, and what a reply means, has one place. What is more than a lease that its caller holds, or has given back,
//! goes on in the machine of the keeper, which takes everything over: a place in the queue, a lease, a pending release,
//! an acquire without an answer.

use super::core::Core;
use super::lock::LockState;
use super::{Command, Effect, Event, Id, Machine, NotGranted, Outcome, QuestionId, Release, RequestId, Timer};
use crate::clock::Time;
use crate::protocol::{AcquireVerdict, ClientId, Push, Refusal, Reply, Request, Ticket, Token, Verdict};

/// The keeper takes a direct lease over within this part of its length.
pub(crate) const TAKEN_OVER_WITHIN: u32 = 6;
/// The most messages that are kept for acquires that may be taken over yet: each thread that blocks has one at most.
const EARLY: usize = 100;
/// The only question to the machine of a direct acquire.
const RELEASE: QuestionId = QuestionId(0);

#[derive(Debug, Clone)]
pub(crate) struct DirectAcquire {
    pub(in crate::keeper) id: Id,
    pub(in crate::keeper) machine: Box<Machine>,
    request: RequestId,
}

/// What an answer has led to.
#[derive(Debug)]
pub(crate) enum Settled {
    Granted {
        token: Token,
        ticket: Ticket,
        deadline: Time,
    },
    /// The server has nothing of this acquire.
    NotGranted(NotGranted),
    Released(Release),
    /// The keeper has to go on with it.
    Open,
}

impl DirectAcquire {
    /// With the command to acquire under this id.
    pub(crate) fn new(now: Time, client: &ClientId, id: Id, command: Command) -> (Self, Option<Request>) {
        let mut machine = Machine::new(client.clone(), "".into(), 0);
        machine.core.connected = true;
        let mut acquire = Self { id, machine: Box::new(machine), request: RequestId(0) };
        let request = acquire.sent(now, command);
        (acquire, request)
    }

    /// From now on its lease is given back.
    pub(crate) fn release(&mut self, now: Time) -> Option<Request> {
        self.sent(now, Command::Release { question: Some(RELEASE), id: self.id })
    }

    fn sent(&mut self, now: Time, command: Command) -> Option<Request> {
        self.machine.handle(now, Event::Command(command));
        let mut sent = None;
        for effect in self.machine.effects(now, 1) {
            match effect {
                Effect::Send { request, call } => (self.request, sent) = (request, Some(call)),
                Effect::Patience(_) => {}
                decided => self.machine.core.effects.push(decided),
            }
        }
        sent
    }

    pub(crate) fn answered(&mut self, now: Time, mut result: Result<Reply, Refusal>) -> Settled {
        if let Ok(Reply { common, verdict: Verdict::Acquire(AcquireVerdict::Busy(_)) }) = &result
            && common.own.is_some()
        {
            // A lease of this client is on its way back over the keeper's connection, and this request overtook it.
            self.unanswered();
            return Settled::Open;
        }
        if let Ok(Reply { common, .. }) = &mut result {
            // What else its client has there is known to the machine of the keeper only.
            common.own.take_if(|own| own.id.number_at(&self.machine.core.client) != Some(self.id));
        }
        self.machine.handle(now, Event::Answered { request: self.request, result });
        let settled = self.machine.core.effects.iter().find_map(|effect| match effect {
            Effect::Granted { token, ticket, deadline, .. } => {
                let (token, ticket, deadline) = (*token, *ticket, *deadline);
                self.is_taken_over_in_time(now).then_some(Settled::Granted { token, ticket, deadline })
            }
            Effect::NotGranted { why, .. } if self.machine.locks.is_empty() => Some(Settled::NotGranted(why.clone())),
            Effect::Answer { outcome: Outcome::Release(release), .. } if self.machine.locks.is_empty() => {
                Some(Settled::Released(release.clone()))
            }
            _ => None,
        });
        if settled.is_some() {
            self.machine.core.effects.clear();
        }
        settled.unwrap_or(Settled::Open)
    }

    /// Whether its request was executed is unknown.
    pub(crate) fn unanswered(&mut self) {
        self.machine.on_disconnected("the direct connection is gone".into());
    }

    /// If the keeper takes it over as late as it may, the holder is still told in time that it ends.
    fn is_taken_over_in_time(&self, now: Time) -> bool {
        let lease = self.machine.locks.values().find_map(|lock| lock.leases.get(&self.id));
        lease.is_some_and(|lease| lease.notice_at() > now + lease.spec.lease / TAKEN_OVER_WITHIN)
    }
}

/// For tests.
#[cfg(test)]
impl DirectAcquire {
    /// When its lease, or what is to be given back, certainly ends.
    pub(in crate::keeper) fn ends(&self) -> Option<Time> {
        let lock = self.machine.locks.values().next()?;
        let released = lock.releases.get(&self.id).map(|pending| pending.until);
        lock.leases.get(&self.id).map(|lease| lease.deadline()).or(released)
    }

    pub(in crate::keeper) fn is_of(&self, spec: &std::sync::Arc<crate::options::Spec>) -> bool {
        let lease = self.machine.locks.values().find_map(|lock| lock.leases.get(&self.id));
        lease.is_some_and(|lease| std::sync::Arc::ptr_eq(&lease.spec, spec))
    }
}

impl Machine {
    /// Goes on with a direct acquire. `release`: the question of the caller that gives its lease back.
    pub(super) fn take_over(&mut self, now: Time, acquire: DirectAcquire, mut release: Option<QuestionId>) {
        let DirectAcquire { id, machine: mut its, .. } = acquire;
        its.on_disconnected("".into());
        self.core.taken_over = self.core.taken_over.max(id);
        self.core.expect_within(its.core.needed);
        self.core.members += its.core.members;
        self.core.locks_of.append(&mut its.core.locks_of);
        let timers = its.core.timers.all().filter(|(timer, _)| !matches!(timer, Timer::Heartbeat(_)));
        timers.for_each(|(timer, at)| self.core.timers.set(timer.clone(), at));
        for effect in its.core.effects {
            match effect {
                Effect::Send { .. } | Effect::Patience(_) => {}
                Effect::Answer { outcome, .. } => {
                    release.take().into_iter().for_each(|question| self.core.answer(question, outcome.clone()));
                }
                decided => self.core.effects.push(decided),
            }
        }
        let name = its.locks.into_values().next().map(|its| {
            let (lock, _) = self.lock(&its.keys);
            lock.join(its);
            lock.name().clone()
        });
        match release {
            // It may have been broken since it was granted, or its data lost: then its holder is to hear of it now.
            None => self.at(id, |lock, core| lock.renew(core, now, id)),
            Some(question) => self.release_taken_over(now, id, question),
        }
        let closed = self.closed;
        name.into_iter().for_each(|name| {
            self.at_lock(&name, |lock, core| {
                if closed {
                    lock.close(core, now);
                }
                lock.resume(core, now, id);
                lock.send_release(core, now, id);
                lock.plan_heartbeat(core, now);
            })
        });
        for push in std::mem::take(&mut self.core.early) {
            self.on_push(now, &push);
        }
    }

    fn release_taken_over(&mut self, now: Time, id: Id, question: QuestionId) {
        let name = self.core.locks_of.get(&id);
        match name.and_then(|name| self.locks.get_mut(name)?.releases.get_mut(&id)) {
            Some(pending) => pending.question = Some(question),
            None => self.command(now, Command::Release { question: Some(question), id }),
        }
    }
}

impl Core {
    /// Whether this may be a direct acquire that was not taken over yet.
    pub(super) fn is_out(&self, id: Id) -> bool {
        id.is_direct() && id > self.taken_over
    }

    /// Keeps a message until its acquire is taken over.
    pub(super) fn keep_early(&mut self, push: &Push) {
        // A user with the right to publish may name any id.
        if self.early.len() == EARLY {
            self.early.pop_front();
        }
        self.early.push_back(push.clone());
    }
}

impl LockState {
    /// Takes in the state of the same lock in the machine of a direct acquire.
    fn join(&mut self, mut its: Self) {
        self.learn_from(&its);
        self.waiters.append(&mut its.waiters);
        self.leases.append(&mut its.leases);
        self.releases.append(&mut its.releases);
        self.order.append(&mut its.order);
    }
}
