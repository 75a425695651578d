//! The direct connection of a client in a world: what `keeper/direct/` does with it, by the caller's hand and by the
//! keeper's.

use super::clients::{Client, Guard, Taken, tell_by};
use super::server::Reply;
use super::world::{LATENCY, World};
use crate::clock::Time;
use crate::keeper::machine::{
    Command, DirectAcquire, DirectLease, Event, Heard, Id, LeaseState, Mode, QuestionId, RequestId, TAKEN_OVER_WITHIN,
};
use crate::protocol::{About, Request, Secret, WireId};

/// The connection, from the acquire of a caller to its release, or until the keeper has its lease.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    pub(super) lock: usize,
    /// The keeper's connection is the one from which this began.
    pub(super) usable: bool,
    /// The server's side is gone: nothing more is executed.
    pub(super) dead: bool,
    /// The future of a task was dropped while its request was under way.
    pub(super) dropped: bool,
    /// The keeper has the acquire of a task whose direct request is under way: a later acquire has passed it on.
    pub(super) passed_on: bool,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // There is one for each client.
pub(super) enum Stage {
    /// A request is under way, since this true time.
    Asked {
        at: u64,
        sent: Time,
        about: Ask,
    },
    Answered {
        at: u64,
        sent: Time,
        about: Ask,
        reply: Reply,
    },
    Held(DirectLease),
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Ask {
    Acquire(DirectAcquire),
    Release(DirectLease),
}

impl Ask {
    fn request(&self, client: &Client, at: Time) -> Request {
        let request = match self {
            Ask::Acquire(acquire) => acquire.request(&client.name, at),
            Ask::Release(lease) => lease.release(&client.name, at),
        };
        request.expect("there is something to ask")
    }
}

impl Direct {
    fn held(lock: usize, usable: bool, lease: DirectLease) -> Self {
        Self { lock, usable, dead: false, dropped: false, passed_on: false, stage: Stage::Held(lease) }
    }

    /// When the next event happens to it by itself, and whether the caller hears of it.
    pub(super) fn next(&self, up: bool) -> Option<(u64, bool)> {
        match &self.stage {
            Stage::Asked { at, .. } if up && !self.dead => Some((at + LATENCY, false)),
            Stage::Answered { at, .. } => Some((at + LATENCY, true)),
            // Its end is noticed.
            Stage::Asked { at, .. } if self.dead => Some((at + LATENCY, true)),
            Stage::Asked { .. } | Stage::Held(_) => None,
        }
    }
}

impl Client {
    /// When the keeper takes over a lease that lasts, at the latest.
    pub(super) fn looks_at(&self) -> Option<u64> {
        match &self.direct.as_ref()?.stage {
            Stage::Held(lease) if self.runs() => Some(self.when(lease.granted + lease.spec.lease / TAKEN_OVER_WITHIN)),
            _ => None,
        }
    }

    /// A lease that is due for that.
    pub(super) fn lasting(&mut self, now: u64) -> Option<Command> {
        if self.looks_at().is_none_or(|at| now < at) {
            return None;
        }
        let lease = self.direct_lease(|_| true)?;
        self.direct = None;
        Some(Command::Adopt(lease))
    }

    fn direct_lease(&self, which: impl FnOnce(&DirectLease) -> bool) -> Option<DirectLease> {
        match &self.direct.as_ref()?.stage {
            Stage::Held(lease) if which(lease) => Some(lease.clone()),
            _ => None,
        }
    }

    /// Its holder releases it over the direct connection, if it can.
    pub(super) fn release_directly(&mut self, now: u64, id: Id) -> bool {
        let Some(lease) = self.direct_lease(|lease| lease.id == id) else { return false };
        let sent = self.clock(now);
        match &mut self.direct {
            Some(direct) if direct.usable && !self.closed => {
                direct.stage = Stage::Asked { at: now, sent, about: Ask::Release(lease) };
                true
            }
            _ => false,
        }
    }

    /// What the keeper takes over before it takes in this command.
    pub(super) fn before(&mut self, command: &Command) -> Option<Command> {
        let mut lease = match command {
            Command::Acquire { spec, .. } => self.direct_lease(|lease| lease.spec.name() == spec.name()),
            Command::Close { .. } => self.direct_lease(|_| true),
            Command::Renew { id, .. } | Command::Automatic { id, .. } | Command::Release { id, .. } => {
                self.direct_lease(|lease| lease.id == *id)
            }
            _ => None,
        }?;
        self.direct = None;
        if let Command::Release { .. } = command {
            lease.state = lease.state.max(LeaseState::Released);
        }
        Some(Command::Adopt(lease))
    }

    /// The caller asks the keeper, unless its future was dropped.
    fn start_after_all(&mut self, now: u64, lock: usize, of: &DirectAcquire, dropped: bool) {
        if !dropped {
            self.start(now, lock, of.spec.clone(), Mode::Wait, None);
        }
    }

    /// An acquire is about to go to the keeper. One of a task that is under way directly goes first.
    pub(super) fn let_pass(&mut self, now: u64, at: usize) {
        if let Some(Direct { lock, dropped: false, passed_on: passed_on @ false, stage, .. }) = &mut self.direct
            && let Stage::Asked { about: Ask::Acquire(of), .. } | Stage::Answered { about: Ask::Acquire(of), .. } =
                stage
            && *lock == at
        {
            *passed_on = true;
            let spec = of.spec.clone();
            self.start(now, at, spec, Mode::Wait, None);
        }
    }

    /// The future of a task whose request is under way is dropped.
    pub(super) fn drop_direct_future(&mut self) {
        if let Some(direct) = &mut self.direct
            && !matches!(direct.stage, Stage::Held(_))
        {
            direct.dropped = true;
        }
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
        if let Some(Direct { dead: false, stage: Stage::Asked { about, sent, .. }, .. }) = &self.direct {
            let request = about.request(self, *sent);
            self.limbo.push_back(request);
        }
        self.direct = None;
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
        let wire = WireId::new(&client.name, id);
        let secret = Secret::repeated(&super::model::about(wire.as_str()).secret);
        let of = DirectAcquire { id, spec, about: About { secret, label: "".into(), owner: "".into() } };
        let stage = Stage::Asked { at: now, sent: client.clock(now), about: Ask::Acquire(of) };
        client.direct = Some(Direct { lock, usable: true, dead: false, dropped: false, passed_on: false, stage });
    }

    pub(super) fn execute_directly(&mut self, index: usize) {
        if !self.server.up {
            return;
        }
        let client = &self.clients[index];
        let Some(Direct { dead: false, stage: Stage::Asked { sent, about, .. }, .. }) = client.direct.clone() else {
            return;
        };
        let request = about.request(client, sent);
        let result = match &self.server.refuses {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.run(index, &request)),
        };
        let (at, basis, lock) = (self.now, self.server.basis, request.keys().name.clone());
        if let Some(direct) = &mut self.clients[index].direct {
            let reply = Reply { request: RequestId(0), lock, result, basis };
            direct.stage = Stage::Answered { at, sent, about, reply };
        }
    }

    /// The caller takes in the answer, or notices that there will be none.
    pub(super) fn answer_directly(&mut self, index: usize) {
        if !self.clients[index].runs() {
            return;
        }
        let Some(mut direct) = self.clients[index].direct.take() else { return };
        match direct.stage {
            Stage::Answered { sent, ref about, ref reply, .. } => {
                let (about, reply) = (about.clone(), reply.clone());
                direct.usable &= !self.clients[index].closed;
                self.directly_answered(index, &direct, sent, about, reply);
            }
            Stage::Asked { ref about, .. } if direct.dead => self.directly_broken(index, &direct, about.clone()),
            _ => self.clients[index].direct = Some(direct),
        }
    }

    /// The connection breaks. What is under way may be executed later, or was, and the answer is lost.
    pub(super) fn break_directly(&mut self, index: usize) {
        if !self.clients[index].runs() {
            return;
        }
        let Some(direct) = self.clients[index].direct.take() else { return };
        match &direct.stage {
            Stage::Asked { about, sent, .. } => {
                if !direct.dead {
                    let request = about.request(&self.clients[index], *sent);
                    self.clients[index].limbo.push_back(request);
                }
                self.directly_broken(index, &direct, about.clone());
            }
            Stage::Answered { about, .. } => self.directly_broken(index, &direct, about.clone()),
            // It is noticed when the lease is released.
            Stage::Held(_) => self.clients[index].direct = Some(direct),
        }
    }

    /// The keeper looks, and takes over the lease that is there.
    pub(super) fn look_directly(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if let Some(lease) = client.direct_lease(|_| true).filter(|_| client.runs()) {
            client.direct = None;
            self.adopt(index, lease);
        }
    }

    fn adopt(&mut self, index: usize, lease: DirectLease) {
        self.feed(index, self.server.basis, [Event::Command(Command::Adopt(lease))]);
        let now = self.now;
        self.clients[index].connect(now);
    }

    fn directly_answered(
        &mut self,
        index: usize,
        &Direct { lock, usable, dropped, passed_on, .. }: &Direct,
        sent: Time,
        about: Ask,
        Reply { result, basis, .. }: Reply,
    ) {
        let now = self.now;
        let client = &mut self.clients[index];
        let local = client.clock(now);
        match (about, result) {
            (Ask::Acquire(of), Ok(reply)) => match of.heard(&client.name.clone(), local, sent, &reply) {
                // Nobody wants it any more.
                Heard::Granted(lease) if usable && dropped && !passed_on => {
                    self.release_later(index, lock, lease, LeaseState::Released);
                }
                Heard::Granted(lease) if usable && !passed_on => {
                    let deadline = lease.term.deadline();
                    let guard = Guard {
                        lock,
                        spec: lease.spec.clone(),
                        token: lease.token.get(),
                        deadline,
                        tell_by: tell_by(&lease.spec, local, deadline),
                        granted: local,
                        lost: false,
                        tended: true,
                        // A task takes its lease when it is polled.
                        taken: if lease.id.0 % 3 == 0 { Taken::Offered } else { Taken::Yes },
                        basis: Some(basis),
                        era: basis.era,
                    };
                    client.granted.push((lease.token.get(), lease.ticket.get()));
                    client.guards.insert(lease.id, guard);
                    client.direct = Some(Direct::held(lock, usable, lease));
                    // The keeper hears that its client has something else at the lock.
                    if client.acquires.values().any(|acquire| acquire.lock == lock) {
                        self.look_directly(index);
                    }
                }
                Heard::Granted(_) | Heard::Unclear => {
                    client.say(now, Command::GiveBack { of: of.clone(), unlikely: false });
                    client.start_after_all(now, lock, &of, dropped || passed_on);
                }
                Heard::Busy(Some(_)) if of.id.0 % 2 == 0 => {}
                Heard::Busy(_) => client.start_after_all(now, lock, &of, dropped || passed_on),
            },
            (Ask::Acquire(of), Err(_)) => {
                client.say(now, Command::GiveBack { of: of.clone(), unlikely: true });
                client.start_after_all(now, lock, &of, dropped || passed_on);
            }
            (Ask::Release(lease), Ok(reply)) => {
                if lease.released(&client.name.clone(), local, &reply).is_none() {
                    self.release_later(index, lock, lease, LeaseState::ReleaseSent);
                }
            }
            (Ask::Release(lease), Err(_)) => self.release_later(index, lock, lease, LeaseState::Released),
        }
    }

    fn directly_broken(&mut self, index: usize, direct: &Direct, about: Ask) {
        let &Direct { lock, usable, dropped, passed_on, .. } = direct;
        if usable {
            self.disconnected(index);
        }
        let now = self.now;
        let client = &mut self.clients[index];
        match about {
            Ask::Acquire(of) => {
                client.say(now, Command::GiveBack { of: of.clone(), unlikely: false });
                client.start_after_all(now, lock, &of, dropped || passed_on);
            }
            Ask::Release(lease) => self.release_later(index, lock, lease, LeaseState::ReleaseSent),
        }
    }

    /// The keeper is to release this lease.
    fn release_later(&mut self, index: usize, lock: usize, mut lease: DirectLease, state: LeaseState) {
        lease.state = state;
        let (now, id) = (self.now, lease.id);
        let client = &mut self.clients[index];
        client.direct = Some(Direct::held(lock, false, lease));
        client.ask(now, |question: QuestionId| Command::Release { question: Some(question), id });
    }
}

impl Client {
    /// Since when something is under way there.
    pub(super) fn direct_since(&mut self) -> Option<&mut u64> {
        match &mut self.direct.as_mut()?.stage {
            Stage::Asked { at, .. } | Stage::Answered { at, .. } => Some(at),
            Stage::Held(_) => None,
        }
    }

    pub(super) fn is_direct_busy(&self) -> bool {
        matches!(&self.direct, Some(Direct { stage: Stage::Asked { .. } | Stage::Answered { .. }, .. }))
    }
}
