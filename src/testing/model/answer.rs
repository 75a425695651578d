//! What a request is answered, and the messages that waiters and holders are sent.

use std::collections::BTreeMap;

use super::turn::Turn;
use super::{HOUR, Lease, Lock, Memory, Seat, State, client_of};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub word: String,
    pub fields: BTreeMap<String, String>,
    /// The place of the client that asks, after `queued`, and its leases. Of a message: the lease that it tells of.
    pub own: Vec<Own>,
    /// What is told in rows, by name.
    pub lists: BTreeMap<String, Vec<Vec<String>>>,
}

/// A place or lease of the client that asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    pub id: String,
    pub seat: Seat,
    pub claim: bool,
    /// What is left of the lease.
    pub left: u64,
}

impl Answer {
    pub fn put(&mut self, name: &str, value: impl ToString) {
        self.fields.insert(name.to_owned(), value.to_string());
    }

    /// What the asking client is to remember. An operator has nothing to remember.
    pub fn memory(&self) -> Memory {
        let [epoch, stamp, token, longest, pace] = self.numbers("memory");
        Memory { epoch, stamp, token, longest, pace }
    }

    /// The first place or lease.
    pub fn seat(&self) -> Seat {
        self.own.first().map(|own| own.seat).unwrap_or_default()
    }

    pub fn leases(&self) -> impl Iterator<Item = &Own> {
        self.own.iter().filter(|own| own.seat.token > 0)
    }

    pub fn lease_of(&self, id: &str) -> Option<&Own> {
        self.leases().find(|own| own.id == id)
    }

    fn numbers<const N: usize>(&self, name: &str) -> [u64; N] {
        let mut numbers = self.fields.get(name).into_iter().flat_map(|text| text.split_whitespace());
        std::array::from_fn(|_| numbers.next().map_or(0, |number| number.parse().expect("a number")))
    }

    pub fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field).map(|value| value.parse().expect("a number"))
    }
}

/// Where the client of this id hears of the lock with this key.
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
        let State { epoch, stamp, token, longest, wait_places, .. } = self.lock.state;
        written(&Memory { epoch, stamp, token, longest, pace: self.lock.state.pace.max(wait_places).max(pace) })
    }

    /// The seat of a lease.
    fn seat(&self, lease: &Lease) -> Seat {
        let Lease { ticket, token, slot, most, .. } = *lease;
        Seat { epoch: self.lock.state.epoch, ticket, token, slot, most }
    }

    pub(super) fn answer(&self, word: &str, client: &str, more: &[(&str, u64)]) -> Answer {
        let Lock { state, leases, queue, .. } = &self.lock;
        let mut answer = Answer { word: word.to_owned(), ..Answer::default() };
        answer.put("waiting", queue.len());
        answer.put("held", leases.len());
        answer.put("first_left_us", self.first_end().unwrap_or(0).saturating_sub(self.now));
        answer.put("recover_left_us", state.recover_until().saturating_sub(self.now));
        more.iter().for_each(|(name, number)| answer.put(name, number));
        if self.again {
            answer.put("again", 1);
        }
        answer.put("keep_us", state.longest.min(HOUR * 5 / 6));
        if state.epoch > 0 {
            answer.put("memory", self.memory(self.own_pace));
        }
        if client.is_empty() {
            return answer;
        }
        // The leases of the ids that it named, and what this turn has granted to it.
        let granted = self.told.iter().map(|(_, lease, _)| &lease.id).filter(|id| client_of(id) == client);
        for id in self.names.iter().chain(granted) {
            let Some(lease) = self.lock.lease_of(id).filter(|_| answer.own.iter().all(|own| own.id != *id)) else {
                continue;
            };
            let (seat, left) = (self.seat(lease), lease.end - self.now);
            answer.own.push(Own { id: id.clone(), seat, claim: lease.claim, left });
        }
        answer.own.sort_by_key(|own| own.seat.slot);
        answer
    }

    /// The holder is to be told of its lease.
    pub(super) fn tell(&mut self, word: &'static str, lease: &Lease) {
        self.told.push((word, lease.clone(), lease.end - self.now));
    }

    /// The messages, at the end of the turn. `before`: the lock as it was found.
    pub(super) fn messages(&self, before: &Lock, queue: &str) -> Vec<Message> {
        let message = |(word, lease, left): &(&str, Lease, u64)| {
            let mut message = Answer { word: (*word).to_owned(), ..Answer::default() };
            let entry = before.entries.get(&lease.id).cloned().unwrap_or_default();
            message.put("lock", queue);
            message.put("secret", &entry.secret);
            message.own = vec![Own { id: lease.id.clone(), seat: self.seat(lease), claim: false, left: *left }];
            message.put("memory", self.memory(0));
            (channel(queue, &lease.id, &entry.hash_tag), message)
        };
        self.told.iter().map(message).collect()
    }

    /// The leases of the first slots from this one on, so many at most, for people.
    pub(super) fn tell_holders(&self, answer: &mut Answer, from: u64, most: usize) {
        let row = |lease: &Lease| {
            let entry = self.lock.entries.get(&lease.id).cloned().unwrap_or_default();
            let held_for = self.time.saturating_sub(lease.token).to_string();
            let [claim, broken] = [lease.claim, lease.broken].map(|is| u8::from(is).to_string());
            let [slot, token] = [u64::from(lease.slot), lease.token].map(|number| number.to_string());
            let (most, left) = (lease.most.to_string(), (lease.end - self.now).to_string());
            vec![lease.id.clone(), slot, token, most, entry.label, entry.owner, held_for, claim, broken, left]
        };
        let told = self.lock.leases.iter().filter(|lease| u64::from(lease.slot) >= from).take(most);
        answer.lists.insert("holders".into(), told.map(row).collect());
    }
}
