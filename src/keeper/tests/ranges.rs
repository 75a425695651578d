//! Worlds in which lease, liveness and buffer are drawn over their whole ranges, differently in one queue.
//!
//! A world whose times are very far apart is left unjudged when it has taken more steps than a test has.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::properties::{cases, hold_in, outlived_in, plans, runner, steps, unshrunk_config};
use super::steps::Step;
use super::world::{MS, Plan, Times, World};
use crate::keeper::machine::Mode;
use crate::options::{LEAST, LONGEST};

/// Short spans as often as long ones, by their order of magnitude.
fn spans(least: Duration) -> impl Strategy<Value = Duration> {
    let ratio = LONGEST.as_secs_f64() / least.as_secs_f64();
    (0.0..=1.0).prop_map(move |part: f64| {
        let span = least.mul_f64(ratio.powf(part)).clamp(least, LONGEST);
        Duration::from_millis(span.as_millis() as u64)
    })
}

fn times() -> impl Strategy<Value = Times> {
    let buffers = prop_oneof![1 => Just(Duration::ZERO), 3 => spans(Duration::from_millis(1))];
    (spans(LEAST), spans(LEAST), buffers, prop::bool::weighted(0.2))
        .prop_map(|(lease, liveness, buffer, by_hand)| Times { lease, liveness, buffer, by_hand })
}

/// Spans of a schedule are in proportion to `unit` as they are to 300 ms, the most common liveness of other worlds.
fn scaled(plan: Plan, times: Vec<Times>, unit: Duration) -> Plan {
    let scale = (unit.as_millis() as u64 / 300).max(1);
    Plan { times, scale, ..plan }
}

fn unlike_plans() -> impl Strategy<Value = Plan> {
    (plans(), vec(times(), 2..5), any::<(prop::sample::Index, bool)>()).prop_map(|(plan, times, (which, by_lease))| {
        let of = times[which.index(times.len())];
        scaled(plan, times, if by_lease { of.lease } else { of.liveness })
    })
}

#[test]
fn promises_hold_whatever_the_times_are() {
    hold_in("worlds with any times", 500, unlike_plans(), steps(200));
}

/// The server is away and keeps its data, for up to ten times the shortest liveness.
fn order_outlives_outages(times: impl Strategy<Value = Vec<Times>>) {
    let plans = times.prop_map(|times| {
        let unit = times.iter().map(|times| times.liveness).min().unwrap_or_default();
        scaled(Plan::usual(3, 1), times, unit)
    });
    outlived_in(plans, (128..=u8::MAX).prop_map(|away| vec![Step::Stop, Step::Flow(away), Step::Start]));
}

#[test]
fn order_outlives_outages_whatever_the_times_are() {
    order_outlives_outages(vec(times(), 3));
}

#[test]
fn order_outlives_outages_where_the_liveness_is_the_same() {
    let same = |(times, liveness): (Vec<Times>, Duration)| times.into_iter().map(move |it| Times { liveness, ..it });
    order_outlives_outages((vec(times(), 3), spans(LEAST)).prop_map(move |drawn| same(drawn).collect()));
}

/// I6: the first of two waiters hears of its grant by its next heartbeat, if the message is lost. The second, which
/// would keep the lock, is not served before it.
fn a_lost_message_costs_a_heartbeat(times: impl Strategy<Value = Vec<Times>>) {
    let result = runner(unshrunk_config(cases(150))).run(&(times, any::<u8>()), |(times, waits)| {
        let unit = times[1].liveness;
        let mut world = World::new(&scaled(Plan::usual(3, 1), times.clone(), unit));
        world.no_pushes = true;
        for client in 0..3 {
            let (now, spec) = (world.now, world.specs[0][client].clone());
            world.clients[client].start(now, 0, spec, Mode::Wait, None);
            world.flow(10 * MS);
        }
        world.step(Step::Flow(waits % 224));
        let (released, holder) = (world.now, world.clients[0].guards.keys().next().copied());
        let Some(holder) = holder.filter(|_| !world.is_over()) else { return Ok(()) };
        world.clients[0].let_go(released, holder, false);
        let heartbeat = times[1].liveness.as_nanos() as u64 / 3;
        let end = released + heartbeat + 20 * MS;
        while world.clients[1].granted.is_empty() && world.flow_once(end) && !world.is_over() {}
        prop_assert_eq!(&world.broken, &None);
        let served = !world.clients[1].granted.is_empty() || world.is_over();
        prop_assert!(served, "the first waiter has no lock after its heartbeat: {:?}", world.server.locks[0].1.leases);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn a_lost_message_costs_a_heartbeat_whatever_the_times_are() {
    a_lost_message_costs_a_heartbeat(vec(times(), 3));
}

#[test]
fn a_lost_message_costs_a_heartbeat_where_leases_are_longer_than_heartbeats() {
    let longer = |it: Times| Times { lease: it.lease.max(it.liveness), ..it };
    a_lost_message_costs_a_heartbeat(vec(times().prop_map(longer), 3));
}

/// The same of a client whose waiters differ in how long they count as alive: the quickest one sets the interval, and
/// another that joins does not put the next heartbeat off.
#[test]
fn a_lost_message_costs_a_heartbeat_of_the_quickest_waiter_of_its_client() {
    let drawn = (vec(times(), 2..6), any::<[u8; 2]>());
    let result = runner(unshrunk_config(cases(300))).run(&drawn, |(times, [waits, joins])| {
        let quickest = times[1..].iter().map(|times| times.liveness).min().unwrap_or_default();
        let mut world = World::new(&scaled(Plan::usual(2, 1), times, quickest));
        world.no_pushes = true;
        let specs = world.specs[0].clone();
        for (nth, spec) in specs.iter().enumerate() {
            let now = world.now;
            world.clients[nth.min(1)].start(now, 0, spec.clone(), Mode::Wait, None);
            world.flow(10 * MS);
        }
        world.step(Step::Flow(waits % 224));
        let (released, holder) = (world.now, world.clients[0].guards.keys().next().copied());
        let Some(holder) = holder.filter(|_| !world.is_over()) else { return Ok(()) };
        world.clients[0].let_go(released, holder, false);
        let heartbeat = quickest.as_nanos() as u64 / 3;
        let is_served = |world: &World| !world.clients[1].granted.is_empty() || world.is_over();
        let joined = released + heartbeat / 256 * u64::from(joins);
        while !is_served(&world) && world.flow_once(joined) {}
        if !is_served(&world) {
            world.now = world.now.max(joined);
            let (now, spec) = (world.now, specs[specs.len() - 1].clone());
            world.clients[1].start(now, 0, spec, Mode::Wait, None);
        }
        while !is_served(&world) && world.flow_once(released + heartbeat + 20 * MS) {}
        prop_assert_eq!(&world.broken, &None);
        prop_assert!(is_served(&world), "no waiter has a lock after a heartbeat: {:?}", world.server.locks[0].1.leases);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
