//! Single cases of what clients send in another form than the scripts gave or the protocol says.

use fairlock::__hooks::packing::Call;

use super::super::driver::encode;
use super::super::{DAY, MOST};
use super::{Checked, Driver, TERMS, TIME, acquire, expect, heartbeat, queue, renew, with};

// Scripts unpack what clients send back.
pub(super) fn texts_of_another_form(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1"])?;
    let queued = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
    let before = driver.stored();
    let (name, whole) = encode(&with("b.1", TERMS, queued.memory(), queued.seat()));
    let shorter = |text: &mut Vec<u8>| text.truncate(text.len() - 1);
    let other_layout = |text: &mut Vec<u8>| text[0] = 1;
    let (memory, seat, terms) = (1, 2, 3);
    let no_terms = |text: &mut Vec<u8>| text.truncate(40);
    let nobody = |text: &mut Vec<u8>| text[40..42].fill(0);
    type Change = fn(&mut Vec<u8>);
    let slot_of_nobody = |text: &mut Vec<u8>| text[25..27].copy_from_slice(&MOST.to_le_bytes());
    let changes: [(usize, Change, &str); 8] = [
        (memory, shorter, "a memory or seat is not one"),
        (memory, other_layout, "a memory or seat is not one"),
        (seat, shorter, "a memory or seat is not one"),
        (seat, other_layout, "a memory or seat is not one"),
        (seat, slot_of_nobody, "a memory or seat is not one"),
        (terms, shorter, "the texts in terms are shorter than they say"),
        (terms, no_terms, "data string too short"),
        (terms, nobody, "most must be at least 1"),
    ];
    for (text, change, error) in changes {
        let mut changed = whole.clone();
        change(&mut changed[text]);
        match driver.refusal_of(TIME + 2, (name, changed)) {
            Some(message) if message.contains(error) => {}
            other => return Err(format!("text {text} was to be refused with {error}: {other:?}")),
        }
    }
    if driver.stored() == before { Ok(()) } else { Err("a request was refused and wrote something".to_owned()) }
}

/// Writes a number into the packed text of a request.
fn edited(mut texts: Vec<Vec<u8>>, (text, at): (usize, usize), change: fn(f64) -> f64) -> Vec<Vec<u8>> {
    let place = &mut texts[text][at..at + 8];
    let number = change(f64::from_le_bytes(place.try_into().expect("eight bytes")));
    place.copy_from_slice(&number.to_le_bytes());
    texts
}

const STRANGE: [fn(f64) -> f64; 3] = [|number| number + 0.25, |_| f64::NAN, |_| f64::INFINITY];

fn is_refused(driver: &mut Driver, call: Call) -> Checked {
    match driver.refusal_of(TIME + 2, call.clone()) {
        Some(message) if message.contains("times must be whole microseconds") => Ok(()),
        other => Err(format!("{call:?} was to be refused: {other:?}")),
    }
}

// Everybody else would be told of them.
pub(super) fn times_of_no_use(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1", "b.1"])?;
    let before = driver.stored();
    let (acquire, heartbeat) = (encode(&acquire("b.1")), encode(&heartbeat("b", &["b.1"])));
    let renewal = encode(&renew("a.1"));
    let in_terms = [0, 8, 16, 24].map(|at| (3, at));
    let all = (in_terms.map(|place| (&acquire, place)).into_iter())
        .chain(in_terms.map(|place| (&renewal, place)))
        .chain([0, 8, 16].map(|at| (&heartbeat, (2, at))))
        .chain([(&renewal, (4, 0))]);
    for (&(name, ref texts), place) in all {
        for change in [STRANGE[0], STRANGE[1], STRANGE[2], |_| 31.0 * DAY as f64, |_| -1.0] {
            is_refused(driver, (name, edited(texts.clone(), place, change)))?;
        }
    }
    // What would be over before its reply: a lease, or the liveness of a waiter.
    for (&(name, ref texts), place) in
        [(&acquire, (3, 0)), (&acquire, (3, 24)), (&renewal, (3, 24)), (&heartbeat, (2, 0))]
    {
        for change in [|_| 49_999.0, |_| 0.0] {
            is_refused(driver, (name, edited(texts.clone(), place, change)))?;
        }
    }
    if driver.stored() == before { Ok(()) } else { Err("a request was refused and wrote something".to_owned()) }
}

// A byte that was changed on the way, or a client that reads the numbers and writes them anew.
pub(super) fn numbers_of_nobody(driver: &mut Driver) -> Checked {
    let years: fn(f64) -> f64 = |_| 1000.0 * DAY as f64;
    for place in [1, 9, 17, 25, 33].map(|at| (1, at)).into_iter().chain([1, 9, 17].map(|at| (2, at))) {
        for change in STRANGE.into_iter().chain(matches!(place, (1, 25 | 33)).then_some(years)) {
            // Also as what the first client brings after a loss.
            for lost in [false, true] {
                queue(driver, &["a.1"])?;
                let queued = driver.run(TIME + 1, 100, &acquire("b.1"))?.answer;
                let (name, texts) = encode(&with("b.1", TERMS, queued.memory(), queued.seat()));
                if lost {
                    driver.flush_all();
                }
                let before = driver.stored();
                expect("the refusal", driver.refusal_of(TIME + 2, (name, edited(texts, place, change))), None)?;
                expect("what is stored", driver.stored(), before)?;
            }
        }
    }
    Ok(())
}
