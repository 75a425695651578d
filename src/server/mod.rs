//! The servers as the client meets them: where they are, and connections to them. What is said over a connection is in
//! [`crate::protocol`].

mod connection;
mod discovery;
mod knock;
mod refusals;
mod target;
mod values;

pub(crate) use connection::{Connected, Connection, Incoming, Previous, Reply};
pub(crate) use discovery::{Slot, SlotMap, discover, slot_of};
pub(crate) use target::{Endpoint, Node, Target};
