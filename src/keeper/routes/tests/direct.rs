//! The connection for callers: when it is made, and that it ends with the main one.

use super::alone::{Alone, at, facts, told};
use crate::keeper::routes::{Effect, Event, Facts, Line};
use crate::server::Previous;

fn dropped(effects: &[Effect]) -> Vec<Line> {
    effects.iter().filter_map(|effect| if let Effect::Drop { line } = effect { Some(*line) } else { None }).collect()
}

fn connected() -> (Alone, Line) {
    let mut alone = Alone::server();
    alone.want("x");
    let (main, _) = alone.connect();
    alone.effects();
    (alone, main)
}

fn want(alone: &mut Alone) -> Vec<Effect> {
    alone.handle(Event::DirectWanted);
    alone.effects()
}

#[track_caller]
fn begun(effects: &[Effect]) -> Line {
    let [Effect::ConnectSecond { line, .. }] = effects[..] else { panic!("no second connection: {effects:?}") };
    line
}

/// The set-up of this line succeeds, as the 8th connection of the server.
fn ready(alone: &mut Alone, line: Line, run: &str) -> Vec<Effect> {
    let run = Some(Previous::in_test(run, 8));
    alone.handle(Event::Ready { line, facts: Facts { run, ..facts("run") } });
    alone.effects()
}

/// A main and a direct connection.
fn open() -> (Alone, Line, Line) {
    let (mut alone, main) = connected();
    let effects = want(&mut alone);
    assert!(matches!(effects[..], [Effect::ConnectSecond { by, .. }] if by == at(1000)), "{effects:?}");
    let line = begun(&effects);
    let effects = ready(&mut alone, line, "run");
    assert!(matches!(effects[..], [Effect::Offer { line: its }] if its == line), "{effects:?}");
    (alone, main, line)
}

#[track_caller]
fn ends_both_before_it_connects(mut alone: Alone, main: Line, direct: Line) {
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [main, direct]);
    assert!(told(effects.iter().find(|effect| told(effect).is_some()).unwrap()).unwrap().starts_with("disconnected"));
    let (_, effects) = if effects.iter().any(|effect| matches!(effect, Effect::Connect { .. })) {
        (alone.now, effects)
    } else {
        alone.wait()
    };
    let previous = effects.iter().find_map(|effect| match effect {
        Effect::Connect { previous, .. } => Some(previous.clone()),
        _ => None,
    });
    assert_eq!(previous, Some(vec![Previous::in_test("run", 7), Previous::in_test("run", 8)]));
}

#[test]
fn there_is_one_while_there_is_a_main_connection() {
    let mut alone = Alone::server();
    assert!(want(&mut alone).is_empty());
    let (mut alone, _, direct) = open();
    assert!(want(&mut alone).is_empty());
    // Nobody has used it for a while.
    alone.handle(Event::DirectEnded { line: direct, broke: None });
    assert_eq!(dropped(&alone.effects()), [direct]);
    begun(&want(&mut alone));
}

#[test]
fn there_is_none_where_late_requests_cannot_be_ended_or_in_a_cluster() {
    let mut alone = Alone::server();
    alone.want("x");
    let (line, ..) = alone.dialled();
    alone.handle(Event::Ready { line, facts: Facts { can_kill: false, ..facts("run") } });
    alone.effects();
    assert!(want(&mut alone).is_empty());
    let (mut alone, _) = Alone::open_cluster();
    alone.effects();
    assert!(want(&mut alone).is_empty());
}

#[test]
fn one_that_cannot_be_made_is_tried_again_when_it_is_wanted_again() {
    let (mut alone, _) = connected();
    let line = begun(&want(&mut alone));
    alone.handle(Event::Failed { line, error: super::alone::refused() });
    assert!(alone.effects().is_empty());
    let line = begun(&want(&mut alone));
    assert_eq!(dropped(&ready(&mut alone, line, "another")), [line]);
    let line = begun(&want(&mut alone));
    ready(&mut alone, line, "run");
    // A caller was in the way.
    alone.handle(Event::Ended { line, cause: "in the way".into() });
    assert_eq!(dropped(&alone.effects()), [line]);
    begun(&want(&mut alone));
}

#[test]
fn both_are_ended_at_the_server_before_anything_is_asked_again() {
    let (mut alone, main, direct) = open();
    alone.handle(Event::Ended { line: main, cause: "gone".into() });
    ends_both_before_it_connects(alone, main, direct);
    let (mut alone, main, direct) = open();
    alone.handle(Event::DirectEnded { line: direct, broke: Some("silent".into()) });
    ends_both_before_it_connects(alone, main, direct);
}

/// The main connection is a new one, and the old ones were ended before it was set up.
#[test]
fn one_that_broke_with_an_old_main_connection_does_not_end_the_new_one() {
    let (mut alone, main, direct) = open();
    alone.handle(Event::Ended { line: main, cause: "gone".into() });
    alone.connect();
    alone.effects();
    alone.handle(Event::DirectEnded { line: direct, broke: Some("gone too".into()) });
    assert!(alone.effects().is_empty());
}
