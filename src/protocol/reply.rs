//! What scripts reply, in the type of the verb that was asked. A reply is read as a whole or refused: one that lacks what
//! its word promises is no reply.

use std::time::Duration;

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
    /// How long nothing is granted, at the most, while the server waits for the clients that were there before it lost data.
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
                let grants = fields.grants.unwrap_or(0);
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

impl Value for rmpv::Value {
    fn bytes(&self) -> Option<&[u8]> {
        self.as_slice()
    }

    fn int(&self) -> Option<i64> {
        self.as_i64()
    }

    fn list(&self) -> Option<&[Self]> {
        self.as_array().map(Vec::as_slice)
    }
}

/// The greatest depth of a reply: the rows of a page in an array, each of which the decoder counts several times.
const DEPTH: usize = 32;

impl Reply {
    /// The reply to a request of this verb as the scripts pack it: one MessagePack array.
    pub(crate) fn unpack(verb: Verb, mut packed: &[u8]) -> Option<Self> {
        let value = rmpv::decode::read_value_with_max_depth(&mut packed, DEPTH).ok()?;
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
mod tests {
    use super::*;

    const VERBS: [Verb; 8] = [
        Verb::Acquire,
        Verb::Heartbeat,
        Verb::Renew,
        Verb::Release,
        Verb::Leave,
        Verb::Inspect,
        Verb::Break,
        Verb::History,
    ];

    fn bulk(text: &str) -> Plain {
        Plain::Text(text.into())
    }

    /// Each value is another, so that none can stand in the place of another.
    fn every_field() -> Vec<(&'static str, Plain)> {
        let row = |id: &str, alive: &str| {
            Plain::List(vec![bulk(id), Plain::Int(31), bulk("l"), bulk("o"), bulk("32"), bulk(alive)])
        };
        let texts = [
            ("epoch", "11"),
            ("stamp", "12"),
            ("token", "13"),
            ("waiting", "14"),
            ("lease_left_us", "15"),
            ("recover_left_us", "16"),
            ("pace_us", "28"),
            ("longest_us", "29"),
            ("holder", "c.17"),
            ("holder_token", "18"),
            ("holder_ticket", "34"),
            ("again", "1"),
            ("holder_claim", "1"),
            ("left_us", "19"),
            ("granted_token", "20"),
            ("ticket", "21"),
            ("rank", "22"),
            ("held_id", "c.23"),
            ("held_token", "24"),
            ("held_label", "twenty-five"),
            ("held_owner", "twenty-six"),
            ("held_us", "27"),
            ("held_broken", "1"),
            ("grants", "41"),
            ("recorded", "1"),
        ];
        let page = ("page", Plain::List(vec![row("c.30", "1"), row("c.33", "0")]));
        let grant = ["c.35", "36", "thirty-seven", "thirty-eight", "39", "40", "broken"].map(bulk);
        let past = ("past", Plain::List(vec![Plain::List(grant.into())]));
        texts.into_iter().map(|(name, value)| (name, bulk(value))).chain([page, past]).collect()
    }

    fn reply(word: &str, fields: Vec<(&str, Plain)>) -> Plain {
        Plain::List(
            [bulk(word)].into_iter().chain(fields.into_iter().flat_map(|(name, it)| [bulk(name), it])).collect(),
        )
    }

    fn verdict(verb: Verb, word: &str) -> Verdict {
        Reply::parse(verb, &reply(word, every_field())).unwrap().verdict
    }

    #[test]
    fn every_field_of_a_reply_arrives_where_it_belongs() {
        let us = Duration::from_micros;
        let common = Reply::parse(Verb::Leave, &reply("left", every_field())).unwrap().common;
        let token = |number| Token::new(number).unwrap();
        let ticket = |number| Ticket::new(number).unwrap();
        let id = WireId::parse("c.17").unwrap();
        let own = OwnLease { id, token: token(18), ticket: ticket(34), claim: true };
        let (lease_left, recover_left, pace, longest) = (us(15), us(16), us(28), us(29));
        let (epoch, stamp, waiting, again) = (Epoch::new(11), Stamp::new(12), 14, true);
        let (token_of_lock, own) = (Token::new(13), Some(own));
        let expected =
            Common { epoch, stamp, token: token_of_lock, waiting, lease_left, recover_left, pace, longest, own, again };
        assert_eq!(common, expected);
        assert_eq!(common.recovering_for(), Some(us(16)));

        let held = Holder {
            id: "c.23".into(),
            token: 24,
            label: "twenty-five".into(),
            owner: "twenty-six".into(),
            remaining: us(15),
            held_for: us(27),
            broken: true,
        };
        let queued = |id: &str, alive| QueuedWaiter {
            id: id.into(),
            ticket: 31,
            label: "l".into(),
            owner: "o".into(),
            waited: us(32),
            alive,
        };
        let acquire = |word| verdict(Verb::Acquire, word);
        assert_eq!(
            acquire("granted"),
            Verdict::Acquire(AcquireVerdict::Granted { token: token(20), left: us(19), claim: true })
        );
        assert_eq!(acquire("queued"), Verdict::Acquire(AcquireVerdict::Queued { ticket: ticket(21), rank: 22 }));
        assert_eq!(acquire("busy"), Verdict::Acquire(AcquireVerdict::Busy(Some(Box::new(held.clone())))));
        let alive = HeartbeatVerdict::Alive { rank: Some(22) };
        assert_eq!(verdict(Verb::Heartbeat, "alive"), Verdict::Heartbeat(alive));
        assert_eq!(verdict(Verb::Renew, "renewed"), Verdict::Renew(RenewVerdict::Renewed { left: us(19) }));
        assert_eq!(verdict(Verb::Break, "told"), Verdict::Break(BreakVerdict::Told { left: us(19) }));
        let queue = vec![queued("c.30", true), queued("c.33", false)];
        let state = Inspected { grants: 41, holder: Some(Box::new(held)), queue };
        assert_eq!(verdict(Verb::Inspect, "state"), Verdict::Inspect(state));
        let grants = vec![PastGrant {
            id: "c.35".into(),
            token: 36,
            label: "thirty-seven".into(),
            owner: "thirty-eight".into(),
            waited: us(39),
            held: us(40),
            ended: EndedAs::Broken,
        }];
        assert_eq!(verdict(Verb::History, "history"), Verdict::History(History { recorded: true, grants }));
    }

    #[test]
    fn a_reply_is_read_as_a_whole_or_refused() {
        let always =
            "epoch stamp token waiting lease_left_us recover_left_us pace_us longest_us holder_token holder_ticket";
        for (verb, word, needed) in [
            (Verb::Acquire, "granted", "left_us granted_token"),
            (Verb::Acquire, "queued", "ticket rank"),
            (Verb::Acquire, "busy", "held_token held_label held_owner held_us"),
            (Verb::Acquire, "disbelieved", ""),
            (Verb::Heartbeat, "alive", ""),
            (Verb::Heartbeat, "unknown", ""),
            (Verb::Renew, "renewed", "left_us"),
            (Verb::Renew, "broken", ""),
            (Verb::Renew, "lost", ""),
            (Verb::Release, "released", ""),
            (Verb::Release, "expired", ""),
            (Verb::Release, "left", ""),
            (Verb::Release, "unknown", ""),
            (Verb::Leave, "left", ""),
            (Verb::Inspect, "state", "held_token held_label held_owner held_us page"),
            (Verb::Break, "told", "left_us"),
            (Verb::Break, "ended", ""),
            (Verb::Break, "unknown", ""),
            (Verb::History, "history", "recorded past"),
        ] {
            let needed: Vec<&str> = always.split(' ').chain(needed.split_whitespace()).collect();
            for (name, _) in every_field() {
                let mut fields = every_field();
                fields.retain(|(other, _)| *other != name);
                let read = Reply::parse(verb, &reply(word, fields));
                assert_eq!(read.is_none(), needed.contains(&name), "{verb:?} {word} without {name}");
            }
        }
    }

    #[test]
    fn a_word_belongs_to_its_verbs() {
        let words: Vec<&str> = VERBS.iter().flat_map(|verb| verb.words()).chain(&["gift", ""]).copied().collect();
        for verb in VERBS {
            for word in &words {
                let read = Reply::parse(verb, &reply(word, every_field()));
                assert_eq!(read.is_some(), verb.words().contains(word), "{verb:?} {word:?}");
            }
        }
    }

    #[test]
    fn a_strange_field_is_passed_over_and_a_strange_value_is_not() {
        let with = |name: &'static str, value| {
            let mut fields = every_field();
            fields.retain(|(other, _)| *other != name);
            fields.push((name, value));
            Reply::parse(Verb::Acquire, &reply("granted", fields))
        };
        assert!(with("new", bulk("x")).is_some());
        assert!(with("left_us", bulk("1500000")).is_some());
        for number in ["-1", "x", "", "9007199254740993"] {
            assert!(with("left_us", bulk(number)).is_none(), "{number:?}");
        }
        for (name, value) in [("granted_token", "0"), ("holder_token", "0"), ("holder_ticket", "0"), ("holder", "c17")]
        {
            assert!(with(name, bulk(value)).is_none(), "{name} {value}");
        }
        assert!(with("page", Plain::List(vec![Plain::List(vec![])])).is_none());

        // What only a part of the replies tells may be away.
        let mut fields = every_field();
        fields.retain(|(name, _)| !name.starts_with("held_") && !name.starts_with("holder") && *name != "again");
        let Reply { common, verdict } = Reply::parse(Verb::Acquire, &reply("busy", fields)).unwrap();
        assert!(!common.again && common.own.is_none());
        assert_eq!(verdict, Verdict::Acquire(AcquireVerdict::Busy(None)));

        let Plain::List(mut odd) = reply("granted", every_field()) else { unreachable!() };
        odd.push(bulk("again"));
        assert!(Reply::parse(Verb::Acquire, &Plain::List(odd)).is_none());
        assert!(Reply::parse(Verb::Acquire, &Plain::List(vec![])).is_none());
        assert!(Reply::parse(Verb::Acquire, &Plain::Nil).is_none());
    }
}
