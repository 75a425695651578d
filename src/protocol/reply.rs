//! What scripts reply, in the type of the verb that was asked. A reply is read as a whole or refused: one that lacks
//! what its word promises is no reply.

mod fields;
mod value;

use std::time::Duration;

use rmpv::decode::read_value_ref_with_max_depth;

use self::fields::Fields;
pub(crate) use self::value::Value;
use super::ids::WireId;
use super::memory::{Knowledge, Memory, Seat, SeatTold};
use super::packed::Packed;
use super::request::{AcquireRequest, RenewRequest, Request, Verb};
use super::stamps::{Epoch, Ticket, Token};
use crate::history::History;
use crate::inspect::{BreakOutcome, Holder, LockState, QueuedWaiter};

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) common: Common,
    pub(crate) verdict: Verdict,
}

/// What every reply tells of its lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Common {
    /// What the client is to remember, and how old it is. There is no memory for operators, nor of a lock that the
    /// server does not know.
    pub(crate) known: Knowledge,
    /// How long the client keeps that when it has nothing at the lock any more.
    pub(crate) keep: Duration,
    pub(crate) waiting: u64,
    /// How many hold the lock.
    pub(crate) held: u64,
    /// Before that no lease ends.
    pub(crate) first_left: Duration,
    pub(crate) recover_left: Duration,
    /// Leases that this client holds at this lock: all its claims, those that the request named, and maybe others.
    pub(crate) own: Vec<OwnLease>,
    /// The script stopped at its batch limit: the caller is to go on where it stopped.
    pub(crate) again: bool,
    /// The lease that was granted may be given back by an HDEL.
    pub(crate) calm: bool,
}

impl Common {
    /// The lease of this id.
    pub(crate) fn own(&self, id: &WireId) -> Option<&OwnLease> {
        self.own.iter().find(|own| own.id == *id)
    }

    /// How long nothing is granted, at the most, while the server waits for the clients that were there before it lost
    /// data.
    pub(crate) fn recovering_for(&self) -> Option<Duration> {
        (!self.recover_left.is_zero()).then_some(self.recover_left)
    }
}

/// A lease of this client as a reply names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnLease {
    pub(crate) id: WireId,
    pub(crate) token: Token,
    /// The waiter's place in the queue, or the token if it never had one.
    pub(crate) ticket: Ticket,
    pub(crate) slot: u16,
    pub(crate) most: u16,
    pub(crate) seat: Seat,
    /// Until it is confirmed, it may be shorter than what the waiter asked for.
    pub(crate) claim: bool,
    /// What is left of it by the server's clock.
    pub(crate) left: Duration,
}

/// What became of a request, by its verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Acquire(AcquireVerdict),
    Heartbeat(HeartbeatVerdict),
    Renew(RenewVerdict),
    Release(ReleaseVerdict),
    Leave,
    Inspect(Inspected),
    Break(BreakOutcome),
    History(History),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AcquireVerdict {
    /// The reply names the lease as the client's own.
    Granted,
    Queued {
        ticket: Ticket,
        seat: Seat,
        rank: u64,
    },
    /// With those of the lowest slots.
    Busy(Vec<Holder>),
    /// The client's memory or seat is implausible, and was rejected.
    Disbelieved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HeartbeatVerdict {
    Alive {
        /// Of the first of the waiters that were named, if it still waits.
        rank: Option<u64>,
    },
    /// The server lacks one of the waiters that were named.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RenewVerdict {
    /// The reply names the lease as the client's own.
    Renewed,
    Broken,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ReleaseVerdict {
    Released,
    /// The lease was over already.
    Expired,
    /// There was no lease, but a place in the queue.
    Left,
    Unknown,
    /// To an HDEL: nothing was done, because the lock is not calm any more. The script follows.
    NotCalm,
}

/// One page of the holders and of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// It changes when the server has lost data.
    pub(crate) epoch: Option<Epoch>,
    /// How often the lock was granted since the server knows it.
    pub(crate) grants: u64,
    /// The last token that was granted, or passed over.
    pub(crate) token: Option<Token>,
    pub(crate) holders: Vec<Holder>,
    pub(crate) queue: Vec<QueuedWaiter>,
}

impl Inspected {
    pub(crate) fn state(self, common: &Common) -> LockState {
        let Self { holders, queue, .. } = self;
        LockState { holders, waiting: common.waiting, queue, recovering_for: common.recovering_for() }
    }
}

impl Verb {
    /// The words with which its replies begin.
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Verb::Acquire => &["granted", "queued", "busy", "disbelieved"],
            Verb::Heartbeat => &["alive", "unknown"],
            Verb::Renew => &["renewed", "broken", "lost"],
            Verb::Release => &["released", "expired", "left", "unknown"],
            Verb::Leave => &["left"],
            Verb::Inspect => &["state"],
            Verb::Break => &["told", "ended", "unknown"],
            Verb::History => &["history"],
        }
    }

    fn says(self, packed: &[u8]) -> bool {
        let word = Packed(packed).short();
        self.words().iter().any(|own| Some(own.as_bytes()) == word)
    }

    fn verdict(self, word: &[u8], head: &Head, fields: Fields) -> Option<Verdict> {
        Some(match self {
            Verb::Acquire => Verdict::Acquire(match word {
                b"granted" if !head.common.own.is_empty() => AcquireVerdict::Granted,
                b"queued" => {
                    let (ticket, seat) = head.place?;
                    AcquireVerdict::Queued { ticket, seat, rank: head.rank? }
                }
                b"busy" => AcquireVerdict::Busy(fields.holders.unwrap_or_default()),
                b"disbelieved" => AcquireVerdict::Disbelieved,
                _ => return None,
            }),
            Verb::Heartbeat => Verdict::Heartbeat(match word {
                b"alive" => HeartbeatVerdict::Alive { rank: head.rank },
                b"unknown" => HeartbeatVerdict::Unknown,
                _ => return None,
            }),
            Verb::Renew => Verdict::Renew(match word {
                b"renewed" if !head.common.own.is_empty() => RenewVerdict::Renewed,
                b"broken" => RenewVerdict::Broken,
                b"lost" => RenewVerdict::Lost,
                _ => return None,
            }),
            Verb::Release => Verdict::Release(match word {
                b"released" => ReleaseVerdict::Released,
                b"expired" => ReleaseVerdict::Expired,
                b"left" => ReleaseVerdict::Left,
                b"unknown" => ReleaseVerdict::Unknown,
                _ => return None,
            }),
            Verb::Leave => (word == b"left").then_some(Verdict::Leave)?,
            Verb::Inspect if word == b"state" => {
                let (epoch, token) = (Epoch::new(fields.epoch?), Token::new(fields.token?));
                let (grants, holders, queue) = (fields.grants?, fields.holders?, fields.page?);
                Verdict::Inspect(Inspected { epoch, grants, token, holders, queue })
            }
            Verb::Inspect => return None,
            Verb::History if word == b"history" => {
                Verdict::History(History { recorded: fields.recorded?, grants: fields.past? })
            }
            Verb::History => return None,
            Verb::Break => Verdict::Break(match word {
                b"told" => BreakOutcome::Told { remaining: fields.left? },
                b"ended" => BreakOutcome::Ended,
                b"unknown" => BreakOutcome::Unknown,
                _ => return None,
            }),
        })
    }
}

/// What every reply begins with.
struct Head {
    common: Common,
    /// How many waiters are before the one that the reply is about.
    rank: Option<u64>,
    /// That of the id that asks.
    place: Option<(Ticket, Seat)>,
}

impl Head {
    fn read(packed: &mut Packed<'_>) -> Option<Self> {
        const AGAIN: u8 = 1;
        const CALM: u8 = 2;
        let flags = packed.byte()?;
        let (again, calm) = (flags & AGAIN != 0, flags & CALM != 0);
        let rank = packed.number()?.checked_sub(1);
        let (waiting, held) = (packed.number()?, packed.number()?);
        let (first_left, recover_left, keep) = (packed.span()?, packed.span()?, packed.span()?);
        let known = Knowledge::told(Memory::new(packed.short()?)?)?;
        let (mut own, mut place) = (Vec::new(), None);
        for _ in 0..packed.size()? {
            const CLAIM: u8 = 1;
            let claim = packed.byte()? & CLAIM != 0;
            let id = WireId::parse(std::str::from_utf8(packed.text()?).ok()?)?;
            let seat = Seat::new(packed.short()?)?;
            let left = packed.span()?;
            let SeatTold { ticket, token, slot, most } = seat.told()?;
            match token {
                Some(token) => own.push(OwnLease { id, token, ticket, slot, most, seat, claim, left }),
                None => place = Some((ticket, seat)),
            }
        }
        let common = Common { known, keep, waiting, held, first_left, recover_left, own, again, calm };
        Some(Self { common, rank, place })
    }
}

/// What a reply tells for people: nothing, or one MessagePack array of names and values.
fn for_people(mut packed: &[u8]) -> Option<Fields> {
    /// The greatest depth: the rows of a page in an array, each of which the decoder counts several times.
    const DEPTH: usize = 32;
    if packed.is_empty() {
        return Some(Fields::default());
    }
    let value = read_value_ref_with_max_depth(&mut packed, DEPTH).ok()?;
    Fields::read(value.list()?)
}

/// Why an answer is not the reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// The reply to another request, or one that no script gives.
    OutOfStep,
    /// A reply to this request whose rest this version does not understand.
    NotUnderstood,
}

impl Reply {
    /// The reply to a request of this verb: a word, what every reply tells, and what this one tells for people.
    pub(crate) fn unpack(verb: Verb, packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let word = packed.short()?;
        let mut head = Head::read(&mut packed)?;
        if matches!(verb, Verb::Inspect | Verb::Break | Verb::History) {
            // Operators' requests bring no memory, and theirs does not count.
            head.common.known = Knowledge::default();
        }
        let verdict = verb.verdict(word, &head, for_people(packed.long()?)?)?;
        Some(Self { common: head.common, verdict })
    }

    /// The reply to this request: to an HDEL how many fields it removed, of a script one packed text.
    pub(crate) fn to(call: &Request, value: &impl Value) -> Result<Self, Misfit> {
        if call.removed_field().is_some() {
            let verdict = match value.int() {
                Some(1) => ReleaseVerdict::Released,
                Some(0) => ReleaseVerdict::NotCalm,
                _ => return Err(Misfit::OutOfStep),
            };
            return Ok(Self { common: Common::default(), verdict: Verdict::Release(verdict) });
        }
        let packed = value.bytes().ok_or(Misfit::OutOfStep)?;
        match Self::unpack(call.verb(), packed) {
            Some(reply) if reply.is_about(call) => Ok(reply),
            None if call.verb().says(packed) => Err(Misfit::NotUnderstood),
            _ => Err(Misfit::OutOfStep),
        }
    }

    /// The lease that is granted or renewed is among the client's own.
    fn is_about(&self, call: &Request) -> bool {
        match (call, &self.verdict) {
            (Request::Acquire(AcquireRequest { id, .. }), Verdict::Acquire(AcquireVerdict::Granted))
            | (Request::Renew(RenewRequest { id, .. }), Verdict::Renew(RenewVerdict::Renewed)) => {
                self.common.own(id).is_some()
            }
            _ => true,
        }
    }

    /// A reply that says nothing of interest.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self { common: Common::default(), verdict: Verdict::Leave }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
