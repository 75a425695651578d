//! `fairlock watch`: its keys, and how it ends. `operating_page.rs` has its screen.

use crate::pty::Terminal;
use crate::shared::{Redis, Signal, hold, signal};

/// Watches in a terminal of this many columns.
fn watch(redis: &Redis, columns: u16) -> Terminal {
    let mut terminal = Terminal::open_with(columns, &[("REDIS_URL", &redis.url())]);
    terminal.enter("$F watch; echo code $?");
    terminal
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
fn keys_choose_sort_filter_and_open() {
    let redis = Redis::start();
    let _first = hold(&redis, "first", "a");
    let _second = hold(&redis, "second", "b");
    let _waiter = redis.waiter("second", &["--label", "c"], "echo; exec sleep 1000");
    assert_eq!(redis.run("idle", &[], "true").finish().code, 0);
    let mut terminal = watch(&redis, 80);
    let names = |screen: &str| -> Vec<String> {
        let rows = screen.lines().skip(2).take_while(|row| !row.trim().is_empty());
        rows.map(|row| row.split(' ').next().unwrap().to_owned()).collect()
    };
    terminal.await_screen(|screen| names(screen) == ["first", "second", "idle"]);
    terminal
        .keys_and_await("s", |screen| screen.contains("sort: waiting") && names(screen) == ["second", "first", "idle"]);
    terminal
        .keys_and_await("s", |screen| screen.contains("sort: name") && names(screen) == ["first", "idle", "second"]);
    terminal.keys_and_await("/Se", |screen| screen.contains("/Se_") && names(screen) == ["second"]);
    terminal.keys_and_await("\r", |screen| screen.contains("/ 'Se'") && screen.starts_with("1 of 3 locks, 2 held"));
    terminal.keys_and_await("\r", |screen| screen.contains("lock    second") && screen.contains("1.  c"));
    terminal.keys_and_await("\x1b", |screen| names(screen) == ["second"]);
    terminal.keys_and_await("\x1b", |screen| names(screen) == ["first", "idle", "second"]);
    terminal.keys_and_await("/zz\r", |screen| screen.contains("No lock and no holder has this text"));
    terminal.keys_and_await("\x1b", |screen| names(screen).len() == 3);
    // What is chosen stays chosen when the order changes: `second` is last by name, and first by its queue.
    terminal.keys_and_await("jjjss", |screen| {
        screen.contains("sort: waiting") && names(screen) == ["second", "first", "idle"]
    });
    terminal.keys_and_await("\r", |screen| screen.contains("lock    second"));
    quit(&mut terminal, "q");
}

#[test]
fn a_lease_is_broken_after_a_question() {
    let redis = Redis::start();
    let holder = hold(&redis, "deploy", "the holder");
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("the holder"));
    let screen = terminal.keys_and_await("b", |screen| screen.contains("y: break it"));
    let token = redis.state("deploy")["holders"][0]["token"].to_string();
    assert!(screen.contains("Break the lease on deploy?") && screen.contains(&format!("token {token}")), "{screen}");
    terminal.keys_and_await("n", |screen| !screen.contains("y: break it"));
    assert_eq!(redis.state("deploy")["state"], "held");
    // The holder lets go at once, and then the screen says no more that it has to.
    terminal.keys_and_await("by", |screen| screen.contains("that lease on deploy is over") && screen.contains("free"));
    assert_eq!(holder.finish().code, 123);
    terminal.keys_and_await("b", |screen| screen.contains("deploy has no holder"));
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
    terminal
        .keys_and_await("by", |screen| screen.contains("broken: ") && screen.contains("the holder of deploy is told"));
    let screen = terminal.keys_and_await("b", |screen| screen.contains("y: end it"));
    assert!(screen.contains("End the lease on deploy at once?") && screen.contains("two jobs"), "{screen}");
    terminal.keys_and_await("y", |screen| screen.contains("the lease on deploy was ended") && screen.contains("free"));
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
    redis.stop();
    terminal.await_screen(|screen| screen.starts_with("seen ") && screen.contains(" ago · no answer yet from "));
    terminal.keys_and_await("s", |screen| screen.contains("sort: waiting"));
    quit(&mut terminal, "q");
    redis.cont();

    redis.kill();
    let mut terminal = watch(&redis, 80);
    terminal.await_screen(|screen| screen.contains("no Redis server answers"));
    quit(&mut terminal, "q");
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back() {
    let (redis, _holder) = Redis::held("the holder");
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url())]);
    // A script around it stops with it.
    terminal.enter_and_await("sh -c '$F watch; echo \"co\"de $?'", |screen| screen.contains("the holder"));
    terminal.keys_and_await("\x1a", |screen| screen.contains("Stopped") && !screen.contains("the holder"));
    assert_cooked(&mut terminal);
    terminal.enter_and_await("fg", |screen| screen.contains("the holder"));
    quit(&mut terminal, "q");
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let redis = Redis::start();
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url())]);
    let pid = terminal.enter_for("pid ", "sh -c 'echo pid $$; exec $F watch'; echo code $?");
    terminal.await_screen(|screen| screen.contains("No lock was used"));
    signal(pid, Signal::TERM);
    assert_eq!(terminal.number_after("code "), 143);
    assert_cooked(&mut terminal);
}

#[test]
fn long_labels_take_neither_the_heading_nor_on_a_wide_screen_the_bars() {
    let redis = Redis::start();
    let _holders = [hold(&redis, "prod:web:deploy", "ops@db1:14380 deploy.sh"), hold(&redis, "y", &"long ".repeat(30))];
    for (columns, has_bars) in [(80, false), (110, true), (200, true)] {
        let mut terminal = watch(&redis, columns);
        let screen = terminal.await_screen(|screen| screen.contains("deploy.sh") && screen.contains("long "));
        let heading = screen.lines().nth(1).unwrap();
        assert!(heading.trim_end().ends_with("LEASE QUEUE GRANTS/MIN"), "{screen}");
        assert_eq!(screen.contains('▁'), has_bars, "{screen}");
        assert!(screen.contains("14380 deploy.sh"), "{screen}");
        quit(&mut terminal, "q");
    }
}

#[test]
fn without_a_server_the_whole_reason_is_shown() {
    let redis = Redis::start();
    redis.kill();
    let mut terminal = watch(&redis, 60);
    let told = |screen: &str| screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let screen =
        terminal.await_screen(|screen| told(screen).contains("check that it runs and that the address is right"));
    assert!(screen.starts_with("no answer yet from "), "{screen}");
    quit(&mut terminal, "q");
}
