//! A process that ignores SIGPIPE no more: a write to a connection that has ended would end it. Every test binary
//! ignores that signal, as all Rust programs do from their start. So this is for helper processes (`child.rs`).

use fairlock::{Client, Lock};

use super::{child::say, clients::quiet, waiting::SOON};

/// How often the connection is ended.
const ENDS: usize = 100;

/// Acquires and releases while the administrator ends the client's connection. Each time the client then uses what has
/// just ended.
pub fn survive_ends_of_connections(client: &Client, admin_url: &str) {
    ::sigpipe::reset();
    let mut admin = redis::Client::open(admin_url).and_then(|admin| admin.get_connection()).expect("the administrator");
    let lock = client.lock_with("x", quiet()).expect("a lock");
    for end in 0..ENDS {
        cycle(&lock);
        let killed: u64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut admin).expect("CLIENT KILL");
        assert!(killed > 0, "the client has no connection");
        say(format_args!("end {end} of the connection"));
        cycle(&lock);
    }
}

fn cycle(lock: &Lock) {
    let guard = lock.acquire().timeout(SOON).blocking().expect("a grant");
    guard.release().blocking().expect("a release");
}
