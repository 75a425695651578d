//! A request of its own type for each script.

use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use super::ids::Id;
use super::ids::{ClientId, Secret, WireId};
use super::keys::LockKeys;
use super::stamps::{Epoch, Stamp, Ticket, Token};

/// What the server keeps for a waiter or holder besides its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct About {
    pub(crate) secret: Secret,
    /// For people.
    pub(crate) label: Arc<str>,
    pub(crate) owner: Arc<str>,
}

/// The verbs, each of which is a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    Acquire,
    Heartbeat,
    Renew,
    Release,
    Leave,
    Inspect,
    Break,
    History,
}

impl Verb {
    /// All of them, in the order of the scripts.
    #[cfg(any(test, feature = "__test-hooks"))]
    pub(crate) const ALL: [Verb; 8] = [
        Verb::Acquire,
        Verb::Heartbeat,
        Verb::Renew,
        Verb::Release,
        Verb::Leave,
        Verb::Inspect,
        Verb::Break,
        Verb::History,
    ];
}

/// One request to one lock.
#[derive(Debug, Clone, Hash)]
pub(crate) enum Request {
    Acquire(AcquireRequest),
    Heartbeat(HeartbeatRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
    Leave(LeaveRequest),
    Inspect(InspectRequest),
    Break(BreakRequest),
    History(HistoryRequest),
}

impl Request {
    /// Which script this runs, and what its reply is to be read as.
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Request::Acquire(_) => Verb::Acquire,
            Request::Heartbeat(_) => Verb::Heartbeat,
            Request::Renew(_) => Verb::Renew,
            Request::Release(_) => Verb::Release,
            Request::Leave(_) => Verb::Leave,
            Request::Inspect(_) => Verb::Inspect,
            Request::Break(_) => Verb::Break,
            Request::History(_) => Verb::History,
        }
    }

    pub(crate) fn keys(&self) -> &Arc<LockKeys> {
        match self {
            Request::Acquire(request) => &request.keys,
            Request::Heartbeat(request) => &request.keys,
            Request::Renew(request) => &request.keys,
            Request::Release(request) => &request.keys,
            Request::Leave(request) => &request.keys,
            Request::Inspect(request) => &request.keys,
            Request::Break(request) => &request.keys,
            Request::History(request) => &request.keys,
        }
    }

    /// The arguments in the order in which the script names them, each under that name. A grant on behalf of this
    /// client is published to `channel`.
    pub(crate) fn arguments(&self, channel: &str, put: impl FnMut(&'static str, &[u8])) {
        let mut arguments = Arguments { put, digits: itoa::Buffer::new() };
        match self {
            Request::Acquire(request) => request.put(channel, &mut arguments),
            Request::Heartbeat(request) => request.put(&mut arguments),
            Request::Renew(request) => request.put(channel, &mut arguments),
            Request::Release(request) => request.put(&mut arguments),
            Request::Leave(request) => request.put(&mut arguments),
            Request::Inspect(request) => request.put(&mut arguments),
            Request::Break(request) => request.put(&mut arguments),
            Request::History(request) => request.put(&mut arguments),
        }
    }
}

/// Where the arguments of a request go, one after the other.
struct Arguments<P> {
    put: P,
    digits: itoa::Buffer,
}

impl<P: FnMut(&'static str, &[u8])> Arguments<P> {
    fn text(&mut self, name: &'static str, value: &str) {
        (self.put)(name, value.as_bytes());
    }

    fn number(&mut self, name: &'static str, value: u64) {
        (self.put)(name, self.digits.format(value).as_bytes());
    }

    fn flag(&mut self, name: &'static str, value: bool) {
        self.number(name, u64::from(value));
    }

    fn span(&mut self, name: &'static str, value: Duration) {
        self.number(name, us(value));
    }
}

/// No queue is ever as long.
pub(crate) const UNBOUNDED: u64 = 1 << 53;

/// What a client knows of a lock. It tells a server with old data that something was lost, and what to wait for
/// (`lua/lib/restore.lua`). So it comes with every request of a waiter, and with
/// releases; a renewal brings the same of its lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    /// The epoch of what the request is about, or the latest one that the client has seen.
    pub(crate) epoch: Option<Epoch>,
    /// The highest stamp that it has seen.
    pub(crate) floor: Option<Stamp>,
    /// The longest lease that any client may hold.
    pub(crate) longest: Duration,
    /// The last grant that it has heard of.
    pub(crate) last_token: Option<Token>,
    /// The longest heartbeat interval among the waiters.
    pub(crate) pace: Duration,
}

impl Known {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        to.number("epoch", Epoch::on_wire(self.epoch));
        to.number("floor", Stamp::on_wire(self.floor));
        to.span("longest_us", self.longest);
        to.number("last_token", Token::on_wire(self.last_token));
        to.span("pace_us", self.pace);
    }
}

/// Take the lock, or join its queue, or return to it with an old ticket.
#[derive(Debug, Clone, Hash)]
pub(crate) struct AcquireRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) id: WireId,
    /// Join the queue if it has fewer waiters than this: zero for a try, [`UNBOUNDED`] for any number.
    pub(crate) room: u64,
    /// Grant no more than a claim.
    pub(crate) as_claim: bool,
    pub(crate) lease: Duration,
    pub(crate) liveness: Duration,
    pub(crate) buffer: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) about: About,
    /// None for a newcomer.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) known: Known,
}

impl AcquireRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, channel: &str, to: &mut Arguments<P>) {
        to.text("id", self.id.as_str());
        to.number("room", self.room);
        to.flag("as_claim", self.as_claim);
        to.span("lease_us", self.lease);
        to.span("liveness_us", self.liveness);
        to.span("buffer_us", self.buffer);
        to.span("heartbeat_us", self.heartbeat);
        to.text("channel", channel);
        to.text("secret", self.about.secret.as_str());
        to.text("label", &self.about.label);
        to.text("owner", &self.about.owner);
        to.number("ticket", Ticket::on_wire(self.ticket));
        self.known.put(to);
    }
}

/// All waiters of this client are alive.
#[derive(Debug, Clone, Hash)]
pub(crate) struct HeartbeatRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) client: ClientId,
    pub(crate) liveness: Duration,
    pub(crate) buffer: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) known: Known,
    pub(crate) ids: Vec<WireId>,
}

impl HeartbeatRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        to.text("client", self.client.as_str());
        to.span("liveness_us", self.liveness);
        to.span("buffer_us", self.buffer);
        to.span("heartbeat_us", self.heartbeat);
        self.known.put(to);
        self.ids.iter().for_each(|id| to.text("ids...", id.as_str()));
    }
}

/// Prolong a lease, confirm a claim, or restore what is left of a lease.
#[derive(Debug, Clone, Hash)]
pub(crate) struct RenewRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) id: WireId,
    pub(crate) token: Token,
    pub(crate) lease: Duration,
    pub(crate) liveness: Duration,
    pub(crate) about: About,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) floor: Option<Stamp>,
    pub(crate) left: Duration,
    pub(crate) pace: Duration,
}

impl RenewRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, channel: &str, to: &mut Arguments<P>) {
        to.text("id", self.id.as_str());
        to.number("token", self.token.get());
        to.span("lease_us", self.lease);
        to.span("liveness_us", self.liveness);
        to.text("channel", channel);
        to.text("secret", self.about.secret.as_str());
        to.text("label", &self.about.label);
        to.text("owner", &self.about.owner);
        to.number("epoch", Epoch::on_wire(self.epoch));
        to.number("floor", Stamp::on_wire(self.floor));
        to.span("left_us", self.left);
        to.span("pace_us", self.pace);
    }
}

/// Give a lease back.
#[derive(Debug, Clone, Hash)]
pub(crate) struct ReleaseRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) id: WireId,
    /// None if the client does not know it.
    pub(crate) token: Option<Token>,
    pub(crate) liveness: Duration,
    pub(crate) known: Known,
}

impl ReleaseRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        to.text("id", self.id.as_str());
        to.number("token", Token::on_wire(self.token));
        to.span("liveness_us", self.liveness);
        self.known.put(to);
    }
}

/// Give up places, and what was granted meanwhile.
#[derive(Debug, Clone, Hash)]
pub(crate) struct LeaveRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) liveness: Duration,
    pub(crate) known: Known,
    pub(crate) ids: Vec<WireId>,
}

impl LeaveRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        to.span("liveness_us", self.liveness);
        self.known.put(to);
        self.ids.iter().for_each(|id| to.text("ids...", id.as_str()));
    }
}

/// One page of the queue, and the holder.
#[derive(Debug, Clone, Hash)]
pub(crate) struct InspectRequest {
    pub(crate) keys: Arc<LockKeys>,
    /// None for the first page.
    pub(crate) after: Option<Ticket>,
    pub(crate) count: u32,
}

impl InspectRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        to.number("after", Ticket::on_wire(self.after));
        to.number("count", u64::from(self.count));
    }
}

/// End the lease of another client, for an operator.
#[derive(Debug, Clone, Hash)]
pub(crate) struct BreakRequest {
    pub(crate) keys: Arc<LockKeys>,
    /// None ends only a recovery.
    pub(crate) token: Option<Token>,
    pub(crate) force: bool,
}

impl BreakRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        to.number("token", Token::on_wire(self.token));
        to.flag("force", self.force);
    }
}

/// The latest grants, for people, and whether they are recorded.
#[derive(Debug, Clone, Hash)]
pub(crate) struct HistoryRequest {
    pub(crate) keys: Arc<LockKeys>,
    /// Record them from now on, or no longer.
    pub(crate) switch: Option<bool>,
    pub(crate) count: u32,
}

impl HistoryRequest {
    fn put<P: FnMut(&'static str, &[u8])>(&self, to: &mut Arguments<P>) {
        match self.switch {
            Some(on) => to.flag("switch", on),
            None => to.text("switch", ""),
        }
        to.number("count", u64::from(self.count));
    }
}

fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// One of each, in the order of [`Verb`].
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn every_request() -> Vec<Request> {
    let keys = Arc::new(LockKeys::new("fairlock", "n"));
    let about = About { secret: Secret::repeated("s"), label: "l".into(), owner: "o".into() };
    let client = ClientId::new("c").unwrap();
    let (id, second) = (WireId::new(&client, Id(1)), Duration::from_secs(1));
    let (ticket, token) = (Ticket::new(1), Token::new(1));
    let (epoch, floor) = (Epoch::new(1), Stamp::new(1));
    let known = Known { epoch, floor, longest: second, last_token: token, pace: second };
    vec![
        Request::Acquire(AcquireRequest {
            keys: keys.clone(),
            id: id.clone(),
            room: UNBOUNDED,
            as_claim: false,
            lease: second,
            liveness: second,
            buffer: second,
            heartbeat: second,
            about: about.clone(),
            ticket,
            known: known.clone(),
        }),
        Request::Heartbeat(HeartbeatRequest {
            keys: keys.clone(),
            client,
            liveness: second,
            buffer: second,
            heartbeat: second,
            known: known.clone(),
            ids: vec![id.clone()],
        }),
        Request::Renew(RenewRequest {
            keys: keys.clone(),
            id: id.clone(),
            token: token.unwrap(),
            lease: second,
            liveness: second,
            about,
            epoch,
            floor,
            left: second,
            pace: second,
        }),
        Request::Release(ReleaseRequest {
            keys: keys.clone(),
            id: id.clone(),
            token,
            liveness: second,
            known: known.clone(),
        }),
        Request::Leave(LeaveRequest { keys: keys.clone(), liveness: second, known, ids: vec![id] }),
        Request::Inspect(InspectRequest { keys: keys.clone(), after: None, count: 1 }),
        Request::Break(BreakRequest { keys: keys.clone(), token, force: false }),
        Request::History(HistoryRequest { keys, switch: None, count: 1 }),
    ]
}
