//! The lock compared with others, in turn: `make bench-peers`, which sets them up. README.md tells how to read it.
//!
//! Each lock is a program that is told by a line what to do. `cycles N` is answered by the median time of a cycle in
//! microseconds; so is `drops N`, for which this lock drops its guards and awaits no release. `contend N` is answered by the events of N turns, as `contention.rs` reads them, and a line `end`.
//! `share MOST FIRST CALLERS TURNS` is for semaphores of MOST, and read-write locks if that is 0. It is answered by as
//! many lists of events, one for each caller; FIRST is the number of the first, see `shared.rs`.

#![allow(unreachable_pub, clippy::expect_used, clippy::unwrap_used)]

mod contention;
#[path = "../kit/mod.rs"]
mod kit;
mod peer;
mod shared;
mod sharing;

use std::process::ExitCode;
use std::time::Duration;

use contention::{Contention, judge, turns};
use fairlock::Lock;
use kit::{
    client::{acquire, connect, release},
    place::{PLACEMENTS, Placement, now_ns},
    roles::{self, Helper, serve},
    stats::{each, median, ratio},
    table::Table,
};
use peer::{PEERS, Peer};

const CYCLES: usize = 500;
const PROCESSES: usize = 4;
const HOLD: Duration = Duration::from_millis(1);
const TURNS: usize = 100;

fn main() -> ExitCode {
    if let Some((_, arguments)) = roles::of_this_process() {
        this_lock(&arguments[0]);
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let rounds = arguments.iter().filter_map(|argument| argument.parse().ok()).next().unwrap_or(15);
    let wanted: Vec<&String> = arguments.iter().filter(|argument| argument.parse::<usize>().is_err()).collect();
    let wants = |group: &str| wanted.is_empty() || wanted.iter().any(|wanted| *wanted == group);
    let _urgent = kit::place::Urgent::become_so();
    let mut table = Table::new();
    if wants("cycles") {
        cycles(rounds, &mut table);
    }
    if wants("contention") {
        contention(rounds.min(5), &mut table);
    }
    if wants("shared") {
        shared::measure(rounds.min(5));
    }
    table.verdict()
}

fn cycles(rounds: usize, table: &mut Table) {
    for name in ["redislock", "rslock", "redis-fifo-lock"] {
        let (ours, theirs) = (peer::this(), peer::named(name));
        let service = match theirs.service() {
            Ok(service) => service,
            Err(why) => {
                table.skipped(&format!("cycles per second vs {name}"), &why);
                continue;
            }
        };
        let (mut this, mut other) = (ours.start(&service), theirs.start(&service));
        for placement in PLACEMENTS {
            placement.put(service.pid(), &[this.pid(), other.pid()]);
            let ask =
                |helper: &mut Helper, what| helper.ask(&format!("{what} {CYCLES}")).parse::<f64>().expect("a time");
            let mut times = [const { Vec::new() }; 3];
            for round in 0..=rounds {
                let measured = [ask(&mut this, "cycles"), ask(&mut other, "cycles"), ask(&mut this, "drops")];
                // The first one warms up.
                if round > 0 {
                    times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
                }
            }
            let [awaited, other, dropped] = &times;
            for (how, this) in [("", awaited), (", dropped guards", dropped)] {
                let faster = ratio(other, this);
                let made = format!("{:.0} vs {:.0}", 1e6 / median(this), 1e6 / median(other));
                let row = format!("cycles per second vs {name}{how}, {}", placement.name());
                match (name, placement) {
                    ("redislock" | "rslock", Placement::Split | Placement::Same) => table.row(&row, faster, &made),
                    _ => table.note(&row, &format!("{faster:.2} ({made})")),
                }
            }
        }
        this.end();
        other.end();
    }
}

/// All locks, one after the other, each by processes of its own that contend for one name.
fn contention(rounds: usize, table: &mut Table) {
    let mut lines = Vec::new();
    let mut p50 = |peer: &Peer| match contended(peer, rounds) {
        Ok(found) => {
            lines.push(line(peer, &found));
            Some(found.iter().filter_map(|found| Some(found.hand_off_ms?.0)).collect::<Vec<_>>())
        }
        Err(why) => {
            eprintln!("SKIPPED: {}, because {why}", peer.name);
            None
        }
    };
    let ours = p50(&peer::this()).expect("this lock is always there");
    for peer in PEERS {
        let theirs = p50(peer);
        if peer.name != "redis-fifo-lock" {
            continue;
        }
        let row = "hand-off of four processes, 1 ms hold, vs redis-fifo-lock";
        match theirs {
            Some(theirs) => {
                let made = format!("p50 {:.0} µs vs {:.0}", 1e3 * median(&ours), 1e3 * median(&theirs));
                table.row(row, median(&ours) / median(&theirs), &made);
            }
            None => table.skipped(row, "it was not set up, see the lines before"),
        }
    }
    println!("\n{PROCESSES} processes, {TURNS} turns each, a hold of {HOLD:?}, medians of {rounds} rounds:\n");
    println!(
        "| lock | grants/s | hand-off p50 / p99, ms | overlaps | out of order | longest wait, ms | first / last |"
    );
    println!("|---|---|---|---|---|---|---|");
    lines.iter().for_each(|line| println!("{line}"));
    println!();
}

/// What each round showed.
fn contended(peer: &Peer, rounds: usize) -> Result<Vec<Contention>, String> {
    let service = peer.service()?;
    let mut helpers: Vec<Helper> = (0..PROCESSES).map(|_| peer.start(&service)).collect();
    let mut found = Vec::new();
    for round in 0..=rounds {
        helpers.iter_mut().for_each(|helper| helper.say(&format!("contend {TURNS}")));
        let histories: Result<Vec<_>, _> = helpers.iter_mut().map(|helper| turns(&events(helper))).collect();
        let judged = judge(&histories?)?;
        // The first round warms up: connections, scripts, compilers.
        if round > 0 {
            found.push(judged);
        }
    }
    helpers.into_iter().for_each(Helper::end);
    Ok(found)
}

fn events(helper: &mut Helper) -> String {
    let mut text = String::new();
    loop {
        match &*helper.hear() {
            "end" => return text,
            line => text += &format!("{line}\n"),
        }
    }
}

/// A row of the table: medians, but the sum of overlaps and the longest of all waits.
fn line(peer: &Peer, found: &[Contention]) -> String {
    let of = |figure: fn(&Contention) -> f64| median(&found.iter().map(figure).collect::<Vec<_>>());
    let hand_offs: Vec<(f64, f64)> = found.iter().filter_map(|found| found.hand_off_ms).collect();
    let (p50, p99): (Vec<f64>, Vec<f64>) = hand_offs.into_iter().unzip();
    let hand_off = if p50.is_empty() { "-".into() } else { format!("{:.2} / {:.2}", median(&p50), median(&p99)) };
    let overlaps: usize = found.iter().map(|found| found.overlaps).sum();
    let longest = found.iter().map(|found| found.longest_wait_ms).fold(0.0, f64::max);
    let (grants, order) = (of(|found| found.grants_per_second), 100.0 * of(|found| found.out_of_order));
    let spread = of(|found| found.first_to_last);
    format!("| {} | {grants:.0} | {hand_off} | {overlaps} | {order:.0} % | {longest:.0} | {spread:.2} |", peer.name)
}

/// The program of this lock, by a blocking caller.
fn this_lock(port: &str) {
    let client = connect(&format!("redis://127.0.0.1:{port}/"));
    let [free, contended] = ["free", "contended"].map(|name| client.lock(name).expect("a name"));
    let turn = |lock: &Lock| {
        let called = now_ns();
        let guard = acquire(lock);
        let got = now_ns();
        // Spins, because a sleep takes as long as the kernel likes.
        while now_ns() < got + HOLD.as_nanos() as u64 {}
        let turn = format!("called {called}\ngot {got}\nreleased {}\n", now_ns());
        release(guard);
        turn
    };
    serve(|line| {
        let (verb, count) = line.split_once(' ').expect("a verb and a count");
        if verb == "share" {
            return Some(shared::answer(&client, count));
        }
        let count: usize = count.parse().expect("a number");
        Some(match verb {
            "cycles" => each(count, || release(acquire(&free))).to_string(),
            "drops" => each(count, || drop(acquire(&free))).to_string(),
            _ => (0..count).map(|_| turn(&contended)).collect::<String>() + "end",
        })
    });
}
