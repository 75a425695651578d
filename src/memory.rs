//! Collections that give back the memory of a burst. They grow to whatever a burst needs, and would keep that for ever.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The most places that are kept while they are empty.
pub(crate) const KEPT: usize = 1024;

pub(crate) trait GiveBack {
    /// Gives memory back if most of it is not used. Called after each removal: it seldom does anything.
    fn give_back(&mut self);
}

impl<T> GiveBack for VecDeque<T> {
    fn give_back(&mut self) {
        if let Some(enough) = enough(self.len(), self.capacity()) {
            self.shrink_to(enough);
        }
    }
}

impl<K: Eq + Hash, V> GiveBack for HashMap<K, V> {
    fn give_back(&mut self) {
        if let Some(enough) = enough(self.len(), self.capacity()) {
            self.shrink_to(enough);
        }
    }
}

/// The capacity that is enough, where there is far more.
fn enough(len: usize, capacity: usize) -> Option<usize> {
    (capacity > KEPT && len < capacity / 8).then_some(2 * len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: usize = 100 * KEPT;

    #[test]
    fn memory_of_a_burst_is_given_back_and_what_remains_is_kept() {
        let mut map: HashMap<usize, usize> = (0..BURST).map(|number| (number, number)).collect();
        let mut queue: VecDeque<usize> = (0..BURST).collect();
        for number in 0..BURST - 5 {
            map.remove(&number);
            queue.pop_front();
            map.give_back();
            queue.give_back();
            assert!(map.capacity() <= (16 * map.len()).max(2 * KEPT), "{} for {}", map.capacity(), map.len());
            assert!(queue.capacity() <= (16 * queue.len()).max(2 * KEPT), "{} for {}", queue.capacity(), queue.len());
        }
        assert_eq!((map.len(), queue.len()), (5, 5));
        assert_eq!(queue, (BURST - 5..BURST).collect::<VecDeque<_>>());
    }

    #[test]
    fn the_usual_ups_and_downs_move_nothing() {
        let mut queue: VecDeque<usize> = (0..KEPT).collect();
        let before = queue.capacity();
        queue.clear();
        queue.give_back();
        assert_eq!(queue.capacity(), before);
    }
}
