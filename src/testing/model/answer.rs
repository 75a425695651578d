//! What a request is answered, and the messages that waiters and holders are sent.

use std::collections::BTreeMap;

use super::turn::Turn;
use super::{Entry, HOUR, Lock, Memory, Request, Seat, State, client_of};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub word: String,
    pub fields: BTreeMap<String, String>,
    /// What is told in rows, by name.
    pub lists: BTreeMap<String, Vec<Vec<String>>>,
}

impl Answer {
    pub fn put(&mut self, name: &str, value: impl ToString) {
        self.fields.insert(name.to_owned(), value.to_string());
    }

    /// What the asking client is to remember.
    pub fn memory(&self) -> Memory {
        let [epoch, stamp, token, longest, pace] = self.numbers("memory");
        Memory { epoch, stamp, token, longest, pace }
    }

    /// A place or lease.
    pub fn seat(&self, name: &str) -> Seat {
        let [epoch, ticket, token] = self.numbers(name);
        Seat { epoch, ticket, token }
    }

    fn numbers<const N: usize>(&self, name: &str) -> [u64; N] {
        let mut numbers = self.fields.get(name).into_iter().flat_map(|text| text.split_whitespace());
        std::array::from_fn(|_| numbers.next().map_or(0, |number| number.parse().expect("a number")))
    }

    pub fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field).map(|value| value.parse().expect("a number"))
    }
}

/// Where the client of this id hears of the lock with this first key.
pub fn channel(lock: &str, id: &str, hash_tag: &str) -> String {
    let prefix = lock.split('{').next().unwrap_or_default();
    let tag = if hash_tag.is_empty() { String::new() } else { format!("{{{hash_tag}}}:") };
    format!("{prefix}{tag}client:{}", client_of(id))
}

/// A channel, and what is published there, in the form of an answer.
pub type Message = (String, Answer);

/// A memory as answers have it in this model.
pub fn written(memory: &Memory) -> String {
    let Memory { epoch, stamp, token, longest, pace } = memory;
    format!("{epoch} {stamp} {token} {longest} {pace}")
}

impl Turn {
    pub(super) fn rank(&self, id: &str) -> Option<u64> {
        self.lock.queue.iter().position(|(_, other)| other == id).map(|rank| rank as u64)
    }

    /// What a client is told to remember. `pace` is the heartbeat interval of its own.
    fn memory(&self, pace: u64) -> String {
        let State { epoch, stamp, token, longest, recover_pace, .. } = self.lock.state;
        written(&Memory { epoch, stamp, token, longest, pace: self.lock.state.pace.max(recover_pace).max(pace) })
    }

    pub(super) fn seat(&self, ticket: u64, token: u64) -> String {
        let Seat { epoch, ticket, token } = Seat { epoch: self.lock.state.epoch, ticket, token };
        format!("{epoch} {ticket} {token}")
    }

    pub(super) fn answer(&self, word: &str, client: &str, more: &[(&str, u64)]) -> Answer {
        let Lock { state, lease, queue, .. } = &self.lock;
        let lease_end = lease.as_ref().map_or(0, |(_, end)| *end);
        let mut answer = Answer { word: word.to_owned(), ..Answer::default() };
        answer.put("waiting", queue.len());
        answer.put("lease_left_us", lease_end.saturating_sub(self.now));
        answer.put("recover_left_us", state.recover_until.saturating_sub(self.now));
        more.iter().for_each(|(name, number)| answer.put(name, number));
        if self.again {
            answer.put("again", 1);
        }
        answer.put("keep_us", state.longest.min(HOUR * 5 / 6));
        if client.is_empty() {
            return answer;
        }
        if state.epoch > 0 {
            answer.put("memory", self.memory(self.own_pace));
        }
        if let Some((id, _, held)) = self.lock.held()
            && client_of(&id) == client
            && !held.cut
        {
            answer.put("own_id", id);
            answer.put("own_seat", self.seat(held.ticket, held.token));
            if held.claim {
                answer.put("own_claim", 1);
            }
        }
        answer
    }

    /// The answer to a request that brings numbers which nobody gave, of a turn that did nothing.
    pub(super) fn disbelieve(&self, request: &Request) -> Answer {
        let mut answer = self.answer("disbelieved", request.client(), &[]);
        // What is not needed any more goes with the next write.
        let State { epoch, stamp, token, longest, pace, recover_pace, .. } = self.lock.state;
        let pace = pace.max(recover_pace).max(self.own_pace);
        if epoch > 0 {
            answer.put("memory", written(&Memory { epoch, stamp, token, longest, pace }));
        }
        answer
    }

    /// The holder is to be told of its lease.
    pub(super) fn tell(&mut self, word: &'static str) {
        if let Some((id, end, held)) = self.lock.held() {
            self.told.push((word, id, held, end - self.now));
        }
    }

    /// The messages, at the end of the turn.
    pub(super) fn messages(&self, queue: &str) -> Vec<Message> {
        let message = |(word, id, entry, left): &(&str, String, Entry, u64)| {
            let mut message = Answer { word: (*word).to_owned(), ..Answer::default() };
            message.put("id", id);
            message.put("lock", queue);
            message.put("secret", &entry.secret);
            message.put("left_us", left);
            message.put("seat", self.seat(entry.ticket, entry.token));
            message.put("memory", self.memory(0));
            (channel(queue, id, &entry.hash_tag), message)
        };
        self.told.iter().map(message).collect()
    }

    pub(super) fn tell_held(&self, answer: &mut Answer) {
        let Some((id, _, held)) = self.lock.held() else { return };
        let held_for = self.time.saturating_sub(held.token).to_string();
        for (name, value) in [
            ("held_id", id.clone()),
            ("held_token", held.token.to_string()),
            ("held_label", held.label.clone()),
            ("held_owner", held.owner.clone()),
            ("held_us", held_for),
            ("held_claim", u8::from(held.claim).to_string()),
        ] {
            answer.fields.insert(name.into(), value);
        }
    }
}
