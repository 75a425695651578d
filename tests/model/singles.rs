//! Single cases of what random walks do not make, or seldom: long rows of the dead, texts of another form, keys of another
//! kind, and requests at moments that follow from several others.

mod losses;
mod several;
mod stories;
mod tags;
mod texts;
mod unread;

use super::driver::{Driver, Outcome, encode};
use super::walk::Checked;
use super::{Answer, Lock, Memory, Request, Seat, Terms, UNBOUNDED};

const TIME: u64 = 1_700_000_000_000_000;
const TERMS: Terms =
    Terms { lease: 60_000_000, liveness: 10_000_000, buffer: 1_000_000, heartbeat: 3_000_000, most: 1 };

/// What the case shows, and the case.
type Single = (&'static str, fn(&mut Driver) -> Checked);

/// All single cases, by what they show.
pub const SINGLES: [Single; 69] = [
    ("a story: all data is lost", stories::all_data_is_lost),
    ("a story: a replica is behind", stories::a_replica_is_behind),
    ("a story: a claim that was not handed out", stories::a_claim_is_not_handed_out),
    ("a story: slots come back", stories::slots_come_back),
    ("a story: a writer becomes a reader", stories::a_writer_becomes_a_reader),
    ("a waiter in touch is not overtaken after a loss", stories::a_waiter_in_touch_is_not_overtaken),
    ("a window does not outlast the last session", stories::a_window_does_not_outlast_the_last_session),
    ("the pace is that of who outlasts a silence, too", stories::the_pace_is_that_of_who_outlasts_a_silence),
    ("whoever stands behind the dead is next", behind_the_dead),
    ("an id of another form is refused", ids_of_another_form),
    ("what a client sends in another form is refused", texts::texts_of_another_form),
    ("times of which replies could not tell are refused", texts::times_of_no_use),
    ("numbers that no script gave are not believed", texts::numbers_of_nobody),
    ("another layout is refused", another_layout),
    ("what a later version adds is passed over and kept", later_additions),
    ("what a later version adds to a lease is kept", longer_records),
    ("a queue of another type is found before the first write", a_queue_of_another_type),
    ("the clock is held until an hour after all that is left", a_silence_of_hours),
    ("a lease that is found over is renewed only by its own seat, and while its holder has time left", found_over),
    ("a lease that is found over in a recovery is renewed, too", losses::found_over_in_a_recovery),
    ("a lease that came back and is broken ends the wait for it", losses::a_broken_lease_is_released),
    ("a recovery of a partial loss gives the slowest its time", losses::the_slowest_of_a_partial_loss),
    ("a recovery waits for leases again if somebody knows of a later one", losses::a_later_lease),
    ("a recovery that an operator has ended does not wait for leases again", losses::an_operator_ends_a_recovery),
    ("a lease comes back only where it fits beside those that were granted later", losses::a_lease_that_does_not_fit),
    ("a lease beside which nobody may hold is over after a later grant", losses::a_later_grant),
    ("in one slot the later lease stands", several::in_one_slot_the_later_lease_stands),
    ("a lease comes back beside as many as all want", several::a_lease_comes_back_beside_as_many_as_all_want),
    ("of those that hold the later ones are looked at first", several::the_later_ones_are_looked_at_first),
    ("slots are freed in their order", several::slots_are_freed_in_their_order),
    ("who takes its turn by asking has the terms that it asks for", several::who_takes_its_turn_by_asking),
    ("a lease that is over keeps none out", several::a_lease_that_is_over_keeps_none_out),
    ("an id has one lease", several::an_id_has_one_lease),
    ("a renewal raises most", several::a_renewal_raises_most),
    (
        "a lease of before a rollback lasts for what is left of it",
        several::a_lease_of_before_a_rollback_comes_back_for_what_is_left_of_it,
    ),
    ("what an operator decided stands", several::what_an_operator_decided_stands),
    ("a tag without its lease is a lease that is over", tags::a_tag_without_its_lease),
    ("the end of one tag and the beginning of the next are no tag", tags::a_tag_across_two_slots),
    ("of two ids with one tag each has its own lease", tags::two_ids_of_one_tag),
    ("no tag is that of a free slot", tags::no_tag_is_that_of_a_free_slot),
    ("a lease comes back beside one that has its tag", unread::a_lease_comes_back_beside_one_that_has_its_tag),
    ("a lease comes back to a slot beside its own other lease", unread::a_lease_comes_back_beside_its_own_other_one),
    ("a place that comes back reads no leases", unread::a_place_that_comes_back),
    ("a lease that is back, or was of this epoch, reads no others", unread::a_lease_that_is_back),
    ("a lease that is named twice is told once", several::a_lease_that_is_named_twice_is_told_once),
    ("no lease comes back for more than there may be", several::no_lease_comes_back_for_more_than_there_may_be),
    ("a renewal that confirms a claim sets its end", several::a_renewal_that_confirms_sets_the_end),
    ("a lease is back of which no memory tells", several::a_lease_is_back_of_which_no_memory_tells),
    ("who is not believed is told who holds", several::who_is_not_believed_is_told_who_holds),
    ("sixteen holders are told to a try, and pages of any size to who looks", several::holders_are_told_in_pages),
    (
        "a lease is recorded although its id is granted another",
        several::a_lease_is_recorded_although_its_id_is_granted_another,
    ),
    ("a queue that is left shows that the rest was lost", losses::a_queue_is_left),
    ("a release or a renewal without a seat brings no lease back", losses::what_has_no_seat),
    ("a grant by which a recovery ends is the end of its waits", losses::a_grant_ends_a_recovery),
    ("a lease that was broken and is over does not come back", losses::a_broken_lease_that_is_over),
    ("a key that is missing twice is waited for as long as the first time", losses::a_key_is_missing_twice),
    ("no claim is longer than a lease may be", losses::a_claim_of_sixty_days),
    ("a recovery waits for the client that opens it", losses::the_first_to_return_is_the_slowest),
    ("what a seat without a memory tells of a grant is known", losses::a_seat_without_a_memory),
    ("whoever knows of a loss is not granted a calm lock", losses::a_calm_lock_that_is_older),
    ("a waiter returns to a calm lock with its ticket", losses::a_waiter_returns_to_a_calm_lock),
    ("a calm lock has a history from when it is switched on", losses::a_history_of_a_calm_lock),
    ("an id that takes a calm lock again has what it asked for last", losses::a_calm_lock_again),
    ("a lock is not calm in a recovery", losses::a_recovery_is_not_calm),
    ("a waiter that tries is granted one lease", a_waiter_that_tries),
    ("a seat proves a loss of which its memory does not know", a_seat_proves_a_loss),
    ("of two leases with one token the one that is back first stays", two_of_one_token),
    ("a later seat makes no place later", a_later_seat),
    ("a memory is kept for less time than an idle lock", a_memory_is_kept),
];

fn acquire(id: &str) -> Request {
    let (memory, seat) = (Memory::default(), Seat::default());
    Request::Acquire { id: id.to_owned(), room: UNBOUNDED, claim: false, terms: TERMS, memory, seat }
}

fn renew(id: &str) -> Request {
    let (memory, seat) = (Memory::default(), Seat { epoch: 1, ticket: 1, token: 1, slot: 0, most: 1 });
    Request::Renew { id: id.to_owned(), seat, left: 0, terms: TERMS, memory }
}

fn release(id: &str) -> Request {
    Request::Release { id: id.to_owned(), seat: Seat::default(), memory: Memory::default() }
}

fn heartbeat(client: &str, ids: &[&str]) -> Request {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Request::Heartbeat { client: client.to_owned(), terms: TERMS, ids, memory: Memory::default() }
}

fn leave(ids: &[&str]) -> Request {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Request::Leave { ids, memory: Memory::default() }
}

fn holder(lock: &Lock) -> Option<&str> {
    lock.holder().map(|lease| lease.id.as_str())
}

fn queue(driver: &mut Driver, ids: &[&str]) -> Checked {
    driver.flush_all();
    ids.iter().try_for_each(|id| driver.run(TIME, 100, &acquire(id)).map(|_| ()))
}

/// The request must fail with this error and leave everything as it is.
fn refused(driver: &mut Driver, request: &Request, error: &str) -> Checked {
    let before = driver.stored();
    match driver.refusal(TIME + 1, request) {
        Some(message) if message.contains(error) => {}
        other => return Err(format!("{request:?} was to fail with {error}: {other:?}")),
    }
    if driver.stored() == before { Ok(()) } else { Err(format!("{request:?} was refused and wrote something")) }
}

// There are more dead waiters in a row than random walks make: scripts read heads in pages.
fn behind_the_dead(driver: &mut Driver) -> Checked {
    for dead in 0..12 {
        let mut ids = vec!["holder.1".to_owned()];
        ids.extend((1..=dead).map(|n| format!("dead.{n}")));
        ids.extend(["first.1".to_owned(), "second.1".to_owned()]);
        queue(driver, &ids.iter().map(String::as_str).collect::<Vec<_>>())?;
        for (seconds, client) in [4, 8, 12].into_iter().flat_map(|at| [(at, "first"), (at, "second")]) {
            driver.run(TIME + seconds * 1_000_000, 100, &heartbeat(client, &[&format!("{client}.1")]))?;
        }
        let found = driver.run(TIME + 12_000_000, 100, &release("holder.1"))?.found.lock;
        if holder(&found) != Some("first.1") || found.queue.len() != 1 {
            return Err(format!("behind {dead} who are dead: {found:?}"));
        }
    }
    Ok(())
}

// Ids are names of fields in a hash, so an id of another form could be taken for another field.
fn ids_of_another_form(driver: &mut Driver) -> Checked {
    const BAD: &str = "an id must be CLIENT.NUMBER";
    queue(driver, &["a.1", "a.2", "b.1"])?;
    for id in ["", ".", "a", "a.", ".1", "a.x", "a.1x", "a.b.1", "a.1 "] {
        for request in [acquire(id), renew(id), release(id), leave(&[id]), leave(&["a.2", id]), heartbeat("a", &[id])] {
            refused(driver, &request, BAD)?;
        }
    }
    // Also one that is a byte too long, or does not fit into the two bytes of its length.
    let of_length = |length: usize| (format!("{}.1", "a".repeat(length - 2)), "a".repeat(length - 2));
    for (long, client) in [1001, (1 << 16) + 2].map(of_length) {
        for request in [acquire(&long), renew(&long), release(&long), leave(&[&long]), heartbeat(&client, &[&long])] {
            refused(driver, &request, BAD)?;
        }
    }
    let (longest, client) = of_length(1000);
    for request in [acquire(&longest), heartbeat(&client, &[&longest]), renew(&longest), release(&longest)] {
        expect("the refusal of the longest id", driver.refusal(TIME + 1, &request), None)?;
    }
    refused(driver, &heartbeat("a", &["a.2", "b.1"]), BAD)?;
    refused(driver, &heartbeat("", &[".1"]), BAD)?;
    refused(driver, &heartbeat("a.b", &["a.b.1"]), BAD)
}

fn another_layout(driver: &mut Driver) -> Checked {
    // The version, the mark of a form that only later versions know, and states that are cut off, also of a calm lock.
    for (is_calm, edited) in [
        (false, "string.char(9, 0) .. string.sub(state, 3)"),
        (false, "string.sub(state, 1, 1) .. string.char(2) .. string.sub(state, 3)"),
        (false, "string.sub(state, 1, 198)"),
        (true, "string.sub(state, 1, 75)"),
    ] {
        queue(driver, &["a.1", "a.2"])?;
        if is_calm {
            losses::calm(driver)?;
        }
        driver.edit(&format!(
            "local state = redis.call('HGET', KEYS[1], '')
            redis.call('HSET', KEYS[1], '', {edited})"
        ));
        let inspect = Request::Inspect { after: 0, count: 1, tell_from: 0, tell_most: 1 };
        let by_force = Request::Break { token: TIME, force: true };
        let theirs = [acquire("a.3"), renew("a.1"), release("a.1"), leave(&["a.2"]), heartbeat("a", &["a.2"])];
        theirs
            .into_iter()
            .chain([inspect, by_force])
            .try_for_each(|request| refused(driver, &request, "OTHERLAYOUT"))?;
    }
    Ok(())
}

// Requests are longer than the scripts know, and so is the state.
fn later_additions(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1"])?;
    driver.edit("redis.call('HSET', KEYS[1], '', redis.call('HGET', KEYS[1], '') .. 'more')");
    let queued = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
    let (name, mut longer) = encode(&with("b.1", TERMS, queued.memory(), queued.seat()));
    longer[1..4].iter_mut().for_each(|text| text.extend(b"more"));
    expect("the refusal is", driver.refusal_of(TIME + 2, (name, longer.clone())), None)?;
    let after = driver.run(TIME + 3, 100, &release("a.1"))?.found.lock;
    expect("the holder is", holder(&after), Some("b.1"))?;
    let fields = driver.stored().0;
    let field = |name: &str| fields.get(&Some(name.as_bytes().to_vec())).cloned().flatten().unwrap_or_default();
    expect("the entry is kept as it came", field("b.1"), longer[3].clone())?;
    expect("the state is kept longer", field("").ends_with(b"b.1more"), true)
}

// So is the record of a lease, as long as the lease lasts.
fn longer_records(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let take = |id| with(id, SEVERAL, Memory::default(), Seat::default());
    let [first, second] = ["a.1", "b.1"].map(|id| driver.run(TIME, 100, &take(id)).map(|outcome| outcome.answer));
    driver.edit(
        "local slot = '#' .. struct.pack('<H', 1)
        redis.call('HSET', KEYS[1], slot, redis.call('HGET', KEYS[1], slot) .. 'more')",
    );
    driver.run(TIME + 1, 100, &renewal("b.1", &second?, SEVERAL))?;
    driver.run(TIME + 2, 100, &renewal("a.1", &first?, SEVERAL))?;
    let field = |driver: &mut Driver| driver.stored().0.get(&Some(b"#\x01\0".to_vec())).cloned().flatten();
    let ends = |record: Option<Vec<u8>>| record.unwrap_or_default().ends_with(b"b.1more");
    expect("the record is kept longer", ends(field(driver)), true)
}

fn a_queue_of_another_type(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1"])?;
    driver.edit("redis.call('SET', KEYS[2], 'something else')");
    refused(driver, &acquire("b.1"), "WRONGTYPE")
}

const MINUTE: u64 = 60_000_000;
const LONG: Terms = Terms { lease: 120 * MINUTE, ..TERMS };

fn with(id: &str, terms: Terms, memory: Memory, seat: Seat) -> Request {
    Request::Acquire { id: id.to_owned(), room: UNBOUNDED, claim: false, terms, memory, seat }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Checked {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} and not {wanted:?}")) }
}

// Nothing is heard for 90 minutes. A lease or a recovery of two hours is left, or only sessions that were over long ago.
fn a_silence_of_hours(driver: &mut Driver) -> Checked {
    let (held, let_go) = (2 * TERMS.heartbeat, 90 * MINUTE);
    for (holder, forgotten, moved) in [(LONG, false, held), (LONG, true, held), (TERMS, false, let_go)] {
        driver.flush_all();
        let memory = driver.run(TIME, 100, &with("a.1", holder, Memory::default(), Seat::default()))?.answer.memory();
        if forgotten {
            driver.flush_all();
        }
        let known = if forgotten { memory } else { Memory::default() };
        driver.run(TIME, 100, &with("b.1", TERMS, known, Seat::default()))?;
        let state = driver.run(TIME + 90 * MINUTE, 100, &heartbeat("c", &["c.1"]))?.found.lock.state;
        expect("the lock clock moved", state.seen - TIME, moved)?;
    }
    Ok(())
}

// The lease of a.1 ends in the script of its own renewal.
fn found_over(driver: &mut Driver) -> Checked {
    // How much older the token of the seat is, what is left for the holder, and whether the lease was broken.
    let cases = [(0, 1, false, "renewed"), (0, 0, false, "lost"), (1, 1, false, "lost"), (0, 1, true, "lost")];
    for (older, left, broken, word) in cases {
        driver.flush_all();
        let granted = driver.run(TIME, 100, &acquire("a.1"))?.answer;
        let (memory, seat) = (granted.memory(), granted.seat());
        if broken {
            driver.run(TIME, 100, &Request::Break { token: seat.token, force: false })?;
        }
        let seat = Seat { token: seat.token - older, ..seat };
        let renewal = Request::Renew { id: "a.1".to_owned(), seat, left, terms: LONG, memory };
        let after = driver.run(TIME + 2 * MINUTE, 100, &renewal)?;
        expect("it was", after.answer.word.as_str(), word)?;
        let ends = (word == "renewed").then_some((TIME + 2 * MINUTE + LONG.lease, LONG.lease));
        let found = &after.found.lock;
        expect("end, longest", found.holder().map(|held| (held.end, found.state.longest)), ends)?;
    }
    // After another script has ended it, it does not come back.
    driver.flush_all();
    let granted = driver.run(TIME, 100, &acquire("a.1"))?.answer;
    let (memory, seat) = (granted.memory(), granted.seat());
    driver.run(TIME + 2 * MINUTE, 100, &release("b.1"))?;
    let renewal = Request::Renew { id: "a.1".to_owned(), seat, left: 1, terms: TERMS, memory };
    expect("it was", driver.run(TIME + 2 * MINUTE, 100, &renewal)?.answer.word.as_str(), "lost")
}

fn renewal(id: &str, granted: &Answer, terms: Terms) -> Request {
    let (id, memory, seat) = (id.to_owned(), granted.memory(), granted.seat());
    Request::Renew { id, seat, left: terms.lease / 2, terms, memory }
}

fn break_by_force(token: u64) -> Request {
    Request::Break { token, force: true }
}

/// By what is kept of the recovery, and by what the client is told.
fn recovery_ends(turn: &Outcome, at: u64) -> Checked {
    let state = &turn.found.lock.state;
    expect("the recovery ends", state.recover_until(), at)?;
    expect("what is told of its end", turn.answer.number("recover_left_us"), Some(at - state.seen))
}

const SEVERAL: Terms = Terms { most: 2, ..LONG };

// Room was made just now, by two leases that are over.
fn a_waiter_that_tries(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let terms = Terms { most: 2, ..TERMS };
    for id in ["a.1", "b.1", "c.1"] {
        driver.run(TIME, 100, &with(id, terms, Memory::default(), Seat::default()))?;
    }
    for seconds in (5..60).step_by(5) {
        driver.run(TIME + seconds * 1_000_000, 100, &heartbeat("c", &["c.1"]))?;
    }
    let (memory, seat) = (Memory::default(), Seat::default());
    let a_try = Request::Acquire { id: "c.1".to_owned(), room: 0, claim: false, terms, memory, seat };
    let found = driver.run(TIME + 61_000_000, 100, &a_try)?.found.lock;
    expect("leases", found.leases.iter().map(|lease| lease.id.as_str()).collect::<Vec<_>>(), vec!["c.1"])
}

// The seat came with a reply whose memory was not taken, because another reply had told of an older epoch.
fn a_seat_proves_a_loss(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1"])?;
    let (older, later) = (TIME - 1, TIME + 10);
    let memory = Memory { epoch: older, stamp: older, token: 0, longest: 0, pace: 0 };
    let epoch = driver.found().lock.state.epoch;
    let request = with("b.1", TERMS, memory, Seat { epoch, ticket: later, ..Seat::default() });
    let found = driver.run(TIME + 1, 100, &request)?.found.lock;
    expect("the holder is", holder(&found), None)
}

// The clock was set back with the loss, so that a token was given twice.
fn two_of_one_token(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let granted = driver.run(TIME, 100, &acquire("a.1"))?.answer;
    let memory = driver.run(TIME + 1, 100, &acquire("c.1"))?.answer.memory();
    driver.flush_all();
    let again = driver.run(TIME, 100, &acquire("b.1"))?.answer;
    driver.run(TIME + 2, 100, &with("c.1", TERMS, memory, Seat::default()))?;
    expect("the tokens", granted.seat().token, again.seat().token)?;
    for (id, granted, word) in [("a.1", granted, "renewed"), ("b.1", again, "lost")] {
        let (id, memory, seat) = (id.to_owned(), granted.memory(), granted.seat());
        let renewal = Request::Renew { id, seat, left: 5, terms: TERMS, memory };
        expect("it was", driver.run(TIME + 3, 100, &renewal)?.answer.word.as_str(), word)?;
    }
    Ok(())
}

fn a_later_seat(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1"])?;
    let queued = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
    let seat = driver.run(TIME + 2, 100, &acquire("c.1"))?.answer.seat();
    let again = driver.run(TIME + 3, 100, &with("b.1", TERMS, queued.memory(), seat))?.answer;
    expect("the place is", again.seat(), queued.seat())
}

fn a_memory_is_kept(driver: &mut Driver) -> Checked {
    for (terms, kept) in [(TERMS, MINUTE), (LONG, 50 * MINUTE)] {
        driver.flush_all();
        let granted = driver.run(TIME, 100, &with("a.1", terms, Memory::default(), Seat::default()))?.answer;
        expect("it is kept for", granted.number("keep_us"), Some(kept))?;
    }
    Ok(())
}
