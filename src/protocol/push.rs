//! The messages that scripts publish to a client, parsed once when they arrive.

use super::ids::{Secret, WireId};
use super::reply::MOST;
use super::stamps::{Ticket, Token};

/// A message that a script published to this client: `grant ID TOKEN TICKET LEFT_US SECRET LOCK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) kind: PushKind,
    pub(crate) id: WireId,
    pub(crate) token: Token,
    /// The waiter's place in the queue, or the token if it had none.
    pub(crate) ticket: Ticket,
    pub(crate) secret: Secret,
    /// The first key of the lock. It comes last because a name may contain spaces.
    pub(crate) lock: String,
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
        let id = WireId::parse(words.next()?)?;
        let mut number = || words.next()?.parse().ok().filter(|number| *number <= MOST);
        let (token, ticket, _left_us) = (Token::new(number()?)?, Ticket::new(number()?)?, number()?);
        let (secret, lock) = (Secret::repeated(words.next()?), words.next()?.to_owned());
        Some(Self { kind, id, token, ticket, secret, lock })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_parsed_whole_or_not_at_all() {
        let push = Push::parse(b"grant abc.7 123 45 6700 s3cret fairlock:{a b c}:lock").unwrap();
        assert_eq!(
            push,
            Push {
                kind: PushKind::Grant,
                id: WireId::parse("abc.7").unwrap(),
                token: Token::new(123).unwrap(),
                ticket: Ticket::new(45).unwrap(),
                secret: Secret::repeated("s3cret"),
                lock: "fairlock:{a b c}:lock".into()
            }
        );
        let told = Push::parse(b"break abc.7 123 45 6700 s3cret fairlock:{a b c}:lock").unwrap();
        assert_eq!(told, Push { kind: PushKind::Break, ..push });
        for bad in [
            "",
            "grant",
            "grant a",
            "grant a 1 2 3 s q",
            "grant a.1 b 1 2 s q",
            "grant a.1 1 x 2 s q",
            "grant a.1 1 2 x s q",
            "grant a.1 1 9007199254740993 2 s q",
            "grant a.1 1 2 3 s",
            "gift a.1 1 2 3 s q",
            "grant a.1 -1 2 3 s q",
            "grant a.1 0 2 3 s q",
            "grant a.1 1 0 3 s q",
            "\u{0}",
        ] {
            assert_eq!(Push::parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(Push::parse(&[0xff, 0xfe]), None);
    }
}
