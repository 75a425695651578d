//! Single cases of several leases over a loss of data. Walks seldom make them, so each of their steps is compared with
//! the model, too.

use std::collections::BTreeSet;

use super::super::driver::Saved;
use super::super::{Answer, Lock, MOST, Memory, Request, Seat, Terms, UNBOUNDED, about};
use super::{Checked, Driver, LONG, MINUTE, TERMS, TIME, break_by_force, expect, heartbeat, release, with};

/// The scripts and the model, side by side.
pub(super) struct Both<'a> {
    driver: &'a mut Driver,
    model: Lock,
    pub(super) time: u64,
}

pub(super) fn terms(most: u16) -> Terms {
    Terms { most, ..LONG }
}

impl<'a> Both<'a> {
    pub(super) fn start(driver: &'a mut Driver) -> Self {
        driver.flush_all();
        Self { driver, model: Lock::default(), time: TIME }
    }

    pub(super) fn ask(&mut self, request: &Request) -> Checked<Answer> {
        self.time += 1000;
        let of = about(request.id().unwrap_or_default());
        let (expected, _) = self.model.turn(self.time, request, of, 100, self.driver.queue());
        let outcome = self.driver.run(self.time, 100, request)?;
        if let (Some(found), Some(expected)) = (&outcome.found.lock.history, &mut self.model.history) {
            let rows = |latest: &[Vec<String>]| latest.iter().cloned().collect::<BTreeSet<_>>();
            expect("the history", rows(&found.latest), rows(&expected.latest))?;
            expected.latest.clone_from(&found.latest);
        }
        expect("the answer", &outcome.answer, &expected)?;
        expect("the lock", &outcome.found.lock, &self.model)?;
        Ok(outcome.answer)
    }

    pub(super) fn flush(&mut self) {
        self.driver.flush_all();
        self.model = Lock::default();
    }

    fn save(&mut self) -> (Saved, Lock) {
        (self.driver.save(), self.model.clone())
    }

    fn restore(&mut self, (saved, model): &(Saved, Lock)) {
        self.driver.restore(saved);
        self.model = model.clone();
    }

    /// A stranger takes the lock, or joins the queue.
    pub(super) fn take(&mut self, id: &str, most: u16) -> Checked<Answer> {
        self.acquire(id, most, Memory::default())
    }

    pub(super) fn acquire(&mut self, id: &str, most: u16, memory: Memory) -> Checked<Answer> {
        let (id, seat) = (id.to_owned(), Seat::default());
        self.ask(&Request::Acquire { id, room: UNBOUNDED, claim: false, terms: terms(most), memory, seat })
    }

    pub(super) fn take_all<const N: usize>(&mut self, wanted: [(&str, u16); N]) -> Checked<[Answer; N]> {
        let mut answers = [const { None }; N];
        for (answer, (id, most)) in answers.iter_mut().zip(wanted) {
            let granted = self.take(id, most)?;
            expect("a slot was free", granted.word.as_str(), "granted")?;
            *answer = Some(granted);
        }
        Ok(answers.map(|answer| answer.expect("each was granted")))
    }

    /// The holder renews what it was granted.
    pub(super) fn renew(&mut self, id: &str, granted: &Answer, most: u16, word: &str) -> Checked {
        let (memory, seat, terms) = (granted.memory(), granted.seat(), terms(most));
        let answer = self.ask(&Request::Renew { id: id.to_owned(), seat, left: terms.lease / 2, terms, memory })?;
        expect(id, answer.word.as_str(), word)
    }
}

pub(super) fn in_one_slot_the_later_lease_stands(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [a, b, c] = both.take_all([("a.1", 3), ("b.1", 3), ("c.1", 3)])?;
    both.flush();
    both.take("s.1", 3)?;
    both.renew("b.1", &b, 3, "renewed")?;
    both.renew("a.1", &a, 3, "lost")?;
    both.renew("c.1", &c, 3, "renewed")
}

// Strangers hold two slots, and the one between them is free.
pub(super) fn a_lease_comes_back_beside_as_many_as_all_want(driver: &mut Driver) -> Checked {
    for (most, wants_fewer, word) in [(3, false, "renewed"), (2, false, "lost"), (3, true, "lost")] {
        let mut both = Both::start(driver);
        let [_, back] = both.take_all([("a.1", 3), ("b.1", most)])?;
        both.flush();
        both.take_all([("s.1", 3), ("s.2", 3), ("s.3", 3)])?;
        both.ask(&release("s.2"))?;
        if wants_fewer {
            both.ask(&release("s.1"))?;
            both.take_all([("s.4", 2)])?;
        }
        both.renew("b.1", &back, most, word)?;
    }
    Ok(())
}

// L, R and H were granted in this order. R wants two at most, and L gives way to it.
pub(super) fn the_later_ones_are_looked_at_first(driver: &mut Driver) -> Checked {
    for records in [false, true] {
        let mut both = Both::start(driver);
        let [lower, back] = both.take_all([("l.1", 3), ("r.1", 2)])?;
        both.flush();
        if records && testkit::run::version() >= (6, 2) {
            both.ask(&Request::History { switch: Some(true), count: 0 })?;
        }
        both.take_all([("s.1", 3), ("s.2", 3), ("h.1", 3)])?;
        both.ask(&release("s.1"))?;
        both.ask(&release("s.2"))?;
        both.renew("l.1", &lower, 3, "renewed")?;
        both.renew("r.1", &back, 2, "renewed")?;
        // Its slot is free again.
        both.time += LONG.lease;
        both.take("n.1", 2)?;
    }
    Ok(())
}

// The lease of the id that asks is read first.
pub(super) fn slots_are_freed_in_their_order(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let ask = |both: &mut Both<'_>, id, lease| {
        both.ask(&with(id, Terms { lease, ..terms(4) }, Memory::default(), Seat::default()))
    };
    for (id, lease) in [("a.1", MINUTE), ("b.1", LONG.lease), ("c.1", MINUTE), ("d.1", LONG.lease)] {
        ask(&mut both, id, lease)?;
    }
    both.time += MINUTE;
    ask(&mut both, "c.1", MINUTE)?;
    Ok(())
}

// Its terms are others by then.
pub(super) fn who_takes_its_turn_by_asking(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    // Short enough that the silence is no outage.
    let short = Terms { lease: TERMS.heartbeat, ..TERMS };
    both.ask(&with("a.1", short, Memory::default(), Seat::default()))?;
    let queued = both.take("b.1", 1)?;
    expect("it was", queued.word.as_str(), "queued")?;
    both.time += short.lease;
    let granted = both.take("b.1", 3)?;
    expect("it was", granted.word.as_str(), "granted")
}

pub(super) fn a_lease_that_is_over_keeps_none_out(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [back] = both.take_all([("a.1", 1)])?;
    let long = both.acquire("b.1", 1, back.memory())?;
    both.flush();
    let (id, memory, seat) = ("s.1".to_owned(), Memory::default(), Seat::default());
    let short = Terms { lease: 1_000_000, ..terms(3) };
    both.ask(&Request::Acquire { id, room: UNBOUNDED, claim: false, terms: short, memory, seat })?;
    both.acquire("b.1", 1, long.memory())?;
    both.time += 2_000_000;
    both.renew("a.1", &back, 3, "renewed")
}

// An acquire is executed once more after the loss, and then its first lease comes back to another slot.
pub(super) fn an_id_has_one_lease(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [_, back] = both.take_all([("b.1", 3), ("a.1", 3)])?;
    both.flush();
    both.take_all([("a.1", 3)])?;
    both.renew("a.1", &back, 3, "lost")
}

pub(super) fn a_renewal_raises_most(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [writer] = both.take_all([("a.1", 1)])?;
    both.renew("a.1", &writer, 3, "renewed")?;
    both.take_all([("b.1", 3)])?;
    // None lowers it.
    both.renew("a.1", &writer, 2, "renewed")?;
    both.take_all([("d.1", 3)])?;
    // One that brings the lease back raises it, too.
    both.flush();
    both.renew("a.1", &writer, 3, "renewed")?;
    both.time += LONG.lease;
    both.take("c.1", 3).map(|_| ())
}

pub(super) fn a_lease_of_before_a_rollback_comes_back_for_what_is_left_of_it(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [mut first] = both.take_all([("a.1", 1)])?;
    let saved = both.save();
    let seat = first.own.clone();
    first = both.acquire("b.1", 1, first.memory())?;
    first.own = seat;
    both.restore(&saved);
    both.renew("a.1", &first, 1, "renewed")
}

pub(super) fn what_an_operator_decided_stands(driver: &mut Driver) -> Checked {
    for with_lease in [false, true] {
        let mut both = Both::start(driver);
        let [first] = both.take_all([("a.1", 1)])?;
        let earlier = both.acquire("c.1", 1, first.memory())?;
        both.ask(&break_by_force(first.seat().token))?;
        let later = both.acquire("c.1", 1, earlier.memory())?;
        both.flush();
        both.acquire("c.1", 1, earlier.memory())?;
        both.ask(&break_by_force(0))?;
        match with_lease {
            true => both.renew("a.1", &first, 1, "renewed")?,
            false => drop(both.acquire("d.1", 1, later.memory())?),
        }
    }
    Ok(())
}

// A message told of the grant, and no reply since.
pub(super) fn a_lease_is_back_of_which_no_memory_tells(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    both.take_all([("a.1", 1)])?;
    let queued = both.take("b.1", 1)?;
    both.ask(&release("a.1"))?;
    let told = both.acquire("b.1", 1, queued.memory())?;
    both.flush();
    let granted = Answer { own: told.own.clone(), ..queued };
    both.renew("b.1", &granted, 1, "renewed")
}

pub(super) fn who_is_not_believed_is_told_who_holds(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    both.take_all([("a.1", 3), ("b.1", 3)])?;
    let memory = Memory { epoch: TIME, stamp: 2 * TIME, token: 1, longest: 1, pace: 1 };
    let answer = both.acquire("c.1", 3, memory)?;
    expect("it was", answer.word.as_str(), "disbelieved")
}

pub(super) fn holders_are_told_in_pages(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    for number in 0..18 {
        both.take_all([(&*format!("a.{number}"), 20)])?;
    }
    both.ask(&release("a.3"))?;
    let (id, memory, seat) = ("b.1".to_owned(), Memory::default(), Seat::default());
    let busy = both.ask(&Request::Acquire { id, room: 0, claim: false, terms: terms(1), memory, seat })?;
    expect("how many are told", busy.lists["holders"].len(), 16)?;
    for (tell_from, tell_most) in [(0, 0), (0, 4), (3, 4), (5, 100), (17, 1), (18, 1), (1000, 1)] {
        both.ask(&Request::Inspect { after: 0, count: 0, tell_from, tell_most })?;
    }
    Ok(())
}

// Its lease is over, and its acquire is executed once more.
pub(super) fn a_lease_is_recorded_although_its_id_is_granted_another(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    both.take_all([("a.1", 1)])?;
    if testkit::run::version() >= (6, 2) {
        both.ask(&Request::History { switch: Some(true), count: 0 })?;
    }
    both.time += 2 * LONG.lease;
    both.take_all([("a.1", 1)]).map(|_| ())
}

// Its client counts on one lease for each of its ids.
pub(super) fn a_lease_that_is_named_twice_is_told_once(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    both.take_all([("a.1", 3), ("a.2", 3)])?;
    let told = both.ask(&heartbeat("a", &["a.2", "a.1", "a.2"]))?;
    expect("how many are told", told.own.len(), 2)
}

pub(super) fn no_lease_comes_back_for_more_than_there_may_be(driver: &mut Driver) -> Checked {
    driver.flush_all();
    let granted = driver.run(TIME, 100, &with("a.1", terms(MOST), Memory::default(), Seat::default()))?.answer;
    driver.flush_all();
    let (id, memory, seat) = ("a.1".to_owned(), granted.memory(), Seat { most: MOST + 1, ..granted.seat() });
    let renewal = Request::Renew { id, seat, left: LONG.lease, terms: terms(1), memory };
    let found = driver.run(TIME + 1, 100, &renewal)?.found.lock;
    expect("it holds with", found.holder().map(|lease| lease.most), Some(MOST))
}

// A claim lasts for a liveness at least, and a confirmed lease for what its holder asked for.
pub(super) fn a_renewal_that_confirms_sets_the_end(driver: &mut Driver) -> Checked {
    for lease in [TERMS.liveness / 2, 3 * TERMS.liveness] {
        driver.flush_all();
        let short = Terms { lease, ..TERMS };
        driver.run(TIME, 100, &with("a.1", TERMS, Memory::default(), Seat::default()))?;
        let queued = driver.run(TIME, 100, &with("b.1", short, Memory::default(), Seat::default()))?.answer;
        let claim = driver.run(TIME + 1, 100, &release("a.1"))?.found.lock;
        let lease_of = |lock: &Lock| lock.holder().cloned().expect("it is granted");
        let token = lease_of(&claim).token;
        expect(
            "it is a claim",
            (lease_of(&claim).claim, lease_of(&claim).end < TIME + lease),
            (true, lease > TERMS.liveness),
        )?;
        let (id, memory, seat) = ("b.1".to_owned(), queued.memory(), Seat { token, ..queued.seat() });
        let renewal = Request::Renew { id, seat, left: 1, terms: short, memory };
        let held = lease_of(&driver.run(TIME + 2, 100, &renewal)?.found.lock);
        expect("it lasts", (held.claim, held.end), (false, TIME + 2 + lease))?;
    }
    Ok(())
}
