//! The search for servers: sentinels know the master, the nodes of a cluster which of them serves which slot.
//!
//! Three nodes are asked at once, three more each quarter of a second, and the first answer is believed. So a node that
//! hangs does not delay the others, and the servers correct a wrong answer (MOVED).

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::{ConnectionId, Discovered, Effect, Peer, Routes, Shape, Timer, patience_after};
use crate::clock::Time;
use crate::error::ConnectError;
use crate::server::{Node, SlotMap};

/// How many nodes are asked at once, and how long they may be silent before as many more are asked.
const ASKED: usize = 3;
const NEXT: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub(super) struct Search {
    to_ask: VecDeque<Node>,
    asked: BTreeSet<ConnectionId>,
    /// How long each node may take to answer. A node that is asked late has as long as the first.
    patience: Duration,
    /// For messages.
    names: String,
    /// The error that explains most so far.
    error: Option<ConnectError>,
    /// Waiting may help with the error of one node, or a node has not answered: a permanent error of another node may be
    /// that node's own.
    may_pass: bool,
}

impl Routes {
    /// Starts a search, unless one is under way.
    pub(super) fn search(&mut self, now: Time) {
        if self.search.is_some() {
            return;
        }
        let (to_ask, pause) = match &self.shape {
            Shape::Server(_) => return,
            // The pause is that before connecting.
            Shape::Sentinels(sentinels) => (sentinels.clone(), Duration::ZERO),
            Shape::Cluster(seeds) => {
                let nodes: BTreeSet<Node> = self.map.nodes().chain(seeds).cloned().collect();
                let mut nodes: Vec<Node> = nodes.into_iter().collect();
                self.random.shuffle(&mut nodes);
                (nodes, self.back_off(self.searches, self.patience_of_closed()))
            }
        };
        let patience = patience_after(self.searches, self.patience_of_closed());
        self.searches = self.searches.saturating_add(1);
        self.search = Some(Search {
            names: to_ask.iter().map(Node::to_string).collect::<Vec<_>>().join(","),
            to_ask: to_ask.into(),
            asked: BTreeSet::new(),
            patience,
            error: None,
            may_pass: false,
        });
        if pause.is_zero() {
            return self.ask_more(now);
        }
        self.timers.set(Timer::Search, now + pause);
    }

    pub(super) fn ask_more(&mut self, now: Time) {
        for _ in 0..ASKED {
            let connection = self.new_connection();
            let Some(search) = &mut self.search else { return };
            let Some(node) = search.to_ask.pop_front() else { break };
            let by = self.first.as_ref().map_or_else(|| now + search.patience, |first| first.by);
            search.asked.insert(connection);
            self.timers.set(Timer::Asked(connection), by);
            self.effects.push(Effect::Discover { connection, node, by });
        }
        if self.search.as_ref().is_some_and(|search| !search.to_ask.is_empty()) {
            self.timers.set(Timer::AskMore, now + NEXT);
        }
    }

    pub(super) fn asked_in_vain(&mut self, now: Time, connection: ConnectionId) {
        if !self.end_question(connection) {
            return;
        }
        if let Some(search) = &mut self.search {
            search.may_pass = true;
        }
        self.ask_others(now);
    }

    pub(super) fn node_failed(&mut self, now: Time, connection: ConnectionId, error: ConnectError) {
        if !self.end_question(connection) {
            return;
        }
        if let Some(search) = &mut self.search {
            search.may_pass |= error.is_transient();
            if search.error.as_ref().is_none_or(|before| error.rank() < before.rank()) {
                search.error = Some(error);
            }
        }
        self.ask_others(now);
    }

    /// This node is not asked any more. False if it was not asked.
    fn end_question(&mut self, connection: ConnectionId) -> bool {
        self.timers.clear(&Timer::Asked(connection));
        self.search.as_mut().is_some_and(|search| search.asked.remove(&connection))
    }

    /// No node is left to answer: the next ones are asked, or the search has failed.
    fn ask_others(&mut self, now: Time) {
        let Some(search) = self.search.as_ref().filter(|search| search.asked.is_empty()) else { return };
        if !search.to_ask.is_empty() {
            return self.ask_more(now);
        }
        let Some(Search { error, may_pass, names, .. }) = self.end_search() else { return };
        let lasting = !may_pass && error.is_some();
        let error = error.unwrap_or_else(|| ConnectError::silent(names));
        match self.shape {
            Shape::Cluster(_) => self.not_discovered(now, error, lasting),
            _ => self.not_connected(now, &Peer::Only, error, lasting),
        }
    }

    fn end_search(&mut self) -> Option<Search> {
        let search = self.search.take()?;
        search.asked.iter().for_each(|connection| self.timers.clear(&Timer::Asked(*connection)));
        self.timers.clear(&Timer::AskMore);
        Some(search)
    }

    pub(super) fn found(&mut self, now: Time, connection: ConnectionId, found: Discovered) {
        if !self.search.as_ref().is_some_and(|search| search.asked.contains(&connection)) {
            return;
        }
        self.end_search();
        match found {
            Discovered::Master(node) => {
                self.searches = 0;
                self.dial(now, &Peer::Only, Some(node));
            }
            Discovered::Slots(map) => self.discovered(now, map),
        }
    }

    fn discovered(&mut self, now: Time, map: SlotMap) {
        self.map = map;
        self.resolve_doubts();
        self.try_another(now);
        let closed = self.closed_slots();
        for slot in &closed {
            self.routes.entry(*slot).and_modify(|route| route.lost = false);
            self.open(now, *slot);
        }
        self.search_on(now, !closed.is_empty());
    }

    fn not_discovered(&mut self, now: Time, error: ConnectError, lasting: bool) {
        if self.first.is_some() {
            return self.end_first(error);
        }
        let (closed, cause) = (self.closed_slots(), std::sync::Arc::<str>::from(error.to_string()));
        closed.iter().for_each(|slot| self.close(*slot, cause.clone()));
        // A cluster that was found is not given up because another program has the addresses of its nodes.
        if lasting && (self.map.nodes().next().is_none() || !error.is_of_a_stranger()) {
            self.tell_unusable(closed.clone(), &error);
        }
        self.search_on(now, !closed.is_empty());
    }

    /// A node that does not answer may have been replaced by now: the search goes on until all routes are open.
    fn search_on(&mut self, now: Time, some_are_closed: bool) {
        if some_are_closed {
            self.search(now);
        } else if !self.routes.values().any(|route| route.moved) {
            self.searches = 0;
        }
    }
}
