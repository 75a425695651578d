//! The server of a world: the reference model of the scripts for each lock, a clock, and the ways in which it fails.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rmpv::ValueRef;

use super::losses::{Basis, Past};
use super::model::{self, Lock, Memory, Request, Seat, Terms};
use super::on_write::OnWrite;
use crate::keeper::machine::RequestId;
use crate::protocol::{
    self, AcquireRequest, BreakRequest, HeartbeatRequest, HistoryRequest, InspectRequest, LeaveRequest, LockKeys, Push,
    Refusal, ReleaseRequest, RenewRequest, Ticket, Token, WireId,
};
use crate::testing::calls;

/// What the server's clock shows when a world begins, in µs: no small number, and below 2^53.
pub(super) const EPOCH_US: u64 = 1 << 50;
/// How many heads one script looks at: a hundred in truth, few here, so that the limit is met.
const BATCH: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) locks: Vec<(Arc<LockKeys>, OnWrite<Lock>)>,
    pub(super) saved: Vec<(Arc<LockKeys>, OnWrite<Lock>)>,
    /// By how much its clock was set, in µs.
    pub(super) step: i64,
    pub(super) up: bool,
    /// Why it refuses everything, if it does.
    pub(super) refuses: Option<Refusal>,
    /// The basis of all answers from now on.
    pub(super) basis: Basis,
    /// What became of the losses, for each lock.
    pub(super) pasts: Vec<Past>,
    pub(super) was_set_back: bool,
    pub(super) lost_data: bool,
    /// Whether it may keep a state that only expires: brought back by a rollback, or left by a release that it refused.
    pub(super) untidy: bool,
    /// The highest token ever granted, for each lock.
    pub(super) tokens: Vec<u64>,
    /// Tokens whose leases were ended by an operator's force, or by a client that returned with a newer one after a
    /// loss.
    pub(super) forced: BTreeSet<u64>,
}

/// What comes out of one script.
pub(super) struct Executed {
    pub(super) lock: usize,
    pub(super) before: OnWrite<Lock>,
    /// The ticket with which a waiter returns; the highest number for a waiter without one.
    pub(super) brought: u64,
    /// The id that it is about, and the token of its lease; 0 for none.
    pub(super) id: Option<String>,
    pub(super) token: u64,
    pub(super) words: Option<Words>,
    pub(super) reply: protocol::Reply,
    pub(super) pushes: Vec<(String, Push)>,
}

/// What a request tells the server about the lock. Operators' requests tell nothing.
pub(super) struct Words {
    /// The epoch under which the client knows it, 0 if it does not.
    pub(super) epoch: u64,
    pub(super) highest: u64,
    /// For how long it wants waiters to be able to return; in ns.
    pub(super) asked: u64,
    /// The longest lease that it tells of or asks for, in ns.
    pub(super) longest: u64,
    /// Whether it is about a place or a lease: such a request opens a recovery if the server does not know it.
    pub(super) returns: bool,
}

impl Words {
    pub(super) fn of(call: &protocol::Request) -> Option<Self> {
        let request = request_of(call);
        let (memory, seat) = request.brings()?;
        let returns = matches!(request, Request::Acquire { .. } | Request::Renew { .. });
        let asked = 1000 * 3 * memory.pace.max(request.own_pace());
        let epoch = if memory.is_strangers() { 0 } else { memory.epoch.max(seat.epoch) };
        let asks = match request {
            Request::Acquire { terms, .. } => terms.lease,
            Request::Renew { left, .. } => left,
            _ => 0,
        };
        let (highest, longest) = (memory.highest().max(seat.highest()), 1000 * memory.longest.max(asks));
        Some(Self { epoch, highest, asked, longest, returns })
    }
}

/// A reply under way.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) request: RequestId,
    pub(super) lock: Arc<str>,
    pub(super) result: Result<protocol::Reply, Refusal>,
    pub(super) basis: Basis,
}

impl Server {
    pub(super) fn new(locks: &[Arc<LockKeys>]) -> Self {
        let locks: Vec<_> = locks.iter().map(|keys| (keys.clone(), Lock::default().into())).collect();
        Self {
            saved: locks.clone(),
            tokens: vec![0; locks.len()],
            forced: BTreeSet::new(),
            step: 0,
            up: true,
            refuses: None,
            basis: Basis::default(),
            pasts: vec![Past::default(); locks.len()],
            was_set_back: false,
            lost_data: false,
            untidy: false,
            locks,
        }
    }

    /// The server's clock, in µs, at this true time in ns.
    pub(super) fn time(&self, now: u64) -> u64 {
        (EPOCH_US + now / 1000).saturating_add_signed(self.step)
    }

    pub(super) fn execute(&mut self, now: u64, call: &protocol::Request) -> Executed {
        let time = self.time(now);
        let lock = self.locks.iter().position(|(keys, _)| keys.name == call.keys().name).expect("a known lock");
        let (keys, state) = &mut self.locks[lock];
        let before = state.clone();
        let request = request_of(call);
        let about = model::about(request.id().unwrap_or_default());
        let (answer, messages) = state.turn(time, &request, about, BATCH, &keys.lock);
        let pushes = messages
            .into_iter()
            .map(|(channel, message)| {
                let (_, client) = channel.rsplit_once(':').expect("a client's channel");
                let push = Push::parse(&calls::message(&message));
                (client.to_owned(), push.expect("a push that the client understands"))
            })
            .collect();
        let brought = match call {
            protocol::Request::Acquire(AcquireRequest { seat, .. }) => match place(*seat).ticket {
                0 => u64::MAX,
                ticket => ticket,
            },
            _ => u64::MAX,
        };
        let (id, token) = (request.id().map(str::to_owned), request.token());
        let words = Words::of(call);
        // As it comes over the wire, read by the real parser.
        let reply = match request {
            Request::Hdel { .. } => {
                protocol::Reply::to(call, &ValueRef::from(i64::from(answer.word == "released"))).ok()
            }
            _ => protocol::Reply::unpack(call.verb(), &calls::reply(&answer)),
        };
        let reply = reply.expect("a reply that the client understands");
        Executed { lock, before, brought, id, token, words, reply, pushes }
    }

    /// The exception of I3: tokens may fall, and with them the order in which leases replace each other.
    pub(super) fn forgot_the_time(&self) -> bool {
        self.was_set_back && self.lost_data
    }

    /// What is left of the lease of this id and token in true time, in ns: the lock clock is never faster.
    pub(super) fn left(&self, now: u64, lock: usize, id: &str, token: u64) -> Option<u64> {
        let lock = &self.locks[lock].1;
        let lease = lock.lease_of(id).filter(|lease| lease.token == token)?;
        let clock = self.time(now).saturating_add_signed(lock.state.skew);
        Some(lock.end_of(lease, clock).saturating_sub(clock) * 1000)
    }
}

fn us(span: Duration) -> u64 {
    span.as_micros() as u64
}

fn text(id: &WireId) -> String {
    id.as_str().to_owned()
}

fn memory(text: protocol::Memory) -> Memory {
    let [epoch, stamp, token, longest, pace] = calls::unsealed(text.as_bytes()).expect("a memory of the model");
    Memory { epoch, stamp, token, longest, pace }
}

fn place(text: protocol::Seat) -> Seat {
    calls::unsealed_seat(text.as_bytes()).expect("a seat of the model")
}

fn request_of(call: &protocol::Request) -> Request {
    let memory = memory(call.memory());
    match call.clone() {
        protocol::Request::Acquire(AcquireRequest {
            id,
            room,
            as_claim: claim,
            lease,
            liveness,
            buffer,
            heartbeat,
            most,
            seat,
            ..
        }) => {
            let (lease, liveness, buffer, heartbeat) = (us(lease), us(liveness), us(buffer), us(heartbeat));
            let terms = Terms { lease, liveness, buffer, heartbeat, most };
            Request::Acquire { id: text(&id), room, claim, terms, memory, seat: place(seat) }
        }
        protocol::Request::Heartbeat(HeartbeatRequest { client, liveness, buffer, heartbeat, ids, .. }) => {
            let (liveness, buffer, heartbeat) = (us(liveness), us(buffer), us(heartbeat));
            let terms = Terms { liveness, buffer, heartbeat, ..Terms::default() };
            let ids = ids.iter().map(text).collect();
            Request::Heartbeat { client: client.to_string(), terms, ids, memory }
        }
        protocol::Request::Renew(RenewRequest { id, seat, lease, liveness, left, most, .. }) => {
            let terms = Terms { lease: us(lease), liveness: us(liveness), most, ..Terms::default() };
            Request::Renew { id: text(&id), seat: place(seat), left: us(left), terms, memory }
        }
        protocol::Request::Release(ReleaseRequest { id, by_hdel: true, .. }) => Request::Hdel { id: text(&id) },
        protocol::Request::Release(ReleaseRequest { id, seat, .. }) => {
            Request::Release { id: text(&id), seat: place(seat), memory }
        }
        protocol::Request::Leave(LeaveRequest { ids, .. }) => {
            Request::Leave { ids: ids.iter().map(text).collect(), memory }
        }
        protocol::Request::Inspect(InspectRequest { after, count, tell_from, tell_most, .. }) => {
            let (after, [count, tell_most]) = (Ticket::on_wire(after), [count, tell_most].map(|count| count as usize));
            Request::Inspect { after, count, tell_from: tell_from.into(), tell_most }
        }
        protocol::Request::Break(BreakRequest { token, force, .. }) => {
            Request::Break { token: Token::on_wire(token), force }
        }
        protocol::Request::History(HistoryRequest { switch, count, .. }) => {
            Request::History { switch, count: count as usize }
        }
    }
}
