//! The servers: how they are found, and connections to them. [`crate::protocol`] has the content of these connections.

mod discovery;
mod endpoint;
mod finding;
mod handshake;
#[cfg(feature = "__test-hooks")]
mod hooks;
#[cfg(feature = "operator")]
mod line;
mod own_socket;
mod refusals;
mod resp;
mod rights;
mod setup;
mod socket;
mod stream;
mod target;
mod url;
#[cfg(any(test, feature = "__test-hooks"))]
mod values;
mod wire;

pub(crate) use discovery::{Slot, SlotMap, slot_of};
#[cfg(any(feature = "operator", feature = "__test-hooks"))]
pub(crate) use endpoint::digest;
pub(crate) use endpoint::{Endpoint, Node};
#[cfg(feature = "__test-hooks")]
pub use hooks::{converse, read_by_the_library, read_frames, read_nodes};
#[cfg(feature = "operator")]
pub use line::{Answer, Line, Place, Places};
#[cfg(feature = "redis-1")]
pub(crate) use redis::ConnectionInfo;
#[cfg(feature = "operator")]
pub(crate) use refusals::refusal;
pub(crate) use setup::{Facts, Previous};
pub(crate) use target::Target;
pub(crate) use wire::{CallOutcome, Wire, WireEvent};
/// What the service of `testing` is made of, too.
#[cfg(any(test, feature = "testing"))]
pub(crate) use {endpoint::digests, resp::Value, stream::Stream};
