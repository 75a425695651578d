//! The names and values that a reply tells for people. A value that cannot be one of its name refuses the whole reply.

use std::time::Duration;

use super::value::{Value, flag, number, small, span, text};
use crate::history::{EndedAs, PastGrant};
use crate::inspect::{Holder, QueuedWaiter};

/// All that a reply may tell for people, as far as this one tells it.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) left: Option<Duration>,
    pub(super) holders: Option<Vec<Holder>>,
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
                b"holders" => read.holders = Some(holders(value)?),
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
}

/// The rows of a list, each with these columns. A later version may add others.
fn rows<T, V: Value, const N: usize>(value: &V, read: impl Fn(&[V; N]) -> Option<T>) -> Option<Vec<T>> {
    let row = |row: &V| row.list()?.first_chunk().and_then(&read);
    value.list()?.iter().map(row).collect()
}

fn holders(value: &impl Value) -> Option<Vec<Holder>> {
    rows(value, |[id, slot, token, most, label, owner, held_for, claim, broken, left]| {
        Some(Holder {
            id: text(id)?,
            slot: small(slot)?,
            slots: small(most)?,
            token: number(token)?,
            label: text(label)?,
            owner: text(owner)?,
            remaining: span(left)?,
            held_for: span(held_for)?,
            broken: flag(broken)?,
            confirmed: !flag(claim)?,
        })
    })
}

fn page(value: &impl Value) -> Option<Vec<QueuedWaiter>> {
    rows(value, |[id, ticket, label, owner, waited, alive, most]| {
        Some(QueuedWaiter {
            id: text(id)?,
            ticket: number(ticket)?,
            label: text(label)?,
            owner: text(owner)?,
            waited: span(waited)?,
            alive: flag(alive)?,
            slots: small(most)?,
        })
    })
}

fn past(value: &impl Value) -> Option<Vec<PastGrant>> {
    rows(value, |[id, token, label, owner, waited, held, how, slot]| {
        Some(PastGrant {
            id: text(id)?,
            token: number(token)?,
            label: text(label)?,
            owner: text(owner)?,
            waited: span(waited)?,
            held: span(held)?,
            slot: small(slot)?,
            ended: match how.bytes()? {
                b"released" => EndedAs::Released,
                b"expired" => EndedAs::Expired,
                b"broken" => EndedAs::Broken,
                b"lost" => EndedAs::Lost,
                _ => return None,
            },
        })
    })
}
