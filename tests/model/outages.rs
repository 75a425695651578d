//! Waiters over a silence of the server, and over messages that were lost: single cases on the scripts alone. Nothing is
//! lost of the data, so whoever was alive before keeps its turn.

use super::model::clients::Client;
use super::scene::{SECOND, Scene, client, client_with};

fn holder(scene: &mut Scene) -> String {
    scene.found().holder().map(|lease| lease.id.clone()).unwrap_or_default()
}

/// The heartbeat of a client that was not told of anything.
fn beat(scene: &mut Scene, client: &mut Client) {
    let request = client.heartbeat(scene.now);
    scene.execute(&request);
}

/// The server is away from just before the heartbeat of the first waiter. All have the same liveness and no buffer, and
/// the second waiter is the first that is back.
#[test]
fn waiter_whose_heartbeat_fell_into_an_outage_has_the_time_for_another() {
    let without_buffer = |name| {
        let mut client = client_with(name, 30, 9);
        client.terms.buffer = 0;
        client
    };
    let mut scene = Scene::start();
    let [mut first, mut second] = ["first", "second"].map(without_buffer);
    let mut holding = client("holding", 60);
    scene.acquire(&mut holding);
    scene.acquire(&mut first);
    scene.acquire(&mut second);
    scene.pass(100);
    scene.heartbeat(&mut first);
    scene.pass(2990);
    scene.heartbeat(&mut second);

    scene.pass(20_000);
    scene.heartbeat(&mut second);
    scene.release(&mut holding);
    for _ in 0..9 {
        scene.pass(300);
        beat(&mut scene, &mut second);
    }
    assert_eq!(holder(&mut scene), "first.1", "nine tenths of a heartbeat after the outage");
}

/// A client has two waiters, and sends heartbeats as rarely as the more patient one asks for. The message that grants the
/// lock to the other is lost.
#[test]
fn claim_lasts_until_the_next_heartbeat_of_its_client() {
    let mut scene = Scene::start();
    let (mut holding, mut next) = (client("holding", 30), client_with("next", 30, 3));
    let (mut both, patient) = (client_with("both", 1, 3), client_with("both", 1, 30).terms);
    scene.acquire(&mut holding);
    scene.acquire(&mut both);
    both.terms = patient;
    scene.acquire(&mut both);
    scene.acquire(&mut next);
    scene.heartbeat(&mut both);
    let heard = scene.now;
    scene.pass(100);
    scene.release(&mut holding);
    while scene.now < heard + patient.heartbeat - SECOND {
        scene.pass(900);
        beat(&mut scene, &mut next);
    }
    scene.now = heard + patient.heartbeat;
    scene.heartbeat(&mut both);
    assert_eq!((holder(&mut scene).as_str(), both.holds.len()), ("both.1", 1), "10 s after its last heartbeat");
}

/// The server is away between a hand-off and its message. A newcomer, or who waits behind, is the first that is back.
#[test]
fn claim_of_a_waiter_outlives_an_outage() {
    for behind in [None, Some(60), Some(10)] {
        let mut scene = Scene::start();
        let (mut holding, mut waiter) = (client("holding", 30), client("waiter", 30));
        let mut other = client_with("other", 30, behind.unwrap_or(10));
        scene.acquire(&mut holding);
        scene.acquire(&mut waiter);
        if behind.is_some() {
            scene.acquire(&mut other);
        }
        scene.pass(3000);
        scene.heartbeat(&mut waiter);
        if behind.is_some() {
            scene.heartbeat(&mut other);
        }
        scene.pass(3000);
        scene.release(&mut holding);
        scene.pass(25_000);
        match behind {
            Some(_) => drop(scene.heartbeat(&mut other)),
            None => drop(scene.acquire(&mut other)),
        }
        scene.pass(300);
        scene.heartbeat(&mut waiter);
        assert_eq!(holder(&mut scene), "waiter.1", "behind it waits one with a liveness of {behind:?} s");
    }
}

/// A claim whose waiter is dead costs the same as before, with an outage or without.
#[test]
fn claim_of_the_dead_ends() {
    for outage in [0, 25_000] {
        let mut scene = Scene::start();
        let (mut holding, mut dead, mut next) = (client("holding", 30), client("dead", 30), client("next", 30));
        scene.acquire(&mut holding);
        scene.acquire(&mut dead);
        scene.acquire(&mut next);
        scene.release(&mut holding);
        scene.pass(outage);
        let back = scene.now;
        while next.holds.is_empty() && scene.now < back + 60 * SECOND {
            scene.heartbeat(&mut next);
            scene.pass(1000);
        }
        let waited = (scene.now - back) / SECOND;
        assert!(waited <= 14, "liveness, buffer and a heartbeat are 15 s, and it waited for {waited} s");
    }
}

/// The server's clock is set forwards twice, by more than an hour beyond all that is left, and less far the second time.
/// Sessions are over by it, and waiters that were alive before have the time for a heartbeat.
#[test]
fn waiters_outlast_a_clock_that_jumps() {
    let mut scene = Scene::start();
    let mut waiters = ["first", "second", "third"].map(|name| client_with(name, 30, 5));
    let mut holding = client("holding", 30);
    scene.acquire(&mut holding);
    waiters.iter_mut().for_each(|waiter| drop(scene.acquire(waiter)));
    for (first, minutes) in [(0, 180), (1, 90)] {
        scene.pass(1000);
        waiters[first..].iter_mut().for_each(|waiter| drop(scene.heartbeat(waiter)));
        scene.pass(minutes * 60_000);
        scene.heartbeat(&mut waiters[2]);
        assert_eq!(holder(&mut scene), format!("{}.1", waiters[first].name), "after {minutes} minutes");
        scene.pass(1000);
        scene.heartbeat(&mut waiters[first]);
        scene.renew(&mut waiters[first]);
    }
}
