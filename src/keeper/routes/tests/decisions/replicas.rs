//! Questions to replicas.

use super::*;
use crate::keeper::machine::RequestId;
use crate::keeper::routes::{ConnectionId, Effect, Event, ReplicaQuestion};
use crate::protocol::Refusal;
use crate::server::{Facts, WireEvent};

fn replicate(alone: &mut Alone, request: u64, replicas: u32, within: u64) -> Vec<Effect> {
    let keys = call().keys().clone();
    alone.effects();
    let question = ReplicaQuestion { slot: 0, request: RequestId(request), keys, replicas, within: ms(within) };
    alone.handle(Event::Replicate(question));
    alone.effects()
}

#[test]
fn questions_to_replicas_go_together_over_a_connection_of_their_own() {
    let mut alone = Alone::wanting();
    alone.connect();
    let effects = replicate(&mut alone, 1, 1, 300);
    let [Effect::ConnectSecond { connection, by, .. }] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(by, at(1300));
    assert!(replicate(&mut alone, 2, 1, 300).is_empty());
    assert!(replicate(&mut alone, 3, 2, 200).is_empty());
    alone.handle(Event::Ready { connection, facts: facts("run") });
    assert!(
        matches!(alone.effects()[..], [Effect::Replicas { connection: l, replicas: 1, within, .. }] if l == connection && within == ms(300))
    );
    alone.hear(connection, WireEvent::Replicas(Ok(1)));
    let effects = alone.effects();
    assert_eq!(effects.iter().filter_map(told).collect::<Vec<_>>(), ["1 replicated to 1"]);
    assert!(matches!(effects[1], Effect::Replicas { replicas: 2, within, .. } if within == ms(200)), "{effects:?}");
    alone.hear(connection, WireEvent::Replicas(Ok(2)));
    assert_eq!(alone.told(), ["2 replicated to 2", "3 replicated to 2"]);
    assert!(
        matches!(replicate(&mut alone, 4, 1, 300)[..], [Effect::Replicas { connection: l, .. }] if l == connection)
    );
}

#[test]
fn replicas_of_another_run_do_not_count() {
    let mut alone = Alone::wanting();
    let (main, _) = alone.connect();
    let [Effect::ConnectSecond { connection, .. }] = replicate(&mut alone, 1, 1, 300)[..] else {
        panic!("no second connection")
    };
    alone.handle(Event::Ready { connection, facts: facts("another") });
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [main, connection]);
    let told: Vec<_> = effects.iter().filter_map(told).collect();
    assert_eq!(told, ["disconnected: its address leads to another server now"]);
}

#[test]
fn replicas_that_cannot_be_asked_are_a_refusal() {
    let mut alone = Alone::wanting();
    alone.connect();
    let mut fail = |request: u64, how: &dyn Fn(&mut Alone, ConnectionId), cause: &str| {
        let effects = replicate(&mut alone, request, 1, 300);
        let [Effect::ConnectSecond { connection, .. }] = effects[..] else { panic!("{effects:?}") };
        how(&mut alone, connection);
        let (_, effects) = alone.wait();
        let told: Vec<_> = effects.iter().filter_map(told).collect();
        assert!(told[0].starts_with(&format!("{request} not replicated: ")) && told[0].contains(cause), "{told:?}");
        assert_eq!(told.len(), 1);
    };
    fail(
        1,
        &|alone, connection| alone.handle(Event::Failed { connection, error: refused() }),
        "no Redis server answers",
    );
    fail(
        2,
        &|alone, connection| alone.handle(Event::Ready { connection, facts: Facts { run: None, ..facts("run") } }),
        "INFO",
    );
    fail(3, &|_, _| {}, "did not answer in time");
    let ready = |alone: &mut Alone, connection| {
        alone.handle(Event::Ready { connection, facts: facts("run") });
        alone.effects();
    };
    fail(
        4,
        &|alone, connection| {
            (ready(alone, connection), alone.handle(Event::Ended { connection, cause: "gone".into() })).1
        },
        "gone",
    );
    let rejected = || Err(Refusal::Permanent("what".into()));
    fail(
        5,
        &|alone, connection| (ready(alone, connection), alone.hear(connection, WireEvent::Replicas(rejected()))).1,
        "what",
    );
}

#[test]
fn questions_to_replicas_end_with_the_connection_that_they_are_about() {
    let mut alone = Alone::wanting();
    let (main, _) = alone.connect();
    let [Effect::ConnectSecond { connection, .. }] = replicate(&mut alone, 1, 1, 300)[..] else {
        panic!("no second connection")
    };
    alone.handle(Event::Ended { connection: main, cause: "gone".into() });
    assert_eq!(dropped(&alone.effects()), [main, connection]);
    alone.connect();
    alone.effects();
    assert!(matches!(replicate(&mut alone, 2, 1, 300)[..], [Effect::ConnectSecond { .. }]), "asked anew");
}
