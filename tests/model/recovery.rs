//! Single cases of what is promised over a loss of data.

use super::model::{Request, clients::Client, driver::Saved};
use super::scene::{SECOND, Scene, client, ms};

/// For as long as the holder believes in its lease, which it renewed at that time, the waiter is not granted the lock.
fn waits_for_the_holder(scene: &mut Scene, waiter: &mut Client, holder: &mut Client, renewed: u64) {
    while scene.now < renewed + 40 * SECOND {
        scene.pass(1000);
        scene.heartbeat(waiter);
        let (after, left) = ((scene.now - renewed) / SECOND, (holder.holds[0].until - scene.now) / SECOND);
        assert!(waiter.holds.is_empty(), "granted after {after} s, and the holder believes for {left} s more");
    }
    assert_eq!(scene.renew(holder).word, "renewed");
}

/// The waiter hears of its grant and confirms it. Returns when.
fn takes_its_turn(scene: &mut Scene, waiter: &mut Client) -> u64 {
    scene.heartbeat(waiter);
    assert_eq!(scene.renew(waiter).word, "renewed");
    scene.now
}

/// The release was executed and its answer lost. Before it is repeated the lock is granted again, and the server loses
/// its data. The holder, which was connected all the time, renews every third of its lease.
#[test]
fn release_repeated_after_a_flush_leaves_the_lock_to_its_holder() {
    let (mut scene, mut first, mut holder) = (Scene::start(), client("first", 30), client("holder", 120));
    scene.acquire(&mut first);
    scene.acquire(&mut holder);
    scene.renew(&mut first);
    let release = first.release(scene.now, 0);
    scene.execute(&release);
    let renewed = takes_its_turn(&mut scene, &mut holder);

    scene.pass(1000);
    scene.flush();
    let again = first.give_back(scene.now, 0);
    scene.ask(&mut first, &again);
    let mut newcomer = client("newcomer", 30);
    scene.acquire(&mut newcomer);
    waits_for_the_holder(&mut scene, &mut newcomer, &mut holder, renewed);
}

/// A state in which the holder still waits, and when the holder renewed its lease after that. The waiter has heard of it.
fn saved_before_a_grant(
    scene: &mut Scene,
    first: &mut Client,
    holder: &mut Client,
    waiter: &mut Client,
) -> (Saved, u64) {
    scene.acquire(first);
    scene.acquire(holder);
    scene.acquire(waiter);
    let saved = scene.save();
    scene.release(first);
    let renewed = takes_its_turn(scene, holder);
    scene.pass(1000);
    scene.heartbeat(waiter);
    (saved, renewed)
}

/// The server is rolled back to before the last grant, and a stranger queues: stamps are as high as they were. A waiter
/// that has heard of that grant returns.
#[test]
fn waiter_that_knows_of_a_later_grant_proves_a_rollback() {
    let (mut scene, mut first) = (Scene::start(), client("first", 9));
    let (mut holder, mut waiter) = (client("holder", 120), client("waiter", 30));
    let (saved, renewed) = saved_before_a_grant(&mut scene, &mut first, &mut holder, &mut waiter);

    scene.restore(&saved);
    scene.acquire(&mut client("stranger", 30));
    waits_for_the_holder(&mut scene, &mut waiter, &mut holder, renewed);
}

/// The server is rolled back to a lease from before the last grant, and a release of it comes late. The waiter has not
/// heard of that grant, only of how long the holder's lease would be.
#[test]
fn late_release_after_a_rollback_leaves_the_lock_to_its_holder() {
    let (mut scene, mut first, mut passer) = (Scene::start(), client("first", 30), client("passer", 30));
    let (mut holder, mut waiter) = (client("holder", 120), client("waiter", 30));
    scene.acquire(&mut first);
    let saved = scene.save();
    scene.acquire(&mut passer);
    scene.renew(&mut first);
    let leave = passer.leave(scene.now, 0, 1, false);
    scene.ask(&mut passer, &leave);
    scene.acquire(&mut holder);
    scene.acquire(&mut waiter);
    let release = first.release(scene.now, 0);
    scene.execute(&release);
    let renewed = takes_its_turn(&mut scene, &mut holder);

    scene.restore(&saved);
    let again = first.give_back(scene.now, 0);
    scene.ask(&mut first, &again);
    waits_for_the_holder(&mut scene, &mut waiter, &mut holder, renewed);
}

/// The connection of a client breaks, so it asks over another one. Its first request is executed only after a loss.
#[test]
fn late_acquire_after_a_flush_costs_the_waiter_no_place() {
    let (mut scene, mut first, mut second) = (Scene::start(), client("first", 30), client("second", 30));
    scene.acquire(&mut client("holder", 30));
    let late = first.acquire(scene.now, super::model::UNBOUNDED, false);
    let again = first.enter(scene.now, 0);
    scene.ask(&mut first, &again);
    let ticket = first.waiters[0].seat.ticket;
    scene.pass(1000);
    scene.acquire(&mut second);

    scene.pass(1000);
    scene.flush();
    scene.heartbeat(&mut second);
    scene.execute(&late);
    scene.heartbeat(&mut first);
    let queue: Vec<_> = scene.found().queue.into_iter().map(|(ticket, id)| (id, ticket)).collect();
    assert_eq!(queue[0], ("first.1".to_owned(), ticket), "the queue is {queue:?}");
}

/// The server is rolled back to a state in which the holder still waited, and a waiter opens the recovery.
#[test]
fn holder_whose_old_place_came_back_is_told_that_it_released() {
    let (mut scene, mut first) = (Scene::start(), client("first", 30));
    let (mut holder, mut waiter) = (client("holder", 30), client("waiter", 30));
    let (saved, _) = saved_before_a_grant(&mut scene, &mut first, &mut holder, &mut waiter);

    scene.restore(&saved);
    scene.heartbeat(&mut waiter);
    assert!(holder.holds[0].until > scene.now, "the holder has its lease");
    assert_eq!(scene.release(&mut holder).word, "released");
}

/// An operator has broken the lease that the recovery waits for, and its holder complies.
#[test]
fn release_of_a_broken_lease_ends_the_wait_for_it() {
    for broken in [false, true] {
        let (mut scene, mut holder, mut waiter) = (Scene::start(), client("holder", 300), client("waiter", 30));
        scene.acquire(&mut holder);
        scene.acquire(&mut waiter);
        scene.pass(1000);
        scene.flush();
        scene.heartbeat(&mut waiter);
        assert_eq!(scene.renew(&mut holder).word, "renewed");
        if broken {
            scene.execute(&Request::Break { token: holder.holds[0].seat.token, force: false });
        }
        // What is left is the time in which other waiters return.
        let left = ms(&scene.release(&mut holder), "recover_left_us");
        assert!(left <= 10_000, "if it was broken ({broken}): {left} ms are left of the recovery");
    }
}

/// Nothing is lost: a laptop that waits is put to sleep, the idle lock expires, and others use it before it wakes up.
#[test]
fn waiter_that_slept_until_its_lock_expired_opens_no_recovery() {
    let (mut scene, mut holder, mut sleeper) = (Scene::start(), client("holder", 30), client("sleeper", 30));
    scene.acquire(&mut holder);
    scene.acquire(&mut sleeper);
    scene.acquire(&mut sleeper);
    scene.pass(400_000);
    let mut other = client("other", 30);
    while other.holds.is_empty() {
        scene.acquire_in(&mut other, 0);
        scene.pass(400_000);
    }
    scene.renew(&mut other);
    scene.pass(2 * 86_400_000);
    scene.expire();
    scene.acquire(&mut client("user", 30));
    scene.acquire(&mut client("next", 30));
    let left = ms(&scene.heartbeat(&mut sleeper), "recover_left_us");
    assert_eq!(left, 0, "nothing was lost, and a recovery takes {left} ms");

    // It is a stranger no longer: with the data that is lost now it has lost its place, and shows that.
    scene.pass(1000);
    scene.flush();
    let left = ms(&scene.heartbeat(&mut sleeper), "recover_left_us");
    assert!(left > 0, "a loss went unnoticed");
}

/// A waiter asked for a lease of 30 days and left again. An hour later, on a lock that was never idle, no lease is longer
/// than 30 seconds.
#[test]
fn recovery_waits_for_leases_that_are_in_use() {
    let mut scene = Scene::start();
    let (mut holder, mut next) = (client("c0", 30), client("c1", 30));
    scene.acquire(&mut holder);
    scene.acquire(&mut next);
    let mut passer = client("passer", 30 * 86_400);
    scene.acquire(&mut passer);
    let leave = passer.leave(scene.now, 0, 1, false);
    scene.ask(&mut passer, &leave);
    for n in 2..402 {
        let mut newcomer = client(&format!("c{n}"), 30);
        scene.acquire(&mut newcomer);
        for _ in 0..3 {
            scene.pass(3000);
            scene.renew(&mut holder);
            scene.heartbeat(&mut next);
            scene.heartbeat(&mut newcomer);
        }
        scene.release(&mut holder);
        scene.heartbeat(&mut next);
        scene.renew(&mut next);
        (holder, next) = (next, newcomer);
    }
    // The holder dies with the data, so nobody can tell that its lease is short.
    drop(holder);
    scene.flush();
    let left = ms(&scene.heartbeat(&mut next), "recover_left_us") / 1000;
    assert!(left <= 3600, "a recovery takes {} days", left / 86_400);
}

/// The server has forgotten the last renewal, and so ended the lease. The holder renews before anybody else is granted
/// the lock.
#[test]
fn lease_whose_renewal_was_forgotten_is_renewed_while_nobody_has_the_lock() {
    let (mut scene, mut holder) = (Scene::start(), client("holder", 30));
    scene.acquire(&mut holder);
    let saved = scene.save();
    scene.pass(20_000);
    scene.renew(&mut holder);
    scene.restore(&saved);
    scene.pass(15_000);
    assert!(holder.holds[0].until > scene.now, "the holder has its lease");
    assert_eq!(scene.renew(&mut holder).word, "renewed");
}
