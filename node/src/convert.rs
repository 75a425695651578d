//! Values of the library as JavaScript's. Tokens, tickets and other stamps are microseconds since 1970: numbers are exact
//! up to 2^53, which is in the year 2255.

use std::time::{Duration, SystemTime};

use fairlock::state::{BreakOutcome, EndedAs, History, Holder, LockState, PastGrant, QueuedWaiter};
use napi_derive::napi;

use crate::errors::{Failure, bare};

/// Builders, with what people may leave out.
pub(crate) trait Given: Sized {
    fn given<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}

impl<T> Given for T {}

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

/// An object of JavaScript: its fields, and what each is made of.
macro_rules! object {
    ($name:ident of $from:ident: $of:ty, $($field:ident: $kind:ident $(<$inner:ident>)? = $value:expr,)+) => {
        #[napi(object, object_from_js = false)]
        pub struct $name {
            $(pub $field: $kind $(<$inner>)?,)+
        }

        impl From<$of> for $name {
            fn from($from: $of) -> Self {
                Self { $($field: $value,)+ }
            }
        }
    };
}

object! { HolderOf of holder: Holder,
    id: String = holder.id,
    slot: u32 = holder.slot,
    slots: u32 = holder.slots,
    token: f64 = holder.token as f64,
    label: String = holder.label,
    owner: String = holder.owner,
    remaining: f64 = ms(holder.remaining),
    held_for: f64 = ms(holder.held_for),
    broken: bool = holder.broken,
    confirmed: bool = holder.confirmed,
}

object! { WaiterOf of waiter: QueuedWaiter,
    id: String = waiter.id,
    ticket: f64 = waiter.ticket as f64,
    label: String = waiter.label,
    owner: String = waiter.owner,
    waited: f64 = ms(waiter.waited),
    alive: bool = waiter.alive,
    slots: u32 = waiter.slots,
}

object! { StateOf of state: LockState,
    slots: Option<u32> = state.slots(),
    holders: Vec<HolderOf> = state.holders.into_iter().map(Into::into).collect(),
    waiting: f64 = state.waiting as f64,
    queue: Vec<WaiterOf> = state.queue.into_iter().map(Into::into).collect(),
    recovering_for: Option<f64> = state.recovering_for.map(ms),
}

object! { BrokenAs of outcome: BreakOutcome,
    outcome: String = match outcome {
        BreakOutcome::Told { .. } => "told",
        BreakOutcome::Ended => "ended",
        _ => "unknown",
    }.to_owned(),
    remaining: Option<f64> = match outcome {
        BreakOutcome::Told { remaining, .. } => Some(ms(remaining)),
        _ => None,
    },
}

object! { GrantOf of grant: PastGrant,
    granted_at: f64 = since_epoch(grant.granted_at()),
    id: String = grant.id,
    token: f64 = grant.token as f64,
    label: String = grant.label,
    owner: String = grant.owner,
    waited: f64 = ms(grant.waited),
    held: f64 = ms(grant.held),
    slot: u32 = grant.slot,
    ended: String = match grant.ended {
        EndedAs::Released => "released",
        EndedAs::Expired => "expired",
        EndedAs::Broken => "broken",
        _ => "lost",
    }.to_owned(),
}

object! { HistoryOf of history: History,
    recorded: bool = history.recorded,
    grants: Vec<GrantOf> = history.grants.into_iter().map(Into::into).collect(),
}
