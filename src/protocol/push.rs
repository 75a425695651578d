//! The messages that scripts publish to a client, parsed once when they arrive.

use rmpv::decode::read_value_ref_with_max_depth;

use super::ids::{Secret, WireId};
use super::memory::{Knowledge, Memory, Seat};
use super::reply::{Value, number};
use super::stamps::{Epoch, Stamp, Ticket, Token};

/// A message that a script published to this client, in the form of a reply: a word, then names and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) kind: PushKind,
    pub(crate) id: WireId,
    pub(crate) token: Token,
    /// The waiter's place in the queue, or the token if it had none.
    pub(crate) ticket: Ticket,
    pub(crate) seat: Seat,
    pub(crate) known: Knowledge,
    pub(crate) secret: Secret,
    /// The first key of the lock.
    pub(crate) lock: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushKind {
    Grant,
    Break,
}

impl Push {
    pub(crate) fn parse(mut payload: &[u8]) -> Option<Self> {
        const DEPTH: usize = 8;
        let value = read_value_ref_with_max_depth(&mut payload, DEPTH).ok()?;
        Self::read(&value).filter(|_| payload.is_empty())
    }

    /// The message in a value, however it was sent.
    pub(crate) fn read(value: &impl Value) -> Option<Self> {
        let (word, fields) = value.list()?.split_first()?;
        let kind = match word.bytes()? {
            b"grant" => PushKind::Grant,
            b"break" => PushKind::Break,
            _ => return None,
        };
        let (pairs, []) = fields.as_chunks::<2>() else { return None };
        let told = |name: &[u8]| pairs.iter().find(|[key, _]| key.bytes() == Some(name)).map(|[_, value]| value);
        let text = |name: &[u8]| std::str::from_utf8(told(name)?.bytes()?).ok();
        let stamp = |name: &[u8]| number(told(name)?);
        Some(Self {
            kind,
            id: WireId::parse(text(b"id")?)?,
            token: Token::new(stamp(b"token")?)?,
            ticket: Ticket::new(stamp(b"ticket")?)?,
            seat: Seat::new(told(b"seat")?.bytes()?)?,
            known: Knowledge::new(
                Memory::new(told(b"memory")?.bytes()?)?,
                Epoch::new(stamp(b"epoch")?),
                Stamp::new(stamp(b"stamp")?),
            ),
            secret: Secret::repeated(text(b"secret")?),
            lock: text(b"lock")?.to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rmpv::Value;

    use super::*;

    fn packed(word: &str, fields: &[(&str, Value)]) -> Vec<u8> {
        let fields = fields.iter().flat_map(|(name, value)| [Value::from(*name), value.clone()]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &Value::Array([word.into()].into_iter().chain(fields).collect()))
            .unwrap();
        bytes
    }

    fn fields() -> Vec<(&'static str, Value)> {
        vec![
            ("epoch", 99.into()),
            ("stamp", 130.into()),
            ("id", "abc.7".into()),
            ("lock", "fairlock:{a b c}:lock".into()),
            ("secret", "s3cret".into()),
            ("token", 123.into()),
            ("ticket", 45.into()),
            ("left_us", 6700.into()),
            ("seat", Value::Binary(vec![0xff, 1])),
            ("memory", Value::Binary(vec![0xff, 2])),
        ]
    }

    #[test]
    fn a_push_is_parsed_whole_or_not_at_all() {
        let push = Push::parse(&packed("grant", &fields())).unwrap();
        assert_eq!(
            push,
            Push {
                kind: PushKind::Grant,
                id: WireId::parse("abc.7").unwrap(),
                token: Token::new(123).unwrap(),
                ticket: Ticket::new(45).unwrap(),
                seat: Seat::new(&[0xff, 1]).unwrap(),
                known: Knowledge::new(Memory::new(&[0xff, 2]).unwrap(), Epoch::new(99), Stamp::new(130)),
                secret: Secret::repeated("s3cret"),
                lock: "fairlock:{a b c}:lock".into()
            }
        );
        assert_eq!(Push::parse(&packed("break", &fields())), Some(Push { kind: PushKind::Break, ..push.clone() }));
        assert_eq!(Push::parse(&packed("gift", &fields())), None);
        let mut more = fields();
        more.insert(3, ("slot", 2.into()));
        assert_eq!(Push::parse(&packed("grant", &more)), Some(push), "a later version may tell more");

        for (index, (name, _)) in fields().into_iter().enumerate().filter(|(_, (name, _))| *name != "left_us") {
            let mut less = fields();
            less.remove(index);
            assert_eq!(Push::parse(&packed("grant", &less)), None, "{name} is missing");
        }
        for (name, bad) in [
            ("id", Value::from("a")),
            ("id", 7.into()),
            ("token", 0.into()),
            ("token", (-1).into()),
            ("token", 9_007_199_254_740_993_u64.into()),
            ("ticket", "x".into()),
            ("seat", Value::Binary(vec![0; 200])),
            ("memory", 3.into()),
            ("secret", Value::Binary(vec![0xff])),
        ] {
            let wrong = fields().into_iter().map(|(key, value)| (key, if key == name { bad.clone() } else { value }));
            assert_eq!(Push::parse(&packed("grant", &wrong.collect::<Vec<_>>())), None, "{name}: {bad}");
        }
        let whole = packed("grant", &fields());
        (0..whole.len()).for_each(|length| assert_eq!(Push::parse(&whole[..length]), None));
        assert_eq!(Push::parse(&[&whole[..], &[0]].concat()), None, "nothing follows");
    }
}
