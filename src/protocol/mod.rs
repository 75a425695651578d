//! The protocol between the keeper's machine and the scripts: keys, requests, replies, messages. Pure types; how they
//! travel is the server folder's concern.

mod failure;
mod keys;
#[cfg(test)]
mod lint;
mod names;
mod push;
mod reply;
mod request;
mod scripts;

pub(crate) use failure::Failure;
pub(crate) use keys::{LockKeys, is_of, wire_id};
pub(crate) use names::{Names, random_name};
pub(crate) use push::{Push, PushKind};
#[cfg(test)]
pub(crate) use reply::Plain;
pub(crate) use reply::{
    AcquireVerdict, BreakVerdict, Common, HeartbeatVerdict, Inspected, OwnLease, ReleaseVerdict, RenewVerdict, Reply,
    Value, Verdict,
};
pub(crate) use request::{
    About, AcquireRequest, BreakRequest, HeartbeatRequest, HistoryRequest, InspectRequest, LeaveRequest,
    ReleaseRequest, RenewRequest, Request, Verb,
};
#[cfg(feature = "__test-hooks")]
pub(crate) use scripts::assemble;
pub(crate) use scripts::{SCRIPTS, Source};
