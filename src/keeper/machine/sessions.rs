//! What is known of one lock, and the heartbeat that keeps this client's waiters there alive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{GRACE, Id, Machine, RequestId, Timer, What};
use crate::clock::Time;
use crate::protocol::{Common, HeartbeatRequest, HeartbeatVerdict, LockKeys, Request, wire_id};

/// How many waiters a heartbeat names.
const NAMED: usize = 16;
/// How many waiters re-enter at a time.
const REENTRY_BATCH: usize = 64;
/// Those behind the head ask a little after it when the lease ends, in case it is dead.
const STAGGER: Duration = Duration::from_millis(50);
/// The ranks that ask at the end of the lease; the rest rely on heartbeats.
const ASKING: u64 = 4;
/// The least time between two heartbeats, when the clocks disagree about the end of a lease.
const SPACING: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Session {
    pub(in crate::keeper) keys: Arc<LockKeys>,
    /// Waiters, leases and farewells that are about this lock.
    pub(super) members: usize,
    /// The waiters whose tickets are known, in the order of these.
    pub(super) order: BTreeSet<(u64, Id)>,
    /// Those among them that must re-enter.
    reentry: BTreeSet<(u64, Id)>,
    /// Those whose return is under way.
    pub(in crate::keeper) reentering: BTreeSet<Id>,
    pub(super) liveness: Duration,
    pub(super) buffer: Duration,
    pub(super) epoch: u64,
    /// The highest stamp seen.
    pub(super) floor: u64,
    /// The highest token that an answer named.
    pub(super) last_token: u64,
    pub(super) lease_until: Time,
    recover_until: Time,
    /// The longest heartbeat interval among the waiters that a reply named.
    pub(super) pace: Duration,
    /// The longest lease that anybody may hold, as far as is known here.
    pub(super) longest: Duration,
    /// How many times as far apart as they should be heartbeats come, because their answers take so long.
    slow: u32,
    /// When the last answered request was sent that kept the session alive, and the liveness that it named.
    pub(super) answered: Option<(Time, Duration)>,
    pub(super) heartbeat: Option<RequestId>,
    heartbeat_sent: Time,
}

impl Session {
    /// How far apart the server is to expect this client's heartbeats: the next one waits for the answer to the last.
    pub(super) fn heartbeat_interval(&self) -> Duration {
        self.liveness / 3 * self.slow
    }

    pub(super) fn disconnected(&mut self) {
        self.heartbeat = None;
        self.reentering.clear();
    }
}

impl Machine {
    pub(super) fn session(&mut self, keys: &Arc<LockKeys>) -> &mut Session {
        self.sessions.entry(keys.name.clone()).or_insert_with(|| Session {
            keys: keys.clone(),
            members: 0,
            order: BTreeSet::new(),
            reentry: BTreeSet::new(),
            reentering: BTreeSet::new(),
            liveness: Duration::ZERO,
            buffer: Duration::ZERO,
            epoch: 0,
            floor: 0,
            last_token: 0,
            lease_until: Time(0),
            recover_until: Time(0),
            pace: Duration::ZERO,
            longest: Duration::ZERO,
            slow: 1,
            answered: None,
            heartbeat: None,
            heartbeat_sent: Time(0),
        })
    }

    /// One waiter, lease or farewell fewer. A client that wants nothing of a lock forgets all about it.
    pub(super) fn leave_session(&mut self, name: &Arc<str>) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        session.members -= 1;
        if session.members == 0 {
            self.sessions.remove(name);
            self.timers.clear(&Timer::Heartbeat(name.clone()));
        }
    }

    /// Takes in what every answer tells. True if the server's data is not the one that was known.
    pub(super) fn learn(&mut self, now: Time, name: &Arc<str>, common: &Common) -> bool {
        let Some(session) = self.sessions.get_mut(name) else { return false };
        session.floor = session.floor.max(common.stamp);
        session.last_token = session.last_token.max(common.token);
        session.pace = session.pace.max(common.pace);
        session.longest = session.longest.max(common.longest);
        session.lease_until = now + common.lease_left;
        session.recover_until = now + common.recover_left;
        let before = std::mem::replace(&mut session.epoch, common.epoch);
        before != 0 && before != common.epoch
    }

    pub(super) fn kept_alive(&mut self, name: &Arc<str>, sent: Time) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        session.answered = Some((sent, session.liveness));
        session.heartbeat_sent = session.heartbeat_sent.max(sent);
    }

    pub(super) fn plan_heartbeat(&mut self, now: Time, name: &Arc<str>) {
        let timer = Timer::Heartbeat(name.clone());
        let Some(session) = self.sessions.get(name) else { return };
        let Some((_, first)) = session.order.first() else { return self.timers.clear(&timer) };
        if session.heartbeat.is_some() {
            return;
        }
        let mut due = session.heartbeat_sent + session.liveness / 3;
        if let Some(rank) = self.waiters.get(first).and_then(|waiter| waiter.rank)
            && rank < ASKING
        {
            let free = session.lease_until.max(session.recover_until).max(now);
            let ask = free + STAGGER * rank as u32 + Duration::from_millis(1);
            due = due.min(ask.max(session.heartbeat_sent + SPACING));
        }
        self.timers.set(timer, due);
    }

    pub(super) fn heartbeat(&mut self, now: Time, name: &Arc<str>) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        if !self.connected || session.heartbeat.is_some() || session.order.is_empty() {
            return;
        }
        session.heartbeat_sent = now;
        let call = Request::Heartbeat(HeartbeatRequest {
            keys: session.keys.clone(),
            client: self.client.clone(),
            liveness: session.liveness,
            buffer: session.buffer,
            heartbeat: session.heartbeat_interval(),
            ids: session.order.iter().take(NAMED).map(|&(_, id)| wire_id(&self.client, id)).collect(),
        });
        let request = self.send(now, What::Heartbeat(name.clone()), call);
        if let Some(session) = self.sessions.get_mut(name) {
            session.heartbeat = Some(request);
        }
    }

    pub(super) fn on_heartbeat(
        &mut self,
        now: Time,
        sent: Time,
        name: &Arc<str>,
        common: &Common,
        verdict: HeartbeatVerdict,
    ) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        session.heartbeat = None;
        // A server that is silent for longer is given up: a longer time is that of this process, which was stopped. The
        // lock clock follows if scripts are no more than two intervals apart.
        let took = now.since(sent).min(self.patience + GRACE).as_secs_f64();
        session.slow = (took / (session.liveness * 2 / 3).as_secs_f64()).ceil().max(1.0) as u32;
        match verdict {
            HeartbeatVerdict::Unknown => {
                session.reentry = session.order.clone();
                self.reenter(now, name);
            }
            HeartbeatVerdict::Alive { rank: Some(rank) } => {
                self.kept_alive(name, sent);
                self.rank_first(name, rank);
            }
            HeartbeatVerdict::Alive { rank: None } => {}
        }
        if common.again {
            self.heartbeat(now, name);
        }
    }

    /// The session's first waiter stands at this rank; those behind it have moved up as far.
    fn rank_first(&mut self, name: &Arc<str>, rank: u64) {
        let Some(session) = self.sessions.get(name) else { return };
        if let Some((_, first)) = session.order.first()
            && let Some(waiter) = self.waiters.get_mut(first)
        {
            waiter.rank = Some(rank);
        }
    }

    /// The server's data is another: leases re-assert themselves, and all waiters re-enter in the order of their tickets.
    pub(super) fn restore_all(&mut self, now: Time, name: &Arc<str>) {
        let Some(session) = self.sessions.get_mut(name) else { return };
        let epoch = session.epoch;
        session.reentry = session
            .order
            .iter()
            .filter(|(_, id)| self.waiters.get(id).is_some_and(|waiter| waiter.epoch != epoch))
            .copied()
            .collect();
        let stale = |lease: &super::leases::Lease| lease.spec.name() == name && lease.epoch != epoch;
        let leases: Vec<Id> = self.leases.iter().filter(|(_, lease)| stale(lease)).map(|(id, _)| *id).collect();
        leases.into_iter().for_each(|id| self.renew(now, id));
        self.reenter(now, name);
    }

    /// The first in the queue is to re-enter: the others follow if the server's data is another.
    pub(super) fn first_returns(&mut self, name: &Arc<str>) {
        if let Some(session) = self.sessions.get_mut(name) {
            session.reentry.extend(session.order.first().copied());
        }
    }

    pub(super) fn reenter(&mut self, now: Time, name: &Arc<str>) {
        while self.connected
            && let Some(session) = self.sessions.get_mut(name)
            && session.reentering.len() < REENTRY_BATCH
            && let Some((_, id)) = session.reentry.pop_first()
        {
            if self.waiters.get(&id).is_some_and(|waiter| waiter.request.is_none() && waiter.claim.is_none())
                && let Some(call) = self.acquire_call(id)
            {
                self.send_acquire(now, id, call);
                if let Some(session) = self.sessions.get_mut(name) {
                    session.reentering.insert(id);
                }
            }
        }
    }
}
