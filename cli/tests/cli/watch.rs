//! `fairlock watch`: its screens at 80 and 40 columns, its keys, and how it ends.

use std::process::Stdio;

use crate::pty::Terminal;
use crate::shared::{Process, Redis, Signal, hold, signal};

/// Watches in a terminal of this many columns.
fn watch(redis: &Redis, columns: u16) -> Terminal {
    let mut terminal = Terminal::open_with(columns, &[("REDIS_URL", &redis.url())]);
    terminal.enter("$F watch --every 200ms; echo code $?");
    terminal
}

fn queue(redis: &Redis, name: &str, label: &str, place: u64) -> Process {
    let waiter = redis.run(name, &["--label", label], "echo; exec sleep 1000");
    redis.await_waiting(name, place);
    waiter
}

/// The screen with every number as `N`, however long it is, without the address of the server.
fn shape(screen: &str) -> String {
    let mut shape = String::new();
    for line in screen.lines() {
        let line = line.split(" · ").next().unwrap();
        let mut number = false;
        for c in line.chars() {
            if c.is_ascii_digit() && !number && shape.ends_with("  ") {
                shape.truncate(shape.trim_end_matches(' ').len());
                shape.push_str("  ");
            }
            if !(c.is_ascii_digit() && number) {
                shape.push(if c.is_ascii_digit() { 'N' } else { c });
            }
            number = c.is_ascii_digit();
        }
        shape = shape.trim_end().to_owned() + "\n";
    }
    shape.trim_end().to_owned()
}

/// Leaves by this key; the shell's screen is back then.
fn quit(terminal: &mut Terminal, key: &str) {
    terminal.keys(key);
    assert_eq!(terminal.number_after("code "), 0);
    terminal.await_screen(|screen| screen.contains("code 0") && !screen.contains("HOLDER"));
    assert_cooked(terminal);
}

/// The shell has its terminal as it was.
fn assert_cooked(terminal: &mut Terminal) {
    terminal.expect("PROMPT> ");
    let modes = terminal.command("stty -a");
    let is_on = |mode: &str| modes.split_whitespace().any(|word| word == mode);
    assert!(is_on("icanon") && is_on("isig"), "{modes}");
}

#[test]
fn locks_are_shown_at_80_and_at_40_columns() {
    let redis = Redis::start();
    let _first = hold(&redis, "prod:web:deploy", "ip-10-0-12-34.eu-central-1.compute.internal:14380 deploy.sh");
    let _second = hold(&redis, &"日本語".repeat(9), &"長い名前".repeat(9));
    let _waiters: Vec<_> =
        (1..=2).map(|place| queue(&redis, "prod:web:deploy", "another \x1b[2J one", place)).collect();
    assert_eq!(redis.run("idle", &[], "true").finish().code, 0);
    let mut wide = watch(&redis, 80);
    let screen = wide.await_screen(|screen| screen.contains("idle") && screen.contains("quit"));
    let lines: Vec<&str> = screen.lines().collect();
    let expected = "\
N locks, N held, N waiting
LOCK                      HOLDER                      HELD  LEASE QUEUE A MINUTE
prod:web:deploy           ip-N-N-N-N…N deploy.sh  Ns  Ns  N  N
日本語日本語…日本語日本語 長い名前長い…前長い名前  Ns  Ns  N
idle                      free  N";
    assert_eq!(shape(&lines[..5].join("\n")), expected, "{screen}");
    assert_eq!(lines[23].trim(), "↑↓ choose   ⏎ open   s sort: held   / filter   b break   q quit");
    quit(&mut wide, "q");
    let mut narrow = watch(&redis, 40);
    let screen = narrow.await_screen(|screen| screen.contains("idle") && screen.contains("quit"));
    let lines: Vec<&str> = screen.lines().collect();
    let expected = "\
N locks, N held, N waiting
LOCK          HOLDER          HELD QUEUE
prod:w…deploy ip-N-…oy.sh  Ns  N
日本語…日本語 長い名…名前  Ns
idle          free";
    assert_eq!(shape(&lines[..5].join("\n")), expected, "{screen}");
    assert_eq!(lines[23].trim(), "⏎ open s held / filter b break q quit");

    narrow.keys("\r");
    let screen = narrow.await_screen(|screen| screen.contains("   2.  "));
    let lines: Vec<&str> = screen.lines().collect();
    let expected = "\
lock    prod:web:deploy
holder  ip-N-N-N-N.eu…N deploy.sh
held  Ns
lease  Ns left, unless renewed
token  N
grants  N a minute ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
queue  N
  N.  another \\u{Nb}[NJ one  Ns
  N.  another \\u{Nb}[NJ one  Ns";
    assert_eq!(shape(&lines[1..10].join("\n")), expected, "{screen}");
    assert_eq!(lines[23].trim(), "b break  Esc back  q quit");
    // The window grows.
    narrow.resize(100, 30);
    let screen = narrow.await_screen(|screen| screen.lines().nth(29).is_some_and(|line| line.contains("scroll")));
    assert!(screen.contains("eu-central-1.compute.internal:14380 deploy.sh"), "{screen}");
    quit(&mut narrow, "\x03");
}

#[test]
fn keys_choose_sort_filter_and_open() {
    let redis = Redis::start();
    let _first = hold(&redis, "first", "a");
    let _second = hold(&redis, "second", "b");
    let _waiter = queue(&redis, "second", "c", 1);
    assert_eq!(redis.run("idle", &[], "true").finish().code, 0);
    let mut terminal = watch(&redis, 80);
    let names = |screen: &str| -> Vec<String> {
        let rows = screen.lines().skip(2).take_while(|row| !row.trim().is_empty());
        rows.map(|row| row.split(' ').next().unwrap().to_owned()).collect()
    };
    terminal.await_screen(|screen| names(screen) == ["first", "second", "idle"]);
    terminal.keys("s");
    terminal.await_screen(|screen| screen.contains("sort: waiting") && names(screen) == ["second", "first", "idle"]);
    terminal.keys("s");
    terminal.await_screen(|screen| screen.contains("sort: name") && names(screen) == ["first", "idle", "second"]);
    terminal.keys("/Se");
    terminal.await_screen(|screen| screen.contains("/Se_") && names(screen) == ["second"]);
    terminal.keys("\r");
    terminal.await_screen(|screen| screen.contains("/ 'Se'") && screen.starts_with("1 of 3 locks, 2 held"));
    terminal.keys("\r");
    terminal.await_screen(|screen| screen.contains("lock    second") && screen.contains("1.  c"));
    terminal.keys("\x1b");
    terminal.await_screen(|screen| names(screen) == ["second"]);
    terminal.keys("\x1b");
    terminal.await_screen(|screen| names(screen) == ["first", "idle", "second"]);
    terminal.keys("/zz\r");
    terminal.await_screen(|screen| screen.contains("No lock and no holder has this text"));
    terminal.keys("\x1b");
    terminal.await_screen(|screen| names(screen).len() == 3);
    // What is chosen stays chosen when the order changes: `second` is last by name, and first by its queue.
    terminal.keys("jjjss");
    terminal.await_screen(|screen| screen.contains("sort: waiting") && names(screen) == ["second", "first", "idle"]);
    terminal.keys("\r");
    terminal.await_screen(|screen| screen.contains("lock    second"));
    quit(&mut terminal, "q");
}

#[test]
fn columns_are_as_wide_as_what_they_show() {
    let redis = Redis::start();
    let label = "ops@ip-10-0-12-34.compute.internal:14380 deploy.sh";
    let _lock = hold(&redis, "short", label);
    let mut terminal = watch(&redis, 200);
    let screen = terminal.await_screen(|screen| screen.contains("short") && screen.contains("quit"));
    let row = screen.lines().nth(2).unwrap();
    assert!(row.starts_with(&format!("short {label} ")) && row.trim_end().chars().count() < 110, "{screen}");
    // Where there is no room for all, names and holders come before bars.
    let mut terminal = watch(&redis, 90);
    let screen = terminal.await_screen(|screen| screen.contains("short") && screen.contains("quit"));
    assert!(screen.contains(label) && screen.contains(" A MINUTE") && !screen.contains("GRANTS"), "{screen}");
}

#[test]
fn what_is_below_the_screen_is_told_and_the_end_fills_the_screen() {
    let redis = Redis::start();
    let _many: Vec<_> = (10..40).map(|number| hold(&redis, &format!("lock{number}"), "the holder")).collect();
    let _queue: Vec<_> = (1..=30).map(|place| queue(&redis, "lock10", &format!("waiter {place}"), place)).collect();
    let mut terminal = watch(&redis, 80);
    let told = "30 locks, 30 held, 30 waiting, 9 below · ";
    let rows = |screen: &str| screen.lines().filter(|line| line.starts_with("lock")).count();
    terminal.await_screen(|screen| screen.starts_with(told) && rows(screen) == 21);
    terminal.keys("\x1b[F");
    terminal.await_screen(|screen| screen.starts_with("30 locks, 30 held, 30 waiting · "));
    terminal.keys("\x1b[H\r");
    let screen = terminal.await_screen(|screen| screen.contains("  1.  waiter 1 ") && screen.contains("Esc back"));
    let shown = screen.matches("waiter").count();
    assert!(screen.contains(&format!("queue   30, {} below", 30 - shown)), "{screen}");
    terminal.keys("\x1b[F");
    let screen = terminal.await_screen(|screen| screen.contains(" 30.  waiter 30 ") && !screen.contains("below"));
    assert_eq!(screen.matches("waiter").count(), shown, "the screen is full: {screen}");
    terminal.keys("\x1b[A");
    terminal.await_screen(|screen| screen.contains("queue   30, 1 below"));
}

#[test]
fn a_filter_finds_holders_and_a_message_gives_way_to_the_keys() {
    let redis = Redis::start();
    let _locks = [("first", "ops@db1:4711 dump.sh"), ("second", "ops@web7:12 x"), ("third", "OPS@DB1:1 y")]
        .map(|(name, label)| hold(&redis, name, label));
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("second"));
    terminal.keys("/db1\r");
    terminal.await_screen(|screen| screen.starts_with("2 of 3 locks") && !screen.contains("second"));
    terminal.keys("\x1bby");
    terminal.await_screen(|screen| screen.contains(" is told; its lease ends within"));
    // Without a key.
    terminal.await_screen(|screen| screen.contains("b break   q quit"));
}

#[test]
fn grants_are_counted() {
    let redis = Redis::start();
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("No lock was used"));
    assert_eq!(redis.run("x", &[], "true").finish().code, 0);
    terminal.await_screen(|screen| screen.contains("0 ▁▁▁▁▁▁▁▁▁▁▁"));
    // There are many grants between two looks.
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    for _ in 0..50 {
        client.lock("x").unwrap().acquire().blocking().unwrap().release().blocking().unwrap();
    }
    terminal.await_screen(|screen| screen.contains("50 ▁") && screen.contains("█"));
}

#[test]
fn a_lease_is_broken_after_a_question() {
    let redis = Redis::start();
    let holder = hold(&redis, "deploy", "the holder");
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("the holder"));
    terminal.keys("b");
    let screen = terminal.await_screen(|screen| screen.contains("y: break it"));
    let token = redis.state("deploy")["holders"][0]["token"].to_string();
    assert!(screen.contains("Break the lease on deploy?") && screen.contains(&format!("token {token}")), "{screen}");
    terminal.keys("n");
    terminal.await_screen(|screen| !screen.contains("y: break it"));
    assert_eq!(redis.state("deploy")["state"], "held");
    terminal.keys("by");
    terminal.await_screen(|screen| screen.contains("the holder of deploy is told; its lease ends within"));
    assert_eq!(holder.finish().code, 123);
    terminal.await_screen(|screen| screen.contains("free"));
    terminal.keys("b");
    terminal.await_screen(|screen| screen.contains("deploy has no holder"));
    quit(&mut terminal, "q");
}

/// The holder was told that its lease is broken, and has not released.
#[test]
fn a_lease_that_was_broken_before_is_ended_by_force() {
    let redis = Redis::start();
    let holder = hold(&redis, "deploy", "the holder");
    holder.signal(Signal::STOP);
    let mut terminal = watch(&redis, 40);
    terminal.await_screen(|screen| screen.contains("the holder"));
    terminal.keys("by");
    terminal.await_screen(|screen| screen.contains("broken: "));
    terminal.keys("b");
    let screen = terminal.await_screen(|screen| screen.contains("y: end it"));
    assert!(screen.contains("End the lease on deploy at once?") && screen.contains("two jobs"), "{screen}");
    terminal.keys("y");
    terminal.await_screen(|screen| screen.contains("the lease on deploy was ended") && screen.contains("free"));
    holder.signal(Signal::CONT);
}

#[test]
fn keys_work_while_the_server_hangs_or_is_dead() {
    let redis = Redis::of(testkit::RedisServer::builder().plain().appendonly().start());
    let _holder = hold(&redis, "x", "the holder");
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("the holder"));
    redis.kill();
    let screen = terminal.await_screen(|screen| screen.contains("no Redis server answers"));
    assert!(screen.starts_with("seen ") && screen.contains("the holder"), "what was seen last stays: {screen}");
    redis.restart();
    terminal.await_screen(|screen| screen.starts_with("1 lock, 1 held, 0 waiting"));
    redis.stall();
    terminal.await_screen(|screen| screen.starts_with("seen ") && screen.contains(" ago · no answer yet from "));
    terminal.keys("s");
    terminal.await_screen(|screen| screen.contains("sort: waiting"));
    quit(&mut terminal, "q");
    redis.resume();

    redis.kill();
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("no Redis server answers"));
    quit(&mut terminal, "q");
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back() {
    let redis = Redis::start();
    let _holder = hold(&redis, "x", "the holder");
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url())]);
    // A script around it stops with it.
    terminal.enter("sh -c '$F watch; echo \"co\"de $?'");
    terminal.await_screen(|screen| screen.contains("the holder"));
    terminal.keys("\x1a");
    terminal.await_screen(|screen| screen.contains("Stopped") && !screen.contains("the holder"));
    assert_cooked(&mut terminal);
    terminal.enter("fg");
    terminal.await_screen(|screen| screen.contains("the holder"));
    quit(&mut terminal, "q");
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let redis = Redis::start();
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url())]);
    terminal.enter("sh -c 'echo pid $$; exec $F watch'; echo code $?");
    let pid = terminal.number_after("pid ");
    terminal.await_screen(|screen| screen.contains("No lock was used"));
    signal(pid, Signal::TERM);
    assert_eq!(terminal.number_after("code "), 143);
    assert_cooked(&mut terminal);
}

#[test]
fn watch_needs_a_terminal() {
    let redis = Redis::start();
    let output = redis.fairlock().arg("watch").stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
    assert!(String::from_utf8(output.stderr).unwrap().contains("needs a terminal"));
}
