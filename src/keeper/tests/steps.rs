//! What can happen in a world, as plain data: a schedule is a list of these, so that it can be shrunk and kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::alone::{breaking, inspecting};
use super::clients::Link;
use super::guards::Taken;
use super::world::{MS, World};
use crate::keeper::machine::{Command, Mode, Question};
use crate::protocol::Refusal;

/// One event. The first number names a client; the others choose among what the world has at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Step {
    /// Nothing moves but time, in ms.
    Pass(u8),
    /// Everything goes its way for so many ms.
    Flow(u8),

    Acquire {
        client: u8,
        how: u8,
        timeout: u8,
    },
    Abandon(u8, u8),
    Take(u8, u8),
    Drop(u8, u8),
    Release(u8, u8),
    Renew(u8, u8),
    Downgrade(u8, u8),
    Position(u8, u8),
    Inspect(u8, u8),
    Break(u8, u8),
    Close(u8),
    DropHandles(u8),

    /// The keeper takes in commands of its handles.
    Hear(u8, u8),
    Execute(u8),
    /// A request is executed twice; one reply.
    ExecuteTwice(u8),
    /// A request of a broken connection is executed.
    ExecuteLate(u8),
    Answer(u8, u8),
    AnswerTwice(u8),
    Push(u8, u8),
    PushTwice(u8, u8),
    LosePush(u8, u8),
    /// Replicas answer; the second number says whether enough of them have the writes.
    Replicas(u8, u8),
    Connect(u8),
    CannotConnect(u8),
    /// The connection breaks, and the client notices.
    Cut(u8),
    /// The connection breaks, and the client does not notice.
    Deaf(u8),

    Pause(u8),
    Resume(u8),
    Crash(u8),
    /// The server hangs.
    Hang,
    /// The server stops, and its connections with it.
    Stop,
    Start,
    /// The server refuses everything.
    Refuse(u8),
    Accept,
    Save,
    Flush,
    Rollback,
    ClockBack(u8),
    ClockForth(u8),
}

impl Step {
    /// What a few random numbers stand for. Most of it is work, some of it trouble.
    pub(super) fn of(kind: u8, client: u8, which: u8) -> Self {
        match kind {
            0..8 => Step::Flow(which),
            8..14 => Step::Pass(which),
            14..30 => Step::Acquire { client, how: which, timeout: which.wrapping_mul(37) },
            30..32 => Step::Abandon(client, which),
            32..44 => Step::Take(client, which),
            44..47 => Step::Drop(client, which),
            47..56 => Step::Release(client, which),
            56..58 if which % 3 == 2 => Step::Downgrade(client, which),
            56..58 => Step::Renew(client, which),
            58..60 => Step::Position(client, which),
            60 => Step::Inspect(client, which),
            61 => Step::Break(client, which),
            62..90 => Step::Hear(client, which),
            90..127 => Step::Execute(client),
            127..130 => Step::Replicas(client, which),
            130..134 => Step::ExecuteTwice(client),
            134..138 => Step::ExecuteLate(client),
            138..176 => Step::Answer(client, which),
            176..179 => Step::AnswerTwice(client),
            179..194 => Step::Push(client, which),
            194..196 => Step::PushTwice(client, which),
            196..200 => Step::LosePush(client, which),
            200..222 => Step::Connect(client),
            222..224 => Step::CannotConnect(client),
            224..230 => Step::Cut(client),
            230..233 => Step::Deaf(client),
            233..235 => Step::Pause(client),
            235..239 => Step::Resume(client),
            239 => match which {
                0..80 => Step::Crash(client),
                80..130 => Step::Close(client),
                130..180 => Step::DropHandles(client),
                _ => Step::Resume(client),
            },
            240 => Step::Hang,
            241 => Step::Stop,
            242..247 => Step::Start,
            247 => Step::Refuse(which),
            248..250 => Step::Accept,
            250..252 => Step::Save,
            252 => Step::Flush,
            253 => Step::Rollback,
            254 => Step::ClockBack(which),
            255 => Step::ClockForth(which),
        }
    }
}

/// Short spans mostly, long ones now and then.
fn span(which: u8) -> u64 {
    match which {
        0..128 => u64::from(which) * MS / 8,
        128..224 => u64::from(which - 127) * 4 * MS,
        _ => u64::from(which - 223) * 100 * MS,
    }
}

fn nth<K: Copy>(mut keys: impl Iterator<Item = K> + Clone, which: u8) -> Option<K> {
    let count = keys.clone().count();
    (count > 0).then(|| keys.nth(usize::from(which) % count)).flatten()
}

impl World {
    pub(super) fn step(&mut self, step: Step) {
        if self.is_over() {
            return;
        }
        self.tell(|_| format!("{step:?}"));
        self.steps += 1;
        self.act(step);
        // Keepers that run are woken in time, whatever else happens.
        self.pass(0);
        self.judge();
    }

    pub(super) fn act(&mut self, step: Step) {
        let count = self.clients.len();
        let index = |client: u8| usize::from(client) % count;
        let (now, scale) = (self.now, self.scale);
        match step {
            Step::Pass(which) => self.pass(scale * span(which)),
            Step::Flow(which) => self.flow(scale * span(which)),

            Step::Acquire { client, how, timeout } => self.acquire(index(client), how, timeout),
            Step::Abandon(client, which) => {
                let client = &mut self.clients[index(client)];
                if let Some(id) = nth(client.acquires.iter().filter(|(_, a)| a.wanted).map(|(id, _)| *id), which) {
                    client.drop_future(now, id);
                }
            }
            Step::Take(client, which) => self.take(index(client), which),
            Step::Drop(client, which) | Step::Release(client, which) => {
                let client = &mut self.clients[index(client)];
                if let Some(id) = nth(client.guards.keys().copied(), which) {
                    client.let_go(now, id, matches!(step, Step::Release(..)));
                }
            }
            Step::Renew(client, which) => {
                let client = &mut self.clients[index(client)];
                if let Some(id) = nth(client.guards.keys().copied(), which) {
                    match which {
                        ..160 => client.ask(now, Question::Renew { id, extend: None }),
                        160..208 => {
                            let extend = Some(Duration::from_millis(u64::from(which)));
                            client.ask(now, Question::Renew { id, extend });
                        }
                        208.. => client.say(now, Command::Automatic { id, on: which % 2 == 0 }),
                    }
                }
            }
            Step::Downgrade(client, which) => {
                let client = &mut self.clients[index(client)];
                if let Some(id) = nth(client.guards.keys().copied(), which) {
                    client.downgrade(now, id);
                }
            }
            Step::Position(client, which) => {
                let client = &mut self.clients[index(client)];
                let asked =
                    client.acquires.iter().filter(|(_, a)| a.mode == Mode::Enqueue && a.ticket.is_some() && a.wanted);
                if let Some(id) = nth(asked.map(|(id, _)| *id), which) {
                    client.ask(now, Question::Position { id });
                }
            }
            Step::Inspect(client, which) => {
                let keys = self.specs[usize::from(which) % self.specs.len()][0].keys.clone();
                self.clients[index(client)].ask(now, inspecting(&keys, 10));
            }
            Step::Break(client, which) => self.break_lease(index(client), which),
            Step::Close(client) => {
                let client = &mut self.clients[index(client)];
                client.closed = true;
                client.ask(now, Question::Close);
            }
            Step::DropHandles(client) => self.clients[index(client)].drop_handles(now),

            Step::Hear(client, which) => self.take_in(index(client), 1 + usize::from(which / 64)),
            Step::Execute(client) => self.execute(index(client), 1),
            Step::ExecuteTwice(client) => self.execute(index(client), 2),
            Step::ExecuteLate(client) => self.execute_late(index(client)),
            Step::Answer(client, which) => self.answer(index(client), 1 + usize::from(which / 64)),
            Step::AnswerTwice(client) => {
                let again = self.clients[index(client)].link.as_ref().and_then(|link| link.back.front().cloned());
                self.answer(index(client), 1);
                if let (Some(again), Some(link)) = (again, &mut self.clients[index(client)].link) {
                    link.back.push_front(again);
                    self.answer(index(client), 1);
                }
            }
            Step::Push(client, which) | Step::PushTwice(client, which) | Step::LosePush(client, which) => {
                self.pushed(index(client), which, step);
            }
            Step::Replicas(client, which) => self.replicas(index(client), which < 128),
            Step::Connect(client) => self.connected(index(client)),
            Step::CannotConnect(client) => {
                if self.clients[index(client)].connecting.is_some() {
                    self.disconnected(index(client));
                }
            }
            Step::Cut(client) => {
                if self.clients[index(client)].link.is_some() {
                    self.disconnected(index(client));
                }
            }
            Step::Deaf(client) => {
                if let Some(link) = &mut self.clients[index(client)].link {
                    link.dead = true;
                    link.back.clear();
                    link.pushes.clear();
                    link.questions.clear();
                }
            }

            Step::Pause(client) => self.clients[index(client)].paused = true,
            Step::Resume(client) => self.clients[index(client)].paused = false,
            Step::Crash(client) => self.crash(index(client)),
            Step::Hang => self.server.up = false,
            Step::Stop => {
                self.server.up = false;
                for index in 0..count {
                    // What was under way died with the server.
                    self.clients[index].limbo.clear();
                    if let Some(link) = &mut self.clients[index].link {
                        *link = Link { dead: true, ..Link::default() };
                        self.disconnected(index);
                    }
                }
            }
            Step::Start => self.server.up = true,
            Step::Refuse(which) => {
                self.server.untidy |= which >= 200;
                self.refuse(Some(match which {
                    0..200 => Refusal::Temporary("LOADING".into()),
                    200..230 => Refusal::WrongType("WRONGTYPE".into()),
                    _ => Refusal::Permanent("ERR".into()),
                }))
            }
            Step::Accept => self.refuse(None),
            Step::Save => self.server.saved = self.server.locks.clone(),
            Step::Flush => {
                let empty = self.server.locks.iter().map(|(keys, _)| (keys.clone(), Default::default())).collect();
                self.lose_data(empty);
            }
            Step::Rollback => {
                self.lose_data(self.server.saved.clone());
                self.server.untidy = true;
            }
            Step::ClockBack(which) => {
                self.server.step -= (span(which) / 1000) as i64;
                self.server.was_set_back = true;
                self.lose_touch(|_| true);
            }
            Step::ClockForth(which) => {
                self.server.step += (span(which) / 1000) as i64;
                // Leases are shorter than earlier answers have said.
                self.server.basis.jumps += 1;
                self.server.basis.generation += 1;
                self.lose_touch(|_| true);
            }
        }
    }

    pub(super) fn acquire(&mut self, index: usize, how: u8, timeout: u8) {
        let now = self.now;
        let lock = usize::from(how) % self.specs.len();
        let choice = usize::from(how / 4) % 8;
        let spec = self.specs[lock][if choice < self.specs[lock].len() { choice } else { 0 }].clone();
        let mode = match how % 16 {
            0..9 => Mode::Wait,
            9..13 => Mode::Enqueue,
            _ => Mode::Try,
        };
        let timeout = match timeout {
            0..120 => None,
            _ if mode == Mode::Try => None,
            _ => Some(Duration::from_nanos(span(timeout).max(MS))),
        };
        self.clients[index].start(now, lock, spec, mode, timeout);
    }

    fn take(&mut self, index: usize, which: u8) {
        let client = &mut self.clients[index];
        if !client.runs() {
            return;
        }
        let offered = client.guards.iter().filter(|(_, guard)| guard.taken != Taken::Yes).map(|(id, _)| *id);
        let Some(id) = nth(offered, which) else { return };
        let Some(guard) = client.guards.get_mut(&id) else { return };
        if guard.taken == Taken::Reclaimed {
            client.guards.remove(&id);
        } else {
            guard.taken = Taken::Yes;
        }
    }

    fn break_lease(&mut self, index: usize, which: u8) {
        let now = self.now;
        let lock = usize::from(which) % self.specs.len();
        let (keys, state) = &self.server.locks[lock];
        let token = nth(state.leases.iter().map(|held| held.token), which).unwrap_or(1);
        let (keys, force) = (keys.clone(), which >= 192);
        if force {
            // Its holder is not told before the lease is taken.
            for guard in self.clients.iter_mut().flat_map(|client| client.guards.values_mut()) {
                if guard.token == token {
                    guard.basis = None;
                }
            }
            self.server.forced.insert(token);
        }
        self.clients[index].ask(now, breaking(&keys, token, force));
    }

    fn pushed(&mut self, index: usize, which: u8, step: Step) {
        let Some(link) = &mut self.clients[index].link else { return };
        let Some(nth) = usize::from(which).checked_rem(link.pushes.len()) else { return };
        match step {
            Step::LosePush(..) => {
                drop(link.pushes.remove(nth));
                self.clients[index].in_touch = false;
            }
            Step::PushTwice(..) => {
                let again = link.pushes[nth].clone();
                link.pushes.push_back(again);
                self.push(index, nth);
            }
            _ => self.push(index, nth),
        }
    }

    fn crash(&mut self, index: usize) {
        // One client stays alive.
        if self.clients.iter().filter(|client| client.alive).count() > 1 {
            self.clients[index].alive = false;
            self.clients[index].unlink();
        }
    }
}
