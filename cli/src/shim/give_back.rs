//! A fairlock that was killed cannot release its locks, so the shim gives them back once the command has ended.
//! Otherwise the next waiter would wait for the rest of the lease.
//!
//! The shim names each lease by its fencing token, which no other lease ever has. So it ends its own lease or none,
//! however late it comes, and whoever holds the lock by then.

use std::time::Duration;

use fairlock::operator::Time;
use serde_json::{Value, json};

use crate::connect::Server;

/// The pause before another try while the server does not answer: twice as long after each, up to the longest. The
/// lease may last for days.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// The leases of a run, and where they are. The text is one line: it goes over the socket, and not on a command line,
/// because the URL may have a password.
pub(crate) fn describe(server: &Server, held: &[(String, u64)]) -> String {
    let leases: Vec<Value> = held.iter().map(|(name, token)| json!({ "name": name, "token": token })).collect();
    json!({ "server": server.to_json(), "leases": leases }).to_string()
}

/// Ends these leases. Tries again until they have ended by themselves.
pub(super) fn give_back(description: &str, leases_end: Time) {
    let description: Value = serde_json::from_str(description).unwrap_or_default();
    let Some(server) = Server::from_json(&description["server"]) else { return };
    let leases: Vec<(&str, u64)> = description["leases"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|lease| Some((lease["name"].as_str()?, lease["token"].as_u64()?)))
        .collect();
    let mut pause = PAUSE;
    while end(&server, &leases).is_none() && Time::now() < leases_end {
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

/// None if the server did not answer for all of them.
fn end(server: &Server, leases: &[(&str, u64)]) -> Option<()> {
    let client = server.client().connect().blocking().ok()?;
    for (name, token) in leases {
        client.lock(name).ok()?.force_break_lease(*token).blocking().ok()?;
    }
    Some(())
}
