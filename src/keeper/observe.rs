//! What the caller's `tracing` subscriber and `metrics` recorder are told. docs/observability.md lists all of it.
//!
//! Both are code of the caller. So a function here that a keeper calls only puts a record into the queue of the waker
//! thread (`wakers/`), which writes it. The functions for callers call subscriber and recorder on the spot, outside
//! of every lock.

use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::{Level, Span};

use super::machine::{NotGranted, Release};
use super::routes::LogRecord;
use crate::error::LostReason;
use crate::options::Spec;
use crate::protocol::{CallerData, ClientId, Ticket, Token};
use crate::wakers::Wakers;

#[cfg(feature = "metrics")]
mod metrics;

/// The target of all events and spans.
const TARGET: &str = "fairlock";

/// Whether a subscriber wants events of this level. It reads a number and calls nothing, so a keeper may ask.
fn is_wanted(level: Level) -> bool {
    level <= STATIC_MAX_LEVEL && level <= LevelFilter::current()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Tells a recorder what the metrics mean. It should be there before the first client.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    metrics::describe();
}

// ---- for callers ----

/// An acquire, from its first poll until it is resolved or dropped.
pub(crate) struct Wait {
    span: Span,
    #[cfg(feature = "metrics")]
    spec: Arc<Spec>,
    #[cfg(feature = "metrics")]
    _waiting: metrics::Gauged,
}

impl Wait {
    pub(crate) fn new(spec: &Arc<Spec>, about: &CallerData) -> Self {
        let (lock, label, owner) = (&**spec.name(), &*about.label, &*about.owner);
        Self {
            span: tracing::debug_span!(target: TARGET, "acquire", lock, label, owner),
            #[cfg(feature = "metrics")]
            spec: spec.clone(),
            #[cfg(feature = "metrics")]
            _waiting: metrics::Gauged::waiting(spec),
        }
    }

    pub(crate) fn granted(&self, spec: &Spec, ticket: Ticket, token: Token, waited: Duration) {
        let (lock, ticket, token, waited_ms) = (&**spec.name(), ticket.get(), token.get(), millis(waited));
        tracing::debug!(target: TARGET, parent: &self.span, lock, ticket, token, waited_ms, "granted");
        #[cfg(feature = "metrics")]
        metrics::granted(spec, waited);
    }

    pub(crate) fn not_granted(&self, lock: &str, why: &NotGranted) {
        self.failed(
            lock,
            match why {
                NotGranted::Timeout { .. } => "timeout",
                NotGranted::Busy { .. } => "busy",
                NotGranted::QueueFull { .. } => "full",
                NotGranted::Fault(_) => "fault",
            },
        );
    }

    /// `why`: in one word, as an event and a metric have it.
    pub(crate) fn failed(&self, lock: &str, why: &'static str) {
        tracing::debug!(target: TARGET, parent: &self.span, lock, why, "not granted");
        #[cfg(feature = "metrics")]
        metrics::failed(&self.spec, why);
    }
}

/// A guard, until it is dropped.
pub(crate) struct Hold {
    pub(crate) span: Span,
    #[cfg(feature = "metrics")]
    _held: metrics::Gauged,
}

impl Hold {
    pub(crate) fn new(spec: &Spec, token: Token) -> Self {
        let (lock, token) = (&**spec.name(), token.get());
        Self {
            span: tracing::debug_span!(target: TARGET, "hold", lock, token),
            #[cfg(feature = "metrics")]
            _held: metrics::Gauged::held(spec),
        }
    }
}

// ---- for keepers ----

/// A waiter has its ticket. Its rank is not known if a message told of its grant first.
pub(crate) fn queued(wakers: &Arc<Wakers>, spec: &Arc<Spec>, ticket: Ticket, rank: Option<u64>) {
    if !is_wanted(Level::DEBUG) && cfg!(not(feature = "metrics")) {
        return;
    }
    let (spec, position) = (spec.clone(), rank.map(|rank| rank + 1));
    wakers.say(move || {
        tracing::debug!(target: TARGET, lock = &**spec.name(), ticket = ticket.get(), position, "waiting");
        #[cfg(feature = "metrics")]
        metrics::queued(&spec, position);
    });
}

/// A lease was renewed. `lag`: how much later than planned, unless it is renewed by hand.
pub(crate) fn renewed(
    wakers: &Arc<Wakers>,
    spec: &Arc<Spec>,
    token: Token,
    remaining: Duration,
    lag: Option<Duration>,
) {
    if !is_wanted(Level::TRACE) && cfg!(not(feature = "metrics")) {
        return;
    }
    let spec = spec.clone();
    wakers.say(move || {
        let (token, remaining_ms, lag_ms) = (token.get(), millis(remaining), lag.map(millis));
        tracing::trace!(target: TARGET, lock = &**spec.name(), token, remaining_ms, lag_ms, "renewed");
        #[cfg(feature = "metrics")]
        metrics::renewed(&spec, lag);
    });
}

/// A lease was lost, or its client was closed. Recorded once, whether or not anybody awaits it. `held`: for how long,
/// unless no caller has taken it.
pub(crate) fn ended(wakers: &Arc<Wakers>, spec: &Arc<Spec>, token: Token, held: Option<Duration>, reason: LostReason) {
    let spec = spec.clone();
    wakers.call(move || {
        // The caller has closed the client, and needs no warning.
        if reason != LostReason::Closed {
            let (lock, token, held_ms) = (&**spec.name(), token.get(), held.map(millis));
            tracing::warn!(target: TARGET, lock, token, held_ms, %reason, "lease lost");
        }
        #[cfg(feature = "metrics")]
        metrics::ended(&spec, held, &reason);
    });
}

/// The caller gives a lease back, by a release or a drop; on a keeper only if it never had a caller.
pub(crate) fn given_back(spec: &Spec, held: Option<Duration>) {
    #[cfg(feature = "metrics")]
    if let Some(held) = held {
        metrics::held(spec, held);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (spec, held);
}

/// The server has answered a release, or has not done so by the lease's deadline.
pub(crate) fn released(wakers: &Arc<Wakers>, spec: &Arc<Spec>, token: Token, outcome: &Release) {
    let level = if let Release::Unknown(_) = outcome { Level::WARN } else { Level::DEBUG };
    if !is_wanted(level) {
        return;
    }
    let (spec, outcome) = (spec.clone(), outcome.clone());
    wakers.say(move || {
        let (lock, token) = (&**spec.name(), token.get());
        match outcome {
            Release::Released => tracing::debug!(target: TARGET, lock, token, "released"),
            Release::Lost(reason) => tracing::debug!(target: TARGET, lock, token, %reason, "not released"),
            Release::Unknown(cause) => {
                let cause = cause.as_deref();
                tracing::warn!(target: TARGET, lock, token, cause, "release not answered");
            }
        }
    });
}

/// With this text. Its leases are lost, which is told of each.
pub(crate) fn panicked(wakers: &Arc<Wakers>, client: &ClientId, text: String) {
    let client = client.clone();
    wakers.call(move || tracing::error!(target: TARGET, %client, "the client's thread has panicked ({text})"));
}

pub(crate) fn note(wakers: &Arc<Wakers>, client: &ClientId, note: LogRecord) {
    let client = client.clone();
    wakers.say(move || match note {
        LogRecord::ConnectionLost { cause } => {
            tracing::warn!(target: TARGET, %client, "the connection was lost, connecting again ({cause})");
        }
        LogRecord::ConnectedAgain => {
            tracing::info!(target: TARGET, %client, "connected again");
            #[cfg(feature = "metrics")]
            metrics::connected_again();
        }
        LogRecord::Warning(text) => tracing::warn!(target: TARGET, %client, "{text}"),
    });
}
