//! A process that ignores SIGPIPE no more: a write to a connection that has ended would end it. Every test binary
//! ignores that signal, as all Rust programs do from their start. So this is for helper processes (`child.rs`).

use std::time::Duration;

use fairlock::{Client, Guard, Lock};
use pollster::block_on;

use super::{SOON, child::say, is_direct, quiet};

/// How often each connection is ended for each kind of caller.
const ENDS: usize = 50;

/// Acquires and releases while the administrator ends the connections, the direct one and the keeper's, of threads and
/// of tasks. Each time somebody then uses what has just ended.
pub fn survive_ends_of_connections(client: &Client, admin_url: &str) {
    ::sigpipe::reset();
    let mut admin = redis::Client::open(admin_url).and_then(|admin| admin.get_connection()).expect("the administrator");
    // Leases below ten seconds are never direct.
    let by_keeper = quiet().lease(Duration::from_secs(9));
    for (kind, options, direct) in [("normal", quiet(), true), ("pubsub", by_keeper, false)] {
        let lock = client.lock_with("x", options).expect("a lock");
        for by in [By::Thread, By::Task] {
            for end in 0..ENDS {
                while by.cycle(&lock) != direct {}
                let killed: u64 =
                    redis::cmd("CLIENT").arg(&["KILL", "TYPE", kind]).query(&mut admin).expect("CLIENT KILL");
                assert!(killed > 0, "there is no connection of type {kind}");
                say(format_args!("{by:?}: end {end} of connections of type {kind}"));
                by.cycle(&lock);
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum By {
    Thread,
    Task,
}

impl By {
    /// Acquires and releases. Whether that was over the direct connection.
    fn cycle(self, lock: &Lock) -> bool {
        let acquire = lock.acquire().timeout(SOON);
        let guard: Guard = match self {
            By::Thread => acquire.blocking(),
            By::Task => block_on(acquire),
        }
        .expect("a grant");
        let direct = is_direct(&guard);
        match self {
            By::Thread => guard.release().blocking(),
            By::Task => block_on(guard.release()),
        }
        .expect("a release");
        direct
    }
}
