//! The analyser of semaphores and read-write locks of `make bench-peers`: histories that it must reject, and what it
//! must find in others.

#[allow(dead_code, unreachable_pub)]
#[path = "../../benches/peers/sharing.rs"]
mod analyser;

use crate::contention::analyser as contention;
use analyser::{Shared, Sharing, judge};
use contention::Turn;

/// One turn, in milliseconds.
fn turn(called: u64, got: u64, released: u64, writer: bool) -> Shared {
    let [called, got, released] = [called, got, released].map(|at| at * 1_000_000);
    Shared { turn: Turn { called, got, released }, writer }
}

/// Four callers of a semaphore of two: two hold it for 19 ms, then the two others, each for ten turns.
fn fair() -> Vec<Vec<Shared>> {
    let got = |caller: u64, number: u64| 100 + (2 * number + caller / 2) * 20 + caller % 2;
    let one = |caller, number| turn(got(caller, number) - 20, got(caller, number), got(caller, number) + 19, false);
    (0..4).map(|caller| (0..10).map(|number| one(caller, number)).collect()).collect()
}

fn judged(callers: &[Vec<Shared>]) -> Sharing {
    judge(callers, 2).unwrap()
}

#[test]
fn callers_with_unequal_turns_are_rejected() {
    let fair = fair();
    judge(&fair[..1], 2).unwrap_err();
    judge(&[], 2).unwrap_err();
    judge(&[fair[0].clone(), fair[1][..9].to_vec()], 2).unwrap_err();
}

#[test]
fn fair_sharing_is_found_fair() {
    let found = judged(&fair());
    assert_eq!((found.too_many, found.out_of_order), (0, 0.0), "{found:?}");
    assert_eq!((found.mean_wait_ms, found.longest_wait_ms, found.longest_write_ms), (20.0, 20.0, 0.0));
    // 40 turns from the first call, at 80, to the last release, at 500.
    assert!((found.grants_per_second - 40.0 / 0.42).abs() < 0.1, "{found:?}");
}

#[test]
fn a_third_holder_of_two_is_counted() {
    let mut broken = fair();
    // It still holds when the last of the two others is granted its turn.
    broken[0][3].turn.released += 10_000_000;
    assert_eq!(judged(&broken).too_many, 1);
    assert_eq!(judge(&broken, 3).unwrap().too_many, 0);
}

#[test]
fn a_writer_shares_with_nobody() {
    // Any number of readers may share.
    assert_eq!(judge(&fair(), usize::MAX).unwrap().too_many, 0);
    let mut broken = fair();
    // A reader is granted it while the writer holds.
    broken[0][3].writer = true;
    assert_eq!(judge(&broken, usize::MAX).unwrap().too_many, 1);
    // The writer is granted it while the reader holds.
    broken[0][3].turn.got += 2_000_000;
    let found = judge(&broken, usize::MAX).unwrap();
    assert_eq!((found.too_many, found.longest_write_ms), (1, 22.0));
}

#[test]
fn a_turn_that_overtakes_is_counted() {
    let mut unfair = fair();
    // It has waited since before the two turns that are over when it is granted one; others called with it.
    unfair[0][5].turn.called -= 30_000_000;
    unfair[0][5].turn.got += 1_000_000;
    assert_eq!(judged(&unfair).out_of_order, 2.0 / 40.0);
    // Within a few milliseconds nobody knows who called first.
    unfair[0][5].turn.called += 6_000_000;
    assert_eq!(judged(&unfair).out_of_order, 0.0);
}
