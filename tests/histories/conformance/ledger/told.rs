//! The memories and seats that a client was told: which of them a request may bring.

use super::{Ledger, client_of};
use crate::conformance::{
    complaint::{Verdict, must},
    referee::Asked,
};

const MEMORY: &str = "keeps the text `memory` of the last reply about that lock";
/// Of a client that may not have read the last reply.
pub const NEWEST: &str =
    "A client takes a memory if its `epoch` is that of the memory it has and its `stamp` is not lower";
/// Of a message.
pub const BELIEVED: &str = "A client believes a push only if the ID is its own, `lock` is the key of that ID's lock, and \
                            `secret` is that of the acquire.";
pub const SEAT: &str = "`seat`, or `own_seat` where `own_id` is the ID, replaces the seat.";
const COMES_AFTER: &str = "It comes after the answer to a renewal that is under way, with the seat";
pub const FORGETS: &str = "a client without a lease or a place empties its memory";

/// A text that was told over a connection, or by a message, to a client id.
pub struct Told {
    pub text: Vec<u8>,
    pub connection: Option<usize>,
    client: String,
    /// How many requests have come over that connection since.
    pub since: usize,
}

impl Told {
    pub fn new(text: Vec<u8>, connection: Option<usize>, client: &str) -> Told {
        Told { text, connection, client: client.to_owned(), since: 0 }
    }
}

impl Ledger {
    /// The seat is the one that was told last, or the client may not have read that.
    pub(super) fn seat_of(&self, asked: &Asked, id: &str, seat: &[u8]) -> Verdict {
        let told = self.acquires.get(id).map(|acquire| &*acquire.seats).unwrap_or_default();
        must(!self.forged.contains(seat), BELIEVED, || "the seat is that of a forged message".into())?;
        let released = asked.verb == "release" && seat.is_empty();
        let is_older = told.iter().any(|told| told.text == seat);
        let waits = asked.verb == "release" && is_older && !self.terms.can("full");
        let rule = if waits { COMES_AFTER } else { SEAT };
        must(released || self.is_latest(told, seat, ""), rule, || match is_older {
            _ if seat.is_empty() => format!("the {} of {id} has no seat", asked.verb),
            true => format!("the {} of {id} has an older seat", asked.verb),
            false => format!("the {} of {id} has a seat of {} bytes that it was not told", asked.verb, seat.len()),
        })
    }

    /// The same of the memory. A client with nothing at the lock may have forgotten it, but not one that names a ticket or
    /// a seat: it has read the memory that came with it.
    pub(super) fn memory(&self, asked: &Asked, nth: usize, ids: &[String]) -> Verdict {
        let (memory, client) = (&asked.args[nth], client_of(asked));
        let has = |id: &String| self.acquires.get(id).is_some_and(|its| !its.over && !its.seats.is_empty());
        let names_one = match &*asked.verb {
            "heartbeat" => true,
            "leave" => false,
            _ => !asked.args[2].is_empty(),
        };
        let is_latest = self.is_latest(&self.memories, memory, &client);
        let forgets = memory.is_empty() && (names_one || ids.iter().any(has) && !is_latest);
        must(!forgets, FORGETS, || "there is no memory, although the client has a place or a lease".into())?;
        let rule = if self.terms.can("full") { NEWEST } else { MEMORY };
        must(is_latest || memory.is_empty(), rule, || match self.memories.iter().any(|told| told.text == *memory) {
            true => "the memory is an older one".into(),
            false => format!("the memory of {} bytes was never told", memory.len()),
        })
    }

    /// Whether this text was told no earlier than the latest one that this client has certainly read. A small client has
    /// read what it was told over a connection before it sends another request over it. A full one may have a request
    /// under way for each of its acquires, and a heartbeat, which it wrote before it read that. What another client id of
    /// the process was told since is as good.
    pub(super) fn is_latest(&self, told: &[Told], text: &[u8], client: &str) -> bool {
        let live = self.acquires.values().filter(|acquire| !acquire.over).count();
        let under_way = if self.terms.can("full") { live + 1 } else { 0 };
        for told in told.iter().rev() {
            if told.text == text {
                return true;
            }
            if told.since > under_way && told.client == client {
                return false;
            }
        }
        text.is_empty()
    }
}
