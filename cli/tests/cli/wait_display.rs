//! The progress line of `fairlock run`: rewritten in place, whatever the names are and whatever the server does.

use std::collections::BTreeSet;

use crate::pty::Terminal;
use crate::shared::{Redis, Signal, hold};

fn open(redis: &Redis, columns: u16) -> Terminal {
    Terminal::open_with(columns, &[("REDIS_URL", &redis.url())])
}

/// The rows of the screen that belong to the line.
fn rows(screen: &str) -> Vec<&str> {
    screen.lines().filter(|row| row.contains(" · ")).collect()
}

/// The number of seconds in the line, if there is a line.
fn clock(screen: &str) -> Option<u32> {
    let clock = rows(screen).last()?.trim_start_matches("fairlock: ").split_once(" · ")?.0;
    let (minutes, seconds) = clock.split_once(':')?;
    Some(minutes.parse::<u32>().ok()? * 60 + seconds.parse::<u32>().ok()?)
}

#[test]
fn the_wait_is_shown_in_one_line_and_can_be_interrupted() {
    let (redis, holder) = Redis::held("the holder");
    let mut terminal = open(&redis, 80);
    terminal.enter_and_expect("$F run x -- true", "\r\x1b[Kfairlock: 0:0");
    let between = terminal.expect(" · 1st of 1 for x · held ");
    assert!(!between.contains('\n'), "rewritten in place: {between:?}");
    terminal.keys_and_expect("\x03", "\r\x1b[K");
    terminal.expect("PROMPT> ");
    assert_eq!(terminal.enter_for("code ", "echo code $?"), 130);
    redis.await_waiting("x", 0);

    terminal.enter_and_expect("$F run x -- echo granted; echo code $?", " by the holder");
    holder.signal(Signal::TERM);
    terminal.expect("\r\x1b[K");
    terminal.expect("granted");
    assert_eq!(terminal.number_after("code "), 0);
}

/// Names of real machines, and characters of two columns each.
#[test]
fn a_line_that_is_too_long_is_cut_behind_the_clock_and_never_wraps() {
    let redis = Redis::start();
    let name = "prod:web:deploy";
    for label in
        ["ip-10-0-12-34.eu-central-1.compute.internal:14380 deploy.sh", &"日本語".repeat(9), &"é☎\u{fe0f}".repeat(40)]
    {
        let holder = hold(&redis, name, label);
        for columns in [80, 40] {
            let mut terminal = open(&redis, columns);
            let screen = terminal.enter_and_await(&format!("clear; $F run {name} -- true"), |screen| {
                assert!(rows(screen).len() < 2, "one row:\n{screen}");
                clock(screen) >= Some(3) && screen.contains("1st of 1 for")
            });
            let used: Vec<_> = screen.lines().filter(|row| !row.trim().is_empty()).collect();
            assert_eq!(used, rows(&screen), "nothing of the line is in another row");
            assert!(used[0].contains("1st of 1 for"), "{screen}");
            let whole = columns == 80 && label.ends_with(" deploy.sh");
            assert!(
                !whole || used[0].contains("held ") && used[0].contains(" deploy.sh"),
                "the script's name: {screen}"
            );
            terminal.keys_and_expect("\x03", "PROMPT> ");
        }
        holder.signal(Signal::TERM);
        holder.finish();
    }
}

/// The terminal shows `^C` behind the line, which must not push a part of the line out of reach.
#[test]
fn a_line_as_wide_as_the_terminal_is_erased_whole() {
    let redis = Redis::start();
    for columns in [80, 40] {
        for (key, then) in [("\x03", "SIGINT while"), ("\x1a", "Stopped")] {
            let name = format!("{columns} 日 {}", then.len());
            let _holder = hold(&redis, &name, &"日本語".repeat(40));
            let mut terminal = open(&redis, columns);
            terminal.command(&format!("N='{name}'; stty echo"));
            terminal.enter_and_await("clear; $F run \"$N\" -- true", |screen| {
                rows(screen).first().is_some_and(|row| row.contains("1st of 1 for"))
            });
            let screen = terminal.keys_and_await(key, |screen| screen.contains(then));
            assert_eq!(rows(&screen), [""; 0], "{screen}");
        }
    }
}

#[test]
fn the_clock_ticks_while_redis_is_dead() {
    let (redis, _holder) = Redis::held("the holder");
    let mut terminal = open(&redis, 80);
    terminal.enter_and_await("clear; $F run x -- true", |screen| clock(screen).is_some());
    redis.stop();
    // A look at the queue is given up after five seconds, and the next one follows. A line that waited for them would
    // show only a sixth of all seconds.
    let mut shown = BTreeSet::new();
    let screen = terminal.await_screen(|screen| {
        shown.extend(clock(screen));
        clock(screen) > Some(18)
    });
    assert!(screen.contains("for x · no Redis server answers"), "{screen}");
    assert!(shown.len() > 9, "{shown:?}");
    redis.cont();
}

/// Longer than the client itself waits for an answer.
#[test]
fn a_wait_that_takes_nothing_outlives_a_server_that_is_away() {
    let redis = Redis::of(testkit::RedisServer::builder().plain().appendonly().start());
    let holder = hold(&redis, "x", "the holder");
    let mut terminal = open(&redis, 80);
    terminal.enter_and_await("clear; $F wait x; echo code $?", |screen| screen.contains(" · x · held "));
    redis.stop();
    terminal.await_screen(|screen| screen.contains("waiting for x · no answer from the server"));
    let late = redis.fairlock().args(["wait", "x", "-t", "1"]).output().unwrap();
    assert_eq!(late.status.code(), Some(125), "no server at the start: {late:?}");
    terminal.await_screen(|screen| clock(screen) >= Some(8));
    redis.cont();
    terminal.await_screen(|screen| screen.contains(" · x · held "));
    holder.signal(Signal::TERM);
    assert_eq!(terminal.number_after("code "), 0);
}

#[test]
fn a_warning_takes_the_place_of_the_line_and_the_line_goes_on_below() {
    let (redis, _holder) = Redis::held("the holder");
    let mut terminal = open(&redis, 80);
    terminal.enter_and_await("clear; $F run x -- true", |screen| clock(screen).is_some());
    redis.cut();
    let below = |screen: &str| screen.lines().nth(1).is_some_and(|row| row.starts_with("fairlock: 0:"));
    let screen = terminal.await_screen(|screen| screen.contains("connection was lost") && below(screen));
    assert!(screen.starts_with("fairlock: the connection was lost") && rows(&screen).len() == 1, "{screen}");
}

/// The end of the line is cut, the holder in its middle.
#[test]
fn a_wait_that_takes_nothing_shows_who_holds_the_lock_on_a_narrow_terminal() {
    let (redis, _holder) = Redis::held("ops@db12:14380 deploy.sh");
    let _waiter = redis.waiter("x", &[], "true");
    for columns in [40, 80] {
        let mut terminal = open(&redis, columns);
        // On a busy machine the first line may say that there is no answer yet.
        let is_answered = |screen: &str| clock(screen).is_some() && !screen.contains("waiting for");
        let screen = terminal.enter_and_await("clear; $F wait x", is_answered);
        let shown = rows(&screen);
        assert!(shown.len() == 1 && shown[0].chars().count() <= usize::from(columns), "{screen}");
        assert!(screen.contains(" · x · 1 waiting · held "), "{screen}");
        assert!(screen.contains('…') == (columns == 40) && screen.trim_end().ends_with("y.sh"), "{screen}");
    }
}

/// Nobody is shown its place, so it does not ask for it.
#[test]
fn a_quiet_wait_asks_the_server_for_no_place() {
    let asked = |redis: &Redis| {
        let stats = redis.info("cmdstat_evalsha").unwrap();
        stats.split(['=', ',']).nth(1).unwrap().parse::<u64>().unwrap()
    };
    let [loud, quiet] = [&[][..], &["-q"]].map(|options| {
        let (redis, holder) = Redis::held("the holder");
        let waiter = redis.waiter("x", options, "true");
        (redis, holder, waiter)
    });
    let before = (asked(&loud.0), asked(&quiet.0));
    // Both have sent some heartbeats by then, and the one that is loud has looked each second.
    testkit::eventually("it has asked often", testkit::SOON, || asked(&loud.0) - before.0 >= 15);
    let asked = asked(&quiet.0) - before.1;
    assert!(asked < 8, "{asked}");
}

/// Such as a shell in an editor: it shows each of the signs that move the cursor.
#[test]
fn a_dumb_terminal_is_told_lines_and_has_no_full_screen() {
    let (redis, _holder) = Redis::held("the holder");
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url()), ("TERM", "dumb")]);
    for (words, says) in [("run x true", "waiting for x: 1st of 1, held"), ("wait x", "waiting for x: held")] {
        terminal.enter(&format!("$F {words}"));
        let said = terminal.expect(says);
        assert!(!said.contains(['\x1b', '\r', '·']) || said.ends_with("fairlock: "), "{said:?}");
        terminal.keys_and_expect("\x03", "PROMPT> ");
    }
    let said = terminal.command("$F watch; echo code $?");
    assert!(said.contains("watch needs a terminal that it can draw on") && said.contains("code 125"), "{said:?}");
}

/// Ctrl-S: the output is not read, and the wait goes on.
#[test]
fn a_terminal_that_takes_nothing_does_not_hold_up_the_wait() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let (events, done) = (folder.path().join("events"), folder.path().join("done"));
    let holder = hold(&redis, "x", "the holder");
    let first = redis.waiter("x", &[], "true");
    let mut terminal = open(&redis, 80);
    terminal.enter_and_expect(
        &format!("$F run x --events {} -- touch {}", events.display(), done.display()),
        " 2nd of 2 for x · held ",
    );
    terminal.keys("\x13");
    // With the event of its new position the line is drawn anew.
    first.signal(Signal::TERM);
    first.finish();
    let is_first = || std::fs::read_to_string(&events).unwrap().contains(r#""position":1"#);
    crate::shared::eventually("the first place is told", || is_first().then_some(()));
    holder.signal(Signal::TERM);
    crate::shared::eventually("the command runs", || done.exists().then_some(()));
    terminal.keys_and_expect("\x11", "PROMPT> ");
}
