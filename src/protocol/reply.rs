//! The replies of scripts, parsed once when they arrive.

use std::time::Duration;

use crate::inspect::{Holder, QueuedWaiter};

/// A value of a reply, independent of the wire.
pub(crate) trait Value: Sized {
    fn bytes(&self) -> Option<&[u8]>;
    fn int(&self) -> Option<i64>;
    fn list(&self) -> Option<&[Self]>;
}

/// The reply of a script: a word, and the values that every reply has.
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
    /// The longest heartbeat interval among the waiters.
    pub(crate) pace: Duration,
    /// The longest lease that any client may hold or be granted.
    pub(crate) longest: Duration,
    /// The lease that this client holds at this lock.
    pub(crate) holder: Option<HolderSeen>,
    /// The script stopped at its batch limit.
    pub(crate) again: bool,
    /// What is left of the lease in question.
    pub(crate) left: Duration,
    pub(crate) granted_token: u64,
    pub(crate) ticket: u64,
    pub(crate) rank: Option<u64>,
    pub(crate) held: Option<Box<Holder>>,
    pub(crate) page: Vec<QueuedWaiter>,
}

impl Answer {
    /// For how long nothing is granted at most, while the server waits for its former clients after a loss of data.
    pub(crate) fn recovering_for(&self) -> Option<Duration> {
        (!self.recover_left.is_zero()).then_some(self.recover_left)
    }
}

/// A lease of this client as a reply names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HolderSeen {
    pub(crate) id: String,
    pub(crate) token: u64,
    /// Its place in the queue, or the token if it had none.
    pub(crate) ticket: u64,
}

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

impl Answer {
    /// A reply as the scripts pack it: one MessagePack array.
    pub(crate) fn unpack(mut packed: &[u8]) -> Option<Self> {
        let value = rmpv::decode::read_value_with_max_depth(&mut packed, DEPTH).ok()?;
        Self::parse(&value).filter(|_| packed.is_empty())
    }

    pub(crate) fn parse(value: &impl Value) -> Option<Self> {
        let (word, fields) = value.list()?.split_first()?;
        let mut answer = Answer { word: Word::parse(word.bytes()?)?, ..Answer::default() };
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
            let (name, value) = (field[0].bytes()?, &field[1]);
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
                // A later version of the scripts may send more values.
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
#[derive(Debug)]
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

    #[test]
    fn a_reply_with_a_strange_field_is_still_understood() {
        let bulk = |text: &str| Plain::Text(text.into());
        let answer = Answer::parse(&Plain::List(vec![
            bulk("granted"),
            bulk("new"),
            bulk("x"),
            bulk("left_us"),
            bulk("1500000"),
        ]))
        .unwrap();
        assert_eq!((answer.word, answer.left), (Word::Granted, Duration::from_micros(1_500_000)));
        assert!(Answer::parse(&Plain::List(vec![bulk("gift")])).is_none());
        assert!(Answer::parse(&Plain::List(vec![bulk("granted"), bulk("left_us"), bulk("-1")])).is_none());
        assert!(Answer::parse(&Plain::Nil).is_none());
    }

    // All values differ, so none can replace another.
    #[test]
    fn every_field_of_a_reply_arrives_where_it_belongs() {
        let bulk = |text: &str| Plain::Text(text.into());
        let row = |id: &str, alive: &str| {
            Plain::List(vec![bulk(id), Plain::Int(31), bulk("l"), bulk("o"), bulk("32"), bulk(alive)])
        };
        let mut items = vec![bulk("state")];
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
        items.extend([bulk("page"), Plain::List(vec![row("c.30", "1"), row("c.33", "0")])]);
        let answer = Answer::parse(&Plain::List(items)).unwrap();

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

        let bare = Answer::parse(&Plain::List(vec![bulk("busy"), bulk("held_id"), bulk("c.1")])).unwrap();
        assert!(!bare.again && bare.holder.is_none() && !bare.held.unwrap().broken);
        assert!(Answer::parse(&Plain::List(vec![bulk("busy")])).unwrap().held.is_none());
    }
}
