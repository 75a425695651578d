//! Every future of the public interface, dropped at each point, while its requests are answered, refused, slow, lost or
//! cut off: everything is given back without help from the caller, and waiters are served in order (I9, I2).
//!
//! `cancellation/cases/mod.rs` says what a case is and what is checked after it; the cases are here. Leases last for
//! minutes, and places for most of an hour: a lease or place that is gone was given back and did not expire.

mod cases;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use self::cases::{Case, Crowd, Moment, Queue, What, Wire, run_all};
use testkit::Act;

const PASSING: &str = "LOADING the server says that it is not ready";
const FATAL: &str = "ERR the server says that it never will";

/// Each future, alone and with others before and behind it; and some at a lock that is calm.
fn everywhere() -> Vec<Case> {
    let pairs = What::all().flat_map(|what| [(what, Queue::Free), (what, Queue::Contended)]);
    // Connecting involves no lock for which others could wait.
    let pairs = pairs.filter(|pair| *pair != (What::Connect, Queue::Contended));
    // One that closes its client has a waiter, too, and no lock with a waiter is calm.
    let calm = [What::Acquire, What::Try, What::Run, What::Release, What::Lost];
    let calm = calm.map(|what| (what, Queue::Calm));
    pairs.chain(calm).map(|(what, queue)| Case::new(what, queue)).collect()
}

/// Each request that a future sends, and its reply.
fn own_wires(case: &Case) -> Vec<Wire> {
    // A granted waiter has no position, and is not asked for it.
    if case.what == What::Position && case.queue == Queue::Free {
        return vec![];
    }
    let released_by = |word| if (case.queue, word) == (Queue::Calm, "release") { "hdel" } else { word };
    let words = case.what.sends().iter().map(|word| released_by(*word));
    words.flat_map(|word| [Wire::Request(word), Wire::Reply(word)]).collect()
}

/// Each case, once with each of these values.
fn times<T: Clone>(cases: Vec<Case>, with: impl Fn(&Case) -> Vec<T>, change: impl Fn(&mut Case, T)) -> Vec<Case> {
    let mut all = Vec::new();
    for case in cases {
        for value in with(&case) {
            let mut case = case;
            change(&mut case, value);
            all.push(case);
        }
    }
    all
}

fn with_acts(cases: Vec<Case>, acts: &[(Act, u64)]) -> Vec<Case> {
    times(cases, |_| acts.to_vec(), |case, (act, times)| (case.act, case.times) = (act, times))
}

/// Each case as it is, and once more with the client dropped too.
fn and_last(cases: Vec<Case>) -> Vec<Case> {
    times(
        cases,
        |case| if case.what == What::Close { vec![false] } else { vec![false, true] },
        |case, last| {
            case.last = last;
        },
    )
}

#[test]
fn every_verb_is_sent_by_a_future_but_the_keepers_own() {
    let sent: BTreeSet<&str> = What::all().flat_map(|what| what.sends()).copied().collect();
    let others = fairlock::__hooks::verbs().map(|(verb, _)| verb).filter(|verb| !sent.contains(verb));
    assert_eq!(others.collect::<Vec<_>>(), ["heartbeat"]);
}

#[test]
fn a_future_dropped_after_any_poll_leaves_nothing() {
    run_all(and_last(everywhere()), Crowd::after_each_poll);
}

#[test]
fn a_future_dropped_during_a_passing_error_leaves_nothing() {
    let cases = times(everywhere(), own_wires, |case, wire| case.wire = wire);
    let acts = [
        (Act::Delay(Duration::from_millis(20)), 1),
        (Act::Answer(PASSING), 1),
        (Act::Answer(FATAL), 1),
        (Act::Cut(0), 1),
        (Act::Cut(9), 1),
    ];
    run_all(with_acts(cases, &acts), Crowd::after_each_poll);
}

#[test]
fn a_future_dropped_when_a_request_or_its_reply_is_lost_leaves_nothing() {
    let cases = times(everywhere(), own_wires, |case, wire| (case.wire, case.moment) = (wire, Moment::Struck));
    // Only a holder can release the lock.
    let cases = times(
        cases,
        |_| vec![()],
        |case, ()| {
            let releases = matches!(case.wire, Wire::Request("release") | Wire::Reply("release"));
            case.turn = releases && case.queue == Queue::Contended && case.what.waits();
        },
    );
    let acts = [(Act::Hold, u64::MAX), (Act::Swallow, u64::MAX), (Act::Cut(0), 1), (Act::Answer(PASSING), u64::MAX)];
    run_all(and_last(with_acts(cases, &acts)), Crowd::once);
}

#[test]
fn releases_reach_the_server_through_each_fault() {
    // A try that finds the lock busy may have been answered by the time it is dropped.
    let busy = |case: &Case| (case.what, case.queue) == (What::Try, Queue::Contended);
    let cases = everywhere().into_iter().filter(|case| case.what.gives_back() && !busy(case)).collect();
    let wires = [Wire::FarewellRequest, Wire::FarewellReply];
    let cases = times(cases, |_| wires.to_vec(), |case, wire| case.wire = wire);
    let acts = [
        (Act::Hold, u64::MAX),
        (Act::Swallow, u64::MAX),
        (Act::Cut(0), 1),
        (Act::Cut(9), 1),
        (Act::Answer(PASSING), u64::MAX),
        (Act::Answer(FATAL), u64::MAX),
    ];
    run_all(and_last(with_acts(cases, &acts)), Crowd::once);
}

#[test]
fn a_grant_that_is_dropped_before_it_is_taken_is_given_back() {
    let takes = |case: &Case| case.what.waits() || matches!(case.what, What::Enqueue | What::Try);
    let mut cases: Vec<Case> = everywhere().into_iter().filter(takes).collect();
    for case in &mut cases {
        case.moment = Moment::Granted;
        case.turn = case.queue == Queue::Contended;
    }
    // A try that finds a queue is over, and a lock that was granted at once is not granted by a message.
    cases.retain(|case| (case.what, case.queue) != (What::Try, Queue::Contended));
    let pushed = cases.iter().filter(|case| case.turn).copied().collect();
    let acts = [
        (Act::Hold, u64::MAX),
        (Act::Swallow, u64::MAX),
        (Act::Delay(Duration::from_millis(20)), 1),
        (Act::Cut(0), 1),
        (Act::Cut(9), 1),
    ];
    cases.extend(with_acts(times(pushed, |_| vec![()], |case, ()| case.wire = Wire::Push), &acts));
    run_all(and_last(cases), Crowd::once);
}

/// Only scripts can be executed late with an effect.
fn scripts(case: &Case) -> Vec<Wire> {
    let requests = own_wires(case).into_iter();
    requests.filter(|wire| matches!(wire, Wire::Request(word) if !fairlock::__hooks::digest(word).is_empty())).collect()
}

#[test]
fn requests_of_connections_that_were_given_up_are_not_executed() {
    let alone = everywhere().into_iter().filter(|case| case.queue == Queue::Free).collect();
    let cases = times(alone, scripts, |case, wire| (case.wire, case.moment) = (wire, Moment::Struck));
    run_all(with_acts(cases, &[(Act::Hold, 1)]), |crowd, case| case.run_late(&crowd.server, &crowd.others));
}

#[test]
fn a_late_acquire_costs_a_window_where_no_connection_can_be_killed() {
    cases::a_late_acquire_costs_a_window(false);
    cases::a_late_acquire_costs_a_window(true);
}

/// Every future of the public interface must be listed here.
#[test]
fn every_public_future_is_covered() {
    let known = [
        ("acquire.rs", "Acquire Enqueue TryAcquire Waiting position"),
        ("client.rs", "close connect"),
        ("guard.rs", "ended lost release renewed renew"),
        ("lock.rs", "break_lease end_recovery force_break_lease history inspect record_history"),
        ("run.rs", "run"),
        // It asks the keeper alone: dropped or not, no server hears of it.
        ("lock.rs", "trouble"),
        // These only await the futures above, one at a time.
        ("client.rs", "from_env"),
        ("function.rs", "call"),
        ("guard.rs", "downgrade extend"),
        ("keyed.rs", "acquire guard release release_all run try_acquire"),
        ("lease.rs", "is_locked_by_anyone is_locked_by_me refresh verify"),
        ("lock_all.rs", "lost release run"),
        ("ownership.rs", "of"),
    ];
    let known: BTreeSet<(String, String)> = known
        .iter()
        .flat_map(|(file, names)| names.split(' ').map(|name| (file.to_string(), name.to_owned())))
        .collect();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders = [src.clone(), src.join("compat")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let mut found = BTreeSet::new();
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let is_public = |name: &str| text.contains(&format!("pub struct {}", name.trim_end_matches(" {")));
        let up_to_body = |function: &str| function.split(" {\n").next().is_some_and(|line| line.contains("Operation<"));
        let returned = text.split("pub fn ").skip(1).filter(|function| up_to_body(function));
        let implemented = text.split("impl Future for ").skip(1).filter(|name| is_public(name.lines().next().unwrap()));
        for rest in text.split("pub async fn ").skip(1).chain(returned).chain(implemented) {
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            found.insert((file.clone(), name.to_owned()));
        }
    }
    assert_eq!(found, known);
}
