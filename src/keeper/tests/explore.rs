//! Small worlds, explored to the end: every order in which messages, timers, callers and faults can follow each other.
//!
//! Time moves in steps of a heartbeat; whatever is under way may be overtaken by any number of them. Faults have
//! budgets, so that the number of states is finite. In every state the promises are judged as under random schedules,
//! and everybody must be served if the faults stop there.
//!
//! `cargo test` explores what fits into a minute, `make model` what takes long.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stateright::{Checker, Model, Property};

use super::clients::Taken;
use super::steps::Step;
use super::world::{MS, Plan, World};
use crate::keeper::waiters::Mode;
use crate::options::Spec;

/// A heartbeat.
const TICK: u64 = 50 * MS;

/// How many of them a message is under way, and a connection being made, at most.
const DELAY: u64 = 2;
const CONNECTING: u64 = 5;

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
}

/// What is explored.
struct Explored {
    /// How many waiters each client has.
    waiters: Vec<u64>,
    can_kill: bool,
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
        self.world.canon(state, false);
        self.budget.hash(state);
        self.world.broken.hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        fingerprint(&self.world, false) == fingerprint(&other.world, false) && self.budget == other.budget
    }
}

fn fingerprint(world: &World, sent: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.canon(&mut hasher, sent);
    hasher.finish()
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
        Self { waiters: waiters.to_vec(), can_kill, budget, good: Mutex::default() }
    }
}

impl Model for Explored {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let plan =
            Plan { clients: self.waiters.len(), locks: 1, fast: vec![0], can_kill: vec![self.can_kill], script: 0 };
        let mut world = World::new(&plan);
        let ms = Duration::from_millis;
        let keys = world.specs[0][0].keys.clone();
        let spec = Spec {
            keys,
            lease: ms(200),
            liveness: ms(150),
            buffer: ms(50),
            notice: ms(20),
            renew_every: Some(ms(70)),
            max_hold: None,
        };
        world.specs = vec![vec![Arc::new(spec)]];
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
            may(client.connecting.is_some(), Step::Connect(me));
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
            (0..client.acquires.len() as u8).for_each(|nth| may(budget.abandoned > 0, Step::Abandon(me, nth)));
            let alone = world.clients.iter().filter(|client| client.alive).count() == 1;
            may(budget.crashes > 0 && !alone, Step::Crash(me));
            if client.link.as_ref().is_some_and(|link| !link.out.is_empty() && !link.dead && link.back.is_empty()) {
                actions.push(Action::RoundTrip(me));
            }
            // Clients are alike: the first one comes first.
            let turn = index == 0 || world.clients[index - 1].next > 1;
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
        // A save is there to be rolled back to, once.
        if self.budget.saves > budget.saves && world.server.generation == 0 {
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
                let (now, spec) = (world.now, world.specs[0][0].clone());
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
                    _ => None,
                };
                spent.into_iter().for_each(|left| *left -= 1);
                world.act(step);
            }
        }
        // What handles say is heard at once, and what is granted is taken.
        for index in 0..world.clients.len() {
            while world.clients[index].runs() && !world.clients[index].inbox.is_empty() {
                world.take_in(index, 1);
            }
            let client = &mut world.clients[index];
            client.pace = Default::default();
            client.guards.values_mut().for_each(|guard| guard.taken = Taken::Taken);
        }
        world.judge();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the promises hold", |_, state: &State| state.world.broken.is_none()),
            Property::always("everybody is served", |explored: &Explored, state: &State| {
                std::env::var_os("NOSERVE").is_some() || explored.serves(&state.world)
            }),
        ]
    }
}

impl Explored {
    /// Whether something must arrive before time goes on: connections that take longer are broken ones.
    fn overdue(&self, world: &World) -> bool {
        let since = |at: u64| (world.now - at) / TICK;
        world.clients.iter().filter(|client| client.alive).any(|client| {
            let link = client.link.as_ref().filter(|link| !link.dead);
            client.connecting.is_some_and(|at| since(at) >= CONNECTING)
                || link.is_some_and(|link| {
                    link.out.front().is_some_and(|(at, ..)| since(*at) >= DELAY)
                        || link.back.front().is_some_and(|(at, _)| since(*at) >= DELAY)
                        || link.pushes.front().is_some_and(|(at, ..)| since(*at) >= DELAY)
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
            let here = fingerprint(&world, true);
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

fn explore(what: &str, explored: Explored) {
    let start = Instant::now();
    let depth = std::env::var("DEPTH").ok().and_then(|d| d.parse().ok()).unwrap_or(0);
    let checker = explored.checker().threads(2).target_max_depth(depth).spawn_bfs().join();
    eprintln!(
        "{what}: {} states visited, {} made, {} deep, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    for (property, path) in checker.discoveries() {
        let last = path.last_state().world.broken.clone();
        panic!("{property}: {last:?} after {:#?}", path.into_actions());
    }
    assert!(checker.is_done());
}

fn only(change: impl FnOnce(&mut Budget)) -> Budget {
    let mut budget = Budget::default();
    change(&mut budget);
    budget
}

#[test]
fn x_calm() {
    explore("calm", Explored::new(&[1, 1], true, Budget::default()));
}
#[test]
fn x_late() {
    explore("late", Explored::new(&[1, 1], true, only(|b| b.late = 1)));
}
#[test]
fn x_cut() {
    explore("cut", Explored::new(&[1, 1], true, only(|b| b.cuts = 1)));
}
#[test]
fn x_deaf() {
    explore("deaf", Explored::new(&[1, 1], true, only(|b| b.deaf = 1)));
}
#[test]
fn x_lost() {
    explore("lost", Explored::new(&[1, 1], true, only(|b| b.lost_pushes = 1)));
}
#[test]
fn x_crash() {
    explore("crash", Explored::new(&[1, 1], true, only(|b| b.crashes = 1)));
}
#[test]
fn x_flush() {
    explore("flush", Explored::new(&[1, 1], true, only(|b| b.flushes = 1)));
}
#[test]
fn x_roll() {
    explore("rollback", Explored::new(&[1, 1], true, only(|b| b.saves = 1)));
}
#[test]
fn x_abandon() {
    explore("abandon", Explored::new(&[1, 1], true, only(|b| b.abandoned = 1)));
}
#[test]
fn x_nokill() {
    explore("cut without the right to kill", Explored::new(&[1, 1], false, only(|b| b.cuts = 1)));
}
#[test]
fn x_three() {
    explore("three", Explored::new(&[1, 1, 1], true, Budget::default()));
}
#[test]
fn x_two_one() {
    explore("2+1", Explored::new(&[2, 1], true, Budget::default()));
}
