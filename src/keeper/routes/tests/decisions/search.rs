//! Searches in a cluster: when its nodes are asked, and what their errors mean.

use super::*;
use crate::error::ConnectError;
use crate::keeper::routes::{Event, Shape};

/// A cluster with these seeds, of which nothing is known, with `x` wanted.
fn unknown(seeds: u16) -> Alone {
    let mut alone = Alone::of(Shape::Cluster((1..=seeds).map(node).collect()), false);
    alone.want_within("x", ms(3333));
    alone
}

/// All nodes that are asked next fail so.
fn fail(alone: &mut Alone, error: &ConnectError) {
    for (connection, ..) in alone.asked_next() {
        alone.handle(Event::Failed { connection, error: error.clone() });
    }
}

#[test]
fn pause_before_a_search_is_cut_short_for_a_lock_that_has_less_patience() {
    let mut alone = unknown(1);
    (0..10).for_each(|_| fail(&mut alone, &refused()));
    let (before, slot) = (alone.now, alone.routes.slot("x"));
    alone.handle(Event::Patience { slot, patience: ms(333) });
    alone.asked_next();
    assert_eq!(alone.now - before, 84, "a quarter of its patience");
}

#[test]
fn search_that_is_under_way_does_not_hurry() {
    let mut alone = unknown(4);
    assert_eq!(alone.asked().len(), 3);
    let slot = alone.routes.slot("x");
    alone.handle(Event::Patience { slot, patience: ms(4) });
    assert_eq!((alone.asked_next().len(), alone.now), (1, 250));
}

#[test]
fn searches_have_pauses_until_all_routes_are_open() {
    let mut alone = unknown(1);
    (0..10).for_each(|_| fail(&mut alone, &refused()));
    let (connection, ..) = alone.asked_next().remove(0);
    alone.handle(Event::Discovered { connection, found: map(1, 2) });
    // The search goes on, because a node that does not answer may have been replaced by now.
    let (up, _) = alone.connect();
    alone.confirm(up, "x");
    let before = alone.now;
    let (connection, ..) = alone.asked_next().remove(0);
    assert!(alone.now - before > 100, "{} ms", alone.now - before);
    alone.handle(Event::Discovered { connection, found: map(1, 2) });
    alone.effects();
    let before = alone.now;
    alone.handle(Event::Ended { connection: up, cause: "gone".into() });
    alone.asked_next();
    assert_eq!(alone.now, before, "the next search begins at once");
}

#[test]
fn errors_of_all_nodes_are_told_and_those_that_pass_end_nothing() {
    for error in [refused(), denied(), stranger()] {
        let mut alone = unknown(2);
        fail(&mut alone, &error);
        let mut expected = vec![format!("disconnected: {error}")];
        expected.extend((!error.is_transient()).then(|| format!("denied: {error}")));
        assert_eq!(alone.told(), expected);
        assert!(!alone.asked_next().is_empty(), "the search goes on");
    }
}

#[test]
fn strangers_at_the_addresses_of_a_cluster_that_was_found_end_nothing() {
    for (error, denied) in [(stranger(), false), (denied(), true), (refused(), false)] {
        let (mut alone, connection) = Alone::open_cluster();
        alone.effects();
        alone.handle(Event::Ended { connection, cause: "gone".into() });
        let mut told = Vec::new();
        while told.len() < 2 {
            let (_, effects) = alone.wait();
            told.extend(effects.iter().filter_map(super::told));
            for effect in effects {
                if let Effect::Discover { connection, .. } = effect {
                    alone.handle(Event::Failed { connection, error: error.clone() });
                }
            }
        }
        assert_eq!(told[0..2], ["disconnected: gone".into(), format!("disconnected: {error}")]);
        told.extend(alone.told());
        assert_eq!(told.contains(&format!("denied: {error}")), denied, "{told:?}");
    }
}

#[test]
fn first_of_the_errors_that_tell_most_is_told() {
    let at_second = ConnectError::Unreachable { address: "h:2".into(), cause: "refused".into() };
    for (second, expected) in [(stranger(), stranger()), (at_second, refused())] {
        let mut alone = unknown(2);
        let asked = alone.asked();
        alone.handle(Event::Failed { connection: asked[0].0, error: refused() });
        alone.handle(Event::Failed { connection: asked[1].0, error: second });
        assert_eq!(alone.told()[0], format!("disconnected: {expected}"));
    }
}
