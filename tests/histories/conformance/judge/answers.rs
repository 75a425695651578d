//! What the judge answers. Behind the numbers that clients read, memories and seats are random here, and never valid UTF-8.

use std::time::Duration;

use redis::cmd;

use super::Judge;
use crate::conformance::{
    message::{Value, listed, message, reply, sealed, sealed_seat},
    referee::Asked,
};

/// The lease of another client, at whose end the first waiter looks whether the lock is free.
pub const ANOTHERS: Duration = Duration::from_millis(300);

impl Judge<'_> {
    pub fn answer(&mut self, asked: &Asked, word: &str, left: Duration, values: Vec<(&str, Value)>) {
        let frame = self.packed(asked, word, left, values);
        asked.frame(frame);
    }

    /// What an answer brings. It counts as told from now on, although its client may read it later.
    pub fn packed(&mut self, asked: &Asked, word: &str, left: Duration, mut values: Vec<(&str, Value)>) -> Vec<u8> {
        let stamp = self.stamp();
        let memory = sealed(&[self.epoch, stamp]);
        let again = values.iter().any(|(name, _)| *name == "again");
        let micros = |span: Duration| Value::Number(span.as_micros() as u64);
        values.extend([
            ("memory", Value::Text(memory.clone())),
            ("keep_us", micros(self.keep)),
            ("waiting", Value::Number(1)),
            ("held", Value::Number(u64::from(!left.is_zero()))),
            ("first_left_us", micros(left)),
            ("recover_left_us", Value::Number(0)),
        ]);
        self.ledger.remember(asked, word, memory);
        self.ledger.answered(asked, word, again);
        self.note(format_args!("client ← {word} {}", listed(&values)));
        let packed = reply(word, &values);
        [format!("${}\r\n", packed.len()).as_bytes(), &packed, b"\r\n"].concat()
    }

    /// A word and nothing that it promises.
    pub fn answer_lacks_all(&mut self, asked: &Asked, word: &str) {
        let packed = [&[u8::try_from(word.len()).unwrap()], word.as_bytes()].concat();
        self.ledger.answered(asked, word, false);
        self.note(format_args!("client ← {word} (and nothing else)"));
        asked.frame([format!("${}\r\n", packed.len()).as_bytes(), &packed, b"\r\n"].concat());
    }

    /// Only a word.
    pub fn plain(&mut self, asked: &Asked, word: &str) {
        self.answer(asked, word, Duration::ZERO, Vec::new());
    }

    /// In the queue, first.
    pub fn queued(&mut self, asked: &Asked) {
        let ticket = self.ticket(&asked.text(0));
        let seat = self.seat(&asked.text(0), Some(asked.connection), ticket, 0);
        let id = Value::Text(asked.args[0].clone());
        let values = [("place_id", id), ("seat", Value::Text(seat)), ("position", Value::Number(1))];
        self.answer(asked, "queued", ANOTHERS, values.into());
    }

    pub fn alive(&mut self, asked: &Asked) {
        self.answer(asked, "alive", ANOTHERS, vec![("position", Value::Number(1))]);
    }

    /// An answer that says that this acquire holds the lock for so long.
    pub fn grants(&mut self, asked: &Asked, word: &str, id: &str, left: Duration, claim: bool) {
        let ticket = self.ticket(id);
        self.ledger.lease(id, asked, left);
        let stamp = self.stamp();
        let acquire = self.ledger.acquires.entry(id.to_owned()).or_default();
        acquire.token = if acquire.token == 0 { stamp } else { acquire.token };
        acquire.holds = !claim;
        let token = acquire.token;
        let seat = self.seat(id, Some(asked.connection), ticket, token);
        let mut values = vec![
            ("own_id", Value::Text(id.as_bytes().to_vec())),
            ("own_seat", Value::Text(seat)),
            ("own_left_us", Value::Number(left.as_micros() as u64)),
        ];
        values.extend(claim.then_some(("own_claim", Value::Number(1))));
        let by_hdel = self.by_hdel && word == "granted";
        values.extend(by_hdel.then_some(("by_hdel", Value::Number(1))));
        self.answer(asked, word, left, values);
        if by_hdel {
            self.ledger.has_flag(id);
        }
    }

    /// How many fields an HDEL removed.
    pub fn removed(&mut self, asked: &Asked, fields: u8) {
        self.ledger.removed(asked, fields);
        self.note(format_args!("client ← {fields}"));
        asked.frame(format!(":{fields}\r\n").into_bytes());
    }

    pub fn refuse(&mut self, asked: &Asked, error: &str) {
        self.ledger.refused(asked, error);
        self.note(format_args!("client ← -{error}"));
        asked.frame(format!("-{error}\r\n").into_bytes());
    }

    /// Publishes that this acquire is granted the lock, or that its lease is broken. `change` forges it. How many heard
    /// it.
    pub fn publish(&mut self, kind: &str, id: &str, channel: &str, change: Option<(&str, &str)>) -> u64 {
        let stamp = self.stamp();
        self.publish_under(stamp, kind, id, channel, change)
    }

    /// The same, as if it had been published when this stamp was given.
    pub fn publish_under(
        &mut self,
        stamp: u64,
        kind: &str,
        id: &str,
        channel: &str,
        change: Option<(&str, &str)>,
    ) -> u64 {
        let ticket = if change.is_none() { self.ticket(id) } else { 1 };
        let (secret, token) = (self.ledger.acquires[id].secret.clone(), self.ledger.acquires[id].token);
        let token = if kind == "break" { token } else { stamp };
        let seat = match change {
            None => self.seat(id, None, ticket, token),
            Some(_) => sealed_seat(self.epoch, ticket, token, (0, self.ledger.terms.most)),
        };
        if change.is_some() {
            self.ledger.forged.insert(seat.clone());
        }
        let memory = sealed(&[self.epoch, stamp]);
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let mut values = vec![
            ("id", text(id)),
            ("lock", text(&self.ledger.terms.key())),
            ("secret", Value::Text(secret)),
            ("left_us", Value::Number(3_000_000)),
            ("seat", Value::Text(seat)),
            ("memory", Value::Text(memory.clone())),
        ];
        if let Some((name, forged)) = change {
            values.iter_mut().filter(|(its, _)| *its == name).for_each(|value| value.1 = text(forged));
        } else {
            self.ledger.published(id, token, memory);
        }
        self.note(format_args!("push   ← {kind} {}", listed(&values)));
        cmd("PUBLISH").arg(channel).arg(message(kind, &values)).query(&mut self.server.raw()).unwrap()
    }

    /// What the state of its acquire asks for.
    pub fn as_before(&mut self, asked: &Asked) {
        let id = asked.text(if asked.verb == "heartbeat" { 5 } else { 0 });
        // A client of the full size hands out a claim and confirms it later.
        let handed_out = self.ledger.terms.can("full");
        let acquire = self.ledger.acquires.get(&id);
        let holds = acquire.is_some_and(|acquire| acquire.holds || (handed_out && acquire.token > 0));
        // The next renewal is due soon: a scene may wait for it.
        let lease = Duration::from_micros(self.ledger.terms.lease * 2 / 3) + Duration::from_millis(300);
        match &*asked.verb {
            "heartbeat" => self.alive(asked),
            "acquire" if holds => self.grants(asked, "granted", &id, lease, false),
            "acquire" if self.ledger.acquires[&id].room == "0" => self.plain(asked, "busy"),
            "acquire" => self.queued(asked),
            "renew" if holds => self.grants(asked, "renewed", &id, lease, false),
            "renew" => self.plain(asked, "lost"),
            "release" if acquire.is_some_and(|acquire| acquire.token == 0) => self.plain(asked, "left"),
            "release" => self.plain(asked, "released"),
            "hdel" => self.removed(asked, 1),
            _ => self.plain(asked, "left"),
        }
    }

    fn seat(&mut self, id: &str, connection: Option<usize>, ticket: u64, token: u64) -> Vec<u8> {
        let slot = self.ledger.acquires.get(id).map_or(0, |acquire| acquire.slot);
        let seat = sealed_seat(self.epoch, ticket, token, (slot, self.ledger.terms.most));
        self.ledger.seat(id, connection, seat.clone());
        seat
    }

    /// What the next grants of this acquire say.
    pub fn in_slot(&mut self, id: &str, slot: u16) {
        self.ledger.acquires.entry(id.to_owned()).or_default().slot = slot;
    }

    /// Another one.
    pub fn stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// A waiter keeps its ticket.
    fn ticket(&mut self, id: &str) -> u64 {
        let stamp = self.stamp();
        let acquire = self.ledger.acquires.entry(id.to_owned()).or_default();
        acquire.ticket = if acquire.ticket == 0 { stamp } else { acquire.ticket };
        acquire.ticket
    }
}
