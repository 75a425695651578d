//! The lock beside others on one server, in turn: `make bench-peers`, which sets them up. README.md tells how to read it.
//!
//! Each lock is a process of its own that is told by a line what to do: `cycles N`, answered by the median time of a cycle in
//! microseconds, or `contend N`, answered by N times at which it was granted the lock and began to release it.

#![allow(unreachable_pub, clippy::expect_used, clippy::unwrap_used)]

mod kit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fairlock::Lock;
use kit::{
    client::{acquire, connect, release},
    machine,
    place::{PLACEMENTS, Placement, now_ns},
    roles::{self, Helper, serve},
    stats::{each, median, quantile, ratio},
    table::Table,
};
use testkit::RedisServer;

const CYCLES: usize = 500;
const PROCESSES: usize = 4;
const HOLD: Duration = Duration::from_millis(1);
const TURNS: usize = 60;

fn main() -> ExitCode {
    if let Some((_, arguments)) = roles::of_this_process() {
        this_lock(&arguments[0]);
        return ExitCode::SUCCESS;
    }
    let rounds = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(15);
    let server = RedisServer::builder().tcp().plain().start();
    let _urgent = kit::place::Urgent::become_so();
    let mut table = Table::new();
    cycles(rounds, &server, &mut table);
    hand_offs(rounds, &server, &mut table);
    table.verdict()
}

/// Another lock, as `peers/run.sh` sets it up; None if it is not there.
fn start_peer(name: &str, server: &RedisServer) -> Option<Helper> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let peers = project.join("target/peers");
    let text = |path: PathBuf| path.to_str().expect("a path of letters").to_owned();
    let mut words = match name {
        "redis-fifo-lock" => {
            vec![text(peers.join("venv/bin/python")), text(project.join("benches/peers/redis_fifo_lock/peer.py"))]
        }
        _ => vec![text(peers.join(name))],
    };
    Path::new(&words[0]).exists().then_some(())?;
    words.push(server.port().to_string());
    Some(Helper::of_program(&words.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn start_this(server: &RedisServer) -> Helper {
    Helper::start("this", &[&server.tcp_url()])
}

fn cycles(rounds: usize, server: &RedisServer, table: &mut Table) {
    let mut this = start_this(server);
    for name in ["redislock", "rslock", "redis-fifo-lock"] {
        let Some(mut peer) = start_peer(name, server) else {
            table.skipped(&format!("cycles per second beside {name}"), "it was not set up, see the lines before");
            continue;
        };
        for placement in PLACEMENTS {
            placement.put(server.pid(), &[this.pid(), peer.pid()]);
            let quiet = placement != Placement::Free || !machine::is_busy();
            let cycle = |helper: &mut Helper| helper.ask(&format!("cycles {CYCLES}")).parse::<f64>().expect("a time");
            let mut times = [const { Vec::new() }; 2];
            for round in 0..=rounds {
                let measured = [cycle(&mut this), cycle(&mut peer)];
                // The first one warms up.
                if round > 0 {
                    times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
                }
            }
            let [this, other] = &times;
            let faster = ratio(other, this);
            let made = format!("{:.0} beside {:.0}", 1e6 / median(this), 1e6 / median(other));
            let row = format!("cycles per second beside {name}, {}", placement.name());
            match (name, placement) {
                ("redislock" | "rslock", Placement::Free) => table.row_if_quiet(quiet, &row, faster, &made),
                _ => table.note(&row, &format!("{faster:.2} ({made})")),
            }
        }
        peer.end();
    }
    this.end();
}

fn hand_offs(rounds: usize, server: &RedisServer, table: &mut Table) {
    let row = "hand-off of four processes, 1 ms hold, beside redis-fifo-lock";
    let peers: Option<Vec<Helper>> = (0..PROCESSES).map(|_| start_peer("redis-fifo-lock", server)).collect();
    let Some(mut peers) = peers else { return table.skipped(row, "it was not set up, see the lines before") };
    let mut these: Vec<Helper> = (0..PROCESSES).map(|_| start_this(server)).collect();
    let all: Vec<u32> = these.iter().chain(&peers).map(Helper::pid).collect();
    Placement::Free.put(server.pid(), &all);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let measured = [contended(&mut these), contended(&mut peers)];
        if round > 0 {
            ours.push(median(&measured[0]));
            theirs.push(median(&measured[1]));
        }
        if round == rounds {
            let p99 = measured.map(|times| format!("{:.0} µs", quantile(&times, 0.99)));
            table.note("the same, 99th percentiles of the last round", &p99.join(" beside "));
        }
    }
    let made = format!("p50 {:.0} µs beside {:.0}", median(&ours), median(&theirs));
    table.row(row, ratio(&ours, &theirs), &made);
    these.into_iter().chain(peers).for_each(Helper::end);
}

/// The times in microseconds from the beginning of a release to the next grant, while all processes want the lock.
fn contended(helpers: &mut [Helper]) -> Vec<f64> {
    helpers.iter_mut().for_each(|helper| helper.say(&format!("contend {TURNS}")));
    let turns_of = |helper: &mut Helper| -> Vec<(u64, u64)> {
        let line = helper.hear();
        let turn =
            |turn: &str| turn.split_once(':').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        line.split(' ').map(|text| turn(text).unwrap_or_else(|| panic!("{text:?} is no turn"))).collect()
    };
    let turns: Vec<Vec<(u64, u64)>> = helpers.iter_mut().map(turns_of).collect();
    let all_began = turns.iter().filter_map(|turns| turns.first()).map(|turn| turn.0).max().expect("some turns");
    let first_ended = turns.iter().filter_map(|turns| turns.last()).map(|turn| turn.1).min().expect("some turns");
    let mut turns: Vec<(u64, u64)> = turns.concat();
    turns.retain(|turn| turn.0 >= all_began && turn.1 <= first_ended);
    turns.sort_unstable();
    assert!(turns.is_sorted_by(|one, next| one.1 <= next.0), "two held the lock at once");
    turns.windows(2).map(|two| (two[1].0 - two[0].1) as f64 / 1000.0).collect()
}

/// The helper: this library, by a blocking caller.
fn this_lock(url: &str) {
    let client = connect(url);
    let [free, contended] = ["free", "contended"].map(|name| client.lock(name).expect("a name"));
    let turn = |lock: &Lock| {
        let guard = acquire(lock);
        let granted = now_ns();
        std::thread::sleep(HOLD);
        let turn = format!("{granted}:{}", now_ns());
        release(guard);
        turn
    };
    serve(|line| {
        let (verb, count) = line.split_once(' ').expect("a verb and a count");
        let count: usize = count.parse().expect("a number");
        Some(match verb {
            "cycles" => each(count, || release(acquire(&free))).to_string(),
            _ => (0..count).map(|_| turn(&contended)).collect::<Vec<_>>().join(" "),
        })
    });
}
