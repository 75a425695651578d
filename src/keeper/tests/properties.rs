//! Random schedules. `FAIRLOCK_CASES` sets how many. One that breaks a promise is made as short as it can be and printed:
//! it goes to `regressions.rs`. With `FAIRLOCK_TRACE` set, what happens under it is printed too.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::steps::Step;
use super::world::{Plan, World};

fn cases(ordinary: u32) -> u32 {
    std::env::var("FAIRLOCK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(ordinary)
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(any::<[u8; 3]>().prop_map(|[kind, client, which]| Step::of(kind, client, which)), 1..most)
}

fn plans() -> impl Strategy<Value = Plan> {
    (1..4_usize, 1..3_usize, any::<u8>()).prop_map(|(clients, locks, kills)| Plan {
        clients,
        locks,
        fast: vec![0, 2000, -2000],
        // Most users may; now and then one may not.
        can_kill: (0..3).map(|bit| kills >> bit & 1 == 0 || kills < 128).collect(),
        script: 3_000,
    })
}

pub(super) fn run(plan: &Plan, schedule: &[Step]) -> (World, u64) {
    run_with(plan, schedule, false)
}

fn run_with(plan: &Plan, schedule: &[Step], trace: bool) -> (World, u64) {
    let mut world = World::new(plan);
    world.trace = trace;
    for &step in schedule {
        world.step(step);
    }
    world.calm_down();
    world.everybody_is_served();
    world.nothing_is_left();
    let steps = world.steps;
    (world, steps)
}

fn config(cases: u32) -> Config {
    Config { cases, max_shrink_iters: 20_000, failure_persistence: None, ..Config::default() }
}

#[test]
fn promises_hold_whatever_happens() {
    let (started, total) = (std::time::Instant::now(), AtomicU64::new(0));
    let result = TestRunner::new(config(cases(3000))).run(&(plans(), steps(400)), |(plan, schedule)| {
        let (world, steps) = run(&plan, &schedule);
        total.fetch_add(steps, Ordering::Relaxed);
        prop_assert!(world.broken.is_none(), "{}", world.broken.unwrap_or_default());
        Ok(())
    });
    let (steps, spent) = (total.into_inner(), started.elapsed().as_secs_f64());
    eprintln!("{steps} steps in {spent:.1} s, {:.0} a second", steps as f64 / spent);
    report(result);
}

/// Fails with a schedule that is as short as it can be made, ready to be a regression test.
fn report(result: Result<(), TestError<(Plan, Vec<Step>)>>) {
    let (reason, plan, mut schedule) = match result {
        Ok(()) => return,
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, (plan, schedule))) => (reason, plan, schedule),
    };
    // What proptest leaves is often a step that changes nothing.
    let mut at = 0;
    while at < schedule.len() {
        let mut shorter = schedule.clone();
        shorter.remove(at);
        if run(&plan, &shorter).0.broken.is_some() {
            schedule = shorter;
        } else {
            at += 1;
        }
    }
    let broken = run_with(&plan, &schedule, std::env::var_os("FAIRLOCK_TRACE").is_some()).0.broken;
    panic!("{reason}\n{plan:?}\n{schedule:?}\n{}", broken.unwrap_or_default());
}
