//! The scripts against the model (`src/testing/model/`): the same random requests, faults and clock steps go to the real
//! scripts on a real server and to the model, and after every step the answer, what was published and all that stands on
//! the server must be the same. The promises are judged on their own too. The clock is the test's, so nothing sleeps.
//!
//! `STEPS=n` sets how many steps are taken. What failed once is kept in `regressions.txt`, step by step.
//!
//! `recovery.rs`, `outages.rs` and `mixed_settings.rs` have single cases on the scripts alone, which say what is promised.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod crowds;
mod judged;
mod mixed_settings;
#[path = "mod.rs"]
mod model;
mod outages;
mod recovery;
mod room;
mod scene;

use std::time::Instant;

use model::driver::{Calmly, Driver};
use model::events::{case, quiet_case};
use model::singles::SINGLES;
use model::walks::{config, explore, paragraph, regressions, replay};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The steps of all tests together that compare with the model.
const STEPS: usize = 240_000;

fn compare(batch: usize) {
    let steps = std::env::var("STEPS").map_or(STEPS, |steps| steps.parse().expect("STEPS is a number")).div_ceil(2);
    let config = Config { max_shrink_iters: 2_000, ..config(steps) };
    // `make test` takes the same ways each time, so that it fails for a change and not by chance; `make soak` takes new
    // ones.
    let runner = match std::env::var_os("STEPS") {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks.")),
    };
    let start = Instant::now();
    let (taken, failure) = explore(runner, &mut Driver::start(), steps, case(batch), true);
    let seconds = start.elapsed().as_secs_f64();
    let speed = taken as f64 / seconds;
    testkit::say(format_args!("scripts against the model: {taken} steps in {seconds:.1} s, {speed:.0} steps/s"));
    if let Some(failure) = failure {
        let case = failure.case.map_or_else(String::new, |case| paragraph("NAME OF ITS MUTANT", &case));
        panic!("{}\nTo try it first from now on, add it to tests/model/regressions.txt:\n\n{case}", failure.message);
    }
    assert!(taken >= steps, "only {taken} steps were taken");
}

#[test]
fn cases_that_failed_once_do_not_fail_again() {
    let mut driver = Driver::start();
    for regression in regressions() {
        if let (_, Some(wrong)) = replay(&mut driver, &regression.case, true) {
            panic!("{}\n{wrong}", regression.name);
        }
    }
}

#[test]
fn the_scripts_do_what_the_model_does() {
    compare(100);
}

// Here a script looks at few dead heads, so that it often stops and is called again.
#[test]
fn the_scripts_do_what_the_model_does_in_small_batches() {
    compare(3);
}

/// A verb that no walk asks is compared with nothing: `tests/model/walk/asks.rs` draws them.
#[test]
fn every_verb_is_asked_on_a_walk() {
    const STEPS: usize = 4_000;
    let runner =
        TestRunner::new_with_rng(config(STEPS), TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks."));
    let mut driver = Driver::start();
    explore(runner, &mut driver, STEPS, case(100), true);
    // Where there are no histories, no walk asks for one.
    driver.called.extend((testkit::run::version() < (6, 2)).then_some("history"));
    let never = fairlock::__hooks::verbs().map(|(verb, _)| verb).filter(|verb| !driver.called.contains(verb));
    assert_eq!(never.collect::<Vec<_>>(), [""; 0]);
}

/// The model knows no other way to grant a calm lock than any other: each of these cases compares the first lines of
/// `acquire`, and releases without a script, with what the rest of the scripts would do.
#[test]
fn a_calm_lock_is_granted_and_given_back_as_any_other() {
    const STEPS: usize = 20_000;
    let runner =
        TestRunner::new_with_rng(config(STEPS), TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks."));
    let mut driver = Driver::start();
    let (_, failure) = explore(runner, &mut driver, STEPS, quiet_case(), true);
    assert!(failure.is_none(), "{}", failure.unwrap().message);
    let Calmly { acquires, grants, releases } = driver.calmly;
    assert!(5 * grants > acquires && 5 * releases > grants, "{grants} of {acquires} acquires, {releases} releases");
}

/// Behind the bytes that this version knows, requests, entries and the state have those of a later one: they are passed
/// over, and kept where they are stored.
#[test]
fn longer_forms_of_a_later_version_change_nothing() {
    const STEPS: usize = 8_000;
    let runner =
        TestRunner::new_with_rng(config(STEPS), TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks."));
    let mut driver = Driver::start().longer();
    let (_, failure) = explore(runner, &mut driver, STEPS, case(100), true);
    assert!(failure.is_none(), "{}", failure.unwrap().message);
    assert!(driver.kept > STEPS / 2, "{} scripts found a longer state", driver.kept);
}

#[test]
fn single_cases_agree_with_the_model() {
    let mut driver = Driver::start();
    for (name, case) in SINGLES {
        case(&mut driver).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}
