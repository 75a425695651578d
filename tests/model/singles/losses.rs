//! Single cases of leases over a loss of data.

use super::super::{Memory, NONE_IS_MISSING, Request, Seat};
use super::{
    Checked, Driver, LONG, MINUTE, SEVERAL, TERMS, TIME, Terms, acquire, break_by_force, expect, heartbeat, holder,
    leave, recovery_ends, release, renewal, with,
};

// The lease of a.1 was ended by force before b.1 had the lock, and a.1 was not told.
pub(super) fn a_later_lease(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let first = driver.run(TIME, 100, &with("a.1", LONG, Memory::default(), Seat::default()))?.answer;
    driver.run(TIME + 1, 100, &break_by_force(first.seat().token))?;
    let second = driver.run(TIME + 2, 100, &with("b.1", LONG, Memory::default(), Seat::default()))?.answer;
    let memory = driver.run(TIME + 3, 100, &acquire("c.1"))?.answer.memory();
    driver.flush_all();
    recovery_ends(&driver.run(TIME + 4, 100, &renewal("a.1", &first, LONG))?, TIME + 4 + 3 * TERMS.heartbeat)?;
    recovery_ends(&driver.run(TIME + 5, 100, &with("c.1", TERMS, memory, Seat::default()))?, TIME + 4 + LONG.lease)?;
    // That one comes back, and the earlier one ends.
    let back = driver.run(TIME + 6, 100, &renewal("b.1", &second, LONG))?;
    expect("it was", back.answer.word.as_str(), "renewed")?;
    expect("the holder is", holder(&back.found.lock), Some("b.1"))
}

pub(super) fn an_operator_ends_a_recovery(driver: &mut Driver) -> Checked {
    driver.flush_all();
    driver.run(TIME, 100, &with("a.1", LONG, Memory::default(), Seat::default()))?;
    let memory = driver.run(TIME + 1, 100, &acquire("c.1"))?.answer.memory();
    driver.flush_all();
    for id in ["c.1", "c.2"] {
        driver.run(TIME + 2, 100, &with(id, TERMS, memory, Seat::default()))?;
        let ended = driver.run(TIME + 2, 100, &break_by_force(0))?;
        expect("it was", ended.answer.word.as_str(), "ended")?;
        expect("what is missing", ended.found.lock.state.sole, NONE_IS_MISSING)?;
        recovery_ends(&ended, TIME + 2 + 3 * TERMS.heartbeat)?;
    }
    Ok(())
}

// A stranger has a lock that nobody may hold beside it.
pub(super) fn a_lease_that_does_not_fit(driver: &mut Driver) -> Checked {
    for (stranger, word) in [(TERMS, "lost"), (SEVERAL, "renewed")] {
        driver.flush_all();
        let [_, second] =
            ["a.1", "b.1"].map(|id| driver.run(TIME, 100, &with(id, SEVERAL, Memory::default(), Seat::default())));
        let second = second?.answer;
        expect("the slot", second.seat().slot, 1)?;
        driver.flush_all();
        driver.run(TIME + 100, 100, &with("c.1", stranger, Memory::default(), Seat::default()))?;
        let answer = driver.run(TIME + 101, 100, &renewal("b.1", &second, SEVERAL))?.answer;
        expect("it was", answer.word.as_str(), word)?;
    }
    Ok(())
}

// A stranger was granted the lock after the loss, and has released it.
pub(super) fn a_later_grant(driver: &mut Driver) -> Checked {
    for (terms, word) in [(TERMS, "lost"), (SEVERAL, "renewed")] {
        driver.flush_all();
        let first = driver.run(TIME, 100, &with("a.1", terms, Memory::default(), Seat::default()))?.answer;
        driver.flush_all();
        driver.run(TIME + 100, 100, &with("b.1", terms, Memory::default(), Seat::default()))?;
        driver.run(TIME + 101, 100, &release("b.1"))?;
        let answer = driver.run(TIME + 102, 100, &renewal("a.1", &first, terms))?.answer;
        expect("it was", answer.word.as_str(), word)?;
    }
    Ok(())
}

pub(super) fn a_queue_is_left(driver: &mut Driver) -> Checked {
    driver.flush_all();
    for id in ["a.1", "b.1", "c.1"] {
        driver.run(TIME, 100, &with(id, SEVERAL, Memory::default(), Seat::default()))?;
    }
    driver.expire("lock");
    let stranger = driver.run(TIME + 1, 100, &with("d.1", TERMS, Memory::default(), Seat::default()))?;
    expect("it was", stranger.answer.word.as_str(), "queued")?;
    recovery_ends(&stranger, TIME + 1 + 3 * TERMS.heartbeat)
}

// After two losses, when nobody who is back knows of a grant.
pub(super) fn what_has_no_seat(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let memory = Memory { epoch: TIME - 1, stamp: TIME - 1, token: 0, longest: LONG.lease, pace: TERMS.heartbeat };
    let queued = driver.run(TIME, 100, &with("c.1", TERMS, memory, Seat::default()))?;
    expect("it was", queued.answer.word.as_str(), "queued")?;
    // Somebody may have been granted the lock.
    recovery_ends(&queued, TIME + LONG.lease)?;
    let repeated = driver.run(TIME + 1, 100, &release("a.1"))?;
    expect("it was", repeated.answer.word.as_str(), "unknown")?;
    let renewal = Request::Renew { id: "a.1".into(), seat: Seat::default(), left: 5, terms: SEVERAL, memory };
    expect("it was", driver.run(TIME + 2, 100, &renewal)?.answer.word.as_str(), "lost")
}

// Its heartbeats have become slower since it was told of the others'.
pub(super) fn the_first_to_return_is_the_slowest(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let terms = Terms { lease: 1_000_000, ..TERMS };
    let memory = Memory { epoch: TIME - 1, stamp: TIME - 1, token: 0, longest: terms.lease, pace: 100_000 };
    let opens = driver.run(TIME, 100, &with("c.1", terms, memory, Seat::default()))?;
    recovery_ends(&opens, TIME + 3 * TERMS.heartbeat)
}

// The later of two leases comes back from a client that has forgotten the rest, and is given back.
pub(super) fn a_seat_without_a_memory(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let first = driver.run(TIME, 100, &with("a.1", LONG, Memory::default(), Seat::default()))?.answer;
    driver.run(TIME + 1, 100, &break_by_force(first.seat().token))?;
    let second = driver.run(TIME + 2, 100, &with("b.1", LONG, Memory::default(), Seat::default()))?.answer;
    driver.flush_all();
    driver.run(TIME + 3, 100, &with("c.1", TERMS, first.memory(), Seat::default()))?;
    let (id, seat, memory) = ("b.1".to_owned(), second.seat(), Memory::default());
    let back = driver.run(TIME + 4, 100, &Request::Renew { id, seat, left: 5, terms: LONG, memory })?;
    expect("it was", back.answer.word.as_str(), "renewed")?;
    driver.run(TIME + 5, 100, &release("b.1"))?;
    let late = driver.run(TIME + 6, 100, &renewal("a.1", &first, LONG))?;
    expect("it was", late.answer.word.as_str(), "lost")
}

/// A lock that was granted twice, and what its clients know.
pub(super) fn calm(driver: &mut Driver) -> Result<Memory, String> {
    driver.flush_all();
    let mut memory = Memory::default();
    for (at, id) in [(0, "a.1"), (10, "a.2")] {
        driver.run(TIME + at, 100, &acquire(id))?;
        memory = driver.run(TIME + at + 1, 100, &release(id))?.answer.memory();
    }
    let state = driver.found().lock.state;
    expect("the lock is calm", state.calm, true)?;
    Ok(memory)
}

// The state is one from before later grants.
pub(super) fn a_calm_lock_that_is_older(driver: &mut Driver) -> Checked {
    let known = calm(driver)?;
    for memory in
        [Memory { stamp: TIME + 1_000, token: TIME + 1_000, ..known }, Memory { epoch: known.epoch - 1, ..known }]
    {
        calm(driver)?;
        let answer = driver.run(TIME + 20, 100, &with("b.1", TERMS, memory, Seat::default()))?.answer;
        expect("it was", answer.word.as_str(), "queued")?;
        // So it is if the one who has the lease gives it back.
        calm(driver)?;
        let seat = driver.run(TIME + 20, 100, &with("a.3", TERMS, known, Seat::default()))?.answer.seat();
        let back = Request::Release { id: "a.3".into(), seat, memory };
        let state = driver.run(TIME + 21, 100, &back)?.found.lock.state;
        expect("a recovery is open", state.recover_until() > state.seen, true)?;
    }
    Ok(())
}

pub(super) fn a_waiter_returns_to_a_calm_lock(driver: &mut Driver) -> Checked {
    let known = calm(driver)?;
    let seat = Seat { epoch: known.epoch, ticket: TIME + 1, most: 1, ..Seat::default() };
    let granted = driver.run(TIME + 20, 100, &with("b.1", TERMS, known, seat))?.answer;
    expect("the ticket", (granted.word.as_str(), granted.seat().ticket), ("granted", TIME + 1))
}

pub(super) fn a_history_of_a_calm_lock(driver: &mut Driver) -> Checked {
    if testkit::run::version() < (6, 2) {
        return Ok(());
    }
    calm(driver)?;
    let seen = driver.run(TIME + 20, 100, &acquire("b.1"))?.found.lock.state.seen;
    let state = driver.run(TIME + 21, 100, &Request::History { switch: Some(true), count: 0 })?.found.lock.state;
    expect("the lock clock", state.seen, seen)?;
    let lock = driver.run(TIME + 22, 100, &release("b.1"))?.found.lock;
    expect("it is calm", lock.state.calm, false)?;
    expect("it has recorded", lock.history.map(|history| history.count), Some(1))
}

// The lease is over, so this is a new one, whose entry says what was asked for now.
pub(super) fn a_calm_lock_again(driver: &mut Driver) -> Checked {
    let known = calm(driver)?;
    driver.run(TIME + 20, 100, &acquire("a.3"))?;
    let later = TIME + 21 + TERMS.lease;
    driver.run(later, 100, &with("a.3", SEVERAL, known, Seat::default()))?;
    let entry = driver.found().lock.entries.remove("a.3").unwrap_or_default();
    expect("its most", entry.most, SEVERAL.most)
}

// Two clients come back that know of later grants, and try.
pub(super) fn a_recovery_is_not_calm(driver: &mut Driver) -> Checked {
    let known = calm(driver)?;
    for (id, later) in [("b.1", TIME + 1_000), ("c.1", TIME + 2_000)] {
        let memory = Memory { stamp: later, token: later, ..known };
        let (id, seat) = (id.to_owned(), Seat::default());
        let tries = Request::Acquire { id, room: 0, claim: false, terms: TERMS, memory, seat };
        driver.run(TIME + 20, 100, &tries)?;
    }
    let state = driver.found().lock.state;
    expect("stamp, and whether it is calm", (state.stamp, state.calm), (state.token, false))
}

// A stranger got the lock after a loss, and a slow client that returned opened a recovery.
pub(super) fn found_over_in_a_recovery(driver: &mut Driver) -> Checked {
    const SLOW: Terms = Terms { liveness: 30 * MINUTE, heartbeat: 10 * MINUTE, ..TERMS };
    driver.flush_all();
    let memory = driver.run(TIME, 100, &with("a.1", SLOW, Memory::default(), Seat::default()))?.answer.memory();
    driver.flush_all();
    let granted = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
    driver.run(TIME + 2, 100, &with("a.2", SLOW, memory, Seat::default()))?;
    driver.run(TIME + 3, 100, &leave(&["a.2"]))?;
    let (memory, seat, left) = (granted.memory(), granted.seat(), 5);
    let renewal = Request::Renew { id: "b.1".to_owned(), seat, left, terms: TERMS, memory };
    let found = driver.run(TIME + 2 * MINUTE, 100, &renewal)?.found.lock;
    expect("the lease ends", found.holder().map(|held| held.end), Some(TIME + 2 * MINUTE + TERMS.lease))
}

pub(super) fn a_broken_lease_is_released(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let granted = driver.run(TIME, 100, &with("a.1", LONG, Memory::default(), Seat::default()))?.answer;
    let (id, memory, seat) = ("a.1".to_owned(), granted.memory(), granted.seat());
    driver.flush_all();
    let renewal = Request::Renew { id: id.clone(), seat, left: LONG.lease, terms: LONG, memory };
    let memory = driver.run(TIME + 1, 100, &renewal)?.answer.memory();
    driver.run(TIME + 2, 100, &Request::Break { token: seat.token, force: false })?;
    let released = driver.run(TIME + 3, 100, &Request::Release { id, seat, memory })?;
    recovery_ends(&released, TIME + 1 + 3 * TERMS.heartbeat)
}

pub(super) fn the_slowest_of_a_partial_loss(driver: &mut Driver) -> Checked {
    const SLOW: Terms = Terms { liveness: 30 * MINUTE, heartbeat: 10 * MINUTE, ..TERMS };
    driver.flush_all();
    driver.run(TIME, 100, &with("a.1", SLOW, Memory::default(), Seat::default()))?;
    driver.run(TIME, 100, &with("b.1", SLOW, Memory::default(), Seat::default()))?;
    driver.expire("waiters");
    recovery_ends(&driver.run(TIME + 2 * MINUTE, 100, &heartbeat("b", &["b.1"]))?, TIME + 32 * MINUTE)
}

// The places had their time when the only lease comes back, and is given back.
pub(super) fn a_grant_ends_a_recovery(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let first = driver.run(TIME, 100, &with("a.1", LONG, Memory::default(), Seat::default()))?.answer;
    let waits = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
    driver.flush_all();
    driver.run(TIME + 2, 100, &with("b.1", TERMS, waits.memory(), waits.seat()))?;
    for beats in 1..=4 {
        driver.run(TIME + 2 + beats * TERMS.heartbeat, 100, &heartbeat("b", &["b.1"]))?;
    }
    let (id, seat, memory) = ("a.1".to_owned(), first.seat(), first.memory());
    let at = TIME + 3 + 4 * TERMS.heartbeat;
    let lock = driver.run(at, 100, &Request::Release { id, seat, memory })?.found.lock;
    expect("the holder is", holder(&lock), Some("b.1"))?;
    expect("the waits", (lock.state.wait_places, lock.state.wait_leases), (0, 0))
}

// A stranger got the lock after the loss. An operator breaks its lease, which ends in the recovery.
pub(super) fn a_broken_lease_that_is_over(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let memory = driver.run(TIME, 100, &with("a.1", LONG, Memory::default(), Seat::default()))?.answer.memory();
    driver.flush_all();
    let granted = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
    let opens = Request::Heartbeat { client: "a".into(), terms: TERMS, ids: vec!["a.2".into()], memory };
    driver.run(TIME + 2, 100, &opens)?;
    driver.run(TIME + 3, 100, &Request::Break { token: granted.seat().token, force: false })?;
    let (id, seat, memory) = ("b.1".to_owned(), granted.seat(), granted.memory());
    let renewal = Request::Renew { id, seat, left: 5, terms: TERMS, memory };
    expect("it was", driver.run(TIME + 2 * MINUTE, 100, &renewal)?.answer.word.as_str(), "lost")
}

// The first time there were sessions that are longer than each lease.
pub(super) fn a_key_is_missing_twice(driver: &mut Driver) -> Checked {
    const PATIENT: Terms = Terms { lease: MINUTE, liveness: 60 * MINUTE, buffer: 0, heartbeat: 1_000_000, most: 1 };
    driver.flush_all();
    for id in ["a.1", "b.1"] {
        driver.run(TIME, 100, &with(id, PATIENT, Memory::default(), Seat::default()))?;
    }
    driver.expire("waiters");
    recovery_ends(&driver.run(TIME + 1, 100, &acquire("c.1"))?, TIME + 60 * MINUTE)?;
    driver.expire("waiters");
    recovery_ends(&driver.run(TIME + 2, 100, &acquire("c.2"))?, TIME + 1 + 60 * MINUTE)
}

// Its client has very slow heartbeats. What is told of the longest lease is believed.
pub(super) fn a_claim_of_sixty_days(driver: &mut Driver) -> Checked {
    const DAY: u64 = 24 * 60 * MINUTE;
    const SLOW: Terms = Terms { lease: MINUTE, liveness: 30 * DAY, buffer: 30 * DAY, heartbeat: 20 * DAY, most: 5 };
    driver.flush_all();
    driver.run(TIME, 100, &acquire("a.1"))?;
    driver.run(TIME + 1, 100, &with("b.1", SLOW, Memory::default(), Seat::default()))?;
    driver.run(TIME + 2, 100, &release("a.1"))?;
    let memory = driver.run(TIME + 3, 100, &with("c.1", SLOW, Memory::default(), Seat::default()))?.answer.memory();
    let answer = driver.run(TIME + 4, 100, &with("c.2", SLOW, memory, Seat::default()))?.answer;
    expect("it was", answer.word.as_str(), "granted")
}
