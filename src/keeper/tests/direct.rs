//! The direct connection of a client in a world: what its caller, or the keeper, does with the answers.

use super::clients::{Client, Guard, Taken, tell_by};
use super::server::Reply;
use super::world::{LATENCY, World, keeps_alive};
use crate::keeper::machine::{
    Command, DirectAcquire, Event, Id, Mode, QuestionId, RequestId, Settled, TAKEN_OVER_WITHIN,
};
use crate::protocol::Request;

/// An acquire over it, until its lease is over or the keeper has it.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    pub(super) acquire: DirectAcquire,
    pub(super) lock: usize,
    /// The keeper's connection is the one from which this began.
    pub(super) usable: bool,
    /// The server's side is gone: nothing more is executed.
    pub(super) dead: bool,
    /// Of the caller that awaits its release.
    pub(super) release: Option<QuestionId>,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // There is one for each client.
pub(super) enum Stage {
    /// A request is under way, since this true time.
    Asked {
        at: u64,
        call: Request,
    },
    Answered {
        at: u64,
        reply: Reply,
    },
    Held,
}

impl Direct {
    /// When the next event happens to it by itself, and whether the caller hears of it.
    pub(super) fn next(&self, up: bool) -> Option<(u64, bool)> {
        match &self.stage {
            Stage::Asked { at, .. } if up && !self.dead => Some((at + LATENCY, false)),
            Stage::Answered { at, .. } => Some((at + LATENCY, true)),
            // Its end is noticed.
            Stage::Asked { at, .. } if self.dead => Some((at + LATENCY, true)),
            Stage::Asked { .. } | Stage::Held => None,
        }
    }
}

impl Client {
    /// When the keeper takes over a lease that lasts, at the latest.
    pub(super) fn looks_at(&self) -> Option<u64> {
        let guard = self.guards.get(&self.direct_lease(|_, _| true)?)?;
        self.runs().then(|| self.when(guard.granted + guard.spec.lease / TAKEN_OVER_WITHIN))
    }

    /// A lease that is due for that.
    pub(super) fn lasting(&mut self, now: u64) -> Option<Command> {
        let is_due = self.looks_at().is_some_and(|at| now >= at);
        is_due.then(|| self.take_over(|_, _| true, None)).flatten()
    }

    /// The lease of this kind, by its id and lock.
    fn direct_lease(&self, which: impl FnOnce(Id, usize) -> bool) -> Option<Id> {
        let direct = self.direct.as_ref().filter(|direct| matches!(direct.stage, Stage::Held))?;
        let id = direct.acquire.id;
        which(id, direct.lock).then_some(id)
    }

    fn take_over(&mut self, which: impl FnOnce(Id, usize) -> bool, release: Option<QuestionId>) -> Option<Command> {
        self.direct_lease(which)?;
        self.direct.take().map(|direct| Command::TakeOver { acquire: direct.acquire, release })
    }

    /// Whether the keeper does not know this lease.
    pub(super) fn holds_directly(&self, id: Id) -> bool {
        self.direct_lease(|its, _| its == id).is_some()
    }

    /// Its holder releases it over the direct connection, if it can.
    pub(super) fn release_directly(&mut self, now: u64, id: Id) -> bool {
        let (local, question) = (self.clock(now), QuestionId(self.next + 1));
        if !self.holds_directly(id) || self.closed {
            return false;
        }
        let Some(direct) = self.direct.as_mut().filter(|direct| direct.usable) else { return false };
        if let Some(call) = direct.acquire.release(local) {
            direct.stage = Stage::Asked { at: now, call };
            direct.release = Some(question);
            self.next += 1;
        }
        true
    }

    /// What the keeper does for this command: it takes over what it has to know first.
    pub(super) fn before(&mut self, command: Command, lock: impl Fn(&str) -> usize) -> Vec<Command> {
        let taken = match &command {
            Command::Acquire { spec, .. } => self.take_over(|_, at| at == lock(spec.name()), None),
            Command::Close { .. } => self.take_over(|_, _| true, None),
            Command::Renew { id, .. } | Command::Automatic { id, .. } => self.take_over(|its, _| its == *id, None),
            Command::Release { id, question: question @ Some(_) } => {
                match self.take_over(|its, _| its == *id, *question) {
                    Some(released) => return vec![released],
                    None => None,
                }
            }
            _ => None,
        };
        taken.into_iter().chain([command]).collect()
    }

    pub(super) fn main_is_gone(&mut self) {
        if let Some(direct) = &mut self.direct {
            direct.usable = false;
        }
    }

    /// Late requests are ended: by a new main connection, or because the server stopped.
    pub(super) fn direct_is_dead(&mut self) {
        if let Some(direct) = &mut self.direct {
            direct.dead = true;
        }
    }

    /// The process is gone, and what it had under way may still be executed.
    pub(super) fn drop_direct(&mut self) {
        if let Some(Direct { dead: false, stage: Stage::Asked { call, .. }, .. }) = self.direct.take() {
            self.limbo.push_back(call);
        }
    }

    /// Since when something is under way there.
    pub(super) fn direct_since(&mut self) -> Option<&mut u64> {
        match &mut self.direct.as_mut()?.stage {
            Stage::Asked { at, .. } | Stage::Answered { at, .. } => Some(at),
            Stage::Held => None,
        }
    }

    pub(super) fn is_direct_busy(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| !matches!(direct.stage, Stage::Held))
    }
}

impl World {
    /// A caller acquires a lock at which its client has nothing.
    pub(super) fn acquire_directly(&mut self, index: usize, how: u8) {
        let lock = usize::from(how) % self.specs.len();
        let spec = self.specs[lock][usize::from(how / 4) % self.specs[lock].len()].clone();
        let now = self.now;
        let client = &mut self.clients[index];
        let alone = client.acquires.values().all(|acquire| acquire.lock != lock)
            && client.guards.values().all(|guard| guard.lock != lock);
        let may = client.runs() && client.can_kill && client.link.is_some() && !client.closed && !client.ending;
        if !may || !alone || client.direct.is_some() || spec.replicas > 0 {
            return;
        }
        let id = Id::direct(client.take_number());
        let mode = if id.0.is_multiple_of(3) { Mode::Try } else { Mode::Wait };
        let command = client.asks(now, id, lock, spec, mode, None);
        let (acquire, call) = DirectAcquire::new(client.clock(now), &client.name, id, command);
        let stage = Stage::Asked { at: now, call: call.expect("there is something to ask") };
        client.direct = Some(Direct { acquire, lock, usable: true, dead: false, release: None, stage });
    }

    pub(super) fn execute_directly(&mut self, index: usize) {
        if !self.server.up {
            return;
        }
        let Some(Direct { dead: false, stage: Stage::Asked { call, .. }, .. }) = self.clients[index].direct.clone()
        else {
            return;
        };
        let result = match &self.server.refuses {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.run(index, &call)),
        };
        let (at, basis, lock) = (self.now, self.server.basis, call.keys().name.clone());
        if let Some(direct) = &mut self.clients[index].direct {
            direct.stage = Stage::Answered { at, reply: Reply { request: RequestId(0), lock, result, basis } };
        }
    }

    /// Somebody takes in the answer, or notices that there will be none.
    pub(super) fn answer_directly(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if !client.runs() {
            return;
        }
        let Some(mut direct) = client.direct.take() else { return };
        match std::mem::replace(&mut direct.stage, Stage::Held) {
            Stage::Answered { reply, .. } if direct.usable && !client.closed => {
                self.directly_answered(index, direct, reply);
            }
            Stage::Answered { .. } => self.open(index, direct, None),
            Stage::Asked { .. } if direct.dead => self.directly_broken(index, direct),
            stage => client.direct = Some(Direct { stage, ..direct }),
        }
    }

    /// The connection breaks. What is under way may be executed later, or was, and the answer is lost.
    pub(super) fn break_directly(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if !client.runs() {
            return;
        }
        let Some(direct) = client.direct.take() else { return };
        match &direct.stage {
            Stage::Asked { call, .. } => {
                if !direct.dead {
                    client.limbo.push_back(call.clone());
                }
                self.directly_broken(index, direct);
            }
            Stage::Answered { .. } => self.directly_broken(index, direct),
            // It is noticed when the lease is released.
            Stage::Held => client.direct = Some(direct),
        }
    }

    /// The keeper looks, and takes over the lease that is there.
    pub(super) fn look_directly(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.runs()
            && let Some(command) = client.take_over(|_, _| true, None)
        {
            self.feed(index, self.server.basis, [Event::Command(command)]);
            let now = self.now;
            self.clients[index].connect(now);
        }
    }

    fn directly_answered(&mut self, index: usize, mut direct: Direct, reply: Reply) {
        let (now, lock) = (self.now, direct.lock);
        let client = &mut self.clients[index];
        let local = client.clock(now);
        let id = direct.acquire.id;
        let Reply { result, basis, lock: name, .. } = reply;
        if result.as_ref().is_ok_and(|reply| keeps_alive(&reply.verdict)) && !client.machine.locks.contains_key(&name) {
            client.kept.insert(name, basis);
        }
        match direct.acquire.answered(local, result) {
            Settled::Granted { token, ticket, deadline } => {
                let wanted = client.acquires.remove(&id).is_some_and(|acquire| acquire.wanted);
                let spec =
                    self.specs[lock].iter().find(|spec| direct.acquire.is_of(spec)).expect("its options").clone();
                let guard = Guard {
                    lock,
                    token: token.get(),
                    deadline,
                    tell_by: tell_by(&spec, local, deadline),
                    spec,
                    granted: local,
                    lost: false,
                    tended: true,
                    // A task takes its lease when it is polled.
                    taken: if id.0.is_multiple_of(2) { Taken::Offered } else { Taken::Yes },
                    basis: Some(basis),
                    era: basis.era,
                };
                client.granted.push((token.get(), ticket.get()));
                client.guards.insert(id, guard);
                direct.stage = Stage::Held;
                client.direct = Some(direct);
                if !wanted {
                    return client.let_go(now, id, false);
                }
                // The keeper hears that its client has something else at the lock.
                if client.acquires.values().any(|acquire| acquire.lock == lock) {
                    self.look_directly(index);
                }
            }
            Settled::NotGranted(_) => drop(client.acquires.remove(&id)),
            Settled::Released(_) => {}
            Settled::Open => self.open(index, direct, Some((id, basis))),
        }
    }

    fn directly_broken(&mut self, index: usize, direct: Direct) {
        if direct.usable {
            self.disconnected(index);
        }
        self.open(index, direct, None);
    }

    /// The keeper has to go on with it.
    fn open(&mut self, index: usize, direct: Direct, rests_on: Option<(Id, super::losses::Basis)>) {
        let Direct { mut acquire, release, .. } = direct;
        if rests_on.is_none() {
            acquire.unanswered();
        }
        let (now, id) = (self.now, acquire.id);
        let client = &mut self.clients[index];
        client.rests_on = rests_on.or(client.rests_on);
        let wanted = client.acquires.get(&id).is_some_and(|acquire| acquire.wanted);
        client.questions.extend(release.map(|question| (question, None)));
        client.say(now, Command::TakeOver { acquire, release });
        if release.is_none() && !wanted {
            client.say(now, Command::Abandon { id });
        }
    }
}
