//! What scripts and pushes say, parsed once at the edge.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};

use super::refusals::{Meaning, meaning, said};
use crate::inspect::{Holder, QueuedWaiter};

/// The reply of a script: a word, and what every reply tells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) word: Word,
    pub(crate) epoch: u64,
    pub(crate) stamp: u64,
    /// The last token that was granted.
    pub(crate) token: u64,
    pub(crate) waiting: u64,
    pub(crate) lease_left: Duration,
    pub(crate) recover_left: Duration,
    /// The longest heartbeat interval among those who wait.
    pub(crate) pace: Duration,
    /// The longest lease that anybody there may hold or be granted.
    pub(crate) longest: Duration,
    /// The lease that this client holds at this lock.
    pub(crate) holder: Option<HolderSeen>,
    /// The script stopped at its batch limit.
    pub(crate) again: bool,
    /// What is left of the lease that was asked for.
    pub(crate) left: Duration,
    pub(crate) granted_token: u64,
    pub(crate) ticket: u64,
    pub(crate) rank: Option<u64>,
    pub(crate) held: Option<Box<Holder>>,
    pub(crate) page: Vec<QueuedWaiter>,
}

impl Answer {
    /// How long nothing is granted, at the most, while the server waits for those who were there before it lost data.
    pub(crate) fn recovering_for(&self) -> Option<Duration> {
        (!self.recover_left.is_zero()).then_some(self.recover_left)
    }
}

/// A lease of this client as a reply names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HolderSeen {
    pub(crate) id: String,
    pub(crate) token: u64,
    /// Where it stood in the queue, or the token if it never did.
    pub(crate) ticket: u64,
}

/// One page of an inspection.
pub(crate) type StatePage = Answer;

macro_rules! words {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// The first word of a reply.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub(crate) enum Word { #[default] $($variant),* }

        impl Word {
            #[cfg(test)]
            pub(crate) const NAMES: &[&str] = &[$($name),*];

            fn parse(name: &[u8]) -> Option<Self> {
                $(if name == $name.as_bytes() { return Some(Word::$variant); })*
                None
            }
        }
    };
}

words! {
    Unknown = "unknown", Granted = "granted", Queued = "queued", Busy = "busy", Refused = "refused", Alive = "alive",
    Renewed = "renewed", Broken = "broken", Lost = "lost", Released = "released", Expired = "expired", Left = "left",
    State = "state", Told = "told", Ended = "ended",
}

impl Answer {
    pub(crate) fn parse(value: &Value) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        let (word, fields) = items.split_first()?;
        let mut answer = Answer { word: Word::parse(bytes(word)?)?, ..Answer::default() };
        let mut held = Holder {
            id: String::new(),
            token: 0,
            label: String::new(),
            owner: String::new(),
            remaining: Duration::ZERO,
            held_for: Duration::ZERO,
            broken: false,
        };
        for field in fields.chunks_exact(2) {
            let (name, value) = (bytes(&field[0])?, &field[1]);
            match name {
                b"epoch" => answer.epoch = number(value)?,
                b"stamp" => answer.stamp = number(value)?,
                b"token" => answer.token = number(value)?,
                b"waiting" => answer.waiting = number(value)?,
                b"lease_left_us" => answer.lease_left = span(value)?,
                b"recover_left_us" => answer.recover_left = span(value)?,
                b"pace_us" => answer.pace = span(value)?,
                b"longest_us" => answer.longest = span(value)?,
                b"holder" => answer.holder.get_or_insert_default().id = text(value)?,
                b"holder_token" => answer.holder.get_or_insert_default().token = number(value)?,
                b"holder_ticket" => answer.holder.get_or_insert_default().ticket = number(value)?,
                b"again" => answer.again = true,
                b"left_us" => answer.left = span(value)?,
                b"granted_token" => answer.granted_token = number(value)?,
                b"ticket" => answer.ticket = number(value)?,
                b"rank" => answer.rank = Some(number(value)?),
                b"held_id" => held.id = text(value)?,
                b"held_token" => held.token = number(value)?,
                b"held_label" => held.label = text(value)?,
                b"held_owner" => held.owner = text(value)?,
                b"held_us" => held.held_for = span(value)?,
                b"held_broken" => held.broken = number(value)? == 1,
                b"page" => answer.page = page(value)?,
                // A later version of the scripts may tell more.
                _ => {}
            }
        }
        if !held.id.is_empty() {
            held.remaining = answer.lease_left;
            answer.held = Some(Box::new(held));
        }
        Some(answer)
    }
}

fn page(value: &Value) -> Option<Vec<QueuedWaiter>> {
    let Value::Array(items) = value else { return None };
    items
        .iter()
        .map(|item| {
            let Value::Array(fields) = item else { return None };
            let [id, ticket, label, owner, waited, alive] = fields.as_slice() else { return None };
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

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

// What others call themselves may be any bytes: it is for people to see.
fn text(value: &Value) -> Option<String> {
    Some(String::from_utf8_lossy(bytes(value)?).into_owned())
}

/// Scripts count in Lua, where whole numbers are exact up to here. Whatever is more is no number of theirs.
const MOST: u64 = 1 << 53;

fn number(value: &Value) -> Option<u64> {
    let number = match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => std::str::from_utf8(bytes(value)?).ok()?.parse().ok(),
    };
    number.filter(|number| *number <= MOST)
}

fn span(value: &Value) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}

/// A message that a script published to this client: `grant ID TOKEN TICKET LEFT_US SECRET QUEUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) kind: PushKind,
    pub(crate) id: String,
    pub(crate) token: u64,
    /// Where it stood in the queue, or the token if it never did.
    pub(crate) ticket: u64,
    /// What the waiter or holder named when it acquired. Whoever does not know it cannot make such a message.
    pub(crate) secret: String,
    /// The key of the lock's queue. It stands last because a name may contain spaces.
    pub(crate) queue: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushKind {
    Grant,
    Break,
}

impl Push {
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(payload).ok()?.splitn(7, ' ');
        let kind = match words.next()? {
            "grant" => PushKind::Grant,
            "break" => PushKind::Break,
            _ => return None,
        };
        let id = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok().filter(|number| *number <= MOST);
        let (token, ticket, _left_us) = (number()?, number()?, number()?);
        let (secret, queue) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Self { kind, id, token, ticket, secret, queue })
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server is alive and refused it for now.
    Refused(Arc<str>),
    /// The user may not do that, as long as an operator does not give it the right.
    Denied(Arc<str>),
    /// A key of the lock has another type.
    WrongType(Arc<str>),
    /// The server does not understand the request; asking again would not help.
    Rejected(Arc<str>),
}

impl Failure {
    /// None: it is the connection that broke.
    pub(crate) fn of(error: &RedisError) -> Option<Self> {
        let said: Arc<str> = said(error).into();
        Some(match meaning(error) {
            Meaning::Broken => return None,
            Meaning::Passing | Meaning::ReadOnly => Failure::Refused(said),
            Meaning::Login => Failure::Denied(said),
            Meaning::Denied => Failure::Denied(format!("{said}; the README lists the rights that are needed").into()),
            Meaning::WrongType => Failure::WrongType(said),
            Meaning::Database | Meaning::NotCluster | Meaning::Hello | Meaning::Rejected => Failure::Rejected(said),
        })
    }

    pub(crate) fn cause(&self) -> &Arc<str> {
        match self {
            Failure::Refused(cause) | Failure::Denied(cause) | Failure::WrongType(cause) | Failure::Rejected(cause) => {
                cause
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_parsed_whole_or_not_at_all() {
        let push = Push::parse(b"grant abc.7 123 45 6700 s3cret fairlock:{a b c}:queue").unwrap();
        assert_eq!(
            push,
            Push {
                kind: PushKind::Grant,
                id: "abc.7".into(),
                token: 123,
                ticket: 45,
                secret: "s3cret".into(),
                queue: "fairlock:{a b c}:queue".into()
            }
        );
        let told = Push::parse(b"break abc.7 123 45 6700 s3cret fairlock:{a b c}:queue").unwrap();
        assert_eq!(told, Push { kind: PushKind::Break, ..push });
        for bad in [
            "",
            "grant",
            "grant a",
            "grant a b 1 2 s q",
            "grant a 1 x 2 s q",
            "grant a 1 2 x s q",
            "grant a 1 9007199254740993 2 s q",
            "grant a 1 2 3 s",
            "gift a 1 2 3 s q",
            "grant a -1 2 3 s q",
            "\u{0}",
        ] {
            assert_eq!(Push::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Push::parse(&[0xff, 0xfe]), None);
    }

    #[test]
    fn a_reply_with_a_strange_field_is_still_understood() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let answer = Answer::parse(&Value::Array(vec![
            bulk("granted"),
            bulk("new"),
            bulk("x"),
            bulk("left_us"),
            bulk("1500000"),
        ]))
        .unwrap();
        assert_eq!((answer.word, answer.left), (Word::Granted, Duration::from_micros(1_500_000)));
        assert!(Answer::parse(&Value::Array(vec![bulk("gift")])).is_none());
        assert!(Answer::parse(&Value::Array(vec![bulk("granted"), bulk("left_us"), bulk("-1")])).is_none());
        assert!(Answer::parse(&Value::Nil).is_none());
    }

    // Each value is another, so that none can stand in the place of another.
    #[test]
    fn every_field_of_a_reply_arrives_where_it_belongs() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let row = |id: &str, alive: &str| {
            Value::Array(vec![bulk(id), Value::Int(31), bulk("l"), bulk("o"), bulk("32"), bulk(alive)])
        };
        let mut items = vec![Value::SimpleString("state".into())];
        for (name, value) in [
            ("epoch", "11"),
            ("stamp", "12"),
            ("token", "13"),
            ("waiting", "14"),
            ("lease_left_us", "15"),
            ("recover_left_us", "16"),
            ("holder", "c.17"),
            ("holder_token", "18"),
            ("holder_ticket", "34"),
            ("again", "1"),
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
        ] {
            items.extend([bulk(name), bulk(value)]);
        }
        items.extend([bulk("page"), Value::Array(vec![row("c.30", "1"), row("c.33", "0")])]);
        let answer = Answer::parse(&Value::Array(items)).unwrap();

        let us = Duration::from_micros;
        assert_eq!((answer.word, answer.epoch, answer.stamp, answer.token), (Word::State, 11, 12, 13));
        assert_eq!((answer.waiting, answer.lease_left, answer.recover_left), (14, us(15), us(16)));
        assert_eq!(answer.holder, Some(HolderSeen { id: "c.17".into(), token: 18, ticket: 34 }));
        assert_eq!((answer.again, answer.left, answer.granted_token), (true, us(19), 20));
        assert_eq!((answer.ticket, answer.rank), (21, Some(22)));
        let held = Holder {
            id: "c.23".into(),
            token: 24,
            label: "twenty-five".into(),
            owner: "twenty-six".into(),
            remaining: us(15),
            held_for: us(27),
            broken: true,
        };
        assert_eq!(answer.held.as_deref(), Some(&held));
        let queued = |id: &str, alive| QueuedWaiter {
            id: id.into(),
            ticket: 31,
            label: "l".into(),
            owner: "o".into(),
            waited: us(32),
            alive,
        };
        assert_eq!(answer.page, [queued("c.30", true), queued("c.33", false)]);

        let bare = Answer::parse(&Value::Array(vec![bulk("busy"), bulk("held_id"), bulk("c.1")])).unwrap();
        assert!(!bare.again && bare.holder.is_none() && !bare.held.unwrap().broken);
        assert!(Answer::parse(&Value::Array(vec![bulk("busy")])).unwrap().held.is_none());
    }

    // What the server says, as the library reads it from the wire.
    #[test]
    fn a_failure_tells_what_is_worth_asking_again() {
        let said = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            Failure::of(&value.extract_error().unwrap_err()).unwrap()
        };
        for passing in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "UNKILLABLE Sorry the script already executed write commands against the dataset.",
            "ERR Error running script: @user_script:1: Script attempted to access a non local key in a cluster node",
            "ERR Error running script: @user_script:7: -OOM command not allowed when used memory > 'maxmemory'.",
            "LOADING Redis is loading the dataset in memory",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ASK 1 127.0.0.1:1",
            "MOVED 1 127.0.0.1:1",
            "CLUSTERDOWN The cluster is down",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOSCRIPT No matching script. Please use EVAL.",
            "LATER a word that nobody knows yet",
        ] {
            let failure = said(passing);
            assert!(matches!(failure, Failure::Refused(_)), "{failure:?}");
            let (_, what) = passing.split_once(' ').unwrap();
            assert!(failure.cause().contains(what), "{failure:?} has lost {what:?}");
        }
        for denied in
            ["NOAUTH Authentication required.", "NOPERM this user has no permissions to run the 'evalsha' command"]
        {
            assert!(matches!(said(denied), Failure::Denied(_)), "{:?}", said(denied));
        }
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR Error running script: @user_script:7: WRONGTYPE Operation against a key",
        ] {
            assert!(matches!(said(line), Failure::WrongType(_)), "{:?}", said(line));
        }
        assert!(matches!(said("ERR unknown command 'EVALSHA'"), Failure::Rejected(_)));
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(Failure::of(&broken), None);
    }
}
