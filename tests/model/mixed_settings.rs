//! Single cases of clients in one queue whose options differ, or which died.

use super::scene::{SECOND, Scene, client, client_with};

/// The server is away for 15 s and keeps its data. The lock clock stands still meanwhile, so nobody is late; but the
/// waiter whose heartbeats are rare is back first.
#[test]
fn outage_without_a_loss_costs_no_waiter_its_turn() {
    for liveness in [10, 60] {
        let mut scene = Scene::start();
        let mut holder = client("holder", 15);
        let (mut first, mut second) = (client("first", 30), client_with("second", 30, liveness));
        scene.acquire(&mut holder);
        scene.acquire(&mut first);
        scene.acquire(&mut second);
        scene.pass(1000);
        scene.heartbeat(&mut first);
        scene.renew(&mut holder);

        scene.pass(15_000);
        let end = scene.now + 60 * SECOND;
        while first.holds.is_empty() && second.holds.is_empty() && scene.now < end {
            scene.heartbeat(&mut second);
            scene.pass(20);
            scene.heartbeat(&mut first);
            scene.pass(980);
        }
        assert!(second.holds.is_empty(), "the second, with a liveness of {liveness} s, is served first");
        assert_eq!(first.holds.len(), 1);
    }
}

/// The message of a hand-off gets lost. The lease that it tells of is shorter than the waiter's heartbeats are apart.
#[test]
fn lost_message_costs_a_waiter_with_a_short_lease_a_heartbeat_at_most() {
    for lease in [30, 1] {
        let mut scene = Scene::start();
        let (mut holder, mut first) = (client("holder", 30), client("first", lease));
        let mut second = client("second", 3600);
        scene.acquire(&mut holder);
        scene.acquire(&mut first);
        scene.acquire(&mut second);
        scene.heartbeat(&mut first);
        let heartbeat = scene.now + first.terms.heartbeat;
        scene.release(&mut holder);
        while scene.now + SECOND < heartbeat {
            scene.pass(1000);
            scene.heartbeat(&mut second);
        }
        scene.now = heartbeat;
        scene.heartbeat(&mut first);
        assert!(second.holds.is_empty(), "the second is served before the first, whose lease is {lease} s");
        assert_eq!(first.holds.len(), 1);
    }
}

/// Holder and waiter died ten hours ago. The lease ended eight hours ago.
#[test]
fn newcomer_does_not_wait_for_a_lease_that_ended_long_ago() {
    let mut scene = Scene::start();
    scene.acquire(&mut client("holder", 2 * 3600));
    scene.acquire(&mut client("waiter", 30));
    scene.pass(10 * 3_600_000);
    let (mut newcomer, came) = (client("newcomer", 30), scene.now);
    scene.acquire(&mut newcomer);
    while newcomer.holds.is_empty() && scene.now < came + 3 * 3600 * SECOND {
        scene.pass(3000);
        scene.heartbeat(&mut newcomer);
    }
    let waited = (scene.now - came) / SECOND;
    assert!(waited <= 60, "it waited for {waited} s");
}

/// A queue for one waiter. The one that it has died an hour ago, and the holder lives.
#[test]
fn dead_waiters_do_not_fill_a_queue() {
    let (mut scene, mut holder) = (Scene::start(), client("holder", 30));
    scene.acquire(&mut holder);
    scene.acquire(&mut client("waiter", 30));
    for _ in 0..360 {
        scene.pass(10_000);
        scene.renew(&mut holder);
    }
    let answer = scene.acquire_in(&mut client("newcomer", 30), 1);
    assert_eq!((answer.word.as_str(), answer.number("waiting")), ("queued", Some(1)));
}

/// Two outages, the second a little shorter. The lock clock hardly stops, because the heartbeats of one waiter are rare.
#[test]
fn second_outage_costs_no_waiter_its_turn_either() {
    let mut scene = Scene::start();
    let (mut holder, mut first) = (client("holder", 60), client_with("first", 30, 1));
    let mut second = client_with("second", 30, 86_400);
    scene.acquire(&mut holder);
    scene.acquire(&mut first);
    scene.acquire(&mut second);
    for outage in [20_000, 15_000] {
        for _ in 0..60 {
            scene.pass(300);
            scene.heartbeat(&mut first);
            scene.renew(&mut holder);
        }
        scene.pass(outage);
    }
    scene.release(&mut holder);
    scene.heartbeat(&mut second);
    assert!(second.holds.is_empty(), "the second is served first");
    scene.heartbeat(&mut first);
    assert_eq!(first.holds.len(), 1);
}
