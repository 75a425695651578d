//! The worlds that are explored.

use stateright::CheckerBuilder;

use super::*;

fn one_each(budget: Budget) -> Explored {
    Explored::new(&[1, 1], true, budget)
}

fn mixed(waiters: &[u64], budget: Budget) -> Explored {
    Explored { mixed: true, ..Explored::new(waiters, true, budget) }
}

fn narrow(waiters: &[u64], budget: Budget) -> Explored {
    Explored { window: 1, delay: PROMPT, ..Explored::new(waiters, true, budget) }
}

/// The clients' slots, in turn.
fn slots(slots: &[u32], waiters: &[u64], budget: Budget) -> Explored {
    Explored { slots: slots.to_vec(), delay: PROMPT, ..Explored::new(waiters, true, budget) }
}

const NONE: Budget = Budget {
    cuts: 0,
    deaf: 0,
    lost_pushes: 0,
    doubled: 0,
    abandoned: 0,
    crashes: 0,
    late: 0,
    flushes: 0,
    saves: 0,
    downgrades: 0,
};

/// By their names.
pub(super) fn small() -> Vec<(&'static str, Explored)> {
    vec![
        ("2 waiters, a late reply", one_each(Budget { late: 1, ..NONE })),
        ("2 waiters, a doubled request, a lost message", one_each(Budget { doubled: 1, lost_pushes: 1, ..NONE })),
        ("2 waiters, a crash, a caller who gives up", one_each(Budget { crashes: 1, abandoned: 1, ..NONE })),
        ("2 waiters of different options, prompt messages, all data lost twice", {
            Explored { delay: PROMPT, ..mixed(&[1, 1], Budget { flushes: 2, ..NONE }) }
        }),
        ("3 waiters of 2 clients, prompt messages", {
            Explored { delay: PROMPT, ..Explored::new(&[2, 1], true, NONE) }
        }),
        ("3 waiters of 2 clients, 2 slots, prompt messages", slots(&[2], &[2, 1], NONE)),
        ("3 waiters of 2 clients with 2 and 3 slots, prompt messages", slots(&[2, 3], &[2, 1], NONE)),
        ("a writer and a reader, prompt messages, a downgrade, all data lost", {
            slots(&[1, 1000], &[1, 1], Budget { downgrades: 1, flushes: 1, ..NONE })
        }),
        ("3 waiters of a client, one request at a time, a caller who gives up", {
            narrow(&[3], Budget { abandoned: 1, ..NONE })
        }),
        ("2 waiters of a client, one request at a time, a broken connection, all data lost", {
            narrow(&[2], Budget { cuts: 1, flushes: 1, ..NONE })
        }),
    ]
}

#[test]
fn every_state_of_small_worlds_keeps_the_promises() {
    // Breadth first, which finds the shortest way to a violation.
    explore_all(small(), CheckerBuilder::spawn_bfs);
}

/// `make model`. It takes long; `FAIRLOCK_WORLD` picks one by its name, or some by what their names contain.
#[test]
#[ignore = "long: make model"]
fn every_state_of_larger_worlds_keeps_the_promises() {
    let unkilled = Explored::new(&[1, 1], false, Budget { cuts: 1, ..NONE });
    let two_and_one = |budget| Explored::new(&[2, 1], true, budget);
    let three = |budget| Explored::new(&[1, 1, 1], true, budget);
    let prompt = |waiters: &[u64], budget| Explored { delay: PROMPT, ..Explored::new(waiters, true, budget) };
    let worlds = vec![
        ("2 waiters, a broken connection", one_each(Budget { cuts: 1, ..NONE })),
        ("2 waiters, a dead connection", one_each(Budget { deaf: 1, ..NONE })),
        ("2 waiters, a connection that cannot be killed", unkilled),
        ("2 waiters, a rollback", one_each(Budget { saves: 1, ..NONE })),
        ("2 waiters, two late replies, a lost message", one_each(Budget { late: 2, lost_pushes: 1, ..NONE })),
        ("2 waiters of different options, all data lost", mixed(&[1, 1], Budget { flushes: 1, ..NONE })),
        ("2 waiters, all data lost", one_each(Budget { flushes: 1, ..NONE })),
        ("2 waiters, all data lost twice", one_each(Budget { flushes: 2, ..NONE })),
        ("2 waiters of different options, all data lost twice", mixed(&[1, 1], Budget { flushes: 2, ..NONE })),
        ("2 waiters of different options, prompt messages, all data lost three times", {
            Explored { delay: PROMPT, ..mixed(&[1, 1], Budget { flushes: 3, ..NONE }) }
        }),
        ("3 waiters of different options, prompt messages, all data lost", {
            Explored { delay: PROMPT, ..mixed(&[1, 1, 1], Budget { flushes: 1, ..NONE }) }
        }),
        ("2 waiters, all data lost, a crash, a lost message", {
            one_each(Budget { flushes: 1, crashes: 1, lost_pushes: 1, ..NONE })
        }),
        ("3 waiters of 2 clients", two_and_one(NONE)),
        ("3 waiters of 2 clients, a crash, a lost message", {
            two_and_one(Budget { crashes: 1, lost_pushes: 1, ..NONE })
        }),
        ("3 waiters of 2 clients, all data lost", two_and_one(Budget { flushes: 1, ..NONE })),
        ("3 waiters of 3 clients", three(NONE)),
        ("3 waiters of 3 clients, a crash", three(Budget { crashes: 1, ..NONE })),
        ("3 waiters of 3 clients, a doubled request, a lost message", {
            three(Budget { doubled: 1, lost_pushes: 1, ..NONE })
        }),
        ("3 waiters of 3 clients, a caller who gives up", three(Budget { abandoned: 1, ..NONE })),
        ("3 waiters of 3 clients, prompt messages, a crash, one lost", {
            prompt(&[1, 1, 1], Budget { crashes: 1, lost_pushes: 1, ..NONE })
        }),
        ("3 waiters of 3 clients, prompt messages, all data lost", {
            prompt(&[1, 1, 1], Budget { flushes: 1, ..NONE })
        }),
        ("3 waiters of 3 clients, prompt messages, a broken connection", {
            prompt(&[1, 1, 1], Budget { cuts: 1, ..NONE })
        }),
        ("4 waiters of 2 clients, prompt messages, a crash, one lost", {
            prompt(&[2, 2], Budget { crashes: 1, lost_pushes: 1, ..NONE })
        }),
        ("4 waiters of 2 clients, prompt messages, all data lost", prompt(&[2, 2], Budget { flushes: 1, ..NONE })),
        ("4 waiters of 3 clients, prompt messages, a caller who gives up", {
            prompt(&[2, 1, 1], Budget { abandoned: 1, ..NONE })
        }),
        ("4 waiters of 4 clients, prompt messages", prompt(&[1, 1, 1, 1], NONE)),
        ("4 waiters of 4 clients, prompt messages, a crash", { prompt(&[1, 1, 1, 1], Budget { crashes: 1, ..NONE }) }),
        ("a writer and a reader, prompt messages, a downgrade, a broken connection", {
            slots(&[1, 1000], &[1, 1], Budget { downgrades: 1, cuts: 1, ..NONE })
        }),
        ("a writer and 2 readers, prompt messages, a downgrade", {
            slots(&[1, 1000, 1000], &[1, 1, 1], Budget { downgrades: 1, ..NONE })
        }),
        ("3 waiters of 3 clients with 2, 3 and 3 slots, prompt messages, a crash", {
            slots(&[2, 3, 3], &[1, 1, 1], Budget { crashes: 1, ..NONE })
        }),
        ("3 waiters of 2 clients, 2 slots, prompt messages, all data lost", {
            slots(&[2], &[2, 1], Budget { flushes: 1, ..NONE })
        }),
        ("3 waiters of 2 clients, one request at a time, a caller who gives up", {
            narrow(&[2, 1], Budget { abandoned: 1, ..NONE })
        }),
        ("3 waiters of 2 clients, one request at a time, all data lost", {
            narrow(&[2, 1], Budget { flushes: 1, ..NONE })
        }),
    ];
    explore_chosen(worlds);
}

/// `make model` found them in "3 waiters of 2 clients, all data lost". A step: J0 client 0 joins, T a tick, R0 a round trip
/// of client 0, C0 it connects, D00 its guard 0 is dropped, P00 message 0 to it arrives, F the data is lost.
///
/// The last claim ends, so the lock has neither lease nor queue. Client 1 is told that, and sends an acquire and then,
/// with this memory, a heartbeat; or the confirmation of a claim that is over. The acquire is granted, all data is lost,
/// and the request behind it opens a recovery, which must last for as long as the new lease.
#[test]
fn leases_of_before_a_loss_exclude_each_other() {
    let with_a_heartbeat = "
        J0 T T T T J1 C1 J0 C0 T R0 R1 R1 R0 T R1 R0 R0 T R1 R0 R0 T R1 R0 R0 T R1 R0 R0 R0 T R1 R0 T R1 R0
        R0 T R0 R1 R0 T R0 R0 T R1 R0 R0 T R0 R1 R0 T R0 R0 R0 R0 R1 T R1 T R1 R1 R0 R0 T R1 R0 R0 T R0 R0 T
        R1 R0 R0 T R0 R0 R1 T R0 R0 R0 D00 R1 R1 T R0 R0 T R1 P10 R0 R0 T R1 R1 R1 R1 T R0 P00 T R0 R1 P10
        R0 T R1 R1 R1 R0 R0 R0 F R1 T T R0 R0 R0
    ";
    let with_a_renewal = "
        J0 T T T T J1 C1 C0 T J0 R0 R1 T R1 R1 R0 R0 T R1 R0 R0 T R1 R0 R0 T R1 R0 R0 R0 T R1 R0 T R1 D00 R0
        R0 T R0 R0 T R1 P10 R0 R0 T R1 R1 T R1 R1 R1 R0 P00 T R0 R0 T R1 P10 R0 R0 R0 T R1 R1 R1 R1 T R0 P00
        T R0 R1 R0 T R1 R1 P10 R1 R1 R0 R0 R0 F R1 T T R0 R0 R0
    ";
    [with_a_heartbeat, with_a_renewal].into_iter().for_each(follow);
}

fn follow(path: &str) {
    let explored = Explored::new(&[2, 1], true, Budget { flushes: 1, ..NONE });
    let mut state = explored.init_states().remove(0);
    for step in path.split_whitespace() {
        let of: Vec<u8> = step.bytes().skip(1).map(|digit| digit - b'0').collect();
        let action = match (&step[..1], &of[..]) {
            ("J", [client]) => Action::Join(*client),
            ("T", []) => Action::Tick,
            ("R", [client]) => Action::RoundTrip(*client),
            ("C", [client]) => Action::Do(Step::Connect(*client)),
            ("D", [client, nth]) => Action::Do(Step::Drop(*client, *nth)),
            ("P", [client, nth]) => Action::Do(Step::Push(*client, *nth)),
            ("F", []) => Action::Do(Step::Flush),
            other => panic!("no step {other:?}"),
        };
        state = explored.next_state(&state, action).expect("a state");
        assert_eq!(state.world.broken, None);
    }
    assert!(explored.serves(&state.world));
}

/// `make model` does not start these: no run of them has ended yet.
#[test]
#[ignore = "takes days"]
fn states_of_worlds_that_are_too_large() {
    let slow = |budget| Explored { delay: LATE, ..one_each(budget) };
    explore_chosen(vec![
        ("2 waiters, messages slower than a lease", slow(NONE)),
        ("2 waiters, messages slower than a lease, a crash", slow(Budget { crashes: 1, ..NONE })),
        ("4 waiters of 2 clients", Explored::new(&[2, 2], true, NONE)),
        ("4 waiters of 3 clients", Explored::new(&[2, 1, 1], true, NONE)),
    ]);
}

/// Those whose names have `FAIRLOCK_WORLD` in them, or the one of that name.
fn explore_chosen(worlds: Vec<(&'static str, Explored)>) {
    let chosen = std::env::var("FAIRLOCK_WORLD").unwrap_or_default();
    // Depth first: the states that wait to be visited would not fit into memory otherwise.
    let is_name = worlds.iter().any(|(what, _)| *what == chosen);
    let is_chosen = |what: &str| if is_name { what == chosen } else { what.contains(&chosen) };
    explore_all(worlds.into_iter().filter(|(what, _)| is_chosen(what)).collect(), CheckerBuilder::spawn_dfs);
}
