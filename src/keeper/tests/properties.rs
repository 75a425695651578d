//! Random schedules. `FAIRLOCK_CASES` sets how many. One that breaks a promise is made as short as it can be and
//! printed: it goes to `regressions.rs`. With `FAIRLOCK_TRACE` set, what happens under it is printed too; with
//! `FAIRLOCK_UNSHRUNK` it is left as long as it was found, which is enough to know that there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::steps::Step;
use super::world::{MS, Plan, Times, WIDE, World};
use crate::keeper::machine::Mode;

pub(super) fn cases(ordinary: u32) -> u32 {
    std::env::var("FAIRLOCK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(ordinary)
}

pub(super) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    vec(any::<[u8; 3]>().prop_map(|[kind, client, which]| Step::of(kind, client, which)), 1..most)
}

/// Mostly undisturbed; the server loses its data again and again, and its connections, too, if it comes back with old
/// data.
fn losses(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let steps = |[kind, client, which]: [u8; 3]| match kind % 64 {
        0..24 => vec![Step::Flow(which)],
        24..34 => vec![Step::Acquire { client, how: which, timeout: 0 }],
        34..40 => vec![Step::Take(client, which)],
        40..46 => vec![Step::Release(client, which)],
        46..48 => vec![Step::Drop(client, which)],
        48 => vec![Step::Renew(client, which)],
        49 => vec![Step::Downgrade(client, which)],
        50 => vec![Step::Abandon(client, which)],
        51 => vec![Step::Cut(client)],
        52 => vec![Step::Pause(client), Step::Flow(which), Step::Resume(client)],
        53 => vec![Step::LosePush(client, which)],
        54..56 => vec![Step::Save],
        56..58 => vec![Step::Stop, Step::Rollback, Step::Start],
        _ => vec![Step::Flush],
    };
    vec(any::<[u8; 3]>().prop_map(steps), 1..most).prop_map(|steps| steps.concat())
}

/// Waiters and holders that nothing disturbs.
fn steps_of_work(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let steps = |[kind, client, which]: [u8; 3]| match kind % 8 {
        0..3 => Step::Flow(which),
        3..6 => Step::Acquire { client, how: which, timeout: 0 },
        6 => Step::Take(client, which),
        _ => Step::Release(client, which),
    };
    vec(any::<[u8; 3]>().prop_map(steps), 1..most)
}

/// After work at random a release is executed and not answered, or a holder stops for longer than its lease. Others go
/// on, the server loses its data, and then the client is the first to be heard of: it releases what it had.
fn late_releases(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let release = |[client, which, rest]: [u8; 3], old: bool| {
        let loss: &[Step] = if old { &[Step::Stop, Step::Rollback, Step::Start] } else { &[Step::Flush] };
        let given: &[Step] = match which % 3 {
            // It keeps its lease for too long.
            0 => &[],
            _ => &[Step::Release(client, which), Step::Hear(client, 255), Step::Execute(client)],
        };
        let away = [Step::Pause(client), Step::Flow(if given.is_empty() { 230 + rest % 8 } else { rest % 230 })];
        [given, &away, loss, &[Step::Resume(client), Step::Cut(client), Step::Flow(rest)]].concat()
    };
    let release = (any::<[u8; 3]>(), prop::bool::weighted(0.2)).prop_map(move |(at, old)| release(at, old));
    vec((steps_of_work(10), release), 1..most)
        .prop_map(|rounds| rounds.into_iter().flat_map(|(work, last)| [work, last].concat()).collect())
}

pub(super) fn plans() -> impl Strategy<Value = Plan> {
    (1..4_usize, 1..3_usize, any::<u8>(), any::<u8>()).prop_map(|(clients, locks, kills, window)| Plan {
        fast: vec![0, 2000, -2000],
        // Most users may; a few may not.
        can_kill: (0..3).map(|bit| kills >> bit & 1 == 0 || kills < 128).collect(),
        // In half of the worlds requests wait for each other.
        window: if window < 128 { WIDE } else { 1 + usize::from(window % 3) },
        ..Plan::usual(clients, locks)
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

/// Takes the same ways each time, so that a test fails for a change and not by chance; unless more were asked for.
pub(super) fn runner(config: Config) -> TestRunner {
    match std::env::var_os("FAIRLOCK_CASES") {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    }
}

fn unshrunk() -> bool {
    std::env::var_os("FAIRLOCK_UNSHRUNK").is_some()
}

/// For draws that say enough as they are.
pub(super) fn unshrunk_config(cases: u32) -> Config {
    Config { max_shrink_iters: 0, ..config(cases) }
}

fn config(cases: u32) -> Config {
    let max_shrink_iters = if unshrunk() { 0 } else { 20_000 };
    Config { cases, max_shrink_iters, failure_persistence: None, ..Config::default() }
}

#[test]
fn promises_hold_whatever_happens() {
    hold_in("worlds", 4000, plans(), steps(400));
}

/// Several losses of data, some of them within the recovery of another.
#[test]
fn promises_hold_over_losses() {
    hold_in("worlds that lose data", 1500, plans(), losses(60));
}

/// Releases that are repeated, or come late, are the first that a server without its data hears.
#[test]
fn promises_hold_over_late_releases() {
    hold_in("worlds with late releases", 1500, plans(), late_releases(20));
}

/// The same where no lease is longer than three heartbeats, which a recovery that is cut short still waits for.
#[test]
fn promises_hold_over_late_releases_among_short_leases() {
    let ms = Duration::from_millis;
    let of = |lease, liveness| Times { lease: ms(lease), liveness: ms(liveness), buffer: ms(60), by_hand: false };
    let times = vec![of(300, 300), of(200, 400), of(250, 500), of(300, 1500)];
    let plans = plans().prop_map(move |plan| Plan { times: times.clone(), ..plan });
    hold_in("worlds with late releases and short leases", 500, plans, late_releases(20));
}

/// Semaphores, readers and writers, and callers that disagree on how many may hold a lock together.
fn plans_of_several() -> impl Strategy<Value = Plan> {
    let slots = prop_oneof![Just(vec![2]), Just(vec![1, 1000, 1000]), Just(vec![2, 3, 3]), Just(vec![3, 1, 1000, 2]),];
    (plans(), slots).prop_map(|(plan, slots)| Plan { slots, ..plan })
}

#[test]
fn promises_hold_for_several_holders() {
    hold_in("worlds of several holders", 3000, plans_of_several(), steps(400));
}

#[test]
fn promises_hold_for_several_holders_over_losses() {
    hold_in("worlds of several holders that lose data", 1500, plans_of_several(), losses(60));
}

#[test]
fn promises_hold_for_several_holders_over_late_releases() {
    hold_in("worlds of several holders with late releases", 500, plans_of_several(), late_releases(20));
}

pub(super) fn hold_in(
    what: &str,
    ordinary: u32,
    plans: impl Strategy<Value = Plan>,
    schedules: impl Strategy<Value = Vec<Step>>,
) {
    let (started, total) = (std::time::Instant::now(), AtomicU64::new(0));
    let result = runner(config(cases(ordinary))).run(&(plans, schedules), |(plan, schedule)| {
        let (world, steps) = run(&plan, &schedule);
        total.fetch_add(steps, Ordering::Relaxed);
        prop_assert!(world.broken.is_none(), "{}", world.broken.unwrap_or_default());
        Ok(())
    });
    let (steps, spent) = (total.into_inner(), started.elapsed().as_secs_f64());
    super::say(format_args!("{what}: {steps} steps in {spent:.1} s, {:.0} steps/s", steps as f64 / spent));
    report(result);
}

/// Fails with a schedule that is as short as it can be made, ready for `regressions.txt`.
fn report(result: Result<(), TestError<(Plan, Vec<Step>)>>) {
    let (reason, plan, mut schedule) = match result {
        Ok(()) => return,
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, (plan, schedule))) => (reason, plan, schedule),
    };
    // What proptest leaves is often a step that changes nothing.
    let mut at = 0;
    while at < schedule.len() && !unshrunk() {
        let mut shorter = schedule.clone();
        shorter.remove(at);
        if run(&plan, &shorter).0.broken.is_some() {
            schedule = shorter;
        } else {
            at += 1;
        }
    }
    let broken = run_with(&plan, &schedule, std::env::var_os("FAIRLOCK_TRACE").is_some()).0.broken;
    let case = ron::to_string(&(plan.clients, plan.locks, schedule)).unwrap();
    panic!("{reason}\n{plan:?}\n{case}\n{}", broken.unwrap_or_default());
}

/// I2 and I7: waiters are served in the order of their tickets, also when the server loses everything, a part,
/// or its connections, and whether or not messages arrive. Each client's waiters have the options of that number.
fn served_in_order(
    plan: &Plan,
    waiters: &[u8],
    options: [usize; 3],
    blows: &[Step],
    before: u8,
    after: u8,
    no_pushes: bool,
) -> Result<(), String> {
    let mut world = World::new(plan);
    world.no_pushes = no_pushes;
    for (nth, client) in waiters.iter().map(|client| usize::from(*client) % 3).enumerate() {
        let (now, spec) = (world.now, world.specs[0][options[client]].clone());
        world.clients[client].start(now, 0, spec, Mode::Wait, None);
        if nth == waiters.len() / 2 {
            world.step(Step::Flow(before));
            world.step(Step::Save);
        }
    }
    world.step(Step::Flow(140));
    blows.iter().for_each(|step| world.step(*step));
    world.step(Step::Flow(after));
    let tickets: Vec<u64> = world.clients.iter().flat_map(|c| c.acquires.values().filter_map(|a| a.ticket)).collect();
    world.everybody_is_served();
    if let Some(broken) = world.broken {
        return Err(broken);
    }
    if world.is_over() {
        return Ok(());
    }
    let mut granted: Vec<_> = world.clients.iter().flat_map(|client| client.granted.iter().copied()).collect();
    granted.sort_unstable();
    let order: Vec<u64> = granted.iter().map(|(_, ticket)| *ticket).filter(|ticket| tickets.contains(ticket)).collect();
    if order.len() != tickets.len() {
        return Err(format!("{} of {} kept their tickets (I7)", order.len(), tickets.len()));
    }
    match order.windows(2).find(|pair| pair[0] > pair[1]) {
        Some(pair) => Err(format!("{} was served before {} (I2)", pair[0], pair[1])),
        None => Ok(()),
    }
}

#[test]
fn order_outlives_every_blow() {
    let blows: [&[Step]; 5] = [
        &[],
        &[Step::Flush],
        &[Step::Flush, Step::Flow(100), Step::Flush],
        &[Step::Rollback],
        &[Step::Stop, Step::Flow(140), Step::Start],
    ];
    outlived(2..150, [0; 3], (0..blows.len()).prop_map(move |blow| blows[blow].to_vec()));
}

/// The same where clients differ in lease, liveness and buffer, and one loss comes within the recovery of another.
#[test]
fn order_of_unlike_clients_outlives_many_losses() {
    let loss = (any::<bool>(), 0..170_u8).prop_map(|(all, rest)| {
        let loss: &[Step] = if all { &[Step::Flush] } else { &[Step::Stop, Step::Rollback, Step::Start] };
        [loss, &[Step::Flow(rest)]].concat()
    });
    outlived(2..40, [0, 6, 7], vec(loss, 1..10).prop_map(|losses| losses.concat()));
}

fn outlived(waiters: std::ops::Range<usize>, options: [usize; 3], blows: impl Strategy<Value = Vec<Step>>) {
    let strategy = (vec(0..3_u8, waiters), blows, any::<[u8; 2]>(), any::<bool>());
    // These are long.
    let cases = (cases(4000) / 60).max(1);
    let result = runner(config(cases)).run(&strategy, |(waiters, blows, [before, after], no_pushes)| {
        served_in_order(&Plan::usual(3, 1), &waiters, options, &blows, before, after, no_pushes)
            .map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// The same where each client has its own times.
pub(super) fn outlived_in(plans: impl Strategy<Value = Plan>, blows: impl Strategy<Value = Vec<Step>>) {
    let strategy = (plans, vec(0..3_u8, 2..12), blows);
    let result = runner(unshrunk_config(cases(400))).run(&strategy, |(plan, waiters, blows)| {
        served_in_order(&plan, &waiters, [0, 1, 2], &blows, 0, 0, false).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// I6: a waiter whose message is lost hears of its grant by a heartbeat, whenever the last one was.
#[test]
fn a_lost_message_costs_a_heartbeat_at_most() {
    let plan = Plan::usual(2, 1);
    let mut longest = 0;
    for waits in 0..=u8::MAX {
        let mut world = World::new(&plan);
        world.no_pushes = true;
        let spec = world.specs[0][0].clone();
        for client in 0..2 {
            let now = world.now;
            world.clients[client].start(now, 0, spec.clone(), Mode::Wait, None);
            world.step(Step::Flow(100));
        }
        world.step(Step::Flow(waits));
        let (released, holder) = (world.now, *world.clients[0].guards.keys().next().expect("it came first"));
        world.clients[0].let_go(released, holder, false);
        while world.clients[1].granted.is_empty() && world.now < released + 10_000 * MS {
            world.flow_once(u64::MAX);
        }
        assert_eq!(world.broken, None);
        longest = longest.max(world.now - released);
    }
    let heartbeat = 100 * MS;
    assert!((heartbeat / 2..=heartbeat + 4 * MS).contains(&longest), "{longest} ns");
}
