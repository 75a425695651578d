//! Single decisions: what is connected, asked and told when, to the millisecond.

mod cluster;
mod doubt;
mod first_attempt;
mod one_server;
mod replicas;
mod search;
mod sentinels;

use std::time::Duration;

use super::alone::*;
use crate::keeper::routes::{ConnectionId, Effect};
use crate::protocol::{Knowledge, Push, PushKind, Seat, Secret, Ticket, Token, WireId};

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn dropped(effects: &[Effect]) -> Vec<ConnectionId> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Drop { connection } = effect { Some(*connection) } else { None })
        .collect()
}

pub(super) fn push(name: &str) -> Push {
    Push {
        kind: PushKind::Grant,
        id: WireId::parse("client.1").unwrap(),
        token: Token::new(5).unwrap(),
        ticket: Ticket::new(5).unwrap(),
        slot: 0,
        seat: Seat::NONE,
        known: Knowledge::default(),
        secret: Secret::repeated("s"),
        lock: format!("fairlock:{{{name}}}:lock"),
    }
}
