//! The first attempt to connect, whose outcome a caller awaits.

use super::*;
use crate::error::ConnectError;
use crate::keeper::routes::{Effect, Event, Shape};

fn first(effects: &[Effect]) -> Option<Result<(), ConnectError>> {
    effects.iter().find_map(|effect| if let Effect::First(result) = effect { Some(result.clone()) } else { None })
}

#[test]
fn first_attempt_tells_its_outcome() {
    let mut alone = Alone::of(Shape::Server("h:1".into()), true);
    let (connection, _, by) = alone.dialled();
    assert_eq!(by, at(5000));
    alone.handle(Event::Failed { connection, error: refused() });
    assert_eq!(first(&alone.effects()), Some(Err(refused())));
    let mut alone = Alone::of(Shape::Server("h:1".into()), true);
    alone.connect();
    assert_eq!(first(&alone.effects()), Some(Ok(())));
}

#[test]
fn first_attempt_tries_nodes_in_parallel_within_five_seconds_in_all() {
    let mut alone = Alone::of(Shape::Cluster(vec![node(1)]), true);
    let (connection, _, by) = alone.asked().remove(0);
    assert_eq!(by, at(5000));
    alone.now = 1000;
    alone.handle(Event::Discovered { connection, found: map(1, 2) });
    let (one, port, by) = alone.dialled();
    assert_eq!((port, by, alone.now), (1, at(5000), 1000));
    let (two, port, by) = alone.dialled();
    assert_eq!((port, by, alone.now), (2, at(5000), 1250));
    alone.handle(Event::Failed { connection: one, error: refused() });
    assert_eq!(first(&alone.effects()), None, "another may answer");
    alone.handle(Event::Ready { connection: two, facts: facts("run") });
    assert_eq!(first(&alone.effects()), Some(Ok(())));
}

/// The first attempt at a cluster of two nodes, which has just been found.
fn found() -> Alone {
    let mut alone = Alone::of(Shape::Cluster(vec![node(1)]), true);
    let (connection, ..) = alone.asked().remove(0);
    alone.handle(Event::Discovered { connection, found: map(1, 2) });
    alone
}

#[test]
fn first_attempt_fails_when_all_nodes_are_silent_with_the_most_telling_error() {
    let mut alone = found();
    alone.refuse(stranger());
    let outcome = loop {
        if let Some(outcome) = first(&alone.wait().1) {
            break outcome;
        }
    };
    assert_eq!((alone.now, outcome), (5000, Err(stranger())));
}

#[test]
fn first_attempt_fails_with_the_first_of_the_errors_that_tell_most() {
    let at_second = ConnectError::Unreachable { address: "h:2".into(), cause: "refused".into() };
    for (error, told) in [(stranger(), stranger()), (at_second, refused())] {
        let mut alone = found();
        alone.refuse(refused());
        alone.refuse(error);
        assert_eq!(first(&alone.effects()), Some(Err(told)));
    }
}

#[test]
fn error_of_the_user_ends_the_first_attempt_at_once() {
    let mut alone = found();
    alone.refuse(denied());
    assert_eq!((alone.now, first(&alone.effects())), (0, Some(Err(denied()))));
}
