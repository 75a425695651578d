//! The messages that scripts publish to a client, parsed once when they arrive.

use super::ids::{Secret, WireId};
use super::memory::{Knowledge, Memory, Seat, SeatTold};
use super::packed::Packed;
use super::stamps::{Ticket, Token};

/// A message that a script published to this client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) kind: PushKind,
    pub(crate) id: WireId,
    pub(crate) token: Token,
    /// The waiter's place in the queue, or the token if it had none.
    pub(crate) ticket: Ticket,
    pub(crate) slot: u16,
    pub(crate) seat: Seat,
    pub(crate) known: Knowledge,
    pub(crate) secret: Secret,
    /// The key of the lock.
    pub(crate) lock: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushKind {
    Grant,
    Break,
}

impl Push {
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut packed = Packed(payload);
        let kind = match packed.short()? {
            b"grant" => PushKind::Grant,
            b"break" => PushKind::Break,
            _ => return None,
        };
        let _left = packed.span()?; // for people: nobody knows how old a message is
        let (memory, seat) = (Memory::new(packed.short()?)?, Seat::new(packed.short()?)?);
        let SeatTold { ticket, token, slot, .. } = seat.told()?;
        let [id, secret, lock] =
            [packed.text()?, packed.short()?, packed.text()?].map(|text| std::str::from_utf8(text).ok());
        let (id, known) = (WireId::parse(id?)?, Knowledge::told(memory)?);
        Some(Self {
            kind,
            id,
            token: token?,
            ticket,
            slot,
            seat,
            known,
            secret: Secret::repeated(secret?),
            lock: lock?.to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::stamps::{Epoch, Stamp};
    use super::*;

    fn numbers(numbers: &[f64]) -> Vec<u8> {
        let packed = numbers.iter().flat_map(|number| number.to_le_bytes());
        std::iter::once(3).chain(packed).collect()
    }

    fn seat(ticket: f64, token: f64) -> Vec<u8> {
        [&numbers(&[99.0, ticket, token])[..], &[2, 0, 4, 0]].concat()
    }

    /// A message, in pieces: word, left, memory, seat, id, secret and lock.
    fn pieces(word: &str) -> Vec<Vec<u8>> {
        let short = |text: &[u8]| [&[u8::try_from(text.len()).unwrap()], text].concat();
        let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat();
        vec![
            short(word.as_bytes()),
            6700_f64.to_le_bytes().to_vec(),
            short(&numbers(&[99.0, 130.0, 123.0, 7.0, 8.0])),
            short(&seat(45.0, 123.0)),
            text("abc.7"),
            short(b"s3cret"),
            text("fairlock:{a b c}:lock"),
        ]
    }

    #[test]
    fn a_push_is_parsed_whole_or_not_at_all() {
        let whole = pieces("grant").concat();
        let push = Push::parse(&whole).unwrap();
        let memory = Memory::new(&numbers(&[99.0, 130.0, 123.0, 7.0, 8.0])).unwrap();
        assert_eq!(
            push,
            Push {
                kind: PushKind::Grant,
                id: WireId::parse("abc.7").unwrap(),
                token: Token::new(123).unwrap(),
                ticket: Ticket::new(45).unwrap(),
                slot: 2,
                seat: Seat::new(&seat(45.0, 123.0)).unwrap(),
                known: Knowledge::new(memory, Epoch::new(99), Stamp::new(130)),
                secret: Secret::repeated("s3cret"),
                lock: "fairlock:{a b c}:lock".into()
            }
        );
        let broken = Push { kind: PushKind::Break, ..push.clone() };
        assert_eq!(Push::parse(&pieces("break").concat()), Some(broken));
        assert_eq!(Push::parse(&pieces("gift").concat()), None);
        assert_eq!(Push::parse(&[&whole[..], b"more"].concat()), Some(push), "a later version may tell more");
        (0..whole.len()).for_each(|length| assert_eq!(Push::parse(&whole[..length]), None, "{length}"));
    }

    #[test]
    fn a_push_with_a_value_that_cannot_be_is_none() {
        let short = |text: &[u8]| [&[u8::try_from(text.len()).unwrap()], text].concat();
        for (at, bad) in [
            (1, (-1_f64).to_le_bytes().to_vec()),
            (1, f64::NAN.to_le_bytes().to_vec()),
            (2, short(&[3; 10])),
            (2, short(&[3; 200])),
            (3, short(&seat(45.0, 0.0))),
            (3, short(&seat(0.0, 123.0))),
            (3, short(&seat(45.0, 0.5))),
            (3, short(&seat(45.0, 9_007_199_254_740_994.0))),
            (3, short(&numbers(&[99.0, 45.0, 123.0]))),
            (4, vec![1, 0, b'a']),
            (5, vec![1, 0xff]),
            (6, vec![1, 0, 0xff]),
        ] {
            let mut wrong = pieces("grant");
            wrong[at] = bad;
            assert_eq!(Push::parse(&wrong.concat()), None, "{wrong:?}");
        }
    }
}
