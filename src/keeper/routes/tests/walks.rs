//! Random schedules. `FAIRLOCK_CASES` sets how many; one that breaks a rule is made as short as it can be and printed. With
//! `FAIRLOCK_TRACE` set, what happens under it is printed too.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use super::topology::{Kind, Step, Topology};

impl Step {
    /// Mostly undisturbed, so that faults find something to disturb.
    fn of([kind, which, how]: [u8; 3]) -> Self {
        match kind % 32 {
            0..8 => Self::Deliver(which),
            8..15 => Self::Execute(which),
            15..19 => Self::Ask(which),
            19 => Self::Move(which, how),
            20 => Self::Migrate(which, how),
            21 => Self::Break(which),
            22 => Self::Down(which),
            23 => Self::Hang(which),
            24..26 => Self::Up(which),
            26 => Self::Refuse(which, how % 3),
            27 => Self::GiveUp(which),
            28 => Self::Patience(which, how),
            29..31 => Self::Due,
            _ => Self::Pass(how),
        }
    }
}

fn run((kind, servers, slots): (Kind, usize, usize), schedule: &[Step], trace: bool) -> Topology {
    let mut topology = Topology::new(kind, servers, slots);
    topology.trace = trace;
    schedule.iter().for_each(|step| topology.step(*step));
    topology.all_is_served();
    topology
}

fn hold_in(what: &str, topologies: impl Strategy<Value = (Kind, usize, usize)>) {
    let cases = std::env::var("FAIRLOCK_CASES").ok().and_then(|cases| cases.parse().ok());
    let config = Config { cases: cases.unwrap_or(3000), failure_persistence: None, ..Config::default() };
    // The same ways each time, so that a test fails for a change and not by chance; unless more were asked for.
    let mut runner = match cases {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let steps = std::cell::Cell::new(0);
    let result = runner.run(&(topologies, vec(any::<[u8; 3]>().prop_map(Step::of), 1..200)), |(topology, schedule)| {
        steps.set(steps.get() + schedule.len());
        let broken = run(topology, &schedule, false).broken;
        prop_assert!(broken.is_none(), "{}", broken.unwrap_or_default());
        Ok(())
    });
    crate::keeper::tests::say(format_args!("{what}: {} steps", steps.get()));
    match result {
        Ok(()) => {}
        Err(TestError::Abort(reason)) => panic!("{reason}"),
        Err(TestError::Fail(reason, (topology, schedule))) => {
            run(topology, &schedule, std::env::var_os("FAIRLOCK_TRACE").is_some());
            panic!("{reason}\n{topology:?}\n{schedule:?}");
        }
    }
}

#[test]
fn routes_of_a_cluster_hold_whatever_servers_do() {
    hold_in(
        "routes of a cluster",
        (2..4_usize, 1..4_usize).prop_map(|(servers, slots)| (Kind::Cluster, servers, slots)),
    );
}

#[test]
fn routes_to_a_master_hold_whatever_servers_and_sentinels_do() {
    hold_in("routes by sentinels", (1..4_usize).prop_map(|servers| (Kind::Sentinels, servers, 1)));
}

/// A virtual address moves without a word to those who are connected.
#[test]
fn routes_to_an_address_hold_whatever_server_is_behind_it() {
    hold_in("routes to an address", (1..4_usize).prop_map(|servers| (Kind::Address, servers, 1)));
}
