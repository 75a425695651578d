//! The server side as the client sees it: keys, typed script calls, replies, and one connection.

mod connection;
mod discovery;
mod keys;
mod knock;
mod refusals;
mod reply;
mod scripts;
mod target;

pub(crate) use connection::{Connected, Connection, Incoming, Previous, Reply};
pub(crate) use discovery::{Slot, SlotMap, discover, slot_of};
pub(crate) use keys::{LockKeys, is_of, wire_id};
pub(crate) use reply::{Answer, Failure, HolderSeen, Push, PushKind, StatePage, Word};
pub(crate) use scripts::{About, Call};
#[cfg(feature = "__test-hooks")]
pub(crate) use scripts::{SCRIPTS, assemble};
pub(crate) use target::{Endpoint, Node, Target};
