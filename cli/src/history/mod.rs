//! `fairlock history`: who had a lock lately, who waited for it how long, and how each lease ended.

mod args;
mod page;
mod text;
mod timeline;

use std::time::SystemTime;

use fairlock::{
    LockOptions,
    state::{History, LockState},
};
use serde_json::{Value, json};

pub(crate) use args::Args;
use args::Record;
use timeline::{End, Grant, Timeline};

use crate::duration::milliseconds;
use crate::exit::{Failure, say};
use crate::text::{iso, printable, printable_json};
use crate::{connect, output, survey};

/// Nothing is recorded.
const NOTHING: u8 = 1;

pub(crate) fn history(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let own = |error: &dyn std::fmt::Display| Failure::own(error.to_string());
    LockOptions::new().check(&args.name).map_err(|error| own(&error))?;
    let client = connect::client(server)?.connect().blocking().map_err(|error| server.failed(error))?;
    let lock = client.lock(&args.name).map_err(|error| own(&error))?;
    let name = printable(&args.name);
    if let Some(record) = args.record {
        lock.record_history(record == Record::On).blocking().map_err(|error| own(&error))?;
        say(match record {
            Record::On => format!("the grants of {name} are recorded from now on"),
            Record::Off => format!("the grants of {name} are recorded no more, and its history is dropped"),
        });
        return Ok(0);
    }
    let past = lock.history(args.count).blocking().map_err(|error| own(&error))?;
    let state = lock.inspect().blocking().map_err(|error| own(&error))?;
    let grants = grants(&past, &state, args.count as usize);
    if args.json {
        output::write(&(printable_json(&document(&args.name, &past, &grants).to_string()) + "\n"))?;
        return Ok(if past.recorded { 0 } else { NOTHING });
    }
    if !past.recorded {
        let word = survey::word(&args.name);
        say(format_args!("no grants of {name} are recorded; to record them: fairlock history {word} on"));
        return Ok(NOTHING);
    }
    let Some(timeline) = Timeline::new(&args.name, grants) else {
        say(format_args!("{name} was not granted since its grants are recorded"));
        return Ok(0);
    };
    match &args.out {
        None => output::write(&text::show(&timeline, output::width()))?,
        Some(path) if path.as_os_str() == "-" => output::write(&page::page(&timeline))?,
        Some(path) => std::fs::write(path, page::page(&timeline))
            .map_err(|error| Failure::because(&format!("cannot write {}", path.display()), error))?,
    }
    Ok(0)
}

/// The past grants and the present ones, of them the latest.
fn grants(past: &History, state: &LockState, count: usize) -> Vec<Grant> {
    let present = state.holders.iter().filter(|_| past.recorded).map(Grant::present);
    // They may have ended between the two questions.
    let present = present.filter(|present| past.grants.iter().all(|grant| grant.token != present.token));
    let mut grants: Vec<Grant> = past.grants.iter().map(Grant::past).chain(present).collect();
    grants.sort_by_key(|grant| std::cmp::Reverse(grant.granted_at));
    grants.truncate(count);
    grants
}

/// The latest grant first.
fn document(name: &str, past: &History, grants: &[Grant]) -> Value {
    // The server does not tell how long the present holders had waited.
    let waited = |grant: &Grant| (grant.end != End::Held).then(|| milliseconds(grant.waited));
    let grant = |grant: &Grant| {
        json!({
            "token": grant.token, "slot": grant.slot, "label": grant.label, "owner": grant.owner,
            "granted_at": iso(grant.granted_at),
            "waited_ms": waited(grant), "held_ms": milliseconds(grant.held), "end": grant.end.word(),
        })
    };
    let grants: Vec<Value> = grants.iter().map(grant).collect();
    json!({"name": name, "at": iso(SystemTime::now()), "recorded": past.recorded, "grants": grants})
}
