//! Single decisions: what is connected, asked and told when, to the millisecond.

use std::time::Duration;

use super::alone::*;
use crate::error::ConnectError;
use crate::keeper::machine::RequestId;
use crate::keeper::routes::{Effect, Event, Facts, Found, Line, Shape};
use crate::protocol::{self, Push, PushKind, Refusal, Secret, Ticket, Token, WireId};
use crate::server::{Node, Reply};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn dropped(effects: &[Effect]) -> Vec<Line> {
    effects.iter().filter_map(|effect| if let Effect::Drop { line } = effect { Some(*line) } else { None }).collect()
}

// ---- one server ----

#[test]
fn route_opens_when_the_connection_is_set_up() {
    let mut alone = Alone::server();
    assert_eq!(alone.routes.next_due(), None, "nobody wants a server yet");
    alone.want("x");
    let (line, ..) = alone.dialled();
    assert_eq!(alone.now, 0, "the first attempt is at once");
    alone.handle(Event::Ready { line, facts: facts("run") });
    assert_eq!(alone.told(), ["connected"]);
    assert_eq!(alone.ask(1), Some((line, false)));
    alone.answer(line, 1);
    assert_eq!(alone.told(), ["1 answered"]);
    alone.want("y");
    assert!(alone.effects().is_empty(), "all locks of a server share one route");
}

#[test]
fn request_over_a_closed_route_is_not_sent() {
    let mut alone = Alone::server();
    alone.want("x");
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
            let (line, ..) = alone.dialled();
            pauses.push(alone.now - before);
            alone.handle(Event::Failed { line, error: refused() });
        }
        assert_eq!(pauses[0], 0);
        assert!((5..=10).contains(&pauses[1]), "{pauses:?}");
        assert!(pauses[8..].iter().all(|pause| (longest / 2..=longest).contains(pause)), "{pauses:?}");
    }
}

/// A lock with a lease of a second must not wait for a pause that a session of ten seconds allows.
#[test]
fn pause_is_cut_short_for_a_lock_that_has_less_patience() {
    let mut alone = Alone::server();
    alone.want_within("x", ms(3333));
    for _ in 0..10 {
        let (line, ..) = alone.dialled();
        alone.handle(Event::Failed { line, error: refused() });
    }
    alone.effects();
    let before = alone.now;
    alone.handle(Event::Patience { slot: 0, patience: ms(333) });
    alone.dialled();
    assert!(alone.now - before <= 84, "{} ms", alone.now - before);
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
    let (line, _) = alone.connect();
    alone.ask(1);
    alone.answer(line, 1);
    alone.handle(Event::Ended { line, cause: "gone".into() });
    assert_eq!(alone.dialled().2.since(at(alone.now)).as_millis(), 1000);
}

#[test]
fn silent_server_is_given_up_and_its_late_connection_is_dropped() {
    let mut alone = Alone::server();
    alone.want("x");
    let (line, ..) = alone.dialled();
    let (waited, effects) = alone.wait();
    assert_eq!((waited, dropped(&effects)), (2000, vec![line]));
    let told: Vec<_> = effects.iter().filter_map(told).collect();
    assert!(told[0].starts_with("disconnected: no Redis server answers at h:1"), "{told:?}");
    alone.handle(Event::Ready { line, facts: facts("run") });
    let effects = alone.effects();
    assert_eq!((effects.len(), dropped(&effects)), (1, vec![line]));
}

#[test]
fn connection_that_ends_is_made_again_and_the_next_one_kills_it() {
    let mut alone = Alone::server();
    alone.want("x");
    let line = alone.serve();
    alone.handle(Event::Ended { line, cause: "gone".into() });
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [line]);
    let told: Vec<_> = effects.iter().filter_map(told).collect();
    assert_eq!(told, ["disconnected: gone"]);
    let connect = effects.iter().find_map(|effect| match effect {
        Effect::Connect { line, previous, channel, .. } => Some((*line, previous.clone(), channel.clone())),
        _ => None,
    });
    let (next, previous, channel) = connect.unwrap();
    assert_eq!((previous, channel.as_deref()), (Vec::from_iter(facts("run").run), Some("fairlock:client:client")));
    assert_ne!(next, line);
    // Reports of the old line change nothing.
    for event in [
        Event::Replied {
            line,
            slot: 0,
            request: RequestId(1),
            call: call(),
            reply: Reply::Result(Ok(protocol::Reply::sample())),
        },
        Event::Pushed { line, push: push("x") },
        Event::Ended { line, cause: "gone".into() },
        Event::Unsubscribed { line, channel: "fairlock:client:client".into() },
    ] {
        alone.handle(event);
        assert!(alone.effects().is_empty());
    }
}

#[test]
fn server_that_a_machine_gives_up_is_connected_to_anew() {
    let mut alone = Alone::server();
    alone.want("x");
    let line = alone.serve();
    alone.handle(Event::GiveUp { slot: 0 });
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [line]);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Connect { .. })));
    alone.handle(Event::GiveUp { slot: 0 });
    assert!(alone.effects().is_empty(), "it is given up already");
}

#[test]
fn read_only_replica_is_no_server() {
    let mut alone = Alone::server();
    alone.want("x");
    let (line, ..) = alone.dialled();
    alone.handle(Event::Ready { line, facts: Facts { read_only: true, ..facts("run") } });
    let told = alone.told();
    assert!(told[0].contains("read-only replica") && told.len() == 1, "{told:?}");
    let (line, ..) = alone.dialled();
    alone.handle(Event::Ready { line, facts: Facts { is_replica: true, ..facts("run") } });
    assert_eq!(alone.told(), ["connected"], "a replica may be told to take writes");
}

#[test]
fn lasting_errors_are_told_and_passing_ones_wait() {
    let mut alone = Alone::server();
    alone.want("x");
    let (line, ..) = alone.dialled();
    alone.handle(Event::Failed { line, error: refused() });
    assert_eq!(alone.told().iter().filter(|told| told.starts_with("denied")).count(), 0);
    let (line, ..) = alone.dialled();
    alone.handle(Event::Failed { line, error: denied() });
    assert_eq!(alone.told().iter().filter(|told| told.starts_with("denied")).count(), 1);
    alone.connect();
    assert_eq!(alone.told(), ["connected"], "an operator has mended it");
}

#[test]
fn node_of_a_cluster_is_no_server_of_its_own() {
    let mut alone = Alone::server();
    alone.want("x");
    let (line, _) = alone.connect();
    alone.ask(1);
    alone.reply(line, 1, moved(2));
    let told = alone.told();
    assert!(told[0].contains("1 failed: it is a node of a cluster"), "{told:?}");
}

fn push(name: &str) -> Push {
    Push {
        kind: PushKind::Grant,
        id: WireId::parse("client.1").unwrap(),
        token: Token::new(5).unwrap(),
        ticket: Ticket::new(5).unwrap(),
        secret: Secret::repeated("s"),
        lock: format!("fairlock:{{{name}}}:lock"),
    }
}

// ---- sentinels ----

#[test]
fn sentinels_are_asked_before_each_attempt() {
    let mut alone = Alone::sentinels(1);
    alone.want("x");
    for master in [7, 8] {
        let (line, port, _) = alone.asked().remove(0);
        assert_eq!(port, 1);
        alone.handle(Event::Found { line, found: Found::Master(node(master)) });
        let (line, port) = alone.connect();
        assert_eq!((port, alone.told()), (master, vec!["connected".into()]));
        alone.ask(1);
        alone.reply(line, 1, Reply::Replica("READONLY".into()));
        assert_eq!(alone.now, 0, "a master that takes no writes is left at once");
    }
}

#[test]
fn replica_that_sentinels_name_is_no_master() {
    let mut alone = Alone::sentinels(1);
    alone.want("x");
    let (line, ..) = alone.asked().remove(0);
    alone.handle(Event::Found { line, found: Found::Master(node(7)) });
    let (line, ..) = alone.dialled();
    alone.handle(Event::Ready { line, facts: Facts { is_replica: true, ..facts("run") } });
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
            if let Effect::Ask { node, by, .. } = effect {
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
    for (line, ..) in alone.asked() {
        alone.handle(Event::Failed { line, error: refused() });
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
        alone.handle(Event::Failed { line: asked[0].0, error: denied() });
        if let Some(error) = second.clone() {
            alone.handle(Event::Failed { line: asked[1].0, error });
        }
        let (waited, effects) = alone.wait();
        let told: Vec<_> = effects.iter().filter_map(told).collect();
        assert!(told[0].contains("WRONGPASS"), "the most telling error is told: {told:?}");
        assert_eq!(told.iter().any(|told| told.starts_with("denied")), denied_at_last, "{second:?}");
        assert_eq!(waited, if second.is_some() { 0 } else { 2000 });
    }
}

// ---- a cluster ----

#[test]
fn slot_of_a_cluster_has_a_channel_of_its_own_before_its_route_opens() {
    let mut alone = Alone::cluster(map(1, 2));
    let (line, ..) = alone.dialled();
    alone.handle(Event::Ready { line, facts: facts("run") });
    let effects = alone.effects();
    assert!(effects.iter().filter_map(told).next().is_none(), "nobody listens yet");
    assert!(effects.iter().any(|effect| {
        matches!(effect, Effect::Subscribe { line: l, channel: c, sharded: true } if *l == line && *c == channel("x"))
    }));
    alone.confirm(line, Y);
    assert!(alone.told().is_empty(), "that is another's channel");
    alone.confirm(line, "x");
    assert_eq!(alone.told(), ["connected"]);
    alone.handle(Event::Pushed { line, push: push(Y) });
    let slot_of_push = alone.effects().into_iter().find_map(|effect| match effect {
        Effect::Tell { slot, .. } => Some(slot),
        _ => None,
    });
    assert_eq!(slot_of_push, Some(alone.routes.slot(Y)));
}

#[test]
fn channels_of_the_last_connection_do_not_count_for_the_next() {
    let (mut alone, line) = Alone::open_cluster();
    alone.handle(Event::Ended { line, cause: "gone".into() });
    alone.effects();
    let (line, ..) = alone.dialled();
    alone.handle(Event::Ready { line, facts: Facts { shards: false, ..facts("run") } });
    let effects = alone.effects();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Subscribe { sharded: false, .. })), "{effects:?}");
    assert!(effects.iter().filter_map(told).next().is_none());
}

#[test]
fn silence_about_a_subscription_ends_the_connection() {
    let mut alone = Alone::cluster(map(1, 2));
    let (line, _) = alone.connect();
    let before = alone.now;
    let effects = loop {
        let (_, effects) = alone.wait();
        if !dropped(&effects).is_empty() {
            break effects;
        }
    };
    assert_eq!((alone.now - before, dropped(&effects)), (2000, vec![line]));
}

/// An operator may have taken the right to one channel: the other slots of the node are of no concern to that.
#[test]
fn denied_channel_closes_its_own_slot_alone_and_is_asked_for_again_with_pauses() {
    let (mut alone, line) = Alone::open(map(1, 1));
    alone.want(Y);
    alone.effects();
    let denied = || Reply::Result(Err(Refusal::Denied("NOPERM".into())));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        alone.handle(Event::NotSubscribed { line, channel: channel(Y), reply: denied() });
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
    alone.confirm(line, Y);
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
    let Some(Effect::Connect { line: second, node: Some(Node { port: 2, .. }), .. }) = effects.last() else {
        panic!("{effects:?}")
    };
    let second = *second;
    alone.handle(Event::Ready { line: second, facts: facts("other") });
    alone.effects();
    // The second node sends back to the first.
    alone.handle(Event::NotSubscribed { line: second, channel: channel("x"), reply: moved(1) });
    let asked = loop {
        let (_, effects) = alone.wait();
        assert!(!effects.iter().any(|effect| matches!(effect, Effect::Subscribe { .. })), "{effects:?}");
        if let Some(Effect::Ask { line, .. }) = effects.iter().find(|effect| matches!(effect, Effect::Ask { .. })) {
            break *line;
        }
    };
    alone.handle(Event::Found { line: asked, found: map(2, 2) });
    let effects = alone.effects();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Subscribe { line, .. } if *line == second)));
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
    alone.confirm(second, "x");
    assert_eq!(alone.told(), ["connected"]);
}

#[test]
fn slot_that_leaves_its_node_is_looked_for() {
    let (mut alone, line) = Alone::open_cluster();
    alone.effects();
    alone.handle(Event::Unsubscribed { line, channel: channel("x") });
    assert_eq!(alone.told(), ["disconnected: its slot left the node"]);
    let mut asked = alone.asked();
    while asked.is_empty() {
        alone.pass(u64::MAX / 2);
        asked = alone.asked();
    }
    alone.handle(Event::Found { line: asked[0].0, found: map(2, 2) });
    assert_eq!(alone.connect().1, 2);
}

#[test]
fn slot_on_its_way_is_asked_for_at_the_node_where_it_goes() {
    let (mut alone, first) = Alone::open_cluster();
    let on_its_way = || Reply::Elsewhere { node: node(2), asking: true };
    alone.ask(1);
    alone.reply(first, 1, on_its_way());
    let effects = alone.effects();
    assert_eq!(effects.iter().filter_map(told).next().unwrap(), "1 refused: its slot is moving to another node");
    let connect = effects.iter().find_map(|effect| match effect {
        Effect::Connect { line, node: Some(node), .. } => Some((*line, node.port)),
        _ => None,
    });
    let (second, port) = connect.unwrap();
    assert_eq!(port, 2);
    alone.handle(Event::Ready { line: second, facts: facts("other") });
    alone.ask(2);
    alone.reply(first, 2, on_its_way());
    let sent = alone.effects();
    assert!(
        matches!(&sent[..], [Effect::Send { line, asking: true, request: RequestId(2), .. }] if *line == second),
        "{sent:?}"
    );
    alone.reply(second, 2, moved(1));
    assert_eq!(alone.told(), ["2 refused: the node to which its slot moves does not expect it yet"]);
    alone.ask(3);
    alone.reply(first, 3, on_its_way());
    alone.effects();
    alone.handle(Event::Ended { line: second, cause: "gone".into() });
    assert_eq!(alone.told(), ["3 refused: the node that its slot goes to was lost"]);
}

#[test]
fn node_that_leaves_out_its_host_is_where_it_speaks_from() {
    let (mut alone, line) = Alone::open_cluster();
    alone.ask(1);
    alone.reply(line, 1, Reply::Elsewhere { node: Node { host: String::new(), port: 2 }, asking: false });
    assert_eq!(alone.told(), ["disconnected: its slot moved to h:2"]);
}

#[test]
fn nodes_that_the_cluster_named_are_asked_beside_the_seeds() {
    let (mut alone, line) = Alone::open_cluster();
    alone.effects();
    alone.handle(Event::Ended { line, cause: "gone".into() });
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
    let (line, ..) = alone.dialled();
    let stranger = ConnectError::NotRedis { address: "h:1".into(), cause: "HTTP".into() };
    alone.handle(Event::Failed { line, error: stranger });
    let told = alone.told();
    assert!(told.iter().all(|told| told.starts_with("disconnected")), "{told:?}");
}

// ---- the first attempt ----

fn first(effects: &[Effect]) -> Option<Result<(), ConnectError>> {
    effects.iter().find_map(|effect| if let Effect::First(result) = effect { Some(result.clone()) } else { None })
}

#[test]
fn first_attempt_tells_its_outcome() {
    let mut alone = Alone::of(Shape::Server("h:1".into()), true);
    let (line, _, by) = alone.dialled();
    assert_eq!(by, at(5000));
    alone.handle(Event::Failed { line, error: refused() });
    assert_eq!(first(&alone.effects()), Some(Err(refused())));
    let mut alone = Alone::of(Shape::Server("h:1".into()), true);
    alone.connect();
    assert_eq!(first(&alone.effects()), Some(Ok(())));
}

#[test]
fn first_attempt_tries_nodes_beside_each_other_within_five_seconds_in_all() {
    let mut alone = Alone::of(Shape::Cluster(vec![node(1)]), true);
    let (line, _, by) = alone.asked().remove(0);
    assert_eq!(by, at(5000));
    alone.now = 1000;
    alone.handle(Event::Found { line, found: map(1, 2) });
    let (one, port, by) = alone.dialled();
    assert_eq!((port, by, alone.now), (1, at(5000), 1000));
    let (two, port, by) = alone.dialled();
    assert_eq!((port, by, alone.now), (2, at(5000), 1250));
    alone.handle(Event::Failed { line: one, error: refused() });
    assert_eq!(first(&alone.effects()), None, "another may answer");
    alone.handle(Event::Ready { line: two, facts: facts("run") });
    assert_eq!(first(&alone.effects()), Some(Ok(())));
}

#[test]
fn first_attempt_fails_when_all_nodes_are_silent_with_the_most_telling_error() {
    let mut alone = Alone::of(Shape::Cluster(vec![node(1)]), true);
    let (line, ..) = alone.asked().remove(0);
    alone.handle(Event::Found { line, found: map(1, 2) });
    let (one, ..) = alone.dialled();
    let stranger = ConnectError::NotRedis { address: "h:1".into(), cause: "HTTP".into() };
    alone.handle(Event::Failed { line: one, error: stranger.clone() });
    let outcome = loop {
        if let Some(outcome) = first(&alone.wait().1) {
            break outcome;
        }
    };
    assert_eq!((alone.now, outcome), (5000, Err(stranger)));
}

#[test]
fn error_of_the_user_ends_the_first_attempt_at_once() {
    let mut alone = Alone::of(Shape::Cluster(vec![node(1)]), true);
    let (line, ..) = alone.asked().remove(0);
    alone.handle(Event::Found { line, found: map(1, 2) });
    let (one, ..) = alone.dialled();
    alone.handle(Event::Failed { line: one, error: denied() });
    assert_eq!((alone.now, first(&alone.effects())), (0, Some(Err(denied()))));
}

// ---- replicas ----

fn replicate(alone: &mut Alone, request: u64, replicas: u32, within: u64) -> Vec<Effect> {
    let keys = call().keys().clone();
    alone.effects();
    alone.handle(Event::Replicate { slot: 0, request: RequestId(request), keys, replicas, within: ms(within) });
    alone.effects()
}

#[test]
fn questions_to_replicas_go_together_over_a_connection_of_their_own() {
    let mut alone = Alone::server();
    alone.want("x");
    alone.connect();
    let effects = replicate(&mut alone, 1, 1, 300);
    let [Effect::Beside { line, by, .. }] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(by, at(1300));
    assert!(replicate(&mut alone, 2, 1, 300).is_empty());
    assert!(replicate(&mut alone, 3, 2, 200).is_empty());
    alone.handle(Event::Ready { line, facts: facts("run") });
    assert!(
        matches!(alone.effects()[..], [Effect::Replicas { line: l, replicas: 1, within, .. }] if l == line && within == ms(300))
    );
    alone.handle(Event::Replicas { line, result: Ok(1) });
    let effects = alone.effects();
    assert_eq!(effects.iter().filter_map(told).collect::<Vec<_>>(), ["1 replicated to 1"]);
    assert!(matches!(effects[1], Effect::Replicas { replicas: 2, within, .. } if within == ms(200)), "{effects:?}");
    alone.handle(Event::Replicas { line, result: Ok(2) });
    assert_eq!(alone.told(), ["2 replicated to 2", "3 replicated to 2"]);
    assert!(matches!(replicate(&mut alone, 4, 1, 300)[..], [Effect::Replicas { line: l, .. }] if l == line));
}

#[test]
fn replicas_of_another_run_do_not_count() {
    let mut alone = Alone::server();
    alone.want("x");
    let (main, _) = alone.connect();
    let [Effect::Beside { line, .. }] = replicate(&mut alone, 1, 1, 300)[..] else { panic!("no second connection") };
    alone.handle(Event::Ready { line, facts: facts("another") });
    let effects = alone.effects();
    assert_eq!(dropped(&effects), [main, line]);
    let told: Vec<_> = effects.iter().filter_map(told).collect();
    assert_eq!(told, ["disconnected: its address leads to another server now"]);
}

#[test]
fn replicas_that_cannot_be_asked_are_a_refusal() {
    let mut alone = Alone::server();
    alone.want("x");
    alone.connect();
    let mut fail = |request: u64, how: &dyn Fn(&mut Alone, Line), cause: &str| {
        let effects = replicate(&mut alone, request, 1, 300);
        let [Effect::Beside { line, .. }] = effects[..] else { panic!("{effects:?}") };
        how(&mut alone, line);
        let (_, effects) = alone.wait();
        let told: Vec<_> = effects.iter().filter_map(told).collect();
        assert!(told[0].starts_with(&format!("{request} not replicated: ")) && told[0].contains(cause), "{told:?}");
        assert_eq!(told.len(), 1);
    };
    fail(1, &|alone, line| alone.handle(Event::Failed { line, error: refused() }), "no Redis server answers");
    fail(2, &|alone, line| alone.handle(Event::Ready { line, facts: Facts { run: None, ..facts("run") } }), "INFO");
    fail(3, &|_, _| {}, "did not answer in time");
    let ready = |alone: &mut Alone, line| {
        alone.handle(Event::Ready { line, facts: facts("run") });
        alone.effects();
    };
    fail(4, &|alone, line| (ready(alone, line), alone.handle(Event::Ended { line, cause: "gone".into() })).1, "gone");
    let rejected = || Err(Refusal::Permanent("what".into()));
    fail(5, &|alone, line| (ready(alone, line), alone.handle(Event::Replicas { line, result: rejected() })).1, "what");
}

#[test]
fn questions_to_replicas_end_with_the_connection_that_they_are_about() {
    let mut alone = Alone::server();
    alone.want("x");
    let (main, _) = alone.connect();
    let [Effect::Beside { line, .. }] = replicate(&mut alone, 1, 1, 300)[..] else { panic!("no second connection") };
    alone.handle(Event::Ended { line: main, cause: "gone".into() });
    assert_eq!(dropped(&alone.effects()), [main, line]);
    alone.connect();
    alone.effects();
    assert!(matches!(replicate(&mut alone, 2, 1, 300)[..], [Effect::Beside { .. }]), "asked anew");
}
