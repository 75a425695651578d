//! One machine without a world: what tests say to it and hear from it.

use std::sync::Arc;
use std::time::Duration;

use super::replies::{Answer, Word, seat, told_in};
use crate::clock::Time;
use crate::keeper::machine::Mode;
use crate::keeper::machine::*;
use crate::options::{LockOptions, Spec};
use crate::protocol::{
    AcquireRequest, BreakRequest, CallerData, ClientId, InspectRequest, LockKeys, OwnLease, Refusal, Request, Secret,
    Ticket, Token, WireId,
};

pub(super) fn at(seconds: f64) -> Time {
    Time((1e6 * (1000.0 + seconds)).round() as u64 * 1000)
}

pub(super) fn machine() -> Machine {
    Machine::new(ClientId::new("client").unwrap(), "fairlock".into(), 1)
}

pub(super) fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

pub(super) fn ticket(number: u64) -> Ticket {
    Ticket::new(number).unwrap()
}

/// The id of this acquire of the machine.
pub(super) fn wire_id(id: u64) -> WireId {
    WireId::new(&ClientId::new("client").unwrap(), Id(id))
}

/// A lease of the machine as a reply names it.
pub(super) fn own(id: u64, token: u64, ticket: u64) -> OwnLease {
    let (token, ticket) = (Token::new(token).unwrap(), Ticket::new(ticket).unwrap());
    let seat = seat(5, ticket.get(), token.get());
    OwnLease { id: wire_id(id), token, ticket, slot: 0, most: 1, seat, claim: false, left: Duration::ZERO }
}

/// Whether the request is an acquire that brings this ticket, or none.
pub(super) fn is_acquire_with(request: &Request, expected: Option<u64>) -> bool {
    matches!(request, Request::Acquire(AcquireRequest { seat, .. }) if told_in(*seat)[1] == expected.unwrap_or_default())
}

/// A machine that is connected, and the options of its lock.
pub(super) fn start(options: LockOptions) -> (Machine, Arc<Spec>) {
    let mut machine = machine();
    machine.handle(at(0.0), Event::Connected { can_kill: true });
    (machine, options.of(LockKeys::new("fairlock", "x")).unwrap())
}

pub(super) fn acquire(machine: &mut Machine, now: f64, spec: &Arc<Spec>, id: u64) {
    acquire_in(machine, now, spec, id, Mode::Wait, None);
}

pub(super) fn acquire_in(
    machine: &mut Machine,
    now: f64,
    spec: &Arc<Spec>,
    id: u64,
    mode: Mode,
    timeout: Option<Duration>,
) {
    let about = CallerData { secret: Secret::repeated("s"), label: "l".into(), owner: "o".into() };
    let asked = AcquireCall { spec: spec.clone(), about, mode, timeout, called: at(now) };
    machine.handle(at(now), Event::Command(Command::Acquire { id: Id(id), asked }));
}

pub(super) fn ask(machine: &mut Machine, now: f64, number: u64, question: Question) {
    machine.handle(at(now), Event::Command(Command::Ask { number: QuestionId(number), question }));
}

/// The question of an operator who looks at the lock.
pub(super) fn inspecting(keys: &Arc<LockKeys>, count: u32) -> Question {
    Question::Operator(Box::new(Request::Inspect(InspectRequest::first(keys, count))))
}

/// The question of an operator who breaks the lease with this token.
pub(super) fn breaking(keys: &Arc<LockKeys>, token: u64, force: bool) -> Question {
    let (keys, token) = (keys.clone(), Token::new(token));
    Question::Operator(Box::new(Request::Break(BreakRequest { keys, token, force })))
}

pub(super) fn sent(machine: &mut Machine, now: f64) -> Vec<(RequestId, Request)> {
    sent_within(machine, now, usize::MAX)
}

/// What is sent if there is so much room.
pub(super) fn sent_within(machine: &mut Machine, now: f64, room: usize) -> Vec<(RequestId, Request)> {
    let send = |effect| if let Effect::Send { request, call } = effect { Some((request, call)) } else { None };
    machine.effects(at(now), room).into_iter().filter_map(send).collect()
}

/// The only request that is to be sent now.
pub(super) fn one_sent(machine: &mut Machine, now: f64) -> (RequestId, Request) {
    let mut all = sent(machine, now);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

pub(super) fn tick(machine: &mut Machine, now: f64) {
    machine.handle(at(now), Event::Tick);
}

/// The only request that this time brings.
pub(super) fn tick_sends(machine: &mut Machine, now: f64) -> (RequestId, Request) {
    tick(machine, now);
    one_sent(machine, now)
}

pub(super) fn acquire_sends(machine: &mut Machine, now: f64, spec: &Arc<Spec>, id: u64) -> (RequestId, Request) {
    acquire(machine, now, spec, id);
    one_sent(machine, now)
}

pub(super) fn ask_sends(machine: &mut Machine, now: f64, number: u64, question: Question) -> (RequestId, Request) {
    ask(machine, now, number, question);
    one_sent(machine, now)
}

/// All that this time brings.
pub(super) fn tick_brings(machine: &mut Machine, now: f64) -> Vec<Effect> {
    tick(machine, now);
    machine.effects(at(now), usize::MAX)
}

pub(super) fn answer_brings(machine: &mut Machine, now: f64, request: RequestId, reply: Answer) -> Vec<Effect> {
    answer(machine, now, request, reply);
    machine.effects(at(now), usize::MAX)
}

pub(super) fn ask_brings(machine: &mut Machine, now: f64, number: u64, question: Question) -> Vec<Effect> {
    ask(machine, now, number, question);
    machine.effects(at(now), usize::MAX)
}

pub(super) fn disconnect(machine: &mut Machine, now: f64) {
    machine.handle(at(now), Event::Disconnected { cause: "gone".into() });
}

pub(super) fn connect(machine: &mut Machine, now: f64) {
    machine.handle(at(now), Event::Connected { can_kill: true });
}

pub(super) fn reconnect(machine: &mut Machine, gone: f64, back: f64) {
    disconnect(machine, gone);
    connect(machine, back);
}

pub(super) fn fail(machine: &mut Machine, now: f64, request: RequestId, refusal: Refusal) {
    machine.handle(at(now), Event::Answered { request, result: Err(refusal) });
}

pub(super) fn answer(machine: &mut Machine, now: f64, request: RequestId, answer: Answer) {
    let reply = answer.to(machine, request);
    machine.handle(at(now), Event::Answered { request, result: Ok(reply) });
}

pub(super) fn lease(word: Word, left: Duration) -> Answer {
    Answer { word, epoch: 5, stamp: 7, granted_token: 7, left, lease_left: left, ..Answer::default() }
}

/// A machine that holds the lock as number 1 since the start.
pub(super) fn holding(options: LockOptions) -> Machine {
    holding_after(options, |granted| granted)
}

/// The same, with another reply to its acquire.
pub(super) fn holding_after(options: LockOptions, change: impl FnOnce(Answer) -> Answer) -> Machine {
    let (mut machine, spec) = start(options);
    acquire(&mut machine, 0.0, &spec, 1);
    let (request, _) = sent(&mut machine, 0.0).remove(0);
    answer(&mut machine, 0.001, request, change(lease(Word::Granted, spec.lease)));
    sent(&mut machine, 0.001);
    machine
}

/// What a waiter in the queue is answered.
pub(super) fn queued(rank: u64, lease_left: Duration) -> Answer {
    Answer { ticket: 6, rank: Some(rank), ..lease(Word::Queued, lease_left) }
}

/// A machine that waits at this rank as number 1 since the start, and heard so a tenth of a second later.
pub(super) fn waiting(options: LockOptions, rank: u64, lease_left: Duration) -> Machine {
    let (mut machine, spec) = start(options);
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    answer(&mut machine, 0.1, request, queued(rank, lease_left));
    machine.effects(at(0.1), usize::MAX);
    machine
}
