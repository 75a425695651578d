//! Schedules that broke a promise once, as short as they could be made. `docs/track-record.md` tells their stories.

use super::properties::run;
use super::steps::Step::{self, *};
use super::world::Plan;

fn holds(clients: usize, locks: usize, schedule: &[Step]) {
    let plan = Plan { fast: vec![0, 2000, -2000], ..Plan::usual(clients, locks) };
    let world = run(&plan, schedule).0;
    assert_eq!(world.broken, None);
}

#[test]
fn a_call_that_was_answered_leaves_no_timer() {
    holds(1, 1, &[Refuse(0), Inspect(0, 0), Flow(112), Cut(0)]);
}

#[test]
fn a_lease_from_before_a_rollback_is_not_believed_because_an_answer_names_it() {
    let schedule = [
        Acquire { client: 1, how: 0, timeout: 0 },
        Refuse(0),
        Flow(8),
        Acquire { client: 1, how: 82, timeout: 218 },
        Accept,
        Hear(1, 0),
        Acquire { client: 0, how: 0, timeout: 0 },
        Execute(1),
        Deaf(1),
        Save,
        Flow(105),
        Rollback,
        Flow(149),
    ];
    holds(3, 1, &schedule);
}

#[test]
fn re_asserting_what_is_left_of_a_lease_does_not_shorten_its_notice() {
    let schedule = [
        Acquire { client: 0, how: 66, timeout: 138 },
        Acquire { client: 0, how: 0, timeout: 0 },
        Flow(9),
        Acquire { client: 0, how: 41, timeout: 237 },
        Flow(9),
        Acquire { client: 0, how: 0, timeout: 0 },
        Hear(0, 0),
        Pass(186),
        Flush,
        Flow(203),
    ];
    holds(1, 2, &schedule);
}

#[test]
fn a_broken_lease_that_is_found_in_a_recovery_is_not_asked_about_in_circles() {
    let schedule = [
        Acquire { client: 1, how: 73, timeout: 141 },
        Flow(0),
        Acquire { client: 1, how: 0, timeout: 0 },
        Connect(1),
        Execute(1),
        Answer(1, 0),
        Flush,
        Hear(1, 0),
        Execute(1),
        Cut(1),
        Break(0, 0),
    ];
    holds(2, 1, &schedule);
}

#[test]
fn a_second_loss_within_a_recovery_leaves_the_holder_its_lease() {
    let schedule = [
        Acquire { client: 0, how: 4, timeout: 0 },
        Flow(16),
        Acquire { client: 1, how: 0, timeout: 0 },
        Flow(130),
        Flush,
        Flow(178),
        Flush,
        Flow(230),
    ];
    holds(2, 1, &schedule);
}

#[test]
fn a_waiter_with_rare_heartbeats_keeps_its_place_over_a_loss() {
    let schedule = [
        Acquire { client: 0, how: 4, timeout: 0 },
        Acquire { client: 0, how: 12, timeout: 0 },
        Flow(16),
        Acquire { client: 1, how: 24, timeout: 0 },
        Flow(8),
        Acquire { client: 2, how: 28, timeout: 0 },
        Flow(134),
        Release(0, 0),
        Flow(134),
        Flush,
    ];
    holds(3, 1, &schedule);
}

#[test]
fn a_re_entry_that_is_overtaken_by_a_confirmation_is_over() {
    let schedule =
        [Acquire { client: 1, how: 20, timeout: 0 }, Acquire { client: 0, how: 0, timeout: 0 }, Flow(13), Pass(190)];
    holds(2, 1, &schedule);
}

/// The waiter's last answer is from before the confirmation, and tells of a short claim.
#[test]
fn a_lease_that_was_confirmed_just_before_a_loss_is_waited_for() {
    let schedule = [
        Acquire { client: 0, how: 4, timeout: 0 },
        Flow(8),
        Acquire { client: 1, how: 4, timeout: 0 },
        Flow(8),
        Acquire { client: 2, how: 4, timeout: 0 },
        Flow(139),
        Release(0, 0),
        Flow(154),
        Flush,
        Flow(228),
    ];
    holds(3, 1, &schedule);
}

/// The same, where the waiter's own lease would be shorter than the holder's.
#[test]
fn a_lease_that_is_longer_than_those_of_the_waiters_is_waited_for() {
    let schedule = [
        Acquire { client: 0, how: 12, timeout: 0 },
        Flow(8),
        Acquire { client: 1, how: 4, timeout: 0 },
        Flow(8),
        Acquire { client: 2, how: 8, timeout: 0 },
        Flow(139),
        Release(0, 0),
        Flow(154),
        Flush,
        Flow(231),
    ];
    holds(3, 1, &schedule);
}

/// The waiter's last answer is from before the renewal. Nothing else renews this lease before it is over.
#[test]
fn a_lease_that_was_renewed_by_hand_just_before_a_loss_is_waited_for() {
    let schedule = [
        Acquire { client: 0, how: 8, timeout: 0 },
        Flow(8),
        Acquire { client: 1, how: 8, timeout: 0 },
        Flow(199),
        Take(0, 0),
        Renew(0, 0),
        Flow(24),
        Flush,
        Flow(230),
    ];
    holds(2, 1, &schedule);
}

/// The holder has its lease since before the slow waiter came; a third client has heard of that waiter, and opens the
/// recovery.
#[test]
fn a_release_leaves_a_waiter_that_its_client_has_not_heard_of_the_time_to_return() {
    let schedule = [
        Acquire { client: 2, how: 16, timeout: 0 },
        Flow(1),
        Acquire { client: 0, how: 88, timeout: 0 },
        Acquire { client: 1, how: 64, timeout: 0 },
        Flow(8),
        Flush,
        Flow(152),
    ];
    holds(3, 1, &schedule);
}

/// The holder gives its lease back in the recovery from the third loss.
#[test]
fn a_waiter_with_rare_heartbeats_keeps_its_place_over_three_losses() {
    let schedule = [
        Acquire { client: 1, how: 0, timeout: 0 },
        Flow(230),
        Acquire { client: 0, how: 0, timeout: 0 },
        Flow(178),
        Flush,
        Acquire { client: 1, how: 60, timeout: 0 },
        Flow(4),
        Acquire { client: 0, how: 0, timeout: 0 },
        Flush,
        Flow(25),
        Flush,
        Acquire { client: 0, how: 0, timeout: 0 },
    ];
    holds(2, 1, &schedule);
}

/// A process that was stopped tells the server that its heartbeats are far apart.
#[test]
fn a_waiter_that_was_stopped_before_a_loss_has_the_time_to_return() {
    let schedule = [
        Acquire { client: 0, how: 28, timeout: 0 },
        Acquire { client: 0, how: 0, timeout: 0 },
        Acquire { client: 1, how: 196, timeout: 0 },
        Flow(13),
        Pause(0),
        Flow(239),
        Resume(0),
        Acquire { client: 0, how: 60, timeout: 0 },
        Flush,
    ];
    holds(3, 1, &schedule);
}

#[test]
fn an_extended_lease_that_is_brought_back_lasts_as_long_as_its_holder_believes() {
    let schedule = [
        Acquire { client: 53, how: 0, timeout: 0 },
        Flow(13),
        Renew(53, 160),
        Flow(4),
        Flush,
        Acquire { client: 2, how: 0, timeout: 0 },
    ];
    holds(3, 1, &schedule);
}

/// No promise is broken here, though a judge said so once. The server has forgotten a renewal and nothing else, which no
/// client can show it, because a renewal gives no stamp. The holder stands still, so the waiter is heard first.
#[test]
fn a_waiter_may_have_a_lease_whose_last_renewal_the_server_forgot() {
    let schedule = [
        Acquire { client: 1, how: 0, timeout: 0 },
        Flow(8),
        Acquire { client: 0, how: 0, timeout: 0 },
        Flow(225),
        Save,
        Flow(225),
        Rollback,
        Pause(1),
        Flow(232),
    ];
    holds(2, 1, &schedule);
}
