//! The scripts against the model: the same random requests, faults and clock steps go to the real scripts on a real
//! server and to `tests/model`, and after every step the answer, what was published and all that stands on the server
//! must be the same. The promises are judged on their own too. The clock is the test's, so nothing sleeps.
//!
//! `STEPS=n` sets how many steps are taken. What failed once is kept in `regressions.txt` and tried
//! first.

#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "mod.rs"]
mod model;
use std::time::Instant;

use model::driver::Driver;
use model::walks::{config, explore, regressions};
use model::{Memory, Request, Terms};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Over all tests that compare with the model.
const STEPS: usize = 240_000;

fn compare(batch: usize) {
    let steps = std::env::var("STEPS").map_or(STEPS, |steps| steps.parse().expect("STEPS is a number")).div_ceil(2);
    let config = Config {
        failure_persistence: Some(Box::new(regressions())),
        source_file: Some(file!()),
        max_shrink_iters: 2_000,
        ..config(steps)
    };
    // `make test` takes the same ways each time, so that it fails for a change and not by chance; `make soak` takes new ones.
    let runner = match std::env::var_os("STEPS") {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks.")),
    };
    let start = Instant::now();
    let (taken, failure) = explore(runner, &mut Driver::start(), steps, batch, true);
    let seconds = start.elapsed().as_secs_f64();
    let speed = taken as f64 / seconds;
    testkit::say(format_args!("scripts against the model: {taken} steps in {seconds:.1} s, {speed:.0} steps/s"));
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    assert!(taken >= steps, "only {taken} steps were taken");
}

#[test]
fn the_scripts_do_what_the_model_does() {
    compare(100);
}

// The same where a script looks at few dead heads, so that it often stops and is called again.
#[test]
fn the_scripts_do_what_the_model_does_in_small_batches() {
    compare(3);
}

// Longer rows of the dead than random walks make: heads are read in pages.
#[test]
fn the_first_live_waiter_is_served_whatever_zombies_stand_before_it() {
    const TIME: u64 = 1_700_000_000_000_000;
    let terms = Terms { lease: 60_000_000, liveness: 10_000_000, buffer: 1_000_000, heartbeat: 3_000_000 };
    let acquire = |id: String| {
        let memory = Memory::default();
        Request::Acquire { id, wait: true, claim: false, terms, ticket: 0, memory }
    };
    let mut driver = Driver::start();
    for dead in 0..12 {
        driver.flush_all();
        let mut ask = |time: u64, request: &Request| driver.run(TIME + time, 100, request).unwrap();
        let rows = ["holder.1".to_owned()].into_iter().chain((1..=dead).map(|n| format!("dead.{n}")));
        for id in rows.chain(["first.1".to_owned(), "second.1".to_owned()]) {
            ask(0, &acquire(id));
        }
        for (seconds, client) in [4, 8, 12].into_iter().flat_map(|at| [(at, "first"), (at, "second")]) {
            let ids = vec![format!("{client}.1")];
            ask(seconds * 1_000_000, &Request::Heartbeat { client: client.to_owned(), terms, ids });
        }
        let found =
            ask(12_000_000, &Request::Release { id: "holder.1".into(), token: 0, terms, memory: Memory::default() })
                .found
                .lock;
        assert_eq!(found.lease.as_ref().map(|(id, _)| id.as_str()), Some("first.1"), "behind {dead} who are dead");
        assert_eq!(found.queue.len(), 1, "{:?}", found.queue);
    }
}
