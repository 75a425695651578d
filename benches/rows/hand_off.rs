//! The way of a lock from one process to another: from the release to the moment at which the next holder goes on. Compared with it
//! the same scripts on bare sockets, and a message through the server.

use crate::kit::{
    bare::Bare,
    client::{acquire, connect, release},
    place::{PLACEMENTS, Placement, now_ns},
    roles::{Helper, say, serve},
    stats::{median, ratio},
    table::Table,
    wire::{Wire, encode},
};
use testkit::RedisServer;

const TIMES: usize = 300;

pub fn measure(rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let (url, port) = (server.tcp_url(), server.port().to_string());
    let lock = connect(&url).lock("hand-off").expect("a name");
    let mut bare = Bare::connect(server.port(), "hand-off");
    let mut publisher = Wire::connect(server.port());
    let publish = encode(&["PUBLISH", "floor", "0123456789abcdef"]);
    let mut helpers = ["lock", "scripts", "message"].map(|kind| Helper::start("waits", &[kind, &url, &port]));
    helpers.iter_mut().for_each(|helper| assert_eq!(helper.hear(), "ready"));
    let [waiter, bare_waiter, subscriber] = &mut helpers;
    let clients = [std::process::id(), waiter.pid(), bare_waiter.pid(), subscriber.pid()];

    for placement in PLACEMENTS {
        placement.put(server.pid(), &clients);
        let [mut locks, mut scripts, mut messages] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            locks.push(median_of(|| {
                let guard = acquire(&lock);
                waiter.ask("wait");
                let start = now_ns();
                release(guard);
                since(start, waiter)
            }));
            scripts.push(median_of(|| {
                bare.acquire("granted");
                bare_waiter.ask("wait");
                let start = now_ns();
                bare.release();
                since(start, bare_waiter)
            }));
            messages.push(median_of(|| {
                subscriber.ask("wait");
                let start = now_ns();
                publisher.call(&publish);
                since(start, subscriber)
            }));
        }
        report(placement, [&locks, &scripts, &messages], table);
    }
    helpers.into_iter().for_each(Helper::end);
}

fn report(placement: Placement, [locks, scripts, messages]: [&[f64]; 3], table: &mut Table) {
    let name = placement.name();
    for (what, floor) in [("the same scripts", scripts), ("PUBLISH to push", messages)] {
        let row = format!("hand-off vs {what}, {name}");
        let ratio = ratio(locks, floor);
        match placement {
            Placement::Split => {
                table.row(&row, ratio, &format!("{:.0} µs vs {:.0}", median(locks), median(floor)));
            }
            _ => table.note(&row, &format!("{ratio:.2}")),
        }
    }
}

fn median_of(mut hand_off: impl FnMut() -> f64) -> f64 {
    median(&(0..TIMES).map(|_| hand_off()).collect::<Vec<_>>())
}

/// The time until the helper went on, in microseconds. It says so a while after that.
fn since(start: u64, helper: &mut Helper) -> f64 {
    let went_on: u64 = helper.hear().parse().expect("a time");
    went_on.saturating_sub(start) as f64 / 1000.0
}

/// The helper: waits once for each line that it is told, says when it begins, and then at which time it went on.
pub fn waits(arguments: &[&str]) {
    let [kind, url, port] = arguments else { panic!("{arguments:?}") };
    let port: u16 = port.parse().expect("a port");
    let mut wait: Box<dyn FnMut() -> u64> = match *kind {
        "lock" => {
            let lock = connect(url).lock("hand-off").expect("a name");
            Box::new(move || {
                let waiting = lock.enqueue().blocking().expect("a place");
                say("queued");
                let guard = waiting.blocking().expect("a grant");
                let went_on = now_ns();
                release(guard);
                went_on
            })
        }
        "scripts" => {
            let mut bare = Bare::connect(port, "hand-off");
            Box::new(move || {
                bare.acquire("queued");
                say("queued");
                bare.granted();
                let went_on = now_ns();
                bare.release();
                went_on
            })
        }
        _ => {
            let mut ears = Wire::connect(port);
            ears.command(&["SUBSCRIBE", "floor"]);
            Box::new(move || {
                say("queued");
                ears.receive();
                now_ns()
            })
        }
    };
    say("ready");
    serve(|_| Some(wait().to_string()));
}
