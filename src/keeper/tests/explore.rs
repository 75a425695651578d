//! Small worlds, explored to the end: every order in which messages, timers, callers and faults can follow each other.
//!
//! Time moves in steps of a heartbeat; whatever is under way may be overtaken by any number of them. Faults have
//! budgets, so that the number of states is finite. In every state the promises are judged as under random schedules,
//! and everybody must be served if the faults stop there.
//!
//! `cargo test` explores what fits into a minute, `make model` what takes longer.

mod successors;
mod worlds;

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stateright::{Checker, CheckerBuilder, Model, Property};

use super::guards::Taken;
use super::steps::Step;
use super::world::{MS, Plan, WIDE, World};
use crate::keeper::machine::Mode;
use crate::options::LockOptions;
use crate::protocol::LockKeys;

/// A heartbeat.
const TICK: u64 = 50 * MS;

/// For how many of them a message is under way at most: it arrives before the next, or within the time that all clients
/// expect, or takes longer than a lease.
const PROMPT: u64 = 0;
const SOON: u64 = 1;
const LATE: u64 = 4;
/// A connection is made at once, or after so many: longer than a session lives.
const CONNECTING: u64 = 4;

/// What may still happen, how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    /// Connections that break and are noticed; that break and are not.
    cuts: u8,
    deaf: u8,
    lost_pushes: u8,
    doubled: u8,
    abandoned: u8,
    crashes: u8,
    /// Replies that do not come at once.
    late: u8,
    flushes: u8,
    saves: u8,
    downgrades: u8,
}

/// What is explored.
struct Explored {
    /// How many waiters each client has.
    waiters: Vec<u64>,
    can_kill: bool,
    /// Whether every other client has another lease, liveness and buffer.
    mixed: bool,
    /// How many requests of a client may be unanswered.
    window: usize,
    delay: u64,
    /// How many may hold together, as the clients say in turn.
    slots: Vec<u32>,
    budget: Budget,
    /// States from which everybody is served if the faults stop.
    good: Mutex<HashSet<u64>>,
}

#[derive(Clone, Debug)]
struct State {
    world: World,
    budget: Budget,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.world.fingerprint(false).hash(state);
        self.budget.hash(state);
        self.world.broken.hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.world.fingerprint(false) == other.world.fingerprint(false) && self.budget == other.budget
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// One more waiter.
    Join(u8),
    Tick,
    /// A request is executed, and its reply arrives at once.
    RoundTrip(u8),
    Do(Step),
}

impl Explored {
    fn new(waiters: &[u64], can_kill: bool, budget: Budget) -> Self {
        Self {
            waiters: waiters.to_vec(),
            can_kill,
            mixed: false,
            window: WIDE,
            delay: SOON,
            slots: vec![1],
            budget,
            good: Mutex::default(),
        }
    }
}

impl Model for Explored {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let plan = Plan {
            can_kill: vec![self.can_kill],
            script: 0,
            window: self.window,
            ..Plan::usual(self.waiters.len(), 1)
        };
        let mut world = World::new(&plan);
        let ms = Duration::from_millis;
        let name = world.specs[0][0].keys.name.clone();
        let spec = |slots, lease, liveness, buffer| {
            let options = LockOptions::new().lease(ms(lease)).liveness(ms(liveness)).buffer(ms(buffer));
            options.slots(slots).renew_every(ms(50)).of(LockKeys::new("fairlock", &name)).unwrap()
        };
        let of = |client: usize| {
            let slots = self.slots[client % self.slots.len()];
            if self.mixed && client % 2 == 1 { spec(slots, 100, 150, 20) } else { spec(slots, 150, 100, 40) }
        };
        world.specs = vec![(0..self.waiters.len()).map(of).collect()].into();
        world.clients.iter_mut().for_each(|client| client.ever = true);
        // Time enough for "long ago".
        world.now = 10_000 * MS;
        vec![State { world, budget: self.budget }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let State { world, budget } = state;
        if world.broken.is_some() {
            return;
        }
        for (index, client) in world.clients.iter().enumerate() {
            let me = index as u8;
            let mut may = |allowed: bool, step: Step| {
                if allowed {
                    actions.push(Action::Do(step));
                }
            };
            let dead = client.link.as_ref().is_some_and(|link| link.dead && !link.out.is_empty());
            may(dead || !client.limbo.is_empty(), Step::ExecuteLate(me));
            if !client.alive {
                continue;
            }
            let since = client.connecting.map(|at| (world.now - at) / TICK);
            may(since.is_some_and(|ticks| ticks == 0 || ticks >= CONNECTING), Step::Connect(me));
            if let Some(link) = &client.link {
                let asked = !link.out.is_empty() && !link.dead;
                may(asked && budget.late > 0, Step::Execute(me));
                may(asked && budget.doubled > 0, Step::ExecuteTwice(me));
                may(!link.back.is_empty(), Step::Answer(me, 0));
                for nth in 0..link.pushes.len() as u8 {
                    may(true, Step::Push(me, nth));
                    may(budget.lost_pushes > 0, Step::LosePush(me, nth));
                }
                may(budget.cuts > 0, Step::Cut(me));
                may(budget.deaf > 0 && !link.dead, Step::Deaf(me));
            }
            (0..client.guards.len() as u8).for_each(|nth| may(true, Step::Drop(me, nth)));
            let writers = client.guards.values().map(|guard| guard.most == 1);
            (0..).zip(writers).for_each(|(nth, is)| may(is && budget.downgrades > 0, Step::Downgrade(me, nth)));
            (0..client.acquires.len() as u8).for_each(|nth| may(budget.abandoned > 0, Step::Abandon(me, nth)));
            let alone = world.clients.iter().filter(|client| client.alive).count() == 1;
            may(budget.crashes > 0 && !alone, Step::Crash(me));
            if client.link.as_ref().is_some_and(|link| !link.out.is_empty() && !link.dead && link.back.is_empty()) {
                actions.push(Action::RoundTrip(me));
            }
            // Of clients that are alike, the first one comes first.
            let is_before = |last: usize| world.clients[last].alive && world.clients[last].next == 1;
            let turn = index == 0 || !self.alike(world, index - 1, index) || !is_before(index - 1);
            if client.next <= self.waiters[index] && turn {
                actions.push(Action::Join(me));
            }
        }
        if budget.flushes > 0 {
            actions.push(Action::Do(Step::Flush));
        }
        if budget.saves > 0 {
            actions.push(Action::Do(Step::Save));
        }
        // The server can be rolled back to a save, once.
        if self.budget.saves > budget.saves && world.server.basis.era == 0 {
            actions.push(Action::Do(Step::Rollback));
        }
        if !self.overdue(world) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let State { world, budget } = &mut state;
        match action {
            Action::Join(client) => {
                let (now, spec) = (world.now, world.specs[0][usize::from(client)].clone());
                world.clients[usize::from(client)].start(now, 0, spec, Mode::Wait, None);
            }
            Action::Tick => {
                world.now += TICK;
                (0..world.clients.len()).for_each(|client| world.tick(client));
            }
            Action::RoundTrip(client) => {
                world.act(Step::Execute(client));
                world.act(Step::Answer(client, 0));
            }
            Action::Do(step) => {
                let spent = match step {
                    Step::Cut(_) => Some(&mut budget.cuts),
                    Step::Deaf(_) => Some(&mut budget.deaf),
                    Step::LosePush(..) => Some(&mut budget.lost_pushes),
                    Step::ExecuteTwice(_) => Some(&mut budget.doubled),
                    Step::Abandon(..) => Some(&mut budget.abandoned),
                    Step::Execute(_) => Some(&mut budget.late),
                    Step::Crash(_) => Some(&mut budget.crashes),
                    Step::Flush => Some(&mut budget.flushes),
                    Step::Save => Some(&mut budget.saves),
                    Step::Downgrade(..) => Some(&mut budget.downgrades),
                    _ => None,
                };
                spent.into_iter().for_each(|left| *left -= 1);
                world.act(step);
            }
        }
        // Commands of handles are taken in at once, and so are grants by their callers.
        for index in 0..world.clients.len() {
            while world.clients[index].runs() && !world.clients[index].inbox.is_empty() {
                world.take_in(index, 1);
            }
            let client = &mut world.clients[index];
            if client.pace != Default::default() || client.guards.values().any(|guard| guard.taken != Taken::Yes) {
                client.pace = Default::default();
                client.guards.values_mut().for_each(|guard| guard.taken = Taken::Yes);
            }
        }
        world.judge();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the promises hold", |_, state: &State| state.world.broken.is_none()),
            Property::always("everybody is served", |explored: &Explored, state: &State| explored.serves(&state.world)),
        ]
    }
}

impl Explored {
    /// Whether exchanging these two clients changes nothing.
    fn alike(&self, world: &World, one: usize, other: usize) -> bool {
        self.waiters[one] == self.waiters[other] && world.specs[0][one] == world.specs[0][other]
    }

    /// Whether something must arrive before time goes on: connections that take longer are broken ones.
    fn overdue(&self, world: &World) -> bool {
        let since = |at: u64| (world.now - at) / TICK;
        world.clients.iter().filter(|client| client.alive).any(|client| {
            let link = client.link.as_ref().filter(|link| !link.dead);
            client.connecting.is_some_and(|at| since(at) >= CONNECTING)
                || link.is_some_and(|link| {
                    link.out.front().is_some_and(|(at, ..)| since(*at) >= self.delay)
                        || link.back.front().is_some_and(|(at, _)| since(*at) >= self.delay)
                        || link.pushes.front().is_some_and(|(at, ..)| since(*at) >= self.delay)
                })
        })
    }

    /// Whether everybody is served if the faults stop here.
    fn serves(&self, world: &World) -> bool {
        let mut world = world.clone();
        world.forget_when();
        world.calm_down();
        let good = || self.good.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Vec::new();
        let end = world.now + 20_000 * MS;
        while world.is_busy() {
            let here = world.fingerprint(true);
            if good().contains(&here) {
                break;
            }
            seen.push(here);
            if world.now > end || world.broken.is_some() {
                return false;
            }
            world.work_on(end);
        }
        good().extend(seen);
        true
    }
}

/// Explores one world after the other, to the end of each.
fn explore_all<C: Checker<Explored>>(worlds: Vec<(&str, Explored)>, explore: impl Fn(CheckerBuilder<Explored>) -> C) {
    let mut total = 0;
    for (what, explored) in worlds {
        total += visited(what, explore(explored.checker().threads(2)));
    }
    super::say(format_args!("{total} states in all"));
}

/// How many states there are, when all have been visited.
fn visited(what: &str, checker: impl Checker<Explored>) -> usize {
    let start = Instant::now();
    let say = |end: &str| {
        super::say(format_args!(
            "{what}: {} states visited, {} made, {} deep, {:.1} s{end}",
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth(),
            start.elapsed().as_secs_f64()
        ));
    };
    // A sign of life for those that take hours.
    let mut said = start;
    while !checker.is_done() {
        std::thread::sleep(Duration::from_millis(10));
        if said.elapsed() >= Duration::from_secs(60) {
            said = Instant::now();
            say(" so far");
        }
    }
    say("");
    let checker = checker.join();
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let last = path.last_state().world.broken.clone();
        panic!("{property}: {last:?} after {:#?}", path.into_actions());
    }
    assert!(checker.is_done());
    checker.unique_state_count()
}
