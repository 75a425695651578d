//! `fairlock bench`: what a lock costs at the user's own server, beside what the server itself costs.
//!
//! Times differ between machines, and from hour to hour. So each round measures the floor and the lock in turn, and a
//! row tells the median of both, and their ratio.

mod args;
mod floor;
mod stopped;

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use fairlock::{Client, ClientBuilder, Lock};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

pub(crate) use args::Args;
use floor::Floor;
use stopped::Stopped;

use crate::duration::shown;
use crate::exit::Failure;
use crate::process::signals;
use crate::{connect, output};

/// The signal that asks to end.
static ENDED_BY: Mutex<Option<Signal>> = Mutex::new(None);

fn go_on() -> Result<(), Stopped> {
    match *ENDED_BY.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(signal) => Err(Stopped::Signal(signal)),
        None => Ok(()),
    }
}

/// One thing that was measured: all times, shortest first.
struct Row {
    what: String,
    floor_is: &'static str,
    floor: Vec<Duration>,
    lock: Vec<Duration>,
}

impl Row {
    fn new(what: impl Into<String>, floor_is: &'static str, mut floor: Vec<Duration>, mut lock: Vec<Duration>) -> Self {
        floor.sort();
        lock.sort();
        Self { what: what.into(), floor_is, floor, lock }
    }

    fn ratio(&self) -> f64 {
        quantile(&self.lock, 0.5).as_secs_f64() / quantile(&self.floor, 0.5).as_secs_f64().max(1e-9)
    }
}

fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

pub(crate) fn bench(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let builder = connect::client(server)?;
    let own = |error: &dyn Display| Failure::own(error.to_string());
    signals::block().map_err(|error| own(&error))?;
    let hear = |signal| {
        if matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT) {
            *ENDED_BY.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
        }
    };
    signals::listen(hear).map_err(|error| own(&error))?;
    let places = builder.places().map_err(|error| own(&error))?;
    let masters = places.masters(Duration::from_secs(5)).map_err(|error| server.failed(error))?;
    // One name, so that all keys are at one server of a cluster.
    let name = format!("bench-{}", output::random_word());
    let mut floor = Floor::new(&masters, server, &name)?;
    let measured = measure(&builder, &mut floor, &name, args);
    floor.remove(&server.prefix, &[&name]);
    let rows = measured.map_err(|stopped| match stopped {
        Stopped::Signal(signal) => Failure::signalled(signal, format!("{signal} ended the measurement")),
        Stopped::Failed(error) => Failure::own(error),
    })?;
    let place = format!("{places:?}");
    output::write(&if args.json { document(&rows, &place, args) } else { table(&rows, &place, args) })?;
    Ok(0)
}

fn measure(builder: &ClientBuilder, floor: &mut Floor, name: &str, args: &Args) -> Result<Vec<Row>, Stopped> {
    let connect = || -> Result<(Client, Lock), Stopped> {
        let client = builder.clone().connect().blocking().map_err(Stopped::because)?;
        let lock = client.lock(name).map_err(Stopped::because)?;
        Ok((client, lock))
    };
    let (_one, lock) = connect()?;
    let (mut bare, mut cycles) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        go_on()?;
        bare.push(floor.cycle()?);
        let began = Instant::now();
        let guard = lock.acquire().blocking().map_err(Stopped::because)?;
        guard.release().blocking().map_err(Stopped::because)?;
        cycles.push(began.elapsed());
    }
    let mut rows = vec![Row::new("cycle", floor.of_a_cycle(), bare, cycles)];

    let (_other, other) = connect()?;
    let (mut bare, mut hand_offs) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        go_on()?;
        bare.push(floor.message()?);
        hand_offs.push(hand_off(&lock, &other)?);
    }
    let message = "PUBLISH to its message";
    rows.push(Row::new("hand-off", message, bare.clone(), hand_offs));

    let contenders = (0..args.contenders).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
    let contended = contend(&contenders, args.rounds)?;
    rows.push(Row::new(format!("{} contend", args.contenders), message, bare, contended));
    Ok(rows)
}

/// From the release in one client to the grant in another, which waits.
fn hand_off(holder: &Lock, waiter: &Lock) -> Result<Duration, Stopped> {
    let guard = holder.acquire().blocking().map_err(Stopped::because)?;
    let waiting = waiter.enqueue().blocking().map_err(Stopped::because)?;
    std::thread::scope(|scope| {
        let granted = scope.spawn(|| {
            let guard = waiting.blocking();
            (Instant::now(), guard)
        });
        // The waiter sleeps when its lock is released.
        std::thread::sleep(Duration::from_micros(500));
        let began = Instant::now();
        guard.release().blocking().map_err(Stopped::because)?;
        let (at, guard) = granted.join().map_err(|_| Stopped::because("a thread panicked"))?;
        guard.map_err(Stopped::because)?.release().blocking().map_err(Stopped::because)?;
        Ok(at.saturating_duration_since(began))
    })
}

/// Clients that want one lock again and again: from each release to the next grant, by the order of the tokens.
fn contend(contenders: &[(Client, Lock)], rounds: u32) -> Result<Vec<Duration>, Stopped> {
    let stop = Arc::new(AtomicBool::new(false));
    let (send, grants) = mpsc::channel();
    std::thread::scope(|scope| {
        for (_, lock) in contenders {
            let (send, stop) = (send.clone(), Arc::clone(&stop));
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let cycle = || -> Result<(u64, Instant, Instant), Stopped> {
                        let guard = lock.acquire().blocking().map_err(Stopped::because)?;
                        let (token, granted) = (guard.token(), Instant::now());
                        let released = Instant::now();
                        guard.release().blocking().map_err(Stopped::because)?;
                        Ok((token, granted, released))
                    };
                    let cycle = cycle();
                    let failed = cycle.is_err();
                    if send.send(cycle).is_err() || failed {
                        return;
                    }
                }
            });
        }
        let mut all = Vec::new();
        let mut ended = Ok(());
        while all.len() <= rounds as usize && ended.is_ok() {
            ended = go_on();
            match grants.recv() {
                Ok(Ok(cycle)) => all.push(cycle),
                Ok(Err(stopped)) => ended = Err(stopped),
                Err(_) => ended = Err(Stopped::because("all threads ended")),
            }
        }
        stop.store(true, Ordering::Relaxed);
        ended?;
        all.sort_by_key(|(token, ..)| *token);
        Ok(all.windows(2).map(|pair| pair[1].1.saturating_duration_since(pair[0].2)).collect())
    })
}

fn table(rows: &[Row], place: &str, args: &Args) -> String {
    let mut text = format!("{place}, {} rounds, medians\n\n", args.rounds);
    let _ = writeln!(text, "{:12}{:>9}{:>10}{:>8}{:>10}{:>10}", "", "FLOOR", "FAIRLOCK", "RATIO", "90 %", "99 %");
    for row in rows {
        let at = |share| shown(quantile(&row.lock, share));
        let (what, floor, ratio) = (&row.what, shown(quantile(&row.floor, 0.5)), row.ratio());
        let _ = writeln!(text, "{what:12}{floor:>9}{:>10}{ratio:>8.2}{:>10}{:>10}", at(0.5), at(0.9), at(0.99));
    }
    text.push('\n');
    let [cycle, hand_off, ..] = rows else { return text };
    for line in [
        format!("cycle: an acquire that is granted at once, and its release; beside {}", cycle.floor_is),
        format!("hand-off: from a release to the next holder; beside {}", hand_off.floor_is),
    ] {
        text += &(output::wrap(&line, output::width()).join("\n") + "\n");
    }
    text
}

fn document(rows: &[Row], place: &str, args: &Args) -> String {
    let us = |sorted: &[Duration], share| quantile(sorted, share).as_nanos() as f64 / 1e3;
    let row = |row: &Row| {
        json!({
            "what": row.what, "floor": row.floor_is, "floor_us": us(&row.floor, 0.5), "median_us": us(&row.lock, 0.5),
            "p90_us": us(&row.lock, 0.9), "p99_us": us(&row.lock, 0.99), "ratio": row.ratio(),
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    crate::text::printable_json(&json!({"server": place, "rounds": args.rounds, "rows": rows}).to_string()) + "\n"
}
