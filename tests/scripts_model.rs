//! The scripts against the model: the same random requests, faults and clock steps go to the real scripts on a real
//! server and to `tests/model`, and after every step the answer, what was published and all that stands on the server
//! must be the same. The promises are judged on their own too. The clock is the test's, so nothing sleeps.
//!
//! `STEPS=n` sets how many steps are taken. What failed once is kept in `scripts_model.proptest-regressions` and tried
//! first.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod model;
mod support;

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::time::Instant;

use model::driver::Driver;
use model::world::{World, case};
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};

/// For each of the broken scripts, by the model and by the promises alone. The rarest takes two losses in one µs.
const MUTANT_STEPS: [usize; 2] = [400_000, 40_000];
/// Over all tests that compare with the model.
const STEPS: usize = 240_000;
const REGRESSIONS: &str = "tests/scripts_model.proptest-regressions";

fn config(steps: usize) -> Config {
    Config {
        // More than enough: the number of steps decides.
        cases: u32::try_from(steps / 50 + 1).expect("fewer steps"),
        failure_persistence: None,
        max_shrink_iters: 0,
        // Generation is a good part of the work where nothing is optimized.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::default()
    }
}

/// Runs cases until one fails or this many steps are taken. The steps taken, and what failed.
fn explore(
    mut runner: TestRunner,
    driver: &mut Driver,
    steps: usize,
    batch: usize,
    by_model: bool,
) -> (usize, Option<String>) {
    let (taken, failed, driver) = (Cell::new(0), Cell::new(false), RefCell::new(driver));
    let outcome = runner.run(&case(batch), |case| {
        // A failure is made small whatever it takes.
        if taken.get() >= steps && !failed.get() {
            return Ok(());
        }
        let mut driver = driver.borrow_mut();
        let mut world = World::new(&mut driver, &case, by_model);
        let outcome = world.run(&case);
        if !failed.get() {
            taken.set(taken.get() + world.steps);
        }
        outcome.map_err(|message| {
            failed.set(true);
            TestCaseError::fail(message)
        })
    });
    let failure = outcome.err().map(|error| match error {
        TestError::Fail(reason, case) => format!("{reason}\nafter {} operations: {:?}", case.ops.len(), case.ops),
        TestError::Abort(reason) => reason.to_string(),
    });
    (taken.get(), failure)
}

fn compare(batch: usize) {
    let steps = std::env::var("STEPS").map_or(STEPS, |steps| steps.parse().expect("STEPS is a number")).div_ceil(2);
    let config = Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        source_file: Some(file!()),
        max_shrink_iters: 20_000,
        ..config(steps)
    };
    // `make test` takes the same ways each time, so that it fails for a change and not by chance; `make soak` takes new ones.
    let runner = match std::env::var_os("STEPS") {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks.")),
    };
    let start = Instant::now();
    let (taken, failure) = explore(runner, &mut Driver::start(), steps, batch, true);
    let seconds = start.elapsed().as_secs_f64();
    // Past the harness, which shows what is printed by tests that fail only.
    let speed = taken as f64 / seconds;
    let _ =
        writeln!(std::io::stderr(), "scripts against the model: {taken} steps in {seconds:.1} s, {speed:.0} steps/s");
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    assert!(taken >= steps, "only {taken} steps were taken");
}

#[test]
fn the_scripts_do_what_the_model_does() {
    compare(100);
}

// The same where a script looks at few dead heads, so that it often stops and is called again.
#[test]
fn so_they_do_when_a_batch_is_small() {
    compare(3);
}

/// Scripts with one thing broken: what for what. Each must be found, or the tests above prove nothing.
const BROKEN: &[(&str, &str, &str)] = &[
    ("tickets of one microsecond tie", "math.max(raw, stamp + 1)", "raw"),
    ("tokens are counted", "  token = next_stamp()", "  token = token + 1"),
    (
        "the floor of a newcomer is ignored",
        "(their_epoch == epoch or nameless) and beyond",
        "their_epoch == epoch and beyond",
    ),
    ("absurd stamps are believed", "highest > stamp and highest > raw + ABSURD_US", "false"),
    ("one absurd stamp makes room for the next", "highest > raw + ABSURD_US", "highest > stamp + ABSURD_US"),
    ("a clock that was set back makes what was given absurd", "if highest > stamp and highest", "if highest"),
    (
        "an absurd stamp ends a lease that stands",
        "elseif mine and not held[CUT] then",
        "elseif believed and mine and not held[CUT] then",
    ),
    ("the clock follows TIME backwards", "now = math.max(now, seen)", ""),
    ("the clock follows every jump", "now = math.min(now, seen + 2 * pace)", ""),
    ("the pace of the dead goes on for ever", "  pace = 0\n", ""),
    ("the pace stays that of the slowest ever", "heartbeat_us > pace or now >= pace_until", "heartbeat_us > pace"),
    ("the slowest sets the pace once", "    pace_until = math.max(pace_until, ends)\n", ""),
    ("a clock without a pace stands still", "elseif pace > 0 then", "else"),
    ("a lost clock goes on from TIME", "    now = holder_end - (held and held[LEASE] or 0)", ""),
    ("a lost clock takes sessions at their word", "    now = last_session - (first and first[LIVENESS] or 0)", ""),
    ("a lease lives on at its end", "if holder_end <= now and", "if holder_end < now and"),
    ("a lease ends early", "if holder_end <= now and", "if holder_end <= now + 1000000 and"),
    ("keys go after an hour", "if stands then ttl = DAY_MS", "if stands then ttl = HOUR_MS"),
    ("keys go before a lease does", "math.max(holder_end, last_session,", "math.max(last_session,"),
    ("leases stay for ever", "if holder ~= '' then redis.call('PEXPIRE', leases, ttl) end", ""),
    ("an idle lock keeps its sessions", "redis.call('DEL', queue, sessions,", "redis.call('DEL', queue,"),
    ("who leaves the queue leaves an entry", "gone.queue[id], gone.entries[id] = true, true", "gone.queue[id] = true"),
    ("dead sessions are kept", "if not refreshed[dead[i]] then", "if false then"),
    ("sessions that were just prolonged are purged", "if not refreshed[dead[i]] then", "if true then"),
    ("the dead are granted the lock", "if entry and alive_until > now then", "if entry then"),
    (
        "a dead head blocks the queue",
        "        drop_waiter(id)\n        if entry",
        "        if alive_until <= now then return end\n        drop_waiter(id)\n        if entry",
    ),
    (
        "a session ends a second early",
        "if entry and alive_until > now then",
        "if entry and alive_until > now + 1000000 then",
    ),
    ("a heartbeat does not prolong", "if first then refresh(", "if nil then refresh("),
    (
        "a shorter liveness shortens a session",
        "local ends = math.max(now + liveness_us + buffer_us, tonumber(redis.call('ZSCORE', sessions, client) or 0))",
        "local ends = now + liveness_us",
    ),
    ("a claim outlives its session", "now + entry[LIVENESS], alive_until)", "now + entry[LIVENESS])"),
    ("a claim is a lease", "math.min(now + entry[LEASE], now + entry[LIVENESS], alive_until)", "now + entry[LEASE]"),
    ("who asks for a claim gets a lease", "if claim == '1' then", "if false then"),
    ("nobody is told", "publish(entry, 'grant', id, token, ends - now)", ""),
    ("the batch limit is not told", "again = looked == BATCH and not mine and waiting > 0", ""),
    (
        "a try does not see the queue",
        "    promote()\n    if holder == '' and waiting == 0 and",
        "    if holder == '' and",
    ),
    ("a newcomer overtakes", "mine = contender and place >= contender.place", "mine = contender"),
    (
        "asking twice takes a second ticket",
        "place = place or (ticket > 0 and ticket) or next_stamp()",
        "place = (ticket > 0 and ticket) or next_stamp()",
    ),
    (
        "who returns goes to the end",
        "place = place or (ticket > 0 and ticket) or next_stamp()",
        "place = place or next_stamp()",
    ),
    ("an unknown waiter is not noticed", "    missing = true\n", ""),
    (
        "anybody releases",
        "  if holder == id then\n    drop_lease(id)",
        "  if holder ~= '' then\n    drop_lease(holder)",
    ),
    ("a release hands nothing off", "local word = give_up(id)\npromote()", "local word = give_up(id)"),
    ("who leaves keeps what it was granted", "    drop_lease(id)\n    return 'released'", "    return 'released'"),
    ("anybody renews", "local mine = holder == id and held and held[TOKEN] == their_token", "local mine = held"),
    ("a renewal revives", "elseif believed and now < recover_until and", "elseif believed and"),
    (
        "a renewal makes shorter",
        "put_lease(id, held, math.max(holder_end, now + lease_us))",
        "put_lease(id, held, now + lease_us / 2)",
    ),
    ("a broken lease is renewed", "if mine and held[BROKEN] then", "if false then"),
    (
        "a broken lease that is cut comes back",
        "if mine and held[BROKEN] then",
        "if mine and held[BROKEN] and not held[CUT] then",
    ),
    ("a cut makes whole what was broken", "mark(held[BROKEN], true)", "mark(false, true)"),
    ("a broken lease comes back when it is over", "  pass_over(their_token)\n", ""),
    ("a lease that was given back comes back", "if now < recover_until and held then pass_over(held[TOKEN]) end", ""),
    ("any token breaks", "if held and held[TOKEN] == their_token then\n  word, left", "if held then\n  word, left"),
    (
        "a floor above the stamp proves nothing",
        "local beyond = highest > stamp or",
        "local beyond = brought > stamp or",
    ),
    (
        "a second loss shortens the recovery",
        "math.max(recover_until, now + math.max(liveness_us, left_us))",
        "now + math.max(liveness_us, left_us)",
    ),
    ("a client that asks is dead", "if waiting > 0 then refresh(client", "if false then refresh(client"),
    ("a cut lease is named", "not held[CUT] and client_of(holder)", "client_of(holder)"),
    (
        "a cut holder counts as known",
        "elseif ARGV[i] ~= holder or held and held[CUT] then",
        "elseif ARGV[i] ~= holder then",
    ),
    ("a stranger hides a rollback from the holder", " or brought > last and not nameless", ""),
    ("a loss is not noticed", "if not (rolled_back or made_anew) then", "if true then"),
    ("a rollback is not noticed", "local rolled_back = their_epoch > epoch or", "local rolled_back = false and"),
    (
        "every return opens a recovery",
        "made_anew = their_epoch < epoch and not nameless and recover_until == 0",
        "made_anew = their_epoch < epoch and not nameless",
    ),
    (
        "recovery does not wait",
        "if holder ~= '' or now < recover_until then return end",
        "if holder ~= '' then return end",
    ),
    ("leases of before a rollback stay", "if rolled_back and holder ~= '' then", "if false then"),
    ("leases granted after a loss are cut", "if rolled_back and holder ~= '' then", "if holder ~= '' then"),
    ("a cut lease is handed out", "(not held or held[CUT])", "(not held)"),
    (
        "an older lease comes back",
        "and (token < their_token or token == their_token and (holder == '' or holder == id)) then",
        "then",
    ),
    (
        "a lease takes another of its token",
        "token == their_token and (holder == '' or holder == id)",
        "token == their_token",
    ),
    (
        "a returning lease leaves its place in the queue",
        "if redis.call('ZSCORE', queue, id) then drop_waiter(id) end",
        "",
    ),
    ("a lost entry is not noticed", "missing = missing or redis.call('HEXISTS', entries, ARGV[i]) == 0", ""),
    (
        "a lost entry is not healed",
        "put_entry(id, entry) -- also",
        "if not queued then put_entry(id, entry) end -- also",
    ),
    (
        "a lost entry of the holder is an error",
        "or holder ~= '' and token > 0 and {0, 0, '', '', '', token} or nil",
        "",
    ),
    ("a lost state puts newcomers before the queue", "if stamp == 0 and waiting > 0 then", "if false then"),
    ("a lost state forgets the last token", "  token = math.max(token, held[TOKEN])\n", ""),
];

/// By the model, and by the promises alone. Each with the same seed, so that what is found is found again.
#[test]
#[ignore = "takes minutes: make mutants"]
fn broken_scripts_are_found() {
    let mut unnoticed = Vec::new();
    for (what, from, to) in BROKEN {
        let mut changed = false;
        let mut driver = Driver::with(|_, text| {
            changed |= text.contains(from);
            text.replace(from, to)
        });
        assert!(changed, "{what}: the scripts have changed");
        let mut found = [true, false].map(|by_model| {
            let steps = MUTANT_STEPS[usize::from(!by_model)];
            let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"scripts go wrong");
            let runner = TestRunner::new_with_rng(config(steps), seed);
            explore(runner, &mut driver, steps, 3, by_model)
        });
        let tell = |(steps, failure): &mut (usize, Option<String>)| match failure {
            Some(_) => format!("{steps:>7}"),
            None => "      -".to_owned(),
        };
        let line = format!("{} {}  {what}", tell(&mut found[0]), tell(&mut found[1]));
        let _ = writeln!(std::io::stderr(), "{line}");
        if found[0].1.is_none() {
            unnoticed.push(what);
        }
    }
    assert!(unnoticed.is_empty(), "not found: {unnoticed:#?}");
}
