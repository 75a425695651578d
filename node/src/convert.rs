//! Values of the library as JavaScript's. Tokens, tickets and other stamps are microseconds since 1970: numbers are exact
//! up to 2^53, which is in the year 2255.

use std::time::{Duration, SystemTime};

use fairlock::state::{BreakOutcome, EndedAs, History, Holder, LockState, PastGrant, QueuedWaiter};
use napi_derive::napi;

use crate::errors::{Failure, bare};

/// Milliseconds of JavaScript as a duration.
pub(crate) fn duration(option: &str, ms: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(ms / 1e3)
        .map_err(|_| bare("InvalidOption", &format!("{option} is {ms} ms, but must be a finite time from 0 on")))
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

pub(crate) fn since_epoch(time: SystemTime) -> f64 {
    ms(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[napi(object, object_from_js = false)]
pub struct HolderOf {
    pub id: String,
    pub slot: u32,
    pub slots: u32,
    pub token: f64,
    pub label: String,
    pub owner: String,
    pub remaining: f64,
    pub held_for: f64,
    pub broken: bool,
    pub confirmed: bool,
}

impl From<Holder> for HolderOf {
    fn from(holder: Holder) -> Self {
        Self {
            id: holder.id,
            slot: holder.slot,
            slots: holder.slots,
            token: holder.token as f64,
            label: holder.label,
            owner: holder.owner,
            remaining: ms(holder.remaining),
            held_for: ms(holder.held_for),
            broken: holder.broken,
            confirmed: holder.confirmed,
        }
    }
}

#[napi(object, object_from_js = false)]
pub struct WaiterOf {
    pub id: String,
    pub ticket: f64,
    pub label: String,
    pub owner: String,
    pub waited: f64,
    pub alive: bool,
    pub slots: u32,
}

impl From<QueuedWaiter> for WaiterOf {
    fn from(waiter: QueuedWaiter) -> Self {
        Self {
            id: waiter.id,
            ticket: waiter.ticket as f64,
            label: waiter.label,
            owner: waiter.owner,
            waited: ms(waiter.waited),
            alive: waiter.alive,
            slots: waiter.slots,
        }
    }
}

#[napi(object, object_from_js = false)]
pub struct StateOf {
    /// The smallest number that a holder said.
    pub slots: Option<u32>,
    pub holders: Vec<HolderOf>,
    pub waiting: f64,
    pub queue: Vec<WaiterOf>,
    pub recovering_for: Option<f64>,
}

impl From<LockState> for StateOf {
    fn from(state: LockState) -> Self {
        Self {
            slots: state.slots(),
            holders: state.holders.into_iter().map(Into::into).collect(),
            waiting: state.waiting as f64,
            queue: state.queue.into_iter().map(Into::into).collect(),
            recovering_for: state.recovering_for.map(ms),
        }
    }
}

#[napi(object, object_from_js = false)]
pub struct BrokenAs {
    pub outcome: String,
    pub remaining: Option<f64>,
}

impl From<BreakOutcome> for BrokenAs {
    fn from(outcome: BreakOutcome) -> Self {
        let (outcome, remaining) = match outcome {
            BreakOutcome::Told { remaining, .. } => ("told", Some(ms(remaining))),
            BreakOutcome::Ended => ("ended", None),
            _ => ("unknown", None),
        };
        Self { outcome: outcome.to_owned(), remaining }
    }
}

#[napi(object, object_from_js = false)]
pub struct GrantOf {
    pub id: String,
    pub token: f64,
    pub label: String,
    pub owner: String,
    pub waited: f64,
    pub held: f64,
    pub slot: u32,
    pub granted_at: f64,
    pub ended: String,
}

impl From<PastGrant> for GrantOf {
    fn from(grant: PastGrant) -> Self {
        let ended = match grant.ended {
            EndedAs::Released => "released",
            EndedAs::Expired => "expired",
            EndedAs::Broken => "broken",
            _ => "lost",
        };
        Self {
            granted_at: since_epoch(grant.granted_at()),
            id: grant.id,
            token: grant.token as f64,
            label: grant.label,
            owner: grant.owner,
            waited: ms(grant.waited),
            held: ms(grant.held),
            slot: grant.slot,
            ended: ended.to_owned(),
        }
    }
}

#[napi(object, object_from_js = false)]
pub struct HistoryOf {
    pub recorded: bool,
    pub grants: Vec<GrantOf>,
}

impl From<History> for HistoryOf {
    fn from(history: History) -> Self {
        Self { recorded: history.recorded, grants: history.grants.into_iter().map(Into::into).collect() }
    }
}
