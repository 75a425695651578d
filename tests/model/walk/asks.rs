//! What clients and operators ask, and how often a random case has each of it. A verb is drawn here, or nothing compares
//! its script with the model.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::super::clients::Hold;
use super::super::{Answer, Memory, Request, Seat, UNBOUNDED};
use super::{HOUR, SECOND, Walk};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum What {
    Acquire {
        wait: bool,
        claim: bool,
        /// The longest queue that it joins; 0 for any.
        #[serde(default)]
        most: u64,
    },
    Enter(usize),
    Heartbeat,
    Renew(usize),
    Release(usize),
    Leave {
        from: usize,
        count: usize,
        /// Whether the first is named twice.
        twice: bool,
    },
    Farewell(usize),
    Break {
        current: bool,
        force: bool,
    },
    Inspect {
        after: usize,
        count: usize,
        tell_from: u64,
        tell_most: usize,
    },
    History {
        switch: Option<bool>,
        count: usize,
    },
    Boast,
}

/// One of them.
pub fn what() -> impl Strategy<Value = What> {
    prop_oneof![
        12 => (prop::bool::weighted(0.8), prop::bool::weighted(0.2), prop_oneof![4 => Just(0), 1 => 1..4u64])
            .prop_map(|(wait, claim, most)| What::Acquire { wait, claim, most }),
        8 => (0..8usize).prop_map(What::Enter),
        12 => Just(What::Heartbeat),
        10 => (0..3usize).prop_map(What::Renew),
        10 => (0..3usize).prop_map(What::Release),
        3 => (0..4usize, 1..4usize, prop::bool::weighted(0.2)).prop_map(|(from, count, twice)| What::Leave { from, count, twice }),
        5 => (0..4usize).prop_map(What::Farewell),
        3 => any::<(bool, bool)>().prop_map(|(current, force)| What::Break { current, force }),
        2 => (0..4usize, 0..4usize, 0..4u64, 0..4usize).prop_map(|(after, count, tell_from, tell_most)| {
            What::Inspect { after, count, tell_from, tell_most }
        }),
        2 => (prop::option::of(prop::bool::weighted(0.8)), 0..9usize).prop_map(|(switch, count)| What::History { switch, count }),
        1 => Just(What::Boast),
    ]
}

impl Walk<'_> {
    /// What this client would ask, or the next best thing if it has nothing of the kind.
    pub(super) fn request(&mut self, who: usize, what: &What) -> Request {
        let (now, time) = (self.now, self.time());
        let client = &mut self.clients[who];
        let (waiters, holds) = (client.waiters.len(), client.holds.len());
        match *what {
            What::Acquire { wait, claim, most } if waiters < 6 => {
                let room = if wait { Some(most).filter(|most| *most > 0).unwrap_or(UNBOUNDED) } else { 0 };
                client.acquire(now, room, claim)
            }
            What::Enter(which) if waiters > 0 => client.enter(now, which % waiters),
            What::Renew(which) if holds > 0 => client.renew(now, which % holds),
            What::Release(which) if holds > 0 => client.release(now, which % holds),
            What::Leave { from, count, twice } if waiters > 0 => client.leave(now, from % waiters, count, twice),
            What::Farewell(which) if !client.farewells.is_empty() => {
                client.give_back(now, which % client.farewells.len())
            }
            What::Break { current, force } => {
                // If no lease is held, token 0 ends a recovery.
                let held = self.model.leases.last();
                let token = if current { held.map_or(0, |held| held.token) } else { self.model.state.stamp };
                Request::Break { token, force }
            }
            What::Inspect { after, count, tell_from, tell_most } => {
                let after = self.model.queue.iter().nth(after).map_or(0, |(ticket, _)| *ticket);
                Request::Inspect { after, count, tell_from, tell_most }
            }
            What::History { count, .. } if testkit::run::version() < (6, 2) => {
                Request::Inspect { after: 0, count, tell_from: 0, tell_most: count }
            }
            What::History { switch, count } => Request::History { switch, count },
            What::Boast => {
                let (id, floor) = (format!("{}.9999", client.name), time + 25 * HOUR);
                let (stamp, token, longest) = (floor, floor, SECOND);
                let memory = Memory { epoch: 1, stamp, token, longest, pace: 0 };
                let (seat, terms) = (Seat { epoch: 1, ticket: floor, ..Seat::default() }, client.terms);
                match client.holds.first().cloned() {
                    Some(Hold { id, seat, .. }) => Request::Renew { id, seat, left: SECOND, terms, memory },
                    None => Request::Acquire { id, room: UNBOUNDED, claim: false, terms, memory, seat },
                }
            }
            _ if waiters > 0 => client.heartbeat(now),
            _ => client.acquire(now, UNBOUNDED, false),
        }
    }

    /// Whether a server whose memory is full refuses it.
    pub(super) fn needs_memory(&self, request: &Request, answer: &Answer) -> bool {
        match request {
            // What is left of lost data goes before anything is written, and the server lets the rest through then.
            Request::Acquire { .. } => answer.word != "disbelieved" && !self.model.is_partial(),
            Request::History { switch, .. } => *switch == Some(true),
            _ => false,
        }
    }
}
