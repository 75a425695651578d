//! Every state of small topologies.

use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

use super::topology::{Kind, Step, Topology};

/// How often each kind of fault may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    moves: u8,
    breaks: u8,
    asks: u8,
    ticks: u8,
}

#[derive(Clone, Debug)]
struct State {
    topology: Topology,
    budget: Budget,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.budget == other.budget && self.topology.fingerprint() == other.topology.fingerprint()
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.topology.fingerprint().hash(state);
        self.budget.hash(state);
    }
}

struct Explored {
    slots: usize,
    budget: Budget,
}

impl Model for Explored {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut topology = Topology::new(Kind::Cluster, 2, self.slots);
        // The way to the first open route holds no surprises.
        for _ in 0..20 {
            topology.step(Step::Deliver(0));
            topology.step(Step::Execute(0));
        }
        vec![State { topology, budget: self.budget }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        let State { topology, budget } = state;
        if topology.broken.is_some() {
            return;
        }
        actions.extend((0..topology.deliverable() as u8).map(Step::Deliver));
        actions.extend((0..topology.executable() as u8).map(Step::Execute));
        let slots = 0..topology.machines() as u8;
        if budget.asks > 0 {
            actions.extend(slots.clone().map(Step::Ask));
        }
        if budget.moves > 0 {
            actions.extend(slots.clone().flat_map(|slot| [Step::Move(slot, 0), Step::Move(slot, 1)]));
            actions.extend(slots.map(|slot| Step::Migrate(slot, 1)));
        }
        if budget.breaks > 0 {
            actions.extend((0..topology.connections() as u8).map(Step::Break));
        }
        if budget.ticks > 0 && topology.routes.next_due().is_some() {
            actions.push(Step::Due);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let spent = match step {
            Step::Move(..) | Step::Migrate(..) => Some(&mut state.budget.moves),
            Step::Break(_) => Some(&mut state.budget.breaks),
            Step::Ask(_) => Some(&mut state.budget.asks),
            Step::Due => Some(&mut state.budget.ticks),
            _ => None,
        };
        spent.into_iter().for_each(|left| *left -= 1);
        state.topology.step(step);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("requests go where they may and are answered once", |_, state: &State| {
                state.topology.broken.is_none()
            }),
            Property::always("all is served when the faults stop", |_, state: &State| {
                let mut topology = state.topology.clone();
                topology.all_is_served();
                topology.broken.is_none()
            }),
        ]
    }
}

fn explore(what: &str, slots: usize, budget: Budget) {
    let checker = Explored { slots, budget }.checker().threads(2).spawn_bfs().join();
    crate::keeper::tests::say(format_args!("{what}: {} states visited", checker.unique_state_count()));
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let mut topology = path.last_state().topology.clone();
        topology.all_is_served();
        panic!("{property}: {:?} after {:?}", topology.broken, path.into_actions());
    }
    assert!(checker.is_done());
}

#[test]
fn every_state_of_small_topologies_is_sound() {
    explore("routes, a slot that moves away and back", 1, Budget { moves: 2, breaks: 0, asks: 2, ticks: 1 });
    explore("routes, a slot that moves, a broken connection", 1, Budget { moves: 1, breaks: 1, asks: 1, ticks: 1 });
    explore("routes, two slots, one move", 2, Budget { moves: 1, breaks: 0, asks: 1, ticks: 1 });
}

/// `make model`. It takes long.
#[test]
#[ignore = "long: make model"]
fn every_state_of_larger_topologies_is_sound() {
    explore("routes, a slot that moves away and back, waiting", 1, Budget { moves: 2, breaks: 0, asks: 3, ticks: 2 });
    explore("routes, two moves, a broken connection", 1, Budget { moves: 2, breaks: 1, asks: 2, ticks: 1 });
    explore("routes, two slots, two moves", 2, Budget { moves: 2, breaks: 0, asks: 2, ticks: 1 });
}
