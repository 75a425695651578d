//! The slot of a lock moves from one master of a cluster to another.

use std::time::Duration;

use testkit::{
    Cluster,
    crew::{Fault, Struck, fault::concerned},
    history::Trouble,
};

/// Every key of the slot is moved separately, with a pause after each in which all clients go on asking. A hit is a key
/// that was moved while the lock was held or wanted.
pub fn migrated(cluster: &Cluster, slot: u16, hits: u64) -> Fault<'_> {
    Fault::new("keys of the slot moved", hits, move |crew| {
        // Requests for an absent key fail until all keys have moved.
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
