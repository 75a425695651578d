//! Single cases of the tags of slots, by which the scripts find leases.

use super::super::{Memory, Request, Seat, Terms};
use super::{Checked, Driver, LONG, TIME, acquire, break_by_force, expect, heartbeat, leave, release, renewal, with};

const THREE: Terms = Terms { most: 3, ..LONG };

fn take(driver: &mut Driver, id: &str) -> Checked<super::Answer> {
    Ok(driver.run(TIME, 100, &with(id, THREE, Memory::default(), Seat::default()))?.answer)
}

/// Takes the lease of this slot away by hand, and leaves its tag.
const LOSE: [&str; 2] = [
    "local state = redis.call('HGET', KEYS[1], '')
    redis.call('HSET', KEYS[1], '', string.sub(state, 1, 197 + struct.unpack('<H', state, 196)) .. '\\0\\0')",
    "redis.call('HDEL', KEYS[1], '#\\1\\0')",
];

// No script makes one. It fails none, and its slot is free again as soon as all leases are read.
pub(super) fn a_tag_without_its_lease(driver: &mut Driver) -> Checked {
    for (slot, lose) in LOSE.into_iter().enumerate() {
        driver.flush_all();
        let granted = ["a.1", "b.1"].into_iter().map(|id| take(driver, id)).collect::<Result<Vec<_>, _>>()?;
        driver.run(TIME, 100, &acquire("w.1"))?;
        driver.edit(lose);
        let lost = driver.save();
        let (its_id, other) = if slot == 0 { ("a.1", "b.1") } else { ("b.1", "a.1") };
        for request in [
            acquire(its_id),
            with("d.1", THREE, Memory::default(), Seat::default()),
            renewal(its_id, &granted[slot], THREE),
            renewal(other, &granted[1 - slot], THREE),
            release(its_id),
            release(other),
            leave(&[its_id]),
            heartbeat("w", &["w.1"]),
            heartbeat(&its_id[..1], &[its_id]),
            break_by_force(TIME),
            Request::Inspect { after: 0, count: 9, tell_from: 0, tell_most: 9 },
            Request::History { switch: None, count: 0 },
        ] {
            driver.restore(&lost);
            expect(&format!("the refusal of {request:?}"), driver.refusal(TIME + 1, &request), None)?;
        }
        // Its holder names it, or an operator, who reads all of them.
        for reads in [heartbeat(&its_id[..1], &[its_id]), break_by_force(TIME + 9)] {
            driver.restore(&lost);
            driver.edit(&format!("redis.call('HDEL', KEYS[1], '{its_id}')"));
            let found = driver.run(TIME + 1, 100, &reads)?.found.lock;
            let holders = found.leases.iter().map(|lease| lease.id.as_str());
            expect("who holds it", holders.collect::<Vec<_>>(), vec![other])?;
        }
        driver.run(TIME + 2, 100, &leave(&["w.1"]))?;
        let next = driver.run(TIME + 3, 100, &with("d.1", THREE, Memory::default(), Seat::default()))?.answer;
        expect("the slot", (next.word.as_str(), usize::from(next.seat().slot)), ("granted", slot))?;
    }
    Ok(())
}

// Whatever the name of the client is.
pub(super) fn no_tag_is_that_of_a_free_slot(driver: &mut Driver) -> Checked {
    driver.flush_all();
    for (slot, id) in ["\0\0.4", "\0.4", "\0\0.6", "a.4"].into_iter().enumerate() {
        let terms = Terms { most: 9, ..LONG };
        let granted = driver.run(TIME, 100, &with(id, terms, Memory::default(), Seat::default()))?.answer;
        expect("the slot", (granted.word.as_str(), usize::from(granted.seat().slot)), ("granted", slot))?;
    }
    Ok(())
}

pub(super) fn a_tag_across_two_slots(driver: &mut Driver) -> Checked {
    driver.flush_all();
    for id in ["ab.101", "\x04z.1", "b1\x14.5"] {
        take(driver, id)?;
    }
    Ok(())
}

pub(super) fn two_ids_of_one_tag(driver: &mut Driver) -> Checked {
    driver.flush_all();
    for (id, word) in [("a.1001", "granted"), ("a.2001", "queued"), ("a.1001", "granted")] {
        expect(id, driver.run(TIME, 100, &acquire(id))?.answer.word.as_str(), word)?;
    }
    driver.flush_all();
    take(driver, "a.1001")?;
    let second = take(driver, "a.2001")?;
    let renewed = driver.run(TIME + 1, 100, &renewal("a.2001", &second, THREE))?.answer;
    expect("it was", renewed.word.as_str(), "renewed")
}
