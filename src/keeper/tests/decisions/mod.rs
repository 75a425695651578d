//! What one machine sends and tells, and when, to the microsecond. The worlds show that the promises hold; these cases
//! show that the machine keeps them as designed, neither later nor with more requests.

mod asking;
mod denied;
mod extending;
mod forged;
mod giving_back;
mod hdel;
mod holding;
mod late;
mod many;
mod positions;
mod replicated;
mod room;
mod several;
mod trouble;
mod waiting;

use std::time::Duration;

use super::alone::*;
use super::replies::{Answer, Word, memory, seat, told, told_in};
use crate::clock::Time;
use crate::error::LostReason;
use crate::keeper::machine::*;
use crate::options::LockOptions;
use crate::protocol::{LockKeys, Memory, OwnLease, Push, PushKind, Request, Seat, Secret, Ticket, Token, WireId};
use crate::term::span_until;

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(super) fn granted(effects: &[Effect]) -> Option<Time> {
    effects.iter().find_map(|effect| if let Effect::Granted { deadline, .. } = effect { Some(*deadline) } else { None })
}

pub(super) fn lost(effects: &[Effect]) -> Option<&LostReason> {
    effects.iter().find_map(|effect| if let Effect::Lost { reason, .. } = effect { Some(reason) } else { None })
}

/// Until when a lost lease lasts.
pub(super) fn lost_at(effects: &[Effect]) -> Option<Time> {
    effects.iter().find_map(|effect| if let Effect::Lost { deadline, .. } = effect { Some(*deadline) } else { None })
}

pub(super) fn not_granted(effects: &[Effect]) -> Option<&NotGranted> {
    effects.iter().find_map(|effect| if let Effect::NotGranted { why, .. } = effect { Some(why) } else { None })
}

pub(super) fn outcome(effects: &[Effect], asked: u64) -> Option<&Outcome> {
    effects.iter().find_map(|effect| match effect {
        Effect::Answer { question: QuestionId(question), outcome } if *question == asked => Some(outcome),
        _ => None,
    })
}

pub(super) fn reconnects(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Reconnect))
}

pub(super) fn calls(effects: Vec<Effect>) -> Vec<(RequestId, Request)> {
    let send = |effect| if let Effect::Send { request, call } = effect { Some((request, call)) } else { None };
    effects.into_iter().filter_map(send).collect()
}

pub(super) fn alive(rank: u64, lease_left: Duration) -> Answer {
    Answer { rank: Some(rank), ..lease(Word::Alive, lease_left) }
}

/// Of a lease from the place that `queued` tells.
pub(super) fn pushed(machine: &mut Machine, now: f64, kind: PushKind, id: u64, token: u64) {
    let lock = LockKeys::new("fairlock", "x").lock.clone();
    machine.handle(at(now), Event::Push(push(kind, id, token, "s", lock)));
}

/// A message from the place that `queued` tells.
pub(super) fn push(kind: PushKind, id: u64, token: u64, secret: &str, lock: String) -> Push {
    let id = WireId::parse(&format!("client.{id}")).unwrap();
    let (token, ticket) = (Token::new(token).unwrap(), Ticket::new(6).unwrap());
    let (seat, known) = (seat(5, 6, token.get()), told(5, token.get()));
    Push { kind, id, token, ticket, slot: 0, seat, known, secret: Secret::repeated(secret), lock }
}

pub(super) fn grant_pushed(machine: &mut Machine, now: f64, id: u64, token: u64) {
    pushed(machine, now, PushKind::Grant, id, token);
}

pub(super) fn grant_brings(machine: &mut Machine, now: f64, id: u64, token: u64) -> Vec<Effect> {
    grant_pushed(machine, now, id, token);
    machine.effects(at(now), usize::MAX)
}

/// A machine of so many waiters, with tickets from 10 on, that hears 3.5 s after their calls that the server does not know
/// them; and what it sends then if there is so much room.
pub(super) fn many_return(waiters: u64, room: usize) -> (Machine, Vec<(RequestId, Request)>) {
    let (mut machine, spec) = start(LockOptions::new());
    for id in 1..=waiters {
        acquire(&mut machine, 0.0, &spec, id);
    }
    for (index, (request, _)) in sent(&mut machine, 0.0).into_iter().enumerate() {
        answer(&mut machine, 0.1, request, Answer { ticket: 10 + index as u64, ..queued(9, seconds(30.0)) });
    }
    let (request, _) = tick_sends(&mut machine, 3.4);
    answer(&mut machine, 3.5, request, lease(Word::Unknown, Duration::ZERO));
    let sent = sent_within(&mut machine, 3.5, room);
    (machine, sent)
}
