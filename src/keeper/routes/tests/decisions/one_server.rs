//! Decisions at one server: when it is connected to, given up, and connected to anew.

use super::*;
use crate::keeper::machine::RequestId;
use crate::keeper::routes::{Effect, Event, LogRecord, Shape, tag};
use crate::protocol::{self, Refusal};
use crate::server::{CallOutcome, Facts, WireEvent};

#[test]
fn route_opens_when_the_connection_is_set_up() {
    let mut alone = Alone::server();
    assert_eq!(alone.routes.next_due(), None, "nobody wants a server yet");
    alone.want("x");
    let (connection, ..) = alone.dialled();
    assert_eq!(alone.now, 0, "the first attempt is at once");
    alone.handle(Event::Ready { connection, facts: facts("run") });
    assert_eq!(alone.told(), ["connected"]);
    assert_eq!(alone.ask(1), Some((connection, false)));
    alone.answer(connection, 1);
    assert_eq!(alone.told(), ["1 answered"]);
    alone.want("y");
    assert!(alone.effects().is_empty(), "all locks of a server share one route");
}

#[test]
fn request_over_a_closed_route_is_not_sent() {
    let mut alone = Alone::wanting();
    assert_eq!(alone.ask(1), None);
}

#[test]
fn pauses_between_attempts_grow_and_stay_below_a_quarter_of_the_patience() {
    for (patience, longest) in [(ms(5000), 640), (ms(400), 100)] {
        let mut alone = Alone::server();
        alone.want_within("x", patience);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let before = alone.now;
            let (connection, ..) = alone.dialled();
            pauses.push(alone.now - before);
            alone.handle(Event::Failed { connection, error: refused() });
        }
        assert_eq!(pauses[0], 0);
        assert!((5..=10).contains(&pauses[1]), "{pauses:?}");
        assert!(pauses[8..].iter().all(|pause| (longest / 2..=longest).contains(pause)), "{pauses:?}");
    }
}

/// Clients that lost their server at once do not come back at once.
#[test]
fn half_of_a_pause_is_random() {
    let mut alone = Alone::server();
    alone.want_within("x", ms(5000));
    let pauses = Vec::from_iter((0..20).map(|_| {
        let before = alone.now;
        alone.refuse(refused());
        alone.now - before
    }));
    let at_last = &pauses[8..];
    assert!(at_last.iter().min() < Some(&400) && at_last.iter().max() > Some(&560), "{pauses:?}");
}

/// A lock with a lease of a second must not wait for a pause that a session of ten seconds allows.
#[test]
fn pause_is_cut_short_for_a_lock_that_has_less_patience() {
    let mut alone = Alone::server();
    alone.want_within("x", ms(3333));
    for _ in 0..10 {
        alone.refuse(refused());
    }
    alone.effects();
    let before = alone.now;
    alone.handle(Event::Patience { slot: 0, patience: ms(333) });
    alone.dialled();
    assert_eq!(alone.now - before, 84, "a quarter of its patience");
}

#[test]
fn connecting_has_a_second_at_least_and_longer_each_time_until_there_is_an_answer() {
    let mut alone = Alone::server();
    alone.want_within("x", ms(100));
    let mut spans = Vec::new();
    for _ in 0..5 {
        let (.., by) = alone.dialled();
        spans.push(by.since(at(alone.now)).as_millis());
    }
    assert_eq!(spans, [1000, 2000, 4000, 5000, 5000]);
    let (connection, _) = alone.connect();
    alone.ask(1);
    alone.answer(connection, 1);
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    assert_eq!(alone.dialled().2.since(at(alone.now)).as_millis(), 1000);
}

#[test]
fn silent_server_is_given_up_and_its_late_connection_is_dropped() {
    let mut alone = Alone::wanting();
    let (connection, ..) = alone.dialled();
    let (waited, effects) = alone.wait();
    assert_eq!((waited, dropped(&effects)), (2000, vec![connection]));
    let told: Vec<_> = effects.iter().filter_map(told).collect();
    assert!(told[0].starts_with("disconnected: no Redis server answers at h:1"), "{told:?}");
    alone.handle(Event::Ready { connection, facts: facts("run") });
    let effects = alone.effects();
    assert_eq!((effects.len(), dropped(&effects)), (1, vec![connection]));
}

#[test]
fn connection_that_ends_is_made_again_and_the_next_one_kills_it() {
    let mut alone = Alone::wanting();
    let connection = alone.serve();
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [connection]);
    let told: Vec<_> = effects.iter().filter_map(told).collect();
    assert_eq!(told, ["disconnected: gone"]);
    let connect = effects.iter().find_map(|effect| match effect {
        Effect::Connect { connection, previous, channel, .. } => Some((*connection, previous.clone(), channel.clone())),
        _ => None,
    });
    let (next, previous, channel) = connect.unwrap();
    assert_eq!((previous, channel.as_deref()), (facts("run").run, Some("fairlock:client:client")));
    assert_ne!(next, connection);
    // Reports of the old connection change nothing.
    let said = |said| Event::Wire { connection, said };
    for event in [
        said(WireEvent::Reply {
            tag: tag(0, RequestId(1)),
            call: call(),
            reply: CallOutcome::Result(Ok(protocol::Reply::sample())),
        }),
        said(WireEvent::Push(push("x"))),
        Event::Ended { connection, cause: "gone".into() },
        said(WireEvent::Unsubscribed("fairlock:client:client".into())),
    ] {
        alone.handle(event);
        assert!(alone.effects().is_empty());
    }
}

#[test]
fn lost_and_renewed_connections_are_noted() {
    let notes = |alone: &mut Alone| {
        let note = |effect: Effect| if let Effect::LogRecord(note) = effect { Some(note) } else { None };
        Vec::from_iter(alone.effects().into_iter().filter_map(note))
    };
    let mut alone = Alone::wanting();
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ready { connection, facts: Facts { warning: Some("evicts".into()), ..facts("run") } });
    assert!(matches!(&notes(&mut alone)[..], [LogRecord::Warning(text)] if text == "evicts"));
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    assert!(matches!(&notes(&mut alone)[..], [LogRecord::ConnectionLost { cause }] if **cause == *"gone"));
    alone.connect();
    assert!(matches!(notes(&mut alone)[..], [LogRecord::ConnectedAgain]));
}

#[test]
fn end_of_a_connection_during_its_set_up_is_left_to_the_set_up() {
    let mut alone = Alone::wanting();
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    assert!(alone.effects().is_empty());
    alone.handle(Event::Ready { connection, facts: facts("run") });
    assert_eq!(alone.told(), ["connected"]);
}

/// Callers are told that a lock is not there quickly, because the server is known to be.
#[test]
fn server_is_connected_to_again_though_nobody_wants_a_lock() {
    let mut alone = Alone::of(Shape::Server("h:1".into()), true);
    let (connection, _) = alone.connect();
    alone.effects();
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    for _ in 0..3 {
        alone.refuse(refused());
    }
}

/// The call fails, so that a server that always answers so is not asked without an end.
#[test]
fn server_that_is_out_of_step_is_left_after_its_call_was_told() {
    let out_of_step = || CallOutcome::Result(Err(Refusal::OutOfStep("strange".into())));
    let mut alone = Alone::wanting();
    let (connection, _) = alone.connect();
    alone.ask(1);
    alone.ask(2);
    alone.reply(connection, 1, out_of_step());
    // The next reply came with it, and is not believed.
    alone.answer(connection, 2);
    let effects = alone.effects();
    let told = Vec::from_iter(effects.iter().filter_map(told));
    assert_eq!(
        (told, dropped(&effects)),
        (vec!["1 failed: strange".into(), "disconnected: strange".into()], vec![connection])
    );
    let before = alone.now;
    let (connection, _) = alone.connect();
    assert!(alone.now - before >= 320, "there is a pause, also if it was well before");
    alone.ask(3);
    alone.answer(connection, 3);
    assert_eq!(alone.told(), ["3 answered"]);
}

#[test]
fn server_that_a_machine_gives_up_is_connected_to_anew() {
    let mut alone = Alone::wanting();
    let connection = alone.serve();
    alone.handle(Event::GiveUp { slot: 0 });
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [connection]);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Connect { .. })));
    alone.handle(Event::GiveUp { slot: 0 });
    assert!(alone.effects().is_empty(), "it is given up already");
}

#[test]
fn read_only_replica_is_no_server() {
    let mut alone = Alone::wanting();
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ready { connection, facts: Facts { read_only: true, ..facts("run") } });
    let told = alone.told();
    assert!(told[0].contains("read-only replica") && told.len() == 1, "{told:?}");
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ready { connection, facts: Facts { is_replica: true, ..facts("run") } });
    assert_eq!(alone.told(), ["connected"], "a replica may be told to take writes");
}

#[test]
fn lasting_errors_are_told_and_passing_ones_wait() {
    let mut alone = Alone::wanting();
    alone.refuse(refused());
    assert_eq!(alone.told().iter().filter(|told| told.starts_with("denied")).count(), 0);
    for error in [denied(), stranger()] {
        alone.refuse(error);
        assert_eq!(alone.told().iter().filter(|told| told.starts_with("denied")).count(), 1);
    }
    alone.connect();
    assert_eq!(alone.told(), ["connected"], "an operator has fixed it");
}

#[test]
fn node_of_a_cluster_is_no_server_of_its_own() {
    let mut alone = Alone::wanting();
    let (connection, _) = alone.connect();
    alone.ask(1);
    alone.reply(connection, 1, moved(2));
    let told = alone.told();
    assert!(told[0].contains("1 failed: it is a node of a cluster"), "{told:?}");
}
