//! The names and values of a reply. A value that cannot be one of its name refuses the whole reply.

use std::time::Duration;

use super::value::{Value, flag, number, span, text};
use super::{Common, OwnLease};
use crate::history::{EndedAs, PastGrant};
use crate::inspect::{Holder, QueuedWaiter};
use crate::protocol::ids::WireId;
use crate::protocol::memory::{Knowledge, Memory, Seat};
use crate::protocol::request::Verb;
use crate::protocol::stamps::{Epoch, Stamp, Ticket, Token};

/// All that a reply may say, as far as this one says it.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) epoch: Option<u64>,
    pub(super) stamp: Option<u64>,
    pub(super) memory: Option<Memory>,
    pub(super) keep: Option<Duration>,
    pub(super) waiting: Option<u64>,
    pub(super) lease_left: Option<Duration>,
    pub(super) recover_left: Option<Duration>,
    pub(super) own_id: Option<WireId>,
    pub(super) own_token: Option<u64>,
    pub(super) own_ticket: Option<u64>,
    pub(super) own_seat: Option<Seat>,
    pub(super) own_claim: bool,
    pub(super) again: bool,
    pub(super) left: Option<Duration>,
    pub(super) ticket: Option<u64>,
    pub(super) seat: Option<Seat>,
    pub(super) rank: Option<u64>,
    pub(super) held_id: Option<String>,
    pub(super) held_token: Option<u64>,
    pub(super) held_label: Option<String>,
    pub(super) held_owner: Option<String>,
    pub(super) held_for: Option<Duration>,
    pub(super) held_claim: bool,
    pub(super) held_broken: bool,
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
                b"epoch" => read.epoch = Some(number(value)?),
                b"stamp" => read.stamp = Some(number(value)?),
                b"memory" => read.memory = Some(Memory::new(value.bytes()?)?),
                b"keep_us" => read.keep = Some(span(value)?),
                b"waiting" => read.waiting = Some(number(value)?),
                b"lease_left_us" => read.lease_left = Some(span(value)?),
                b"recover_left_us" => read.recover_left = Some(span(value)?),
                b"holder" => read.own_id = Some(WireId::parse(&text(value)?)?),
                b"holder_token" => read.own_token = Some(number(value)?),
                b"holder_ticket" => read.own_ticket = Some(number(value)?),
                b"holder_seat" => read.own_seat = Some(Seat::new(value.bytes()?)?),
                b"holder_claim" => read.own_claim = flag(value)?,
                b"again" => read.again = flag(value)?,
                b"left_us" => read.left = Some(span(value)?),
                b"ticket" => read.ticket = Some(number(value)?),
                b"seat" => read.seat = Some(Seat::new(value.bytes()?)?),
                b"rank" => read.rank = Some(number(value)?),
                b"held_id" => read.held_id = Some(text(value)?),
                b"held_token" => read.held_token = Some(number(value)?),
                b"held_label" => read.held_label = Some(text(value)?),
                b"held_owner" => read.held_owner = Some(text(value)?),
                b"held_us" => read.held_for = Some(span(value)?),
                b"token" => read.token = Some(number(value)?),
                b"grants" => read.grants = Some(number(value)?),
                b"held_claim" => read.held_claim = flag(value)?,
                b"held_broken" => read.held_broken = flag(value)?,
                b"page" => read.page = Some(page(value)?),
                b"recorded" => read.recorded = Some(flag(value)?),
                b"past" => read.past = Some(past(value)?),
                // A later version of the scripts may tell more.
                _ => {}
            }
        }
        Some(read)
    }

    pub(super) fn common(&mut self, verb: Verb) -> Option<Common> {
        // Operators are told nothing to remember.
        let (memory, keep) = match verb.is_operators() {
            true => Default::default(),
            false => (self.memory?, self.keep?),
        };
        let own = match self.own_id.take() {
            None => None,
            Some(id) => {
                let (token, ticket) = (Token::new(self.own_token?)?, Ticket::new(self.own_ticket?)?);
                Some(OwnLease { id, token, ticket, seat: self.own_seat?, claim: self.own_claim })
            }
        };
        Some(Common {
            known: Knowledge::new(memory, Epoch::new(self.epoch?), Stamp::new(self.stamp?)),
            keep,
            waiting: self.waiting?,
            lease_left: self.lease_left?,
            recover_left: self.recover_left?,
            own,
            again: self.again,
        })
    }

    /// The holder as people see it. The outer None: it is not told as a whole.
    pub(super) fn holder(&mut self) -> Option<Option<Box<Holder>>> {
        let Some(id) = self.held_id.take() else { return Some(None) };
        Some(Some(Box::new(Holder {
            id,
            token: self.held_token?,
            label: self.held_label.take()?,
            owner: self.held_owner.take()?,
            remaining: self.lease_left?,
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
