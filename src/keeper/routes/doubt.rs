//! Doubts: a server answers that it does not serve the locks, now or any more, because it is a replica, or lost its
//! replicas or its cluster. Nothing breaks its connections then, so only the keeper can leave it.
//!
//! One server is connected to anew: its address may lead to another one by now, and sentinels name the master again. In
//! a cluster the nodes are asked again which of them serves the slot; connections stay. Neither is done more than once a
//! second. In between the machines ask the doubted server again, because it may be the right one once more.

use std::sync::Arc;
use std::time::Duration;

use super::{Peer, Routes};
use crate::clock::Time;
use crate::keeper::machine::RequestId;
use crate::server::Slot;

/// The shortest time between two of these.
const PAUSE: Duration = Duration::from_secs(1);

impl Routes {
    /// The server to which the route of this slot leads has answered so.
    pub(super) fn doubt(&mut self, now: Time, slot: Slot, request: RequestId, peer: &Peer, cause: Arc<str>) {
        let is_due = self.doubts(now);
        if is_due && !self.is_cluster() {
            return self.fail(now, peer, &cause);
        }
        if let Some(route) = self.routes.get_mut(&slot) {
            route.doubted = true;
        }
        self.refuse(slot, request, cause);
        if is_due {
            self.search(now);
        }
    }

    /// Whether something is done about a doubt now.
    pub(super) fn doubts(&mut self, now: Time) -> bool {
        let is_due = self.doubted.is_none_or(|before| now.since(before) >= PAUSE);
        if is_due {
            self.doubted = Some(now);
        }
        is_due
    }

    /// The nodes of a cluster have told who serves what: doubted routes that lead elsewhere close.
    pub(super) fn resolve_doubts(&mut self) {
        let doubted = self.routes.iter_mut().filter_map(|(slot, route)| {
            let was = std::mem::take(&mut route.doubted) && route.connection.is_some();
            was.then(|| (*slot, route.peer.clone()))
        });
        for (slot, peer) in Vec::from_iter(doubted) {
            if self.peer_of(slot) != peer {
                self.close(slot, "its slot is at another node".into());
            }
        }
    }
}
