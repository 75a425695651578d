//! The servers as the client meets them: where they are, and connections to them. What is said over a connection is in
//! [`crate::protocol`].

mod connection;
mod discovery;
#[allow(dead_code)] // The keeper's loop is about to use it.
pub(crate) mod finding;
#[allow(dead_code)] // The keeper's loop is about to use it.
mod handshake;
#[cfg(feature = "__test-hooks")]
mod hooks;
mod knock;
mod refusals;
#[allow(dead_code)] // The keeper's loop is about to use it.
mod resp;
#[allow(dead_code)] // The keeper's loop is about to use it.
pub(crate) mod setup;
#[allow(dead_code)] // The keeper's loop is about to use it.
mod socket;
#[allow(dead_code)] // The keeper's loop is about to use it.
mod stream;
mod target;
mod values;
#[allow(dead_code)] // The keeper's loop is about to use it.
pub(crate) mod wire;

pub(crate) use connection::{Connected, Connection, Incoming, Reply};
pub(crate) use discovery::{Slot, SlotMap, discover, slot_of};
#[cfg(feature = "__test-hooks")]
pub(crate) use hooks::{converse, read_frames, shown_frame};
pub(crate) use setup::Previous;
pub(crate) use target::{Endpoint, Node, Target};
