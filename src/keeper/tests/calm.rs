//! What must hold when the faults stop: every waiter is served, and nothing is left behind.

use std::sync::Arc;

use super::clients::{Client, Link};
use super::guards::Taken;
use super::world::{MS, World};
use crate::keeper::machine::Id;
use crate::options::Spec;
use crate::protocol::WireId;

/// How long a holder works in calm times.
const HOLD: u64 = 5 * MS;
/// The time after which every wrong state of a usual world has expired: the longest lease, recovery, liveness and buffer,
/// and a second for each outage of the lock clock.
const HEALED: u64 = 10_000 * MS;

impl World {
    /// The faults stop.
    pub(super) fn calm_down(&mut self) {
        self.tell(|_| "the faults stop".into());
        self.server.up = true;
        self.server.refuses = None;
        for index in 0..self.clients.len() {
            self.clients[index].paused = false;
            if self.clients[index].link.as_ref().is_some_and(|link| link.dead) {
                self.disconnected(index);
            }
        }
        self.pass(0);
    }

    /// The same in this world.
    fn healed(&self) -> u64 {
        let longest = |spec: &Arc<Spec>| (spec.lease + spec.liveness + spec.buffer).as_nanos() as u64;
        self.specs.iter().flatten().map(longest).max().map_or(HEALED, |longest| HEALED.max(3 * longest))
    }

    /// I6 and I7: every live waiter is served within bounded time, in calm times.
    pub(super) fn everybody_is_served(&mut self) {
        let waiting: usize = self.clients.iter().map(|client| client.acquires.len()).sum();
        // A message that does not arrive costs a heartbeat (I6).
        let each = HOLD + if self.no_pushes { 120 * MS } else { 20 * MS };
        let end = self.now + self.healed() + waiting as u64 * each;
        while !self.is_over() && self.now < end && self.is_busy() {
            self.work_on(end);
        }
        if !self.is_over()
            && let Some(client) = self.clients.iter().find(|client| client.is_busy())
        {
            let (waiting, questions): (Vec<_>, Vec<_>) =
                (client.acquires.keys().collect(), client.questions.keys().collect());
            let what = format!("{}: acquires {waiting:?}, questions {questions:?} are forgotten (I6)", client.name);
            self.fail(what);
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.clients.iter().any(|client| client.is_busy())
    }

    /// From here on it does not matter when anything was sent.
    pub(super) fn forget_when(&mut self) {
        let now = self.now;
        for client in self.clients.iter_mut().filter(|client| client.has_times()) {
            let local = client.clock(now);
            client.connecting = client.connecting.map(|_| now);
            client.guards.values_mut().for_each(|guard| guard.granted = local);
            if let Some(link) = &mut client.link {
                link.out.iter_mut().for_each(|(at, ..)| *at = now);
                link.back.iter_mut().for_each(|(at, _)| *at = now);
                link.pushes.iter_mut().for_each(|(at, ..)| *at = now);
                link.questions.iter_mut().for_each(|(at, ..)| *at = now);
            }
        }
    }

    /// The next thing that happens in calm times.
    pub(super) fn work_on(&mut self, end: u64) {
        self.work();
        let until = self.next_release().unwrap_or(end).min(end);
        if !self.flow_once(until.max(self.now)) {
            self.now = self.now.max(until);
            self.judge();
        }
    }

    /// Callers take what they are granted, work a while, and let go.
    fn work(&mut self) {
        let now = self.now;
        for client in self.clients.iter_mut().filter(|client| client.alive) {
            let local = client.clock(now);
            let ids: Vec<Id> = client.guards.keys().copied().collect();
            for id in ids {
                let Some(guard) = client.guards.get_mut(&id) else { continue };
                match guard.taken {
                    Taken::Offered => guard.taken = Taken::Yes,
                    Taken::Reclaimed => drop(client.guards.remove(&id)),
                    Taken::Yes if guard.granted + std::time::Duration::from_nanos(HOLD) <= local => {
                        client.let_go(now, id, id.0 % 2 == 0);
                    }
                    Taken::Yes => {}
                }
            }
        }
    }

    fn next_release(&self) -> Option<u64> {
        let live = self.clients.iter().filter(|client| client.alive);
        let ends = live.flat_map(|client| client.guards.values().map(|guard| client.when(guard.granted) + HOLD));
        ends.min().map(|at| at + MS / 10)
    }

    /// I9: every handle is dropped, and nothing is left: not in the machines, and not on the server.
    pub(super) fn nothing_is_left(&mut self) {
        let now = self.now;
        for client in self.clients.iter_mut().filter(|client| client.alive && !client.ending) {
            client.drop_handles(now);
        }
        let end = now + self.healed();
        while !self.is_over() && self.now < end && self.clients.iter().any(|client| client.alive && !client.is_done()) {
            if !self.flow_once(end) {
                break;
            }
        }
        if self.is_over() {
            return;
        }
        let left = self.clients.iter().filter(|client| client.alive).find_map(|client| client.left_over());
        if let Some(what) = left {
            return self.fail(what);
        }
        // Waiters of dead clients, late requests and the state that a rollback brought back expire by themselves.
        let untidy = self.server.untidy || self.clients.iter().any(|client| !client.alive || !client.can_kill);
        if untidy {
            self.now += self.healed();
        }
        for lock in 0..self.server.locks.len() {
            let (keys, _) = &self.server.locks[lock];
            let sweep = crate::protocol::Request::Leave(crate::protocol::LeaveRequest {
                keys: keys.clone(),
                memory: crate::protocol::Memory::NONE,
                ids: vec![WireId::of_nobody()],
            });
            // The lock clock takes a few scripts to catch up, and the queue a few more to lose its zombies.
            for _ in 0..if untidy { 100 } else { 0 } {
                self.now += self.healed() / 50;
                self.server.execute(self.now, &sweep);
            }
            let state = &self.server.locks[lock].1;
            if state.stands() {
                return self.fail(format!("the server still has {:?} and {:?} (I9)", state.leases, state.queue));
            }
        }
    }
}

impl Client {
    /// A waiter waits for the lock.
    fn is_busy(&self) -> bool {
        let waits = !self.acquires.is_empty() || !self.questions.is_empty() || !self.guards.is_empty();
        self.alive && waits
    }

    /// Whether it matters when something was sent or granted.
    fn has_times(&self) -> bool {
        let under_way = |Link { dead: _, out, back, pushes, questions }: &Link| {
            !out.is_empty() || !back.is_empty() || !pushes.is_empty() || !questions.is_empty()
        };
        self.connecting.is_some() || !self.guards.is_empty() || self.link.as_ref().is_some_and(under_way)
    }

    fn is_done(&self) -> bool {
        self.inbox.is_empty() && self.machine.gives_back_until().is_none() && self.machine.core.requests.is_empty()
    }

    /// What the machine still keeps for no reason.
    fn left_over(&self) -> Option<String> {
        let machine = &self.machine;
        let empty = machine.locks.is_empty()
            && machine.core.records.is_empty()
            && machine.core.members == 0
            && machine.questions.is_empty()
            && machine.core.requests.is_empty()
            && !machine.has_unsent()
            && machine.next_due().is_none()
            && machine.gives_back_until().is_none();
        (!empty).then(|| format!("{} keeps something (I9): {machine:?}", self.name))
    }
}
