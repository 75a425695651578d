//! One keeper's routes, whose events a test makes up.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Time;
use crate::error::ConnectError;
use crate::keeper::machine::{self, RequestId};
use crate::keeper::routes::{ConnectionId, Discovered, Effect, Event, Routes, Shape, tag};
use crate::protocol::{self, ClientId, LeaveRequest, LockKeys, Memory, Refusal, Request, WireId};
use crate::server::{CallOutcome, Facts, Node, Previous, Slot, SlotMap, WireEvent, slot_of};

pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Routes, the time in ms, and what they have decided since it was last looked at.
pub(super) struct Alone {
    pub(super) routes: Routes,
    pub(super) now: u64,
    passed: u32,
}

pub(super) fn node(port: u16) -> Node {
    Node { host: "h".into(), port }
}

pub(super) fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

pub(super) fn call() -> Request {
    Request::Leave(LeaveRequest {
        keys: Arc::new(LockKeys::new("fairlock", "x")),
        memory: Memory::NONE,
        ids: vec![WireId::parse("client.1").unwrap()],
    })
}

pub(super) fn facts(run: &str) -> Facts {
    Facts {
        address: "h:1".into(),
        run: Some(Previous::in_test(run, 7)),
        can_kill: true,
        is_replica: false,
        read_only: false,
        shards: true,
        warning: None,
    }
}

pub(super) fn refused() -> ConnectError {
    ConnectError::Unreachable { address: "h:1".into(), cause: "refused".into() }
}

/// Another program has the address.
pub(super) fn stranger() -> ConnectError {
    ConnectError::NotRedis { address: "h:1".into(), cause: "HTTP".into() }
}

pub(super) fn denied() -> ConnectError {
    ConnectError::Authentication { address: "h:1".into(), cause: "WRONGPASS".into() }
}

pub(super) fn moved(to: u16) -> CallOutcome {
    CallOutcome::Elsewhere { node: node(to), asking: false }
}

/// The slot of `x` is at the first node, all others are at the second.
pub(super) fn map(first: u16, second: u16) -> Discovered {
    let ranges = vec![(x(), x(), node(first)), (0, x() - 1, node(second)), (x() + 1, 16383, node(second))];
    Discovered::Slots(SlotMap::of(ranges))
}

pub(super) fn x() -> Slot {
    slot_of("x")
}

/// A lock in another slot than `x`.
pub(super) const Y: &str = "y";

impl Alone {
    pub(super) fn of(shape: Shape, first: bool) -> Self {
        let routes = Routes::new(at(0), shape, ClientId::new("client").unwrap(), "fairlock".into(), 1, first);
        Self { routes, now: 0, passed: 0 }
    }

    pub(super) fn server() -> Self {
        Self::of(Shape::Server("h:1".into()), false)
    }

    /// The same, with the lock `x` wanted.
    pub(super) fn wanting() -> Self {
        let mut alone = Self::server();
        alone.want("x");
        alone
    }

    pub(super) fn sentinels(many: u16) -> Self {
        Self::of(Shape::Sentinels((1..=many).map(node).collect()), false)
    }

    /// A cluster that was found, with `x` wanted.
    pub(super) fn cluster(found: Discovered) -> Self {
        let mut alone = Self::of(Shape::Cluster(vec![node(1)]), false);
        alone.want("x");
        let (connection, ..) = alone.asked().remove(0);
        alone.handle(Event::Discovered { connection, found });
        alone
    }

    /// The same, with the route of `x` open over this connection.
    pub(super) fn open_cluster() -> (Self, ConnectionId) {
        Self::open(map(1, 2))
    }

    pub(super) fn open(found: Discovered) -> (Self, ConnectionId) {
        let mut alone = Self::cluster(found);
        let (connection, _) = alone.connect();
        alone.confirm(connection, "x");
        (alone, connection)
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.routes.handle(at(self.now), event);
    }

    pub(super) fn effects(&mut self) -> Vec<Effect> {
        self.routes.effects()
    }

    pub(super) fn want(&mut self, name: &str) {
        self.want_within(name, PATIENCE);
    }

    pub(super) fn want_within(&mut self, name: &str, patience: Duration) {
        let slot = self.routes.slot(name);
        self.handle(Event::Patience { slot, patience });
        self.handle(Event::RequestRoute { slot, name: name.into() });
    }

    /// Time goes on to when something is due, or by so many ms, whichever is first.
    pub(super) fn pass(&mut self, ms: u64) {
        self.passed += 1;
        assert!(self.passed < 10_000, "what is waited for does not come");
        let due = self.routes.next_due().map_or(u64::MAX, |due| due.0.div_ceil(1_000_000));
        self.now = (self.now + ms).min(due.max(self.now));
        self.handle(Event::Tick);
    }

    /// Time goes on until something is decided. How long that took, in ms, and what it is.
    pub(super) fn wait(&mut self) -> (u64, Vec<Effect>) {
        let start = self.now;
        loop {
            let effects = self.effects();
            if !effects.is_empty() {
                return (self.now - start, effects);
            }
            assert!(self.routes.next_due().is_some(), "nothing is due any more");
            self.pass(u64::MAX / 2);
        }
    }

    /// The next attempt to connect.
    pub(super) fn dialled(&mut self) -> (ConnectionId, u16, Time) {
        loop {
            let (_, effects) = self.wait();
            for effect in effects {
                if let Effect::Connect { connection, node, by, .. } = effect {
                    return (connection, node.map_or(0, |node| node.port), by);
                }
            }
        }
    }

    /// The nodes that the routes ask now: the connection, the port, and until when.
    pub(super) fn asked(&mut self) -> Vec<(ConnectionId, u16, Time)> {
        let ask = |effect: &Effect| match effect {
            Effect::Discover { connection, node, by } => Some((*connection, node.port, *by)),
            _ => None,
        };
        self.effects().iter().filter_map(ask).collect()
    }

    /// The nodes that the routes ask next.
    pub(super) fn asked_next(&mut self) -> Vec<(ConnectionId, u16, Time)> {
        loop {
            let asked = self.asked();
            if !asked.is_empty() {
                return asked;
            }
            self.pass(u64::MAX / 2);
        }
    }

    /// The next attempt to connect succeeds.
    pub(super) fn connect(&mut self) -> (ConnectionId, u16) {
        let (connection, port, _) = self.dialled();
        self.handle(Event::Ready { connection, facts: facts("run") });
        (connection, port)
    }

    /// The next attempt to connect fails.
    pub(super) fn refuse(&mut self, error: ConnectError) {
        let (connection, ..) = self.dialled();
        self.handle(Event::Failed { connection, error });
    }

    /// The next attempt to connect succeeds, and its server answers.
    pub(super) fn serve(&mut self) -> ConnectionId {
        let (connection, _) = self.connect();
        self.ask(0);
        self.answer(connection, 0);
        self.effects();
        connection
    }

    pub(super) fn hear(&mut self, connection: ConnectionId, said: WireEvent) {
        self.handle(Event::Wire { connection, said });
    }

    pub(super) fn confirm(&mut self, connection: ConnectionId, name: &str) {
        self.hear(connection, WireEvent::Subscribed(channel(name)));
    }

    /// The machine of `x` asks something; the connection that it goes over.
    pub(super) fn ask(&mut self, request: u64) -> Option<(ConnectionId, bool)> {
        self.effects();
        let slot = self.routes.slot("x");
        self.handle(Event::Ask { slot, request: RequestId(request), call: call() });
        self.effects().into_iter().find_map(|effect| match effect {
            Effect::Write { connection, asking, .. } => Some((connection, asking)),
            _ => None,
        })
    }

    pub(super) fn reply(&mut self, connection: ConnectionId, request: u64, reply: CallOutcome) {
        let slot = self.routes.slot("x");
        self.hear(connection, WireEvent::Reply { tag: tag(slot, RequestId(request)), call: call(), reply });
    }

    pub(super) fn answer(&mut self, connection: ConnectionId, request: u64) {
        self.reply(connection, request, CallOutcome::Result(Ok(protocol::Reply::sample())));
    }

    /// What machines hear, in short.
    pub(super) fn told(&mut self) -> Vec<String> {
        self.effects().iter().filter_map(told).collect()
    }
}

pub(super) fn channel(name: &str) -> Arc<str> {
    format!("fairlock:{{{name}}}:client:client").into()
}

pub(super) fn told(effect: &Effect) -> Option<String> {
    let Effect::Tell { event, .. } = effect else { return None };
    Some(match event {
        machine::Event::Connected { can_kill: true } => "connected".into(),
        machine::Event::Connected { can_kill: false } => "connected, not killed".into(),
        machine::Event::Disconnected { cause } => format!("disconnected: {cause}"),
        machine::Event::Unusable { error } => format!("denied: {error}"),
        machine::Event::Answered { request, result: Ok(_) } => format!("{} answered", request.0),
        machine::Event::Answered { request, result: Err(Refusal::Temporary(cause)) } => {
            format!("{} refused: {cause}", request.0)
        }
        machine::Event::Answered { request, result: Err(refusal) } => {
            format!("{} failed: {}", request.0, refusal.cause())
        }
        machine::Event::Replicated { request, result: Ok(have) } => format!("{} replicated to {have}", request.0),
        machine::Event::Replicated { request, result: Err(refusal) } => {
            format!("{} not replicated: {}", request.0, refusal.cause())
        }
        machine::Event::Push(push) => format!("push {}", push.token.get()),
        other => format!("{other:?}"),
    })
}
