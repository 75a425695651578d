//! A state is visited once, so states of one fingerprint must have the same future: what the fingerprint leaves out must
//! not matter.

use std::collections::{HashMap, VecDeque};
use std::hash::DefaultHasher;

use super::worlds::small;
use super::*;

/// Of each world.
const STATES: usize = 10_000;

#[test]
fn states_of_one_fingerprint_have_the_same_successors() {
    for (what, explored) in small() {
        let mut seen = HashMap::new();
        let mut queue: VecDeque<State> = explored.init_states().into();
        let mut met_again = 0;
        while let Some(state) = queue.pop_front().filter(|_| seen.len() < STATES) {
            let successors = explored.successors(&state);
            let fingerprints: Vec<(Action, u64)> =
                successors.iter().map(|(action, next)| (*action, fingerprint(next))).collect();
            match seen.get(&fingerprint(&state)) {
                Some((known, first)) => {
                    met_again += 1;
                    assert!(
                        *known == fingerprints,
                        "{what}: {known:?} from\n{first:#?}\n, {fingerprints:?} from\n{state:#?}"
                    );
                }
                None => {
                    queue.extend(successors.into_iter().map(|(_, next)| next));
                    seen.insert(fingerprint(&state), (fingerprints, state));
                }
            }
        }
        assert!(met_again > STATES / 10, "{what}: {met_again} met again");
    }
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl Explored {
    fn successors(&self, state: &State) -> Vec<(Action, State)> {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        actions.into_iter().map(|action| (action, self.next_state(state, action).expect("a state"))).collect()
    }
}
