//! The protocol between the keeper's machine and the scripts: keys, requests, replies, messages. Pure types; how they
//! travel is the server folder's concern.

mod ids;
mod keys;
#[cfg(test)]
mod lint;
mod memory;
mod names;
mod packed;
mod push;
mod refusal;
mod reply;
mod request;
mod scripts;
mod stamps;

pub(crate) use ids::{ClientId, Id, Secret, WireId};
pub(crate) use keys::LockKeys;
pub(crate) use memory::{Knowledge, Memory, Seat};
pub(crate) use names::Names;
#[cfg(any(test, feature = "testing"))]
pub(crate) use packed::{LARGEST, Packed};
pub(crate) use push::{Push, PushKind};
pub(crate) use refusal::Refusal;
#[cfg(test)]
pub(crate) use reply::Inspected;
pub(crate) use reply::{
    AcquireVerdict, Common, HeartbeatVerdict, Misfit, OwnLease, ReleaseVerdict, RenewVerdict, Reply, Value, Verdict,
};
#[cfg(any(test, feature = "testing", feature = "operator"))]
pub(crate) use request::Verb;
pub(crate) use request::{
    AcquireRequest, BreakRequest, CallerData, HeartbeatRequest, HistoryRequest, InspectRequest, LeaveRequest,
    ReleaseRequest, RenewRequest, Request, UNBOUNDED,
};
#[cfg(feature = "__test-hooks")]
pub(crate) use scripts::assemble;
pub(crate) use scripts::{RIGHTS, SCRIPTS, Source};
pub(crate) use stamps::{Epoch, Stamp, Ticket, Token};
