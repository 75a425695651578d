//! What a request is answered, and the messages that waiters and holders are sent.

use std::collections::BTreeMap;

use super::turn::Turn;
use super::{Lock, client_of};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub word: String,
    pub fields: BTreeMap<String, String>,
    /// What is told in rows, by name.
    pub lists: BTreeMap<String, Vec<Vec<String>>>,
}

impl Answer {
    pub fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field).map(|value| value.parse().expect("a number"))
    }
}

/// A channel, and what is published there.
pub type Message = (String, String);

impl Turn {
    pub(super) fn rank(&self, id: &str) -> Option<u64> {
        self.lock.queue.iter().position(|(_, other)| other == id).map(|rank| rank as u64)
    }

    pub(super) fn answer(&self, word: &str, client: &str, more: &[(&str, u64)]) -> Answer {
        let Lock { state, lease, queue, .. } = &self.lock;
        let lease_end = lease.as_ref().map_or(0, |(_, end)| *end);
        let mut numbers = vec![
            ("epoch", state.epoch),
            ("stamp", state.stamp),
            ("token", state.token),
            ("waiting", queue.len() as u64),
            ("pace_us", state.pace.max(state.recover_pace)),
            ("longest_us", state.longest),
            ("lease_left_us", lease_end.saturating_sub(self.now)),
            ("recover_left_us", state.recover_until.saturating_sub(self.now)),
        ];
        numbers.extend(more);
        let mut fields: BTreeMap<String, String> =
            numbers.iter().map(|(name, number)| ((*name).to_owned(), number.to_string())).collect();
        if let Some((id, _, held)) = self.lock.held()
            && client_of(&id) == client
            && !held.cut
        {
            fields.insert("holder".into(), id);
            fields.insert("holder_token".into(), held.token.to_string());
            fields.insert("holder_ticket".into(), held.ticket.to_string());
            if held.claim {
                fields.insert("holder_claim".into(), "1".into());
            }
        }
        if self.again {
            fields.insert("again".into(), "1".into());
        }
        Answer { word: word.to_owned(), fields, lists: BTreeMap::new() }
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
