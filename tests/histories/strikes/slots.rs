//! The slot of a lock moves from one master of a cluster to another.

use std::time::Duration;

use testkit::{
    Cluster,
    crew::{Fault, Struck, fault::concerned},
    history::Trouble,
};

/// Every key of the slot moves by itself, with a rest after each, in which everybody goes on asking. A hit is a key
/// that moved so while somebody had the lock or wanted it.
pub fn migrated(cluster: &Cluster, slot: u16, hits: u64) -> Fault<'_> {
    Fault::new("keys of the slot moved", hits, move |crew| {
        // An absent key is asked for in vain until all have moved.
        Struck::during(&[Trouble::Silent], || {
            let to = cluster.another_master(cluster.owner(slot));
            let mut migration = cluster.migrate(slot, to);
            let mut moved = 0;
            while migration.step().is_some() {
                moved += concerned(crew).min(1);
                let span = crew.rng().u64(..200);
                crew.rest(Duration::from_millis(span));
            }
            migration.finish();
            moved
        })
    })
}
