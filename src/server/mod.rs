//! The server side as the client sees it: keys, typed script calls, replies, and one connection.

mod connection;
mod keys;
mod reply;
mod scripts;

pub(crate) use connection::{Connected, Connection, Endpoint, Incoming, Previous};
pub(crate) use keys::{LockKeys, is_of, wire_id};
pub(crate) use reply::{Answer, Failure, Push, PushKind, StatePage, Word};
pub(crate) use scripts::{About, Call};
#[cfg(feature = "test-hooks")]
pub(crate) use scripts::{SCRIPTS, TIME};
