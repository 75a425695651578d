//! What a client knows of one lock, and its heartbeat there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::api::{Effect, NotGranted, RequestId};
use super::core::{Core, GRACE, InFlight, Timer};
use super::record::{Next, Phase, Record, State};
use crate::clock::Time;
use crate::error::{Fault, LostReason};
use crate::protocol::{
    Common, HeartbeatRequest, HeartbeatVerdict, Id, Knowledge, LockKeys, Memory, Request, Stamp, Ticket,
};

/// How many waiters a heartbeat names.
const NAMED: usize = 16;
/// The delay of the next waiters, which ask at the end of the lease in case the first one is dead.
const STAGGER: Duration = Duration::from_millis(50);
/// The ranks that ask at the end of the lease; the rest rely on heartbeats.
const ASKING: u64 = 4;
/// The least time between two heartbeats, when the clocks disagree about the end of a lease.
const SPACING: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Default, Hash)]
pub(in crate::keeper) struct LockMachine {
    pub(in crate::keeper) keys: Arc<LockKeys>,
    /// Its records.
    pub(super) ids: BTreeSet<Id>,
    /// The waiters with known tickets, in the order of these.
    pub(super) order: BTreeSet<(Ticket, Id)>,
    pub(super) liveness: Duration,
    pub(super) buffer: Duration,
    /// How many waiters have each liveness: heartbeats go by the shortest.
    livenesses: BTreeMap<Duration, usize>,
    /// How many waiters this client knows to have left the front of the queue since it first heard of a rank there.
    pub(super) gone: u64,
    pub(in crate::keeper) known: Knowledge,
    /// The stamp of the last grant by message that was newer than all that was known, until a reply comes.
    pub(super) fresh: Option<Stamp>,
    /// The last script that this client has heard of, and that it has sent, granted the lock to it and left it calm: an
    /// HDEL may give that lease back.
    pub(super) calm: bool,
    /// The release that was sent last, until it is answered.
    pub(super) gives_back: Option<RequestId>,
    /// For how long the server says that a client keeps this when it has nothing there any more.
    pub(super) keep: Duration,
    /// Before that nobody is granted the lock.
    lease_until: Time,
    recover_until: Time,
    /// By which factor heartbeats are further apart than they should be, because their answers take so long.
    slow: u32,
    /// When the last answered request was sent that kept the session alive, and the liveness that it named.
    pub(super) answered: Option<(Time, Duration)>,
    heartbeat: Option<RequestId>,
    heartbeat_sent: Time,
    /// The interval that was told last, by a heartbeat or an acquire.
    pub(super) heartbeat_told: Duration,
    /// The waiters that it named, and whether the answer is that none of those still waits.
    named: Vec<Id>,
    pub(super) none_waits: bool,
}

impl LockMachine {
    pub(super) fn new(keys: Arc<LockKeys>) -> Self {
        Self { keys, slow: 1, ..Self::default() }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.keys.name
    }

    /// Whether this client has nothing there any more, so that it forgets the lock.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Its records of this kind, in the order of the calls.
    pub(super) fn records(&self, core: &Core, which: impl Fn(&Record) -> bool) -> Vec<Id> {
        self.ids.iter().copied().filter(|id| core.records.get(id).is_some_and(&which)).collect()
    }

    pub(super) fn put(&mut self, core: &mut Core, id: Id, record: Record) {
        core.members += usize::from(record.is_member());
        core.records.insert(id, record);
        self.ids.insert(id);
    }

    /// Nothing is left of a record that was leaving.
    pub(super) fn take_out(&mut self, core: &mut Core, id: Id) {
        core.leave_line(id);
        core.records.remove(&id);
        core.timers.clear(&Timer::Record(id));
        self.ids.remove(&id);
    }

    /// A record has changed: sends what it has to send, or puts it in line, and comes back when it is due.
    pub(super) fn look(&mut self, core: &mut Core, id: Id) {
        let Some(record) = core.records.get_mut(&id) else { return };
        match record.due(core.now) {
            Some(due) => core.timers.set(Timer::Record(id), due),
            None => core.timers.clear(&Timer::Record(id)),
        }
        match record.next(core.now).filter(|_| core.connected) {
            Some(Next::Acquire | Next::Leave) if !record.in_line => {
                record.in_line = true;
                core.line.turns.insert(record.turn(id));
            }
            Some(Next::Renew) => self.send_renew(core, id),
            Some(Next::Replicate) => self.send_wait(core, id),
            Some(Next::Release) => self.send_release(core, id),
            Some(Next::Acquire | Next::Leave) | None => {}
        }
    }

    /// A record is due.
    pub(super) fn wake(&mut self, core: &mut Core, id: Id) {
        let now = core.now;
        let Some(record) = core.records.get_mut(&id) else { return };
        let late = record.take_calls(|call| call.by.is_some_and(|by| by <= now));
        for call in late {
            // Perhaps nobody asks for its position now.
            core.leave_line(id);
            core.answer_late(call);
        }
        let Some(record) = core.records.get_mut(&id) else { return };
        match &mut record.state {
            State::Waiting(waiter) if waiter.is_late(now) => return self.timed_out(core, id),
            State::Held(lease) => {
                if lease.look_if_taken.take_if(|at| *at <= now).is_some() {
                    core.effects.push(Effect::CheckTaken { id });
                }
                if lease.ends <= now {
                    return if lease.lost { self.release(core, id, None) } else { self.notice(core, id) };
                }
            }
            State::Waiting(_) | State::Leaving(_) => {}
        }
        self.look(core, id);
    }

    /// What this record sends in its phase is due now.
    pub(super) fn due_now(&mut self, core: &mut Core, id: Id) {
        if let Some(record) = core.records.get_mut(&id) {
            record.at = Some(core.now);
            self.look(core, id);
        }
    }

    /// The interval of heartbeats: that of the quickest waiter, whose claim may last no longer than three of its own.
    pub(super) fn heartbeat_every(&self) -> Duration {
        self.livenesses.first_key_value().map_or(self.liveness, |(shortest, _)| *shortest) / 3
    }

    /// The interval at which the server is to expect this client's heartbeats: the next one waits for the answer to the
    /// last.
    pub(in crate::keeper) fn heartbeat_interval(&self) -> Duration {
        self.heartbeat_every() * self.slow
    }

    /// A waiter with this liveness comes.
    pub(super) fn count_in(&mut self, liveness: Duration) {
        *self.livenesses.entry(liveness).or_default() += 1;
    }

    /// It is no waiter any more.
    pub(super) fn count_out(&mut self, liveness: Duration) {
        if let Entry::Occupied(mut count) = self.livenesses.entry(liveness) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    // Ranks are kept on a line that does not move, so that what is heard of one waiter counts for those behind it: `gone`
    // is where the queue begins, and a waiter that has `rank` before it stands at `gone + rank`.

    /// How many are before it, by all that was heard since.
    pub(super) fn rank_at(&self, place: u64) -> u64 {
        place.saturating_sub(self.gone)
    }

    /// What a request brings that is written now. Waiters that have slept for so long that the server may have forgotten
    /// the lock are strangers until they are answered: what they knew of does not show a loss.
    pub(super) fn memory(&mut self, core: &mut Core) -> Memory {
        if self.slept(core, core.now) {
            self.known = Knowledge::default();
            for id in &self.ids {
                core.records.entry(*id).and_modify(|record| record.epoch = None);
            }
        }
        self.known.memory()
    }

    pub(super) fn slept(&self, core: &Core, now: Time) -> bool {
        let waits = |id: &Id| core.waiter(*id).is_some();
        self.known.may_be_forgotten(now, self.liveness) && self.ids.iter().all(waits)
    }

    /// Takes in the common part of the reply to a request that brought `brought`. True if data was lost.
    pub(super) fn learn(&mut self, now: Time, sent: Time, brought: Memory, common: &Common) -> bool {
        (self.fresh, self.calm) = (None, false);
        (self.lease_until, self.recover_until) = (now + common.first_left, now + common.recover_left);
        if common.known.is_strangers() {
            return false; // It was an operator's, or there is nothing to know.
        }
        self.keep = common.keep;
        let changed = self.known.take(common.known.heard(sent), Some(brought));
        self.calm = common.calm && self.known.memory() == common.known.memory();
        changed
    }

    pub(super) fn kept_alive(&mut self, sent: Time) {
        self.answered = Some((sent, self.liveness));
    }

    /// An acquire that was sent then has a ticket. If other waiters have one, their heartbeat is due as before: it tells
    /// them of grants whose messages were lost, and the acquire did not name them.
    pub(super) fn has_asked(&mut self, sent: Time) {
        if self.order.len() <= 1 {
            self.heartbeat_sent = self.heartbeat_sent.max(sent);
        }
    }

    /// The waiters with tickets, in their order: those that know of a grant, whose confirmation will tell, or the others.
    fn queued<'a>(&'a self, core: &'a Core, granted: bool) -> impl Iterator<Item = Id> + 'a {
        let is_one = move |id: &Id| core.waiter(*id).is_some_and(|waiter| waiter.has_grant() == granted);
        self.order.iter().map(|&(_, id)| id).filter(is_one)
    }

    pub(super) fn plan_heartbeat(&mut self, core: &mut Core) {
        let timer = Timer::Heartbeat(self.name().clone());
        let Some((_, first)) = self.order.first() else { return core.timers.clear(&timer) };
        if self.heartbeat.is_some() {
            return;
        }
        // Until it is told a longer interval, the server goes by the last one.
        let mut due = self.heartbeat_sent + self.heartbeat_every().min(self.heartbeat_told);
        if self.none_waits && self.queued(core, false).next().is_some_and(|waits| self.named.first() != Some(&waits)) {
            // Those that it named are granted the lock, and so may be the next ones.
            due = core.now;
        }
        let heard = core.waiter(*first).and_then(|waiter| waiter.place);
        if let Some(rank) = heard.map(|(place, _)| self.rank_at(place)).filter(|rank| *rank < ASKING) {
            let free = self.lease_until.max(self.recover_until).max(core.now);
            let ask = free + STAGGER * rank as u32 + Duration::from_millis(1);
            due = due.min(ask.max(self.heartbeat_sent + SPACING));
        }
        core.timers.set(timer, due);
    }

    pub(super) fn heartbeat(&mut self, core: &mut Core) {
        if !core.connected || self.heartbeat.is_some() || self.order.is_empty() {
            return;
        }
        (self.heartbeat_sent, self.heartbeat_told) = (core.now, self.heartbeat_every());
        self.named = self.queued(core, false).chain(self.queued(core, true)).take(NAMED).collect();
        self.none_waits = false;
        let request = Request::Heartbeat(HeartbeatRequest {
            keys: self.keys.clone(),
            client: core.client.clone(),
            liveness: self.liveness,
            buffer: self.buffer,
            heartbeat: self.heartbeat_interval(),
            memory: self.memory(core),
            ids: self.named.iter().map(|&id| core.wire_id(id)).collect(),
        });
        self.heartbeat = Some(core.send(InFlight::Heartbeat, request));
    }

    pub(super) fn on_heartbeat(
        &mut self,
        core: &mut Core,
        (request, sent): (RequestId, Time),
        common: &Common,
        verdict: HeartbeatVerdict,
    ) {
        if self.heartbeat != Some(request) {
            return; // The waiters that it was about are gone.
        }
        self.heartbeat = None;
        // A server that is silent for longer is given up, so a longer time means that this process was stopped. The
        // lock clock follows if scripts are no more than two intervals apart.
        let took = core.now.since(sent).min(core.needed + GRACE).as_secs_f64();
        self.slow = (took / (2 * self.heartbeat_every()).as_secs_f64()).ceil().max(1.0) as u32;
        match verdict {
            HeartbeatVerdict::Unknown => {
                self.reenter(core, |_| true);
            }
            HeartbeatVerdict::Alive { rank: Some(rank) } => {
                self.kept_alive(sent);
                // That of the first which waits: the leases of others are in the answer.
                let waits = |id: &&Id| common.own(&core.wire_id(**id)).is_none();
                let (first, now) = (self.named.iter().find(waits).copied(), core.now);
                if let Some(waiter) = first.and_then(|first| core.waiter_mut(first)) {
                    self.gone = self.gone.max(waiter.place.map_or(0, |(place, _)| place.saturating_sub(rank)));
                    waiter.place = Some((self.gone + rank, now));
                }
            }
            HeartbeatVerdict::Alive { rank: None } => self.none_waits = true,
        }
        if common.again {
            self.heartbeat(core);
        }
    }

    /// The server refuses a heartbeat; for good if there is a fault.
    pub(super) fn heartbeat_refused(&mut self, core: &mut Core, again: Time, fault: Option<Fault>) {
        self.heartbeat = None;
        core.timers.set(Timer::Heartbeat(self.name().clone()), again);
        if let Some(fault) = fault {
            let waiters = self.records(core, |record| record.waiter().is_some());
            waiters.into_iter().for_each(|id| self.fail(core, id, NotGranted::Fault(fault.clone())));
        }
    }

    /// The connection broke.
    pub(super) fn disconnected(&mut self) {
        (self.heartbeat, self.gives_back) = (None, None);
    }

    /// There is a connection again.
    pub(super) fn renew_all(&mut self, core: &mut Core) {
        for id in self.records(core, |record| record.lease().is_some()) {
            self.due_now(core, id);
        }
    }

    pub(super) fn connected(&mut self, core: &mut Core) {
        self.heartbeat(core);
        for id in self.records(core, |record| record.lease().is_none()) {
            self.due_now(core, id);
        }
    }

    /// The client is closed: waiters leave, and leases are released.
    pub(super) fn close(&mut self, core: &mut Core) {
        for id in self.records(core, |record| record.waiter().is_some()) {
            core.answer_positions(id, Err(Fault::Closed));
            self.fail(core, id, NotGranted::Fault(Fault::Closed));
        }
        for id in self.records(core, |record| record.lease().is_some()) {
            self.lose(core, id, LostReason::Closed);
            self.release(core, id, None);
        }
    }

    /// The server's data is not the known one: leases are re-asserted, and all waiters re-enter in the order of their
    /// tickets.
    pub(super) fn restore_all(&mut self, core: &mut Core) {
        let epoch = self.known.epoch;
        for id in self.records(core, |record| record.lease().is_some() && record.epoch != epoch) {
            self.due_now(core, id);
        }
        self.reenter(core, |record| record.epoch != epoch);
    }

    /// The waiters of this kind take their places again, in the order of their tickets. One that is about to be granted
    /// the lock needs no other request; where an acquire is in flight, its answer is that of the return.
    fn reenter(&mut self, core: &mut Core, which: impl Fn(&Record) -> bool) {
        for id in self.order.iter().map(|(_, id)| *id).collect::<Vec<_>>() {
            let waiter = core.records.get_mut(&id).filter(|record| which(record)).and_then(Record::waiter_mut);
            if let Some(waiter) = waiter.filter(|waiter| !waiter.has_grant()) {
                waiter.phase = Phase::Asking;
                self.due_now(core, id);
            }
        }
    }
}
