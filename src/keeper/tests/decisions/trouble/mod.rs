//! Decisions in trouble: no connection, refusals, lost data, broken leases, grants that come late.

mod batches;
mod broken;
mod disconnected;
mod late_grants;
mod lost_data;
mod refused;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::error::Fault;
use crate::keeper::machine::Mode;
use crate::options::{LockOptions, Spec};
use crate::protocol::{
    AcquireRequest, ClientId, HeartbeatRequest, LeaveRequest, Refusal, ReleaseRequest, RenewRequest, Request,
};

fn other_lock(options: LockOptions) -> Arc<Spec> {
    options.of(LockKeys::new("fairlock", "y")).unwrap()
}

fn inspect(number: u64) -> Command {
    let keys = Arc::new(LockKeys::new("fairlock", "x"));
    Command::Ask { number: QuestionId(number), question: inspecting(&keys, 1) }
}

fn is_renewal(call: &Request) -> bool {
    matches!(call, Request::Renew(RenewRequest { .. }))
}
