//! Single cases of leases that a script need not read, in a recovery: that it reads them where they count, and not where
//! it would cost as many commands as there are holders. The first end of a lease is exact only after all were read.

use super::super::{Request, Seat, UNBOUNDED};
use super::several::{Both, terms};
use super::{Checked, Driver, release};

// What they want together is for two.
pub(super) fn a_lease_comes_back_beside_one_that_has_its_tag(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [_, _, back] = both.take_all([("x.1", 3), ("y.1", 3), ("a.1001", 3)])?;
    both.flush();
    both.take_all([("a.2001", 2), ("b.1", 2)])?;
    both.renew("a.1001", &back, 3, "lost")
}

// An acquire of a.1 was executed once more, in the slot that b.1 had before.
pub(super) fn a_lease_comes_back_beside_its_own_other_one(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [first, b] = both.take_all([("a.1", 3), ("b.1", 3)])?;
    both.ask(&release("a.1"))?;
    both.ask(&release("b.1"))?;
    let [_, second] = both.take_all([("c.1", 3), ("a.1", 3)])?;
    both.flush();
    both.renew("a.1", &first, 3, "renewed")?;
    both.renew("b.1", &b, 3, "renewed")?;
    both.renew("a.1", &second, 3, "renewed")
}

pub(super) fn a_place_that_comes_back(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [a, b] = both.take_all([("a.1", 2), ("b.1", 2)])?;
    let queued = both.take("w.1", 1)?;
    both.flush();
    for _ in 0..2 {
        both.renew("a.1", &a, 2, "renewed")?;
        both.renew("b.1", &b, 2, "renewed")?;
    }
    let (id, memory, seat) = ("w.1".to_owned(), queued.memory(), queued.seat());
    both.ask(&Request::Acquire { id, room: UNBOUNDED, claim: false, terms: terms(1), memory, seat })?;
    Ok(())
}

pub(super) fn a_lease_that_is_back(driver: &mut Driver) -> Checked {
    let mut both = Both::start(driver);
    let [a, b, c] = both.take_all([("a.1", 3), ("b.1", 3), ("c.1", 3)])?;
    both.flush();
    for _ in 0..2 {
        both.renew("a.1", &a, 3, "renewed")?;
        both.renew("b.1", &b, 3, "renewed")?;
    }
    // Its slot is behind those that are known.
    both.renew("c.1", &c, 3, "renewed")?;
    // Its slot is taken, by itself.
    both.renew("a.1", &a, 3, "renewed")?;
    let told = both.ask(&Request::Heartbeat {
        client: "c".into(),
        terms: terms(1),
        ids: vec!["c.1".into()],
        memory: a.memory(),
    })?;
    both.ask(&release("c.1"))?;
    // Of this epoch, and given up since: its renewal comes late.
    let seat = Seat { most: 2, ..told.seat() };
    let left = terms(2).lease / 2;
    both.ask(&Request::Renew { id: "c.1".into(), seat, left, terms: terms(2), memory: told.memory() })?;
    Ok(())
}
