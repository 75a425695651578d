//! Semaphores and read-write locks, this project's and others, one after the other: each by processes of its own, with
//! callers who contend for one name.

use std::thread;
use std::time::Duration;

use fairlock::{Client, Lock};

use crate::contention::turns;
use crate::events;
use crate::kit::client::{acquire, release};
use crate::kit::machine::cpu_us;
use crate::kit::place::now_ns;
use crate::kit::roles::Helper;
use crate::kit::stats::median;
use crate::peer::{Form, Peer, SHARED};
use crate::sharing::{Shared, Sharing, judge};

const PROCESSES: usize = 4;
const TURNS: usize = 20;
const HOLD: Duration = Duration::from_millis(20);

/// Who contends for what: how many may hold it at once, and how many callers each process has.
struct Mix {
    title: &'static str,
    form: Form,
    most: usize,
    callers: usize,
}

/// For each place of a holder there are four callers or more, so that a queue is there.
const MIXES: [Mix; 3] = [
    Mix { title: "A semaphore of 3", form: Form::Semaphore, most: 3, callers: 4 },
    Mix { title: "A semaphore of 16", form: Form::Semaphore, most: 16, callers: 16 },
    Mix { title: "9 readers : 1 writer", form: Form::ReadWrite, most: usize::MAX, callers: 4 },
];

/// One turn in ten is a writer's, and the callers do not write at the same time.
fn writes(caller: usize, turn: usize) -> bool {
    (caller + turn).is_multiple_of(10)
}

pub fn measure(rounds: usize) {
    for mix in &MIXES {
        let mut lines = Vec::new();
        for peer in SHARED.iter().filter(|peer| peer.forms.contains(&mix.form)) {
            eprintln!("{}: {}", mix.title, peer.name);
            match shared(peer, mix, rounds) {
                Ok((found, cpu_us)) => lines.push(line(peer, &found, cpu_us)),
                Err(why) => eprintln!("SKIPPED: {}, because {why}", peer.name),
            }
        }
        let callers = PROCESSES * mix.callers;
        println!(
            "\n{}, {callers} callers in {PROCESSES} processes, {TURNS} turns each, a hold of {HOLD:?}:\n",
            mix.title
        );
        println!(
            "| what | too many at once | out of order | mean wait, ms | longest | longest / mean | server's CPU, µs a turn | grants/s | vs the first |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        let first = lines.first().map_or(1.0, |(_, rate)| *rate);
        lines.iter().for_each(|(line, rate)| println!("{line} {rate:.0} | {:.2} |", rate / first));
    }
    println!();
}

/// What each round showed, and what the server's threads computed for a turn.
fn shared(peer: &Peer, mix: &Mix, rounds: usize) -> Result<(Vec<Sharing>, f64), String> {
    let service = peer.service()?;
    let mut helpers: Vec<Helper> = (0..PROCESSES).map(|_| peer.start(&service)).collect();
    let most = if mix.form == Form::Semaphore { mix.most } else { 0 };
    let mut found = Vec::new();
    let mut computed_us = 0.0;
    for round in 0..=rounds {
        let before = cpu_us(service.pid());
        for (process, helper) in helpers.iter_mut().enumerate() {
            helper.say(&format!("share {most} {} {} {TURNS}", process * mix.callers, mix.callers));
        }
        let mut histories = Vec::new();
        for helper in &mut helpers {
            for _ in 0..mix.callers {
                let caller = histories.len();
                let writer = |turn| mix.form == Form::ReadWrite && writes(caller, turn);
                let turns = turns(&events(helper))?.into_iter().enumerate();
                histories.push(turns.map(|(number, turn)| Shared { turn, writer: writer(number) }).collect());
            }
        }
        let judged = judge(&histories, mix.most)?;
        // The first round warms up.
        if round > 0 {
            found.push(judged);
            computed_us += cpu_us(service.pid()) - before;
        }
    }
    helpers.into_iter().for_each(Helper::end);
    let turns = rounds * PROCESSES * mix.callers * TURNS;
    Ok((found, computed_us / turns as f64))
}

/// A row of the table, without the last two columns, and the grants per second. Medians of the rounds, but the sum of what broke a
/// promise and the longest of all waits.
fn line(peer: &Peer, found: &[Sharing], cpu_us: f64) -> (String, f64) {
    let of = |figure: fn(&Sharing) -> f64| median(&found.iter().map(figure).collect::<Vec<_>>());
    let most = |figure: fn(&Sharing) -> f64| found.iter().map(figure).fold(0.0, f64::max);
    let too_many: usize = found.iter().map(|found| found.too_many).sum();
    let (mean, longest) = (of(|found| found.mean_wait_ms), most(|found| found.longest_wait_ms));
    let order = 100.0 * of(|found| found.out_of_order);
    let writer = most(|found| found.longest_write_ms);
    let writer = if writer > 0.0 { format!(" (writer {writer:.0})") } else { String::new() };
    let waits = format!("{mean:.0} | {longest:.0}{writer} | {:.1}", longest / mean);
    (
        format!("| {} | {too_many} | {order:.1} % | {waits} | {cpu_us:.0} |", peer.name),
        of(|found| found.grants_per_second),
    )
}

/// What a process of this project answers to `share MOST FIRST CALLERS TURNS`, by blocking callers.
pub fn answer(client: &Client, numbers: &str) -> String {
    let numbers: Vec<usize> = numbers.split(' ').map(|number| number.parse().expect("a number")).collect();
    let [most, first, callers, turns] = numbers[..] else { panic!("not four numbers: {numbers:?}") };
    let both = client.rw_lock("index").expect("a name");
    let semaphore = client.semaphore("gpu", most.max(1) as u32).expect("a name");
    let lock_of = |caller, turn| match most {
        0 if writes(caller, turn) => both.writer(),
        0 => both.reader(),
        _ => &semaphore,
    };
    let caller = |caller| (0..turns).map(|number| turn(lock_of(caller, number))).collect::<String>() + "end\n";
    let said: String = thread::scope(|scope| {
        let threads: Vec<_> = (first..first + callers).map(|number| scope.spawn(move || caller(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    said.trim_end().to_owned()
}

fn turn(lock: &Lock) -> String {
    let called = now_ns();
    let guard = acquire(lock);
    let got = now_ns();
    // Sixteen holders would have to share the cores if they spun.
    thread::sleep(HOLD);
    let turn = format!("called {called}\ngot {got}\nreleased {}\n", now_ns());
    release(guard);
    turn
}
