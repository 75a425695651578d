//! The scripts against the model: the same random requests, faults and clock steps go to the real scripts on a real
//! server and to `tests/model`, and after every step the answer, what was published and all that stands on the server
//! must be the same. The promises are judged on their own too. The clock is the test's, so nothing sleeps.
//!
//! `STEPS=n` sets how many steps are taken. What failed once is kept in `scripts_model.proptest-regressions` and tried
//! first.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod model;
mod support;

use std::io::Write as _;
use std::time::Instant;

use model::driver::Driver;
use model::walks::{config, explore, regressions};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Over all tests that compare with the model.
const STEPS: usize = 240_000;

fn compare(batch: usize) {
    let steps = std::env::var("STEPS").map_or(STEPS, |steps| steps.parse().expect("STEPS is a number")).div_ceil(2);
    let config = Config {
        failure_persistence: Some(Box::new(regressions())),
        source_file: Some(file!()),
        max_shrink_iters: 20_000,
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
    // Past the harness, which shows what is printed by tests that fail only.
    let speed = taken as f64 / seconds;
    let _ =
        writeln!(std::io::stderr(), "scripts against the model: {taken} steps in {seconds:.1} s, {speed:.0} steps/s");
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
fn so_they_do_when_a_batch_is_small() {
    compare(3);
}
