//! What scripts reply, in the type of the verb that was asked. A reply is read as a whole or refused: one that lacks
//! what its word promises is no reply.

use std::time::Duration;

use rmpv::ValueRef;
use rmpv::decode::read_value_ref_with_max_depth;

use super::ids::WireId;
use super::request::Verb;
use super::stamps::{Epoch, Stamp, Ticket, Token};
use crate::history::{EndedAs, History, PastGrant};
use crate::inspect::{Holder, QueuedWaiter};

/// A value of a reply, independent of the wire.
pub(crate) trait Value: Sized {
    fn bytes(&self) -> Option<&[u8]>;
    fn int(&self) -> Option<i64>;
    fn list(&self) -> Option<&[Self]>;
}

/// The reply to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) common: Common,
    pub(crate) verdict: Verdict,
}

/// What every reply tells of its lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Common {
    /// None for a lock that the server does not know.
    pub(crate) epoch: Option<Epoch>,
    /// The last stamp that was given.
    pub(crate) stamp: Option<Stamp>,
    /// The last token that was granted.
    pub(crate) token: Option<Token>,
    pub(crate) waiting: u64,
    pub(crate) lease_left: Duration,
    pub(crate) recover_left: Duration,
    /// The longest heartbeat interval among the waiters.
    pub(crate) pace: Duration,
    /// The longest lease that anybody may hold or be granted.
    pub(crate) longest: Duration,
    /// The lease that this client holds at this lock.
    pub(crate) own: Option<OwnLease>,
    /// The script stopped at its batch limit: the caller is to go on where it stopped.
    pub(crate) again: bool,
}

impl Common {
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
    /// It is shorter than what the waiter asked for, until it is confirmed.
    pub(crate) claim: bool,
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
    Break(BreakVerdict),
    History(History),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AcquireVerdict {
    Granted {
        token: Token,
        left: Duration,
        /// It is shorter than what the waiter asked for, until it is confirmed.
        claim: bool,
    },
    Queued {
        ticket: Ticket,
        rank: u64,
    },
    Busy(Option<Box<Holder>>),
    /// What the client claims to have had is absurd.
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
    Renewed { left: Duration },
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
}

/// Who holds the lock, and one page of its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// How often the lock was granted since the server knows it.
    pub(crate) grants: u64,
    pub(crate) holder: Option<Box<Holder>>,
    pub(crate) queue: Vec<QueuedWaiter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BreakVerdict {
    /// The holder is told.
    Told {
        left: Duration,
    },
    Ended,
    Unknown,
}

impl Verb {
    /// The words with which its replies begin.
    #[cfg(test)]
    pub(super) fn words(self) -> &'static [&'static str] {
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

    fn verdict(self, word: &[u8], fields: &mut Fields) -> Option<Verdict> {
        Some(match self {
            Verb::Acquire => Verdict::Acquire(match word {
                b"granted" => AcquireVerdict::Granted {
                    token: Token::new(fields.granted_token?)?,
                    left: fields.left?,
                    claim: fields.own_claim,
                },
                b"queued" => AcquireVerdict::Queued { ticket: Ticket::new(fields.ticket?)?, rank: fields.rank? },
                b"busy" => AcquireVerdict::Busy(fields.holder()?),
                b"disbelieved" => AcquireVerdict::Disbelieved,
                _ => return None,
            }),
            Verb::Heartbeat => Verdict::Heartbeat(match word {
                b"alive" => HeartbeatVerdict::Alive { rank: fields.rank },
                b"unknown" => HeartbeatVerdict::Unknown,
                _ => return None,
            }),
            Verb::Renew => Verdict::Renew(match word {
                b"renewed" => RenewVerdict::Renewed { left: fields.left? },
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
                let grants = fields.grants?;
                Verdict::Inspect(Inspected { grants, holder: fields.holder()?, queue: fields.page.take()? })
            }
            Verb::Inspect => return None,
            Verb::History if word == b"history" => {
                Verdict::History(History { recorded: fields.recorded?, grants: fields.past.take()? })
            }
            Verb::History => return None,
            Verb::Break => Verdict::Break(match word {
                b"told" => BreakVerdict::Told { left: fields.left? },
                b"ended" => BreakVerdict::Ended,
                b"unknown" => BreakVerdict::Unknown,
                _ => return None,
            }),
        })
    }
}

impl Value for ValueRef<'_> {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(text) => Some(text.as_bytes()),
            Self::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn int(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => number.as_i64(),
            _ => None,
        }
    }

    fn list(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// The greatest depth of a reply: the rows of a page in an array, each of which the decoder counts several times.
const DEPTH: usize = 32;

impl Reply {
    /// The reply to a request of this verb as the scripts pack it: one MessagePack array.
    pub(crate) fn unpack(verb: Verb, mut packed: &[u8]) -> Option<Self> {
        let value = read_value_ref_with_max_depth(&mut packed, DEPTH).ok()?;
        Self::parse(verb, &value).filter(|_| packed.is_empty())
    }

    /// A reply that says nothing of interest.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        let (epoch, stamp, token, waiting, again, own) = (None, None, None, 0, false, None);
        let (lease_left, recover_left, pace, longest) = Default::default();
        let common = Common { epoch, stamp, token, waiting, lease_left, recover_left, pace, longest, own, again };
        Self { common, verdict: Verdict::Leave }
    }

    /// The reply to a request of this verb: a word, then names and values.
    pub(crate) fn parse(verb: Verb, value: &impl Value) -> Option<Self> {
        let (word, fields) = value.list()?.split_first()?;
        let mut fields = Fields::read(fields)?;
        let verdict = verb.verdict(word.bytes()?, &mut fields)?;
        Some(Self { common: fields.common()?, verdict })
    }
}

/// All that a reply may say, as far as this one says it.
#[derive(Default)]
struct Fields {
    epoch: Option<u64>,
    stamp: Option<u64>,
    token: Option<u64>,
    waiting: Option<u64>,
    lease_left: Option<Duration>,
    recover_left: Option<Duration>,
    pace: Option<Duration>,
    longest: Option<Duration>,
    own_id: Option<WireId>,
    own_token: Option<u64>,
    own_ticket: Option<u64>,
    own_claim: bool,
    again: bool,
    left: Option<Duration>,
    granted_token: Option<u64>,
    ticket: Option<u64>,
    rank: Option<u64>,
    held_id: Option<String>,
    held_token: Option<u64>,
    held_label: Option<String>,
    held_owner: Option<String>,
    held_for: Option<Duration>,
    held_broken: bool,
    grants: Option<u64>,
    page: Option<Vec<QueuedWaiter>>,
    recorded: Option<bool>,
    past: Option<Vec<PastGrant>>,
}

impl Fields {
    fn read(fields: &[impl Value]) -> Option<Self> {
        let mut read = Self::default();
        let (pairs, []) = fields.as_chunks::<2>() else { return None };
        for [name, value] in pairs {
            match name.bytes()? {
                b"epoch" => read.epoch = Some(number(value)?),
                b"stamp" => read.stamp = Some(number(value)?),
                b"token" => read.token = Some(number(value)?),
                b"waiting" => read.waiting = Some(number(value)?),
                b"lease_left_us" => read.lease_left = Some(span(value)?),
                b"recover_left_us" => read.recover_left = Some(span(value)?),
                b"pace_us" => read.pace = Some(span(value)?),
                b"longest_us" => read.longest = Some(span(value)?),
                b"holder" => read.own_id = Some(WireId::parse(&text(value)?)?),
                b"holder_token" => read.own_token = Some(number(value)?),
                b"holder_ticket" => read.own_ticket = Some(number(value)?),
                b"holder_claim" => read.own_claim = true,
                b"again" => read.again = true,
                b"left_us" => read.left = Some(span(value)?),
                b"granted_token" => read.granted_token = Some(number(value)?),
                b"ticket" => read.ticket = Some(number(value)?),
                b"rank" => read.rank = Some(number(value)?),
                b"held_id" => read.held_id = Some(text(value)?),
                b"held_token" => read.held_token = Some(number(value)?),
                b"held_label" => read.held_label = Some(text(value)?),
                b"held_owner" => read.held_owner = Some(text(value)?),
                b"held_us" => read.held_for = Some(span(value)?),
                b"grants" => read.grants = Some(number(value)?),
                b"held_broken" => read.held_broken = number(value)? == 1,
                b"page" => read.page = Some(page(value)?),
                b"recorded" => read.recorded = Some(number(value)? == 1),
                b"past" => read.past = Some(past(value)?),
                // A later version of the scripts may tell more.
                _ => {}
            }
        }
        Some(read)
    }

    fn common(&mut self) -> Option<Common> {
        let own = match self.own_id.take() {
            None => None,
            Some(id) => {
                let (token, ticket) = (Token::new(self.own_token?)?, Ticket::new(self.own_ticket?)?);
                Some(OwnLease { id, token, ticket, claim: self.own_claim })
            }
        };
        Some(Common {
            epoch: Epoch::new(self.epoch?),
            stamp: Stamp::new(self.stamp?),
            token: Token::new(self.token?),
            waiting: self.waiting?,
            lease_left: self.lease_left?,
            recover_left: self.recover_left?,
            pace: self.pace?,
            longest: self.longest?,
            own,
            again: self.again,
        })
    }

    /// The holder as people see it. The outer None: it is not told as a whole.
    fn holder(&mut self) -> Option<Option<Box<Holder>>> {
        let Some(id) = self.held_id.take() else { return Some(None) };
        Some(Some(Box::new(Holder {
            id,
            token: self.held_token?,
            label: self.held_label.take()?,
            owner: self.held_owner.take()?,
            remaining: self.lease_left?,
            held_for: self.held_for?,
            broken: self.held_broken,
        })))
    }
}

fn page(value: &impl Value) -> Option<Vec<QueuedWaiter>> {
    value
        .list()?
        .iter()
        .map(|item| {
            let [id, ticket, label, owner, waited, alive] = item.list()? else { return None };
            Some(QueuedWaiter {
                id: text(id)?,
                ticket: number(ticket)?,
                label: text(label)?,
                owner: text(owner)?,
                waited: span(waited)?,
                alive: number(alive)? == 1,
            })
        })
        .collect()
}

fn past(value: &impl Value) -> Option<Vec<PastGrant>> {
    value
        .list()?
        .iter()
        .map(|item| {
            let [id, token, label, owner, waited, held, how] = item.list()? else { return None };
            Some(PastGrant {
                id: text(id)?,
                token: number(token)?,
                label: text(label)?,
                owner: text(owner)?,
                waited: span(waited)?,
                held: span(held)?,
                ended: match how.bytes()? {
                    b"released" => EndedAs::Released,
                    b"expired" => EndedAs::Expired,
                    b"broken" => EndedAs::Broken,
                    b"lost" => EndedAs::Lost,
                    _ => return None,
                },
            })
        })
        .collect()
}

// Labels and owners of others may be any bytes: they are for people.
fn text(value: &impl Value) -> Option<String> {
    Some(String::from_utf8_lossy(value.bytes()?).into_owned())
}

/// Scripts count in Lua, where whole numbers are exact up to here. A higher number is no number of theirs.
pub(super) const MOST: u64 = 1 << 53;

fn number(value: &impl Value) -> Option<u64> {
    let number = match value.int() {
        Some(number) => u64::try_from(number).ok(),
        None => std::str::from_utf8(value.bytes()?).ok()?.parse().ok(),
    };
    number.filter(|number| *number <= MOST)
}

fn span(value: &impl Value) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}

/// A reply made up by tests.
#[cfg(test)]
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plain {
    Text(String),
    Int(i64),
    List(Vec<Plain>),
    Nil,
}

#[cfg(test)]
impl Value for Plain {
    fn bytes(&self) -> Option<&[u8]> {
        if let Plain::Text(text) = self { Some(text.as_bytes()) } else { None }
    }

    fn int(&self) -> Option<i64> {
        if let Plain::Int(number) = self { Some(*number) } else { None }
    }

    fn list(&self) -> Option<&[Self]> {
        if let Plain::List(items) = self { Some(items) } else { None }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
