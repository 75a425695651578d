//! `fairlock status`: who holds a lock, and who waits for it.

use std::fmt::{Display, Write as _};
use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use fairlock::{LockOptions, LockState};
use serde_json::{Value, json};

use crate::connect;
use crate::exit::Failure;
use crate::text::{no_grants, printable, printable_json, seconds};

const HELP: &str = "\
With --json, `state` is one of
  held         the lock has a holder
  breaking     the lock has a holder whose lease was broken: it is not renewed any more
  free         the lock has no holder; if `waiting` is not zero, the first waiter is next
  recovering   the lock has no holder, and nothing is granted for up to `recovering_for_ms`: the server lost data, and \
waits for its former clients";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The name of the lock
    pub(crate) name: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn status(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let own = |error: &dyn Display| Failure::own(error.to_string());
    LockOptions::new().check(&args.name).map_err(|error| own(&error))?;
    let client = connect::client(server)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| Failure::because("cannot start", error))?;
    let state = runtime.block_on(async {
        let client = client.connect().await.map_err(|error| own(&error))?;
        let lock = client.lock(&args.name).map_err(|error| own(&error))?;
        lock.inspect().await.map_err(|error| own(&error))
    })?;
    let json = || printable_json(&as_json(&args.name, &state).to_string()) + "\n";
    let text = if args.json { json() } else { as_text(&args.name, &state) };
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // A reader that closes the pipe, as `head` does, is no failure.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::because("cannot write to stdout", error)),
        _ => Ok(0),
    }
}

fn as_text(name: &str, state: &LockState) -> String {
    let mut text = printable(name);
    match (&state.holder, state.recovering_for) {
        (None, Some(longest)) => {
            let _ = writeln!(text, " is {}", no_grants(longest));
        }
        (None, None) if state.waiting > 0 => text.push_str(" is held by nobody, and its first waiter is next\n"),
        (None, None) => text.push_str(" is free\n"),
        (Some(holder), recovering) => {
            let who = who(&holder.label, &holder.owner, &holder.id);
            let (since, left) = (seconds(holder.held_for), seconds(holder.remaining));
            let end = if holder.broken {
                format!("the lease was broken: it is not renewed, and ends in {left} at the latest")
            } else {
                format!("the lease ends in {left} unless renewed")
            };
            let _ = writeln!(text, " is held by {who}\n  for {since}; token {}; {end}", holder.token);
            if let Some(longest) = recovering {
                let _ = writeln!(text, "  {}", no_grants(longest));
            }
        }
    }
    if state.waiting > 0 {
        let _ = writeln!(text, "  {} waiting:", state.waiting);
    }
    for (index, waiter) in state.queue.iter().enumerate() {
        let silent = if waiter.alive { "" } else { ", silent" };
        let who = who(&waiter.label, &waiter.owner, &waiter.id);
        let _ = writeln!(text, "  {:>4}. {who}, for {}{silent}", index + 1, seconds(waiter.waited));
    }
    let shown = u64::try_from(state.queue.len()).unwrap_or(u64::MAX);
    if shown < state.waiting {
        let _ = writeln!(text, "        and {} more", state.waiting - shown);
    }
    text
}

fn who(label: &str, owner: &str, id: &str) -> String {
    let label = printable(if label.is_empty() { id } else { label });
    if owner.is_empty() { label } else { format!("{label} ({})", printable(owner)) }
}

fn as_json(name: &str, state: &LockState) -> Value {
    let holder = state.holder.as_ref().map(|holder| {
        json!({
            "id": holder.id, "token": holder.token, "label": holder.label, "owner": holder.owner,
            "remaining_ms": milliseconds(holder.remaining), "held_for_ms": milliseconds(holder.held_for),
            "broken": holder.broken,
        })
    });
    let waiter = |waiter: &fairlock::QueuedWaiter| {
        json!({
            "id": waiter.id, "ticket": waiter.ticket, "label": waiter.label, "owner": waiter.owner,
            "waited_ms": milliseconds(waiter.waited), "alive": waiter.alive,
        })
    };
    let queue: Vec<Value> = state.queue.iter().map(waiter).collect();
    json!({
        "name": name, "state": word(state), "recovering_for_ms": state.recovering_for.map(milliseconds),
        "holder": holder, "waiting": state.waiting, "queue": queue,
    })
}

/// The state of the lock in a word. A free lock may have waiters; the first of them is next.
fn word(state: &LockState) -> &'static str {
    match (&state.holder, state.recovering_for) {
        (Some(holder), _) if holder.broken => "breaking",
        (Some(_), _) => "held",
        (None, Some(_)) => "recovering",
        (None, None) => "free",
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
