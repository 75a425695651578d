//! The first attempt to connect, whose outcome a caller awaits.

use std::time::Duration;

use super::{Effect, Peer, Routes, Timer};
use crate::clock::Time;
use crate::error::ConnectError;
use crate::keeper::machine::ANSWER_TIMEOUT;

/// How long a node of a cluster may be silent before the first attempt tries another one beside it.
const NEXT_TRY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub(super) struct First {
    /// All of it has this time together.
    pub(super) by: Time,
    /// The most telling error so far of the nodes that have failed.
    error: Option<ConnectError>,
}

impl Routes {
    pub(super) fn begin(&mut self, now: Time) {
        self.first = Some(First { by: now + ANSWER_TIMEOUT, error: None });
        if self.is_cluster() {
            self.search(now);
        } else {
            self.connect(now, &Peer::Only, ANSWER_TIMEOUT);
        }
    }

    pub(super) fn first_connected(&mut self) {
        if self.first.take().is_some() {
            self.timers.clear(&Timer::NextTry);
            self.effects.push(Effect::First(Ok(())));
        }
    }

    /// A server could not be connected to: another node may be.
    pub(super) fn first_failed(&mut self, now: Time, peer: &Peer, error: ConnectError) {
        let Some(first) = &mut self.first else { return };
        let of_this_node = error.is_transient() || peer.node().is_some() && error.is_of_a_stranger();
        if first.error.as_ref().is_none_or(|before| error.rank() < before.rank()) {
            first.error = Some(error);
        }
        if of_this_node && (self.try_another(now) || self.is_connecting()) {
            return;
        }
        if let Some(error) = self.first.take().and_then(|first| first.error) {
            self.end_first(error);
        }
    }

    pub(super) fn end_first(&mut self, error: ConnectError) {
        self.first = None;
        self.timers.clear(&Timer::NextTry);
        self.effects.push(Effect::First(Err(error)));
    }

    /// Tries the next node of a cluster beside those that have not answered yet. False: there is none.
    pub(super) fn try_another(&mut self, now: Time) -> bool {
        let untried = self.map.nodes().map(|node| Peer::Node(node.clone())).find(|node| !self.links.contains_key(node));
        let Some(node) = untried.filter(|_| self.first.is_some()) else { return false };
        self.connect(now, &node, ANSWER_TIMEOUT);
        self.timers.set(Timer::NextTry, now + NEXT_TRY);
        true
    }
}
