//! A request of its own type for each script.

mod arguments;

use std::sync::Arc;
use std::time::Duration;

use self::arguments::{Arguments, Terms};
#[cfg(test)]
use super::ids::Id;
use super::ids::{ClientId, Secret, WireId};
use super::keys::LockKeys;
use super::memory::{Memory, Seat};
use super::stamps::{Ticket, Token};
use crate::inspect::LockState;

/// What the server keeps for a waiter or holder in addition to its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallerData {
    pub(crate) secret: Secret,
    /// For people.
    pub(crate) label: Arc<str>,
    pub(crate) owner: Arc<str>,
}

/// The verbs, each with the request of its own and the file of its script.
macro_rules! verbs {
    ($($verb:ident($request:ident) = $file:literal),*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Verb {
            $($verb),*
        }

        impl Verb {
            pub(crate) const ALL: [Verb; [$(Verb::$verb),*].len()] = [$(Verb::$verb),*];

            /// The file of its script.
            pub(super) fn file(self) -> &'static str {
                match self {
                    $(Verb::$verb => $file),*
                }
            }
        }

        /// One request to one lock.
        #[derive(Debug, Clone, Hash)]
        pub(crate) enum Request {
            $($verb($request)),*
        }

        impl Request {
            /// Which script this runs, and what its reply is to be read as.
            pub(crate) fn verb(&self) -> Verb {
                match self {
                    $(Request::$verb(_) => Verb::$verb),*
                }
            }

            pub(crate) fn keys(&self) -> &Arc<LockKeys> {
                match self {
                    $(Request::$verb(request) => &request.keys),*
                }
            }

            /// What the client knows of the lock, as this request tells it.
            pub(crate) fn memory(&self) -> Memory {
                match self {
                    $(Request::$verb(request) => request.memory()),*
                }
            }

            /// The field that an HDEL removes in the place of a script, in pieces: what a calm lock has of its holder.
            pub(crate) fn removed_field(&self) -> Option<[&[u8]; 2]> {
                match self {
                    Request::Release(ReleaseRequest { by_hdel: true, id, .. }) => Some([b"@", id.as_str().as_bytes()]),
                    _ => None,
                }
            }

            /// The arguments in the order in which the script names them, each under that name and in pieces. `tag`:
            /// in a cluster, the hash tag of the channel to which a grant on behalf of this client is published; else
            /// empty.
            pub(crate) fn arguments(&self, tag: &str, put: impl FnMut(&'static str, &[&[u8]])) {
                let mut to = Arguments { tag, put, digits: itoa::Buffer::new() };
                match self {
                    $(Request::$verb(request) => request.write(&mut to)),*
                }
            }
        }
    };
}

verbs!(
    Acquire(AcquireRequest) = "acquire",
    Heartbeat(HeartbeatRequest) = "heartbeat",
    Renew(RenewRequest) = "renew",
    Release(ReleaseRequest) = "release",
    Leave(LeaveRequest) = "leave",
    Inspect(InspectRequest) = "inspect",
    Break(BreakRequest) = "break",
    History(HistoryRequest) = "history"
);

/// No queue is ever as long.
pub(crate) const UNBOUNDED: u64 = 1 << 53;

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
    pub(crate) most: u16,
    pub(crate) about: CallerData,
    pub(crate) memory: Memory,
    /// None for a newcomer.
    pub(crate) seat: Seat,
}

impl AcquireRequest {
    fn memory(&self) -> Memory {
        self.memory
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        to.text("id", self.id.as_str());
        to.told(self.memory);
        to.seat(self.seat);
        let Self { room, as_claim, lease, liveness, buffer, heartbeat, most, ref about, .. } = *self;
        to.terms(&Terms { liveness, buffer, heartbeat, lease, room, most, as_claim, about });
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
    pub(crate) memory: Memory,
    pub(crate) ids: Vec<WireId>,
}

impl HeartbeatRequest {
    fn memory(&self) -> Memory {
        self.memory
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        to.text("client", self.client.as_str());
        to.told(self.memory);
        to.times(self.liveness, self.buffer, self.heartbeat);
        self.ids.iter().for_each(|id| to.text("ids...", id.as_str()));
    }
}

/// Prolong a lease, confirm a claim, or restore what is left of a lease.
#[derive(Debug, Clone, Hash)]
pub(crate) struct RenewRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) id: WireId,
    pub(crate) seat: Seat,
    /// The length of the lease from now on.
    pub(crate) lease: Duration,
    /// What is left of it by the holder's clock.
    pub(crate) left: Duration,
    pub(crate) liveness: Duration,
    /// It may be more than before: the server never makes it less.
    pub(crate) most: u16,
    pub(crate) about: CallerData,
    pub(crate) memory: Memory,
}

impl RenewRequest {
    fn memory(&self) -> Memory {
        self.memory
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        to.text("id", self.id.as_str());
        to.told(self.memory);
        to.seat(self.seat);
        let (liveness, lease, most, about) = (self.liveness, self.lease, self.most, &self.about);
        let (buffer, heartbeat, room, as_claim) = Default::default();
        to.terms(&Terms { liveness, buffer, heartbeat, lease, room, most, as_claim, about });
        to.left(self.left);
    }
}

/// Give a lease back.
#[derive(Debug, Clone, Hash)]
pub(crate) struct ReleaseRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) id: WireId,
    /// By an HDEL and no script: it does all that is to do if the lock is calm, and nothing otherwise. It brings neither
    /// seat nor memory.
    pub(crate) by_hdel: bool,
    /// None if the client does not know it, or if the lease may be over.
    pub(crate) seat: Seat,
    pub(crate) memory: Memory,
}

impl ReleaseRequest {
    fn memory(&self) -> Memory {
        self.memory
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        to.text("id", self.id.as_str());
        to.told(self.memory);
        to.seat(self.seat);
    }
}

/// Give up places, and what was granted meanwhile.
#[derive(Debug, Clone, Hash)]
pub(crate) struct LeaveRequest {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) memory: Memory,
    pub(crate) ids: Vec<WireId>,
}

impl LeaveRequest {
    fn memory(&self) -> Memory {
        self.memory
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        to.told(self.memory);
        self.ids.iter().for_each(|id| to.text("ids...", id.as_str()));
    }
}

/// One page of the holders and of the queue.
#[derive(Debug, Clone, Hash)]
pub(crate) struct InspectRequest {
    pub(crate) keys: Arc<LockKeys>,
    /// None for the first page of waiters.
    pub(crate) after: Option<Ticket>,
    /// So many waiters.
    pub(crate) count: u32,
    /// The first slot whose holder is told.
    pub(crate) tell_from: u32,
    /// So many holders.
    pub(crate) tell_most: u32,
}

impl InspectRequest {
    /// The most waiters and the most holders that one reply should tell: the server serves nobody else meanwhile.
    pub(crate) const PAGE: u32 = 500;

    /// For the first page, with so many waiters.
    pub(crate) fn first(keys: &Arc<LockKeys>, count: u32) -> Self {
        Self { keys: keys.clone(), after: None, count, tell_from: 0, tell_most: Self::PAGE }
    }

    /// For the page after this one, with more of what the page is full of.
    pub(crate) fn next(self, page: &LockState) -> Option<Self> {
        let more = |asked: u32, told: usize| if told < asked as usize { 0 } else { asked };
        let (count, tell_most) = (more(self.count, page.queue.len()), more(self.tell_most, page.holders.len()));
        let after = page.queue.last().and_then(|waiter| Ticket::new(waiter.ticket)).or(self.after);
        let tell_from = page.holders.last().map_or(self.tell_from, |holder| holder.slot.saturating_add(1));
        (count > 0 || tell_most > 0).then_some(Self { after, count, tell_from, tell_most, ..self })
    }

    fn memory(&self) -> Memory {
        Memory::NONE
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        to.number("after", Ticket::on_wire(self.after));
        to.number("count", u64::from(self.count));
        to.number("tell_from", u64::from(self.tell_from));
        to.number("tell_most", u64::from(self.tell_most));
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
    fn memory(&self) -> Memory {
        Memory::NONE
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
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
    fn memory(&self) -> Memory {
        Memory::NONE
    }

    fn write(&self, to: &mut Arguments<'_, impl FnMut(&'static str, &[&[u8]])>) {
        match self.switch {
            Some(on) => to.flag("switch", on),
            None => to.text("switch", ""),
        }
        to.number("count", u64::from(self.count));
    }
}

/// One of each, in the order of [`Verb::ALL`].
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) fn every_request() -> Vec<Request> {
    let keys = Arc::new(LockKeys::new("fairlock", "n"));
    let about = CallerData { secret: Secret::repeated("s"), label: "l".into(), owner: "o".into() };
    let client = ClientId::new("c").unwrap();
    let (id, second) = (WireId::new(&client, Id(1)), Duration::from_secs(1));
    let token = Token::new(1);
    let (memory, seat) = (Memory::new(b"m").unwrap(), Seat::new(b"s").unwrap());
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
            most: 3,
            about: about.clone(),
            memory,
            seat,
        }),
        Request::Heartbeat(HeartbeatRequest {
            keys: keys.clone(),
            client,
            liveness: second,
            buffer: second,
            heartbeat: second,
            memory,
            ids: vec![id.clone()],
        }),
        Request::Renew(RenewRequest {
            keys: keys.clone(),
            id: id.clone(),
            seat,
            lease: second,
            left: second,
            liveness: second,
            most: 3,
            about,
            memory,
        }),
        Request::Release(ReleaseRequest { keys: keys.clone(), id: id.clone(), by_hdel: false, seat, memory }),
        Request::Leave(LeaveRequest { keys: keys.clone(), memory, ids: vec![id] }),
        Request::Inspect(InspectRequest::first(&keys, 1)),
        Request::Break(BreakRequest { keys: keys.clone(), token, force: false }),
        Request::History(HistoryRequest { keys, switch: None, count: 1 }),
    ]
}
