//! Decisions in a cluster: where each slot is looked for, followed and opened.

use super::*;
use crate::keeper::machine::RequestId;
use crate::keeper::routes::{Effect, Event};
use crate::protocol::Refusal;
use crate::server::{CallOutcome, Facts, Node, WireEvent};

#[test]
fn slot_of_a_cluster_has_a_channel_of_its_own_before_its_route_opens() {
    let mut alone = Alone::cluster(map(1, 2));
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ready { connection, facts: facts("run") });
    let effects = alone.effects();
    assert!(effects.iter().filter_map(told).next().is_none(), "nobody listens yet");
    assert!(effects.iter().any(|effect| {
        matches!(effect, Effect::Subscribe { connection: l, channel: c, sharded: true } if *l == connection && *c == channel("x"))
    }));
    alone.confirm(connection, Y);
    assert!(alone.told().is_empty(), "that is another's channel");
    alone.confirm(connection, "x");
    assert_eq!(alone.told(), ["connected"]);
    alone.hear(connection, WireEvent::Push(push(Y)));
    let slot_of_push = alone.effects().into_iter().find_map(|effect| match effect {
        Effect::Tell { slot, .. } => Some(slot),
        _ => None,
    });
    assert_eq!(slot_of_push, Some(alone.routes.slot(Y)));
}

#[test]
fn channels_of_the_last_connection_do_not_count_for_the_next() {
    let (mut alone, connection) = Alone::open_cluster();
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    alone.effects();
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Ready { connection, facts: Facts { shards: false, ..facts("run") } });
    let effects = alone.effects();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Subscribe { sharded: false, .. })), "{effects:?}");
    assert!(effects.iter().filter_map(told).next().is_none());
}

#[test]
fn silence_about_a_subscription_ends_the_connection() {
    let mut alone = Alone::cluster(map(1, 2));
    let (connection, _) = alone.connect();
    let before = alone.now;
    let effects = loop {
        let (_, effects) = alone.wait();
        if !dropped(&effects).is_empty() {
            break effects;
        }
    };
    assert_eq!((alone.now - before, dropped(&effects)), (2000, vec![connection]));
}

#[test]
fn pause_before_a_node_is_cut_short_for_another_slot_there() {
    let mut alone = Alone::cluster(map(1, 1));
    for _ in 0..10 {
        alone.refuse(refused());
    }
    alone.effects();
    let before = alone.now;
    alone.want_within(Y, ms(333));
    alone.dialled();
    assert!(alone.now - before <= 84, "{} ms", alone.now - before);
}

#[test]
fn node_is_connected_to_again_while_slots_are_there() {
    for with_slots in [true, false] {
        let (mut alone, first) = Alone::open_cluster();
        alone.ask(1);
        if !with_slots {
            alone.reply(first, 1, moved(2));
            let (second, _) = alone.connect();
            alone.confirm(second, "x");
        }
        alone.handle(Event::Ended { connection: first, cause: "gone".into() });
        let (connection, port, _) = alone.dialled();
        assert_eq!(port, 1, "nobody knows yet whether its slots are elsewhere");
        alone.handle(Event::Failed { connection, error: refused() });
        let mut again = false;
        for _ in 0..20 {
            again |= alone.effects().iter().any(|effect| matches!(effect, Effect::Connect { .. }));
            alone.pass(60_000);
        }
        assert_eq!(again, with_slots);
    }
}

/// An operator may have taken the right to one channel: the other slots of the node are of no concern to that.
#[test]
fn denied_channel_closes_its_own_slot_alone_and_is_asked_for_again_with_pauses() {
    let (mut alone, connection) = Alone::open(map(1, 1));
    alone.want(Y);
    alone.effects();
    let denied = || CallOutcome::Result(Err(Refusal::Denied("NOPERM".into())));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        alone.hear(connection, WireEvent::NotSubscribed { channel: channel(Y), reply: denied() });
        let effects = alone.effects();
        assert_eq!(dropped(&effects), [], "the connection stays");
        let told: Vec<_> = effects.iter().filter_map(told).collect();
        assert!(matches!(&told[..], [closed, denied] if closed.contains("NOPERM") && denied.contains("lacks a right")));
        let before = alone.now;
        while !alone.effects().iter().any(|effect| matches!(effect, Effect::Subscribe { .. })) {
            alone.pass(u64::MAX / 2);
        }
        pauses.push(alone.now - before);
    }
    assert!(pauses[0] >= 5 && pauses[7] >= 250, "{pauses:?}");
    assert!(alone.ask(1).is_some(), "the other slot of the node is served");
    alone.confirm(connection, Y);
    assert_eq!(alone.told(), ["connected"]);
}

#[test]
fn moved_slot_is_followed_at_once_and_the_second_time_after_a_search() {
    let (mut alone, first) = Alone::open_cluster();
    alone.ask(1);
    alone.reply(first, 1, moved(2));
    let effects = alone.effects();
    assert_eq!(effects.iter().filter_map(told).collect::<Vec<_>>(), ["disconnected: its slot moved to h:2"]);
    assert_eq!(dropped(&effects), [], "the other slots of the node stay where they are");
    let Some(Effect::Connect { connection: second, node: Some(Node { port: 2, .. }), .. }) = effects.last() else {
        panic!("{effects:?}")
    };
    let second = *second;
    alone.handle(Event::Ready { connection: second, facts: facts("other") });
    alone.effects();
    // The second node sends back to the first.
    alone.hear(second, WireEvent::NotSubscribed { channel: channel("x"), reply: moved(1) });
    let asked = loop {
        let (_, effects) = alone.wait();
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Subscribe { .. })), "{effects:?}");
        if let Some(Effect::Discover { connection, .. }) =
            effects.iter().find(|effect| matches!(effect, Effect::Discover { .. }))
        {
            break *connection;
        }
    };
    alone.handle(Event::Discovered { connection: asked, found: map(2, 2) });
    let effects = alone.effects();
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Subscribe { connection, .. } if *connection == second))
    );
}

/// A request that waits in the socket of the old server must not be executed there when the slot has come back.
#[test]
fn route_opens_at_the_new_server_when_the_old_one_has_answered_everything() {
    let (mut alone, first) = Alone::open_cluster();
    (1..=3).for_each(|request| assert!(alone.ask(request).is_some()));
    alone.reply(first, 1, moved(2));
    let (second, _) = alone.connect();
    alone.confirm(second, "x");
    alone.effects();
    alone.reply(first, 2, moved(2));
    assert!(alone.told().is_empty());
    alone.answer(first, 3);
    alone.confirm(second, "x");
    assert_eq!(alone.told(), ["connected"], "and no answer of before");
    assert_eq!(alone.ask(4), Some((second, false)));
}

#[test]
fn old_server_that_does_not_answer_is_given_up_before_the_new_one_is_used() {
    let (mut alone, first) = Alone::open_cluster();
    (1..=2).for_each(|request| assert!(alone.ask(request).is_some()));
    alone.reply(first, 1, moved(2));
    let (second, _) = alone.connect();
    alone.effects();
    let before = alone.now;
    let effects = loop {
        alone.pass(u64::MAX / 2);
        let effects = alone.effects();
        if !dropped(&effects).is_empty() {
            break effects;
        }
    };
    assert_eq!((alone.now - before, dropped(&effects)), (2000, vec![first]));
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Subscribe { connection, .. } if *connection == second))
    );
    alone.confirm(second, "x");
    assert_eq!(alone.told(), ["connected"]);
}

/// The slot is on its way from the first node to the second, over these two connections; the second has not answered.
fn on_its_way() -> (Alone, ConnectionId, ConnectionId) {
    let (mut alone, first) = Alone::open(map(1, 3));
    alone.ask(1);
    alone.reply(first, 1, CallOutcome::Elsewhere { node: node(2), asking: true });
    let (second, port) = alone.connect();
    assert_eq!(port, 2);
    alone.ask(2);
    alone.reply(first, 2, CallOutcome::Elsewhere { node: node(2), asking: true });
    alone.effects();
    (alone, first, second)
}

#[test]
fn slot_that_has_arrived_does_not_wait_for_what_was_asked_there_before() {
    let (mut alone, first, second) = on_its_way();
    alone.ask(3);
    alone.reply(first, 3, moved(2));
    alone.confirm(second, "x");
    assert_eq!(alone.told(), ["disconnected: its slot moved to h:2", "connected"]);
}

#[test]
fn slot_that_goes_elsewhere_waits_for_what_was_asked_where_it_was_expected() {
    for lost in [true, false] {
        let (mut alone, first, second) = on_its_way();
        alone.ask(3);
        alone.reply(first, 3, moved(3));
        let (third, _) = alone.connect();
        alone.confirm(third, "x");
        let before = alone.now;
        assert_eq!(alone.told(), Vec::<String>::new(), "the second node may still execute a request");
        if lost {
            alone.handle(Event::Ended { connection: second, cause: "gone".into() });
        }
        let mut effects = alone.effects();
        while !effects.iter().any(|effect| told(effect).is_some()) {
            alone.pass(u64::MAX / 2);
            effects.extend(alone.effects());
        }
        assert_eq!(effects.iter().filter_map(told).collect::<Vec<_>>(), ["connected"]);
        assert!(dropped(&effects).contains(&second) && !dropped(&effects).contains(&first), "{effects:?}");
        assert_eq!(alone.now - before, if lost { 0 } else { 2000 });
    }
}

#[test]
fn slot_that_leaves_its_node_is_looked_for() {
    let (mut alone, connection) = Alone::open_cluster();
    alone.effects();
    alone.hear(connection, WireEvent::Unsubscribed(channel("x")));
    assert_eq!(alone.told(), ["disconnected: its slot left the node"]);
    let mut asked = alone.asked();
    while asked.is_empty() {
        alone.pass(u64::MAX / 2);
        asked = alone.asked();
    }
    alone.handle(Event::Discovered { connection: asked[0].0, found: map(2, 2) });
    assert_eq!(alone.connect().1, 2);
}

#[test]
fn slot_on_its_way_is_asked_for_at_the_node_where_it_goes() {
    let (mut alone, first) = Alone::open_cluster();
    let on_its_way = || CallOutcome::Elsewhere { node: node(2), asking: true };
    alone.ask(1);
    alone.reply(first, 1, on_its_way());
    let effects = alone.effects();
    assert_eq!(effects.iter().filter_map(told).next().unwrap(), "1 refused: its slot is moving to another node");
    let connect = effects.iter().find_map(|effect| match effect {
        Effect::Connect { connection, node: Some(node), .. } => Some((*connection, node.port)),
        _ => None,
    });
    let (second, port) = connect.unwrap();
    assert_eq!(port, 2);
    alone.handle(Event::Ready { connection: second, facts: facts("other") });
    alone.ask(2);
    alone.reply(first, 2, on_its_way());
    let sent = alone.effects();
    assert!(
        matches!(&sent[..], [Effect::Write { connection, asking: true, request: RequestId(2), .. }] if *connection == second),
        "{sent:?}"
    );
    alone.reply(second, 2, moved(1));
    assert_eq!(alone.told(), ["2 refused: the node to which its slot moves does not expect it yet"]);
    alone.ask(3);
    alone.reply(first, 3, on_its_way());
    alone.effects();
    alone.handle(Event::Ended { connection: second, cause: "gone".into() });
    assert_eq!(alone.told(), ["3 refused: the node that its slot goes to was lost"]);
}

#[test]
fn node_that_leaves_out_its_host_is_where_it_speaks_from() {
    let (mut alone, connection) = Alone::open_cluster();
    alone.ask(1);
    alone.reply(connection, 1, CallOutcome::Elsewhere { node: Node { host: String::new(), port: 2 }, asking: false });
    assert_eq!(alone.told(), ["disconnected: its slot moved to h:2"]);
    let (mut alone, connection) = Alone::open_cluster();
    alone.ask(1);
    alone.reply(connection, 1, CallOutcome::Elsewhere { node: Node { host: "other".into(), port: 2 }, asking: false });
    assert_eq!(alone.told(), ["disconnected: its slot moved to other:2"]);
}

#[test]
fn nodes_that_the_cluster_named_are_asked_as_well_as_the_seeds() {
    let (mut alone, connection) = Alone::open_cluster();
    alone.effects();
    alone.handle(Event::Ended { connection, cause: "gone".into() });
    let mut ports = Vec::new();
    while ports.len() < 2 {
        ports.extend(alone.asked().into_iter().map(|(_, port, _)| port));
        alone.pass(u64::MAX / 2);
    }
    ports.sort_unstable();
    assert_eq!(ports, [1, 2]);
}

#[test]
fn stranger_at_the_address_of_a_node_says_nothing_of_the_cluster() {
    let mut alone = Alone::cluster(map(1, 2));
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Failed { connection, error: stranger() });
    assert_eq!(alone.told(), [format!("disconnected: {}", stranger())]);
    let (connection, ..) = alone.dialled();
    alone.handle(Event::Failed { connection, error: denied() });
    let told = alone.told();
    assert!(told.contains(&format!("denied: {}", denied())), "its own error does: {told:?}");
}
