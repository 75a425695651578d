//! The names and values that a reply tells for people. A value that cannot be one of its name refuses the whole reply.

use std::time::Duration;

use super::value::{Value, flag, number, span, text};
use crate::history::{EndedAs, PastGrant};
use crate::inspect::{Holder, QueuedWaiter};

/// All that a reply may tell for people, as far as this one tells it.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) left: Option<Duration>,
    held_id: Option<String>,
    held_token: Option<u64>,
    held_label: Option<String>,
    held_owner: Option<String>,
    held_for: Option<Duration>,
    held_claim: bool,
    held_broken: bool,
    pub(super) epoch: Option<u64>,
    pub(super) grants: Option<u64>,
    pub(super) token: Option<u64>,
    pub(super) page: Option<Vec<QueuedWaiter>>,
    pub(super) recorded: Option<bool>,
    pub(super) past: Option<Vec<PastGrant>>,
}

impl Fields {
    pub(super) fn read(fields: &[impl Value]) -> Option<Self> {
        let mut read = Self::default();
        let (pairs, []) = fields.as_chunks::<2>() else { return None };
        for [name, value] in pairs {
            match name.bytes()? {
                b"left_us" => read.left = Some(span(value)?),
                b"held_id" => read.held_id = Some(text(value)?),
                b"held_token" => read.held_token = Some(number(value)?),
                b"held_label" => read.held_label = Some(text(value)?),
                b"held_owner" => read.held_owner = Some(text(value)?),
                b"held_us" => read.held_for = Some(span(value)?),
                b"held_claim" => read.held_claim = flag(value)?,
                b"held_broken" => read.held_broken = flag(value)?,
                b"epoch" => read.epoch = Some(number(value)?),
                b"token" => read.token = Some(number(value)?),
                b"grants" => read.grants = Some(number(value)?),
                b"page" => read.page = Some(page(value)?),
                b"recorded" => read.recorded = Some(flag(value)?),
                b"past" => read.past = Some(past(value)?),
                // A later version of the scripts may tell more.
                _ => {}
            }
        }
        Some(read)
    }

    /// The holder as people see it. The outer None: it is not told as a whole.
    pub(super) fn holder(&mut self, remaining: Duration) -> Option<Option<Box<Holder>>> {
        let Some(id) = self.held_id.take() else { return Some(None) };
        Some(Some(Box::new(Holder {
            id,
            token: self.held_token?,
            label: self.held_label.take()?,
            owner: self.held_owner.take()?,
            remaining,
            held_for: self.held_for?,
            broken: self.held_broken,
            confirmed: !self.held_claim,
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
                alive: flag(alive)?,
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
