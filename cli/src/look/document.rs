//! A lock as a JSON document. docs/command-line.md describes its fields.

use std::time::{Duration, SystemTime};

use fairlock::state::{Holder, LockState, QueuedWaiter};
use serde_json::{Value, json};

use crate::duration::milliseconds;
use crate::text::{iso, printable_json};

/// The state of the lock in a word. A free lock may have waiters; the first of them is next.
pub(crate) fn word(state: &LockState) -> &'static str {
    match (&state.holders[..], state.recovering_for) {
        ([], Some(_)) => "recovering",
        ([], None) => "free",
        (holders, _) if holders.iter().any(|holder| holder.broken) => "breaking",
        _ => "held",
    }
}

/// Whether anybody needs the lock now.
pub(crate) fn is_used(state: &LockState) -> bool {
    word(state) != "free" || state.waiting > 0
}

/// The server tells how long ago things happened. Points in time are by the clock of this machine, so that they agree
/// with its logs.
pub(crate) fn of_lock(name: &str, state: &LockState) -> Value {
    let now = SystemTime::now();
    let ago = |span: Duration| now.checked_sub(span).map(iso);
    let ahead = |span: Duration| now.checked_add(span).map(iso);
    let holder = |holder: &Holder| {
        json!({
            "id": holder.id, "slot": holder.slot, "slots": holder.slots, "token": holder.token,
            "label": holder.label, "owner": holder.owner,
            "held_for_ms": milliseconds(holder.held_for), "held_since": ago(holder.held_for),
            "remaining_ms": milliseconds(holder.remaining), "ends_at": ahead(holder.remaining),
            "broken": holder.broken, "confirmed": holder.confirmed,
        })
    };
    let waiter = |waiter: &QueuedWaiter| {
        json!({
            "id": waiter.id, "slots": waiter.slots, "ticket": waiter.ticket, "label": waiter.label,
            "owner": waiter.owner,
            "waited_ms": milliseconds(waiter.waited), "queued_at": ago(waiter.waited), "alive": waiter.alive,
        })
    };
    let holders: Vec<Value> = state.holders.iter().map(holder).collect();
    let queue: Vec<Value> = state.queue.iter().map(waiter).collect();
    json!({
        "name": name, "state": word(state), "at": iso(now),
        "at_ms": now.duration_since(SystemTime::UNIX_EPOCH).map(milliseconds).unwrap_or(0),
        "recovering_for_ms": state.recovering_for.map(milliseconds),
        "recovering_until": state.recovering_for.and_then(ahead),
        "holders": holders, "waiting": state.waiting, "shown": queue.len(), "queue": queue,
    })
}

/// A document in one line, which is harmless at a terminal.
pub(crate) fn line(document: &Value) -> String {
    printable_json(&document.to_string()) + "\n"
}
