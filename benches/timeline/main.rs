//! Where each microsecond of a cycle and of a hand-off goes, thread by thread: `make bench-timeline`.
//!
//! The kernel tells, by `perf` and to root, which thread runs when and in which system call. Client and server run on a core
//! each. The recording itself costs up to a microsecond for each event, so the sums are longer than the times in the table.

#![allow(unreachable_pub, clippy::expect_used, clippy::unwrap_used)]

#[path = "../kit/mod.rs"]
mod kit;
mod recording;

use kit::{
    client::{acquire, connect, release},
    place::{Placement, Urgent},
    roles::{self, Helper, serve},
};
use recording::{Recording, mark};
use testkit::RedisServer;

const CYCLES: usize = 300;

fn main() {
    if let Some((_, arguments)) = roles::of_this_process() {
        return client(&arguments[0]);
    }
    if let Err(reason) = recording::possible() {
        return println!("SKIPPED: no timeline, {reason}");
    }
    let _urgent = Urgent::become_so();
    let server = RedisServer::builder().tcp().plain().start();
    let mut clients = ["A", "B"].map(|_| Helper::start("client", &[&server.tcp_url()]));
    // All threads are there, and everything is warm.
    clients.iter_mut().for_each(|client| drop(client.ask("cycle")));
    Placement::Split.put(server.pid(), &[clients[0].pid(), clients[1].pid()]);

    let processes = [("", clients[0].pid()), ("server", server.pid())];
    let recording = Recording::of(&processes, || {
        (0..CYCLES).for_each(|_| drop(clients[0].ask("cycle")));
    });
    recording.report("acquire", 3, 0);
    recording.report("release", 3, 1);

    let [here, there] = &mut clients;
    let processes = [("releasing", here.pid()), ("waiting", there.pid()), ("server", server.pid())];
    let recording = Recording::of(&processes, || {
        for _ in 0..CYCLES {
            here.ask("hold");
            there.ask("wait");
            here.say("release");
            assert_eq!((there.hear().as_str(), here.hear().as_str()), ("had it", "released"));
        }
    });
    recording.report("hand-off, from before the release to after the grant", 2, 0);
    clients.into_iter().for_each(Helper::end);
}

/// The helper: a blocking caller that marks what it does.
fn client(url: &str) {
    let client = connect(url);
    let [alone, shared] = ["alone", "shared"].map(|name| client.lock(name).expect("a name"));
    let mut held = None;
    serve(|line| {
        let answer = match line {
            "cycle" => {
                mark();
                let guard = acquire(&alone);
                mark();
                release(guard);
                mark();
                "done"
            }
            "hold" => {
                held = Some(acquire(&shared));
                "held"
            }
            "wait" => {
                let waiting = shared.enqueue().blocking().expect("a place");
                roles::say("queued");
                let guard = waiting.blocking().expect("a grant");
                mark();
                release(guard);
                "had it"
            }
            _ => {
                let guard = held.take().expect("a lease");
                mark();
                release(guard);
                "released"
            }
        };
        Some(answer.to_owned())
    });
}
