//! Decisions at sentinels: which of them are asked for the master, and when.

use super::*;
use crate::keeper::routes::{Discovered, Effect, Event};
use crate::server::{CallOutcome, Facts};

#[test]
fn sentinels_are_asked_before_each_attempt() {
    let mut alone = Alone::sentinels(1);
    alone.want("x");
    for master in [7, 8] {
        let (connection, port, _) = alone.asked().remove(0);
        assert_eq!(port, 1);
        alone.handle(Event::Discovered { connection, found: Discovered::Master(node(master)) });
        let (connection, port) = alone.connect();
        assert_eq!((port, alone.told()), (master, vec!["connected".into()]));
        let before = alone.now;
        alone.ask(1);
        alone.reply(connection, 1, CallOutcome::NotServing("READONLY".into()));
        assert_eq!(alone.now, before, "a master that takes no writes is left at once");
        alone.now += 1000;
    }
}

#[test]
fn replica_that_sentinels_name_is_no_master() {
    let mut alone = Alone::sentinels(1);
    alone.want("x");
    let (connection, ..) = alone.asked().remove(0);
    alone.handle(Event::Discovered { connection, found: Discovered::Master(node(7)) });
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ready { connection, facts: Facts { is_replica: true, ..facts("run") } });
    assert!(alone.told()[0].contains("it says that it is a replica"));
}

#[test]
fn three_are_asked_at_once_and_three_more_each_quarter_of_a_second() {
    let mut alone = Alone::sentinels(13);
    alone.want_within("x", ms(100));
    let mut asked = Vec::new();
    while asked.len() < 13 {
        let (_, effects) = alone.wait();
        for effect in effects {
            if let Effect::Discover { node, by, .. } = effect {
                asked.push((alone.now, node.port, by.since(at(alone.now)).as_millis()));
            }
        }
    }
    let at: Vec<u64> = asked.iter().map(|(at, ..)| *at).collect();
    assert_eq!(at, [0, 0, 0, 250, 250, 250, 500, 500, 500, 750, 750, 750, 1000]);
    assert_eq!(asked.iter().map(|(_, port, _)| *port).collect::<Vec<_>>(), (1..=13).collect::<Vec<_>>());
    // One that is asked late has as long as the first.
    assert!(asked.iter().all(|(.., span)| *span == 1000), "{asked:?}");
    let (_, effects) = alone.wait();
    assert!(told(&effects[0]).unwrap().contains("no Redis server answers at h:1,h:2"), "{effects:?}");
    assert_eq!(alone.now, 2000);
}

#[test]
fn others_are_asked_at_once_when_the_first_have_failed() {
    let mut alone = Alone::sentinels(4);
    alone.want("x");
    for (connection, ..) in alone.asked() {
        alone.handle(Event::Failed { connection, error: refused() });
    }
    assert_eq!(alone.asked().first().map(|(_, port, _)| *port), Some(4));
    assert_eq!(alone.now, 0);
}

/// One sentinel with another password must not end the acquires of a client whose other sentinels are down for a moment.
#[test]
fn lasting_error_of_one_sentinel_counts_only_if_no_other_may_come_back() {
    for (second, denied_at_last) in [(None, false), (Some(refused()), false), (Some(denied()), true)] {
        let mut alone = Alone::sentinels(2);
        alone.want("x");
        let asked = alone.asked();
        alone.handle(Event::Failed { connection: asked[0].0, error: denied() });
        if let Some(error) = second.clone() {
            alone.handle(Event::Failed { connection: asked[1].0, error });
        }
        let (waited, effects) = alone.wait();
        let told: Vec<_> = effects.iter().filter_map(told).collect();
        assert!(told[0].contains("WRONGPASS"), "the most telling error is told: {told:?}");
        assert_eq!(told.iter().any(|told| told.starts_with("denied")), denied_at_last, "{second:?}");
        assert_eq!(waited, if second.is_some() { 0 } else { 2000 });
    }
}
