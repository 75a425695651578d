//! The analyser of `make bench-peers`: histories that it must reject, and what it must find in others.

#[allow(dead_code, unreachable_pub)]
#[path = "../../benches/peers/contention.rs"]
pub(crate) mod analyser;

use analyser::{Contention, Turn, judge};

/// One turn, in milliseconds: when the lock was called for, got and released.
fn turn(called: u64, got: u64, released: u64) -> Turn {
    Turn { called: called * 1_000_000, got: got * 1_000_000, released: released * 1_000_000 }
}

/// Three processes that take turns in the order of their calls. Each hold takes 10 ms, each hand-off 2 ms.
fn fair() -> Vec<Vec<Turn>> {
    (0..3_u64)
        .map(|process| {
            (0..20_u64)
                .map(|round| {
                    let got = 100 + (round * 3 + process) * 12;
                    let called = if round == 0 { process * 3 } else { got - 25 };
                    turn(called, got, got + 10)
                })
                .collect()
        })
        .collect()
}

fn judged(processes: &[Vec<Turn>]) -> Contention {
    judge(processes).unwrap()
}

#[test]
fn processes_that_do_not_contend_are_rejected() {
    let fair = fair();
    judge(&fair[..1]).unwrap_err();
    judge(&[]).unwrap_err();
    judge(&[fair[0].clone(), Vec::new()]).unwrap_err();
    // One process gave up.
    judge(&[fair[0].clone(), fair[1][..19].to_vec()]).unwrap_err();
    // These processes ran one after the other.
    let later = |at: u64| at + 1e10 as u64;
    let later = |Turn { called, got, released }: &Turn| Turn {
        called: later(*called),
        got: later(*got),
        released: later(*released),
    };
    judge(&[fair[0].clone(), fair[1].iter().map(later).collect()]).unwrap_err();
}

#[test]
fn a_fair_contention_is_found_fair() {
    let found = judged(&fair());
    assert_eq!((found.overlaps, found.out_of_order), (0, 0.0), "{found:?}");
    assert_eq!(found.hand_off_ms, Some((2.0, 2.0)));
    assert!((found.grants_per_second - 1000.0 / 12.0).abs() < 0.1, "{found:?}");
    assert_eq!(found.longest_wait_ms, 118.0);
    assert!(found.first_to_last > 0.95 && found.first_to_last < 1.0, "{found:?}");
}

#[test]
fn two_holders_at_once_are_counted() {
    let mut broken = fair();
    // The process releases the lock after the next one has got it.
    broken[1][5].released += 3_000_000;
    assert_eq!(judged(&broken).overlaps, 1);
    // Two others begin and end within its hold.
    broken[1][5].released += 20_000_000;
    assert_eq!(judged(&broken).overlaps, 2);
}

#[test]
fn a_caller_who_overtakes_is_counted() {
    let mut unfair = fair();
    let turns_in_all = judged(&unfair).grants as f64;
    // This call comes after the others, and is served before them.
    let late = unfair[0][6];
    unfair[0][6].called = late.got - 2_000_000;
    assert_eq!(judged(&unfair).out_of_order, 1.0 / turns_in_all);
    // This call and the next come at the same time, as far as the clocks can tell.
    unfair[0][6].called = unfair[1][6].called + 500_000;
    assert_eq!(judged(&unfair).out_of_order, 0.0);
}

#[test]
fn a_slow_hand_off_is_measured_and_an_idle_lock_is_no_hand_off() {
    let mut slow = fair();
    slow[2][10].got += 1_500_000;
    slow[2][11].got += 1_500_000;
    assert_eq!(judged(&slow).hand_off_ms, Some((2.0, 3.5)));
    // After the first round, no process has called for the lock when it becomes free.
    let mut free = fair();
    for turns in &mut free {
        turns.iter_mut().skip(1).for_each(|turn| turn.called = turn.got - 1_000_000);
    }
    let found = judged(&free);
    assert_eq!((found.hand_off_ms, found.longest_wait_ms), (None, 118.0));
}
