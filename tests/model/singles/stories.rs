//! Stories of losses, told with their times: what a reader of `lua/README.md` can say in advance.

use super::super::{Memory, Request, Seat, Terms, UNBOUNDED};
use super::{Answer, Checked, Driver, TIME, acquire, expect, heartbeat, holder, recovery_ends, release, renewal, with};

const SECOND: u64 = 1_000_000;
const STORY: Terms =
    Terms { lease: 30 * SECOND, liveness: 10 * SECOND, buffer: 2 * SECOND, heartbeat: 3_300_000, most: 1 };
const THREE: Terms = Terms { most: 3, ..STORY };
const READER: Terms = Terms { most: 1000, ..STORY };

/// The heartbeat of a client whose terms are those, with what it remembers.
fn beat(id: &str, terms: Terms, memory: Memory) -> Request {
    let client = id.split('.').next().unwrap().to_owned();
    Request::Heartbeat { client, terms, ids: vec![id.to_owned()], memory }
}

fn returns(id: &str, terms: Terms, known: &Answer) -> Request {
    Request::Acquire { id: id.into(), room: UNBOUNDED, claim: false, terms, memory: known.memory(), seat: known.seat() }
}

fn give_back(id: &str, known: &Answer) -> Request {
    Request::Release { id: id.to_owned(), seat: known.seat(), memory: known.memory() }
}

fn first(terms: Terms, ids: &[&str], driver: &mut Driver) -> Result<Vec<Answer>, String> {
    driver.flush_all();
    let asks = |(at, id): (u64, &&str)| {
        Ok(driver.run(TIME + at, 100, &with(id, terms, Memory::default(), Seat::default()))?.answer)
    };
    (0..).zip(ids).map(asks).collect()
}

// A holds, B and C wait. After FLUSHALL C comes first, then B, and last A, which releases.
pub(super) fn all_data_is_lost(driver: &mut Driver) -> Checked {
    let known = first(STORY, &["a.1", "b.1", "c.1"], driver)?;
    let [a, b, c] = &known[..] else { unreachable!("three") };
    driver.flush_all();
    let start = TIME + 1_000;
    let found = driver.run(start, 100, &beat("c.1", STORY, c.memory()))?;
    expect("it was", found.answer.word.as_str(), "unknown")?;
    recovery_ends(&found, start + 30 * SECOND)?;
    driver.run(start, 100, &returns("c.1", STORY, c))?;
    driver.run(start + SECOND, 100, &returns("b.1", STORY, b))?;
    let order = driver.found().lock.queue.into_iter().map(|(_, id)| id).collect::<Vec<_>>();
    expect("the queue is", order, vec!["b.1".to_owned(), "c.1".to_owned()])?;
    let back = driver.run(start + 2 * SECOND, 100, &renewal("a.1", a, STORY))?;
    expect("it was", back.answer.word.as_str(), "renewed")?;
    recovery_ends(&back, start + 9_900_000)?;
    let lock = driver.run(start + 4 * SECOND, 100, &give_back("a.1", &back.answer))?.found.lock;
    expect("in the recovery the holder is", holder(&lock), None)?;
    driver.run(start + 7 * SECOND, 100, &beat("c.1", STORY, back.answer.memory()))?;
    let lock = driver.run(start + 9_900_000, 100, &beat("b.1", STORY, back.answer.memory()))?.found.lock;
    expect("the holder is", holder(&lock), Some("b.1"))?;
    let lock = driver.run(start + 10 * SECOND, 100, &release("b.1"))?.found.lock;
    expect("the next is", holder(&lock), Some("c.1"))
}

// The promoted replica still knows A as holder, with B and C behind. B was granted the lock since. A stranger queues
// first, so stamps do not show the loss, but B's token does.
pub(super) fn a_replica_is_behind(driver: &mut Driver) -> Checked {
    let known = first(STORY, &["a.1", "b.1", "c.1"], driver)?;
    let a = &known[0];
    let token = TIME + 10;
    let memory = Memory { stamp: token, token, ..known[2].memory() };
    let seat = Seat { token, ..known[1].seat() };
    let start = TIME + 1_000;
    let stranger = driver.run(start, 100, &acquire("d.1"))?;
    expect("it was", stranger.answer.word.as_str(), "queued")?;
    let renew = |left| Request::Renew { id: "b.1".into(), seat, left, terms: STORY, memory };
    let left = 20 * SECOND;
    let back = driver.run(start + SECOND, 100, &renew(left))?;
    expect("it was", back.answer.word.as_str(), "renewed")?;
    expect("the lease ends", back.found.lock.holder().map(|held| held.end), Some(start + SECOND + left))?;
    recovery_ends(&back, start + SECOND + 9_900_000)?;
    let order = back.found.lock.queue.iter().map(|(_, id)| id.clone()).collect::<Vec<_>>();
    expect("the queue is", order, vec!["c.1".to_owned(), "d.1".to_owned()])?;
    let c = driver.run(start + 2 * SECOND, 100, &beat("c.1", STORY, memory))?.answer;
    expect("it was", c.word.as_str(), "alive")?;
    let lost = driver.run(start + 2 * SECOND, 100, &renewal("a.1", a, STORY))?.answer;
    expect("it was", lost.word.as_str(), "lost")
}

// The same, but B has not handed out its claim: nothing is left of it, so it waits again, at its ticket. Its token is
// known now, if only by its seat: so the recovery waits for leases, and A's is over.
pub(super) fn a_claim_is_not_handed_out(driver: &mut Driver) -> Checked {
    let known = first(STORY, &["a.1", "b.1", "c.1"], driver)?;
    let token = TIME + 10;
    let memory = Memory { stamp: token, ..known[2].memory() };
    let seat = Seat { token, ..known[1].seat() };
    let claim = Request::Renew { id: "b.1".into(), seat, left: 0, terms: STORY, memory };
    let told = driver.run(TIME + 1_000, 100, &claim)?;
    expect("it was", told.answer.word.as_str(), "lost")?;
    expect("its place", told.found.lock.ticket("b.1"), Some(known[1].seat().ticket))?;
    recovery_ends(&told, TIME + 1_000 + 30 * SECOND)?;
    let a = driver.run(TIME + 1_001, 100, &renewal("a.1", &known[0], STORY))?.answer;
    expect("it was", a.word.as_str(), "lost")
}

// A semaphore of three: the holders in slots 0 and 2 are back, that in slot 1 had died.
pub(super) fn slots_come_back(driver: &mut Driver) -> Checked {
    let known = first(THREE, &["a.1", "b.1", "c.1", "w.1"], driver)?;
    let alone = driver.run(TIME + 9, 100, &with("x.1", STORY, Memory::default(), Seat::default()))?.answer;
    driver.flush_all();
    let start = TIME + 1_000;
    for (id, of) in [("a.1", &known[0]), ("c.1", &known[2])] {
        let back = driver.run(start, 100, &renewal(id, of, THREE))?;
        expect("it was", back.answer.word.as_str(), "renewed")?;
        recovery_ends(&back, start + 30 * SECOND)?;
    }
    driver.run(start + SECOND, 100, &returns("w.1", THREE, &known[3]))?;
    driver.run(start + SECOND, 100, &returns("x.1", STORY, &alone))?;
    let mut at = start;
    while at < start + 27 * SECOND {
        at += 3 * SECOND;
        for (id, of) in [("a.1", &known[0]), ("c.1", &known[2])] {
            driver.run(at, 100, &renewal(id, of, THREE))?;
        }
        for (id, terms) in [("w.1", THREE), ("x.1", STORY)] {
            driver.run(at, 100, &beat(id, terms, alone.memory()))?;
        }
        expect("holders", driver.found().lock.leases.len(), 2)?;
    }
    let lock = driver.run(start + 30 * SECOND, 100, &beat("w.1", THREE, alone.memory()))?.found.lock;
    let slots = lock.leases.iter().map(|lease| (lease.slot, lease.id.as_str(), lease.claim)).collect::<Vec<_>>();
    expect("the slots are", slots, vec![(0, "a.1", false), (1, "w.1", true), (2, "c.1", false)])?;
    for (id, next) in [("a.1", Some("w.1")), ("w.1", Some("c.1")), ("c.1", Some("x.1"))] {
        let lock = driver.run(start + 30 * SECOND, 100, &release(id))?.found.lock;
        expect("the holder is", holder(&lock), next)?;
    }
    Ok(())
}

// Readers hold, a writer waits, a reader behind it. The writer downgrades.
pub(super) fn a_writer_becomes_a_reader(driver: &mut Driver) -> Checked {
    first(READER, &["r.1", "r.2"], driver)?;
    for (id, terms) in [("w.1", STORY), ("r.3", READER), ("v.1", STORY)] {
        let answer = driver.run(TIME + 5, 100, &with(id, terms, Memory::default(), Seat::default()))?.answer;
        expect("it was", answer.word.as_str(), "queued")?;
    }
    driver.run(TIME + 6, 100, &release("r.1"))?;
    let lock = driver.run(TIME + 7, 100, &release("r.2"))?.found.lock;
    expect("the holder is", holder(&lock), Some("w.1"))?;
    let lease = lock.holder().cloned().unwrap_or_default();
    let seat = Seat { epoch: lock.state.epoch, ticket: lease.ticket, token: lease.token, slot: 0, most: 1 };
    let (id, memory) = ("w.1".to_owned(), Memory::default());
    let downgrade = Request::Renew { id, seat, left: SECOND, terms: READER, memory };
    let lock = driver.run(TIME + 8, 100, &downgrade)?.found.lock;
    let ids = lock.leases.iter().map(|lease| lease.id.as_str()).collect::<Vec<_>>();
    expect("the holders are", ids, vec!["w.1", "r.3"])
}

const QUICK: Terms = Terms { heartbeat: 50_000, ..STORY };

// A, the slowest, has left when its session ends. B is slower than Q, and was heard all the time.
pub(super) fn a_waiter_in_touch_is_not_overtaken(driver: &mut Driver) -> Checked {
    const SLOW: Terms = Terms { liveness: 2_100_000, buffer: SECOND, heartbeat: 700_000, ..STORY };
    const USUAL: Terms = Terms { heartbeat: 500_000, ..STORY };
    driver.flush_all();
    let held = driver.run(TIME, 100, &with("h.1", QUICK, Memory::default(), Seat::default()))?.answer;
    let mut known = vec![];
    for (at, (id, terms)) in (1..).zip([("a.1", SLOW), ("b.1", USUAL), ("q.1", QUICK)]) {
        known.push(driver.run(TIME + at, 100, &with(id, terms, held.memory(), Seat::default()))?.answer);
    }
    driver.run(TIME + 4, 100, &Request::Leave { ids: vec!["a.1".into()], memory: held.memory() })?;
    for second in 1..=3 {
        driver.run(TIME + second * SECOND, 100, &beat("b.1", USUAL, known[1].memory()))?;
    }
    let quick = driver.run(TIME + 3_200_000, 100, &beat("q.1", QUICK, Memory::default()))?.answer.memory();
    let held = driver.run(TIME + 3_250_000, 100, &renewal("h.1", &held, QUICK))?.answer;
    driver.flush_all();
    let start = TIME + 3_300_000;
    driver.run(start, 100, &beat("q.1", QUICK, quick))?;
    driver.run(start, 100, &with("q.1", QUICK, quick, known[2].seat()))?;
    driver.run(start + 1, 100, &give_back("h.1", &held))?;
    for beats in 1..=4 {
        driver.run(start + beats * QUICK.heartbeat, 100, &beat("q.1", QUICK, quick))?;
    }
    expect("before B's heartbeat the holder is", holder(&driver.found().lock), None)?;
    driver.run(start + 350_000, 100, &returns("b.1", USUAL, &known[1]))?;
    for half in 1..=5 {
        driver.run(start + half * SECOND / 2, 100, &beat("b.1", USUAL, known[1].memory()))?;
    }
    expect("the holder is", holder(&driver.found().lock), Some("b.1"))
}

// A, the slowest, has left. The server was away for longer than B's session lasts, which outlasts that.
pub(super) fn the_pace_is_that_of_who_outlasts_a_silence(driver: &mut Driver) -> Checked {
    const SLOWEST: Terms = Terms { liveness: 30 * SECOND, buffer: SECOND, heartbeat: 10 * SECOND, ..STORY };
    const USUAL: Terms = Terms { liveness: 1_500_000, buffer: SECOND, heartbeat: 500_000, ..STORY };
    const SHORT: Terms = Terms { heartbeat: 50_000, ..USUAL };
    driver.flush_all();
    driver.run(TIME, 100, &acquire("h.1"))?;
    for (id, terms) in [("a.1", SLOWEST), ("b.1", USUAL), ("q.1", SHORT)] {
        driver.run(TIME + 1, 100, &with(id, terms, Memory::default(), Seat::default()))?;
    }
    driver.run(TIME + 2, 100, &super::leave(&["a.1"]))?;
    for step in 1..=62 {
        driver.run(TIME + step * SECOND / 2, 100, &beat("b.1", USUAL, Memory::default()))?;
        driver.run(TIME + step * SECOND / 2 + 100_000, 100, &beat("q.1", SHORT, Memory::default()))?;
    }
    let state = driver.run(TIME + 90 * SECOND, 100, &beat("q.1", SHORT, Memory::default()))?.found.lock.state;
    expect("the pace covers B's", state.pace >= USUAL.heartbeat, true)?;
    let alive = driver.run(TIME + 90 * SECOND, 100, &heartbeat("b", &["b.1"]))?.answer;
    expect("B is", alive.word.as_str(), "alive")
}

// X, which has left, had a session of days. It was the last, and the lock stays as others leave it.
pub(super) fn a_window_does_not_outlast_the_last_session(driver: &mut Driver) -> Checked {
    const DAYS: Terms = Terms { liveness: 86_400 * SECOND, heartbeat: 28_800 * SECOND, ..STORY };
    driver.flush_all();
    driver.run(TIME, 100, &acquire("h.1"))?;
    driver.run(TIME + 1, 100, &with("x.1", DAYS, Memory::default(), Seat::default()))?;
    driver.run(TIME + 2, 100, &super::leave(&["x.1"]))?;
    driver.run(TIME + 3, 100, &release("h.1"))?;
    driver.run(TIME + SECOND, 100, &acquire("h.2"))?;
    let state =
        driver.run(TIME + SECOND + 1, 100, &with("a.1", STORY, Memory::default(), Seat::default()))?.found.lock.state;
    expect("the pace", state.pace, STORY.heartbeat)?;
    expect("the next window begins", state.pace_turn, TIME + SECOND + 1 + STORY.liveness + STORY.buffer)
}
