//! Decisions about a server that says that it is not the one, and does not say who is.

use super::*;
use crate::keeper::machine::RequestId;
use crate::keeper::routes::{Discovered, Effect, Event};
use crate::server::{CallOutcome, WireEvent};

fn readonly() -> CallOutcome {
    CallOutcome::NotServing("READONLY".into())
}

#[test]
fn demoted_master_is_left_at_once_and_its_address_leads_to_the_next() {
    let mut alone = Alone::wanting();
    let connection = alone.serve();
    alone.ask(1);
    alone.reply(connection, 1, readonly());
    let effects = alone.effects();
    let told = Vec::from_iter(effects.iter().filter_map(told));
    assert_eq!((told, dropped(&effects)), (vec!["disconnected: READONLY".into()], vec![connection]));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Connect { .. })), "there is no pause");
}

/// The server is asked again in between: it may be promoted where it is.
#[test]
fn server_that_says_so_without_an_end_is_left_once_a_second() {
    for mut alone in [Alone::wanting(), Alone::sentinels(1)] {
        alone.want("x");
        let (mut left, mut refused, mut request) = (0, 0, 0);
        let mut connection = None;
        while alone.now < 10_000 {
            for effect in alone.effects() {
                match effect {
                    Effect::Discover { connection, .. } => {
                        alone.handle(Event::Discovered { connection, found: Discovered::Master(node(7)) })
                    }
                    Effect::Connect { connection: next, .. } => {
                        alone.handle(Event::Ready { connection: next, facts: facts("run") });
                        connection = Some(next);
                    }
                    Effect::Drop { .. } => left += 1,
                    effect => refused += u32::from(told(&effect).is_some_and(|told| told.contains("refused"))),
                }
            }
            if let Some(connection) = connection {
                request += 1;
                let slot = 0;
                alone.handle(Event::Ask { slot, request: RequestId(request), call: call() });
                alone.reply(connection, request, readonly());
            }
            alone.now += 50;
            alone.handle(Event::Tick);
        }
        assert!((9..=10).contains(&left) && refused > 100, "left {left} times, refused {refused}");
    }
}

#[test]
fn nodes_are_asked_about_a_slot_that_its_node_does_not_serve_and_connections_stay() {
    let (mut alone, connection) = Alone::open_cluster();
    // The search that went on until the route was open.
    let asked = alone.asked_next();
    alone.handle(Event::Discovered { connection: asked[0].0, found: map(1, 2) });
    let doubt = |alone: &mut Alone, request| {
        alone.ask(request);
        alone.reply(connection, request, CallOutcome::NotServing("CLUSTERDOWN".into()));
        let effects = alone.effects();
        let told = Vec::from_iter(effects.iter().filter_map(told));
        assert_eq!((told, dropped(&effects)), (vec![format!("{request} refused: CLUSTERDOWN")], vec![]));
        let ask =
            |effect: &Effect| if let Effect::Discover { connection, .. } = effect { Some(*connection) } else { None };
        Vec::from_iter(effects.iter().filter_map(ask))
    };
    let asked = doubt(&mut alone, 1);
    assert_eq!(asked.len(), 2, "both nodes, at once");
    alone.handle(Event::Discovered { connection: asked[0], found: map(1, 2) });
    assert!(alone.effects().is_empty(), "it is at the same node");

    assert_eq!(doubt(&mut alone, 2), [], "not twice within a second");
    alone.now += 1000;
    let asked = doubt(&mut alone, 3);
    alone.handle(Event::Discovered { connection: asked[0], found: map(2, 1) });
    let effects = alone.effects();
    let told = Vec::from_iter(effects.iter().filter_map(told));
    assert_eq!(told, ["disconnected: its slot is at another node"]);
    assert_eq!(dropped(&effects), [], "other slots may still be there");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Connect { node: Some(node), .. } if node.port == 2)));
}

#[test]
fn nodes_are_asked_about_a_channel_that_its_node_does_not_serve() {
    let (mut alone, first) = Alone::open_cluster();
    let asked = alone.asked_next();
    alone.handle(Event::Discovered { connection: asked[0].0, found: map(1, 2) });
    alone.want(Y);
    let (second, _) = alone.connect();
    alone.effects();
    alone.hear(
        second,
        WireEvent::NotSubscribed { channel: channel(Y), reply: CallOutcome::NotServing("CLUSTERDOWN".into()) },
    );
    let asked = alone.asked();
    alone.handle(Event::Discovered { connection: asked[0].0, found: map(1, 1) });
    let subscribed = |alone: &mut Alone| {
        let (_, effects) = alone.wait();
        effects.into_iter().find_map(|effect| match effect {
            Effect::Subscribe { connection, channel, .. } => Some((connection, channel)),
            _ => None,
        })
    };
    let next = std::iter::repeat_with(|| subscribed(&mut alone)).flatten().next();
    assert_eq!(next, Some((first, channel(Y))));
}
