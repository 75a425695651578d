//! A state is visited once, so states of one fingerprint must have the same future: what the fingerprint leaves out must
//! not matter.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::worlds::small;
use super::*;

/// Of each world.
const STATES: usize = 10_000;

#[test]
fn every_state_of_one_fingerprint_has_the_same_successors() {
    let fingerprint = |state: &State| BuildHasherDefault::<DefaultHasher>::default().hash_one(state);
    for (what, explored) in small() {
        let mut seen: HashMap<u64, (Vec<(Action, u64)>, State)> = HashMap::new();
        let with_fingerprint = |state: State| (fingerprint(&state), state);
        let mut queue: VecDeque<(u64, State)> = explored.init_states().into_iter().map(with_fingerprint).collect();
        let mut met_again = 0;
        while let Some((here, state)) = queue.pop_front().filter(|_| seen.len() < STATES) {
            let (actions, next): (Vec<Action>, Vec<State>) = explored.next_steps(&state).into_iter().unzip();
            let next: Vec<(u64, State)> = next.into_iter().map(with_fingerprint).collect();
            let successors: Vec<(Action, u64)> = actions.into_iter().zip(next.iter().map(|(next, _)| *next)).collect();
            match seen.get(&here) {
                Some((known, first)) => {
                    met_again += 1;
                    assert!(
                        *known == successors,
                        "{what}: {known:?} from\n{first:#?}\n, {successors:?} from\n{state:#?}"
                    );
                }
                None => {
                    queue.extend(next);
                    seen.insert(here, (successors, state));
                }
            }
        }
        assert!(met_again > STATES / 10, "{what}: {met_again} met again");
    }
}
