//! fairlock at a terminal: the command can use it, Ctrl-C and Ctrl-Z work as without fairlock, and the wait is shown.

use crate::pty::Terminal;
use crate::shared::{Redis, Signal, await_death, await_state, parent, signal, stat};

/// A private Redis, and a terminal whose programs use it.
fn open() -> (Redis, Terminal) {
    let redis = Redis::start();
    let terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    (redis, terminal)
}

/// The terminal's foreground process group, as the kernel sees it.
fn foreground(pid: u32) -> u32 {
    stat(pid).unwrap()[5].parse().unwrap()
}

fn group(pid: u32) -> u32 {
    stat(pid).unwrap()[2].parse().unwrap()
}

#[test]
fn ctrl_c_reaches_the_command_exactly_once() {
    let (_redis, mut terminal) = open();
    // Counts for a second after the first signal: a copy that goes through fairlock would arrive long before the end of
    // it.
    let script = "$SIG{INT} = sub { $count++ }; \
                  print STDERR qq(ready $$\\n); \
                  select(undef, undef, undef, 0.01) until $count; \
                  $end = time + 2; \
                  select(undef, undef, undef, 0.01) while time < $end; \
                  print STDERR qq(count $count\\n); \
                  exit 5";
    // In a pipeline the command is in the background, and fairlock passes the signal on, once as well.
    for rest in ["; echo code $?", " | cat; echo code ${PIPESTATUS[0]}"] {
        let command = terminal.enter_for("ready ", &format!("$F run x -- perl -e '{script}'{rest}"));
        let in_front = foreground(command) == group(command);
        assert_eq!(in_front, !rest.starts_with(" |"), "alone it has the terminal");
        terminal.keys("\x03");
        assert_eq!(terminal.number_after("count "), 1);
        // An interactive bash runs nothing after a pipeline of which a part, here cat, was interrupted.
        if in_front {
            assert_eq!(terminal.number_after("code "), 5);
        }
        terminal.expect("PROMPT> ");
    }
}

/// As without fairlock: the terminal sends the signal to the script as well, which finds that its command died of it.
#[test]
fn ctrl_c_and_ctrl_backslash_end_the_script_around_fairlock() {
    let (redis, mut terminal) = open();
    terminal.command("ulimit -c 0");
    // bash ignores Ctrl-\\, and goes on after any command that died of it.
    for (shell, keys) in [("sh", &[("\x03", 130), ("\x1c", 131)][..]), ("bash", &[("\x03", 130)])] {
        for &(key, code) in keys {
            let step = "$F run x -- sh -c \"echo pid \\$\\$; exec sleep 1000\"";
            terminal.enter_for("pid ", &format!("{shell} -c '{step}; echo next step'"));
            let screen = terminal.keys_and_expect(key, "PROMPT> ");
            assert!(!screen.contains("next step"), "{shell} {key:?}: {screen}");
            assert_eq!(redis.state("x")["holders"][0], serde_json::Value::Null, "the lock was given back before");
            assert_eq!(terminal.enter_for("code ", "echo code $?"), code, "{shell}");
        }
    }
}

#[test]
fn ctrl_c_while_waiting_ends_the_script_around_fairlock() {
    let (redis, _holder) = Redis::held("the holder");
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    terminal.command("ulimit -c 0");
    for (shell, keys) in [("sh", &["\x03", "\x1c"][..]), ("bash", &["\x03"])] {
        for key in keys {
            terminal.enter_and_expect(&format!("{shell} -c '$F run x -- true; echo next step'"), "1st of 1 for x");
            let screen = terminal.keys_and_expect(key, "PROMPT> ");
            assert!(!screen.contains("next step"), "{shell} {key:?}: {screen}");
        }
    }
}

#[test]
fn a_script_goes_on_after_a_command_that_handled_ctrl_c_and_after_a_signal_that_was_not_typed() {
    let (_redis, mut terminal) = open();
    let script = |step: &str| format!("sh -c '$F run x -- sh -c \"{step}\"; echo next step'");
    terminal.enter_and_expect(&script("trap exit\\ 0 INT; echo ready; sleep 1000 & wait"), "ready");
    terminal.keys_and_expect("\x03", "next step");
    terminal.expect("PROMPT> ");

    let command = terminal.enter_for("pid ", &script("echo pid \\$\\$; exec sleep 1000"));
    signal(parent(parent(command)), Signal::INT);
    terminal.expect("next step");
    terminal.expect("PROMPT> ");
}

#[test]
fn the_command_reads_from_the_terminal_and_gives_it_back() {
    let (_redis, mut terminal) = open();
    terminal.enter_and_expect("$F run x -- sh -c 'echo ready; read word; echo \"<$word>\"'; echo code $?", "ready");
    terminal.enter_and_expect("typed", "<typed>");
    assert_eq!(terminal.number_after("code "), 0);
    terminal.expect("PROMPT> ");
    // The shell takes the terminal back itself, so ask where there is no job control: a second reader in one job.
    terminal.enter("bash -c '$F run x -- true; read word; echo \"<$word>\"'");
    terminal.enter_and_expect("again", "<again>");
    terminal.expect("PROMPT> ");
}

#[test]
fn in_a_pipeline_the_command_gets_the_terminal_when_it_asks() {
    let (_redis, mut terminal) = open();
    terminal.enter_and_expect("$F run x -- sh -c 'echo ready >&2; read word; echo \"<$word>\"' | cat", "ready");
    terminal.enter_and_expect("typed", "<typed>");
    terminal.expect("PROMPT> ");
}

/// As in `fairlock run … | less`.
#[test]
fn in_a_pipeline_another_program_may_use_the_terminal() {
    let (_redis, mut terminal) = open();
    terminal.enter_and_expect("$F run x -- sh -c 'echo through; exec sleep 1000' | sh -c 'read line; echo ready; read key < /dev/tty; echo \"<$line $key>\"; kill -TERM 0'", "ready");
    terminal.enter_and_expect("key", "<through key>");
    terminal.expect("PROMPT> ");
}

#[test]
fn ctrl_z_stops_fairlock_and_fg_continues_the_command_in_front() {
    let (_redis, mut terminal) = open();
    let command = terminal
        .enter_for("pid ", "$F run x -- sh -c 'echo pid $$; read word; echo \"<$word>\"; exit 6'; echo code $?");
    let fairlock = parent(parent(command));
    terminal.keys_and_expect("\x1a", "the lease on x ends in");
    terminal.expect("PROMPT> ");
    await_state(command, "T");
    await_state(fairlock, "T");
    assert_eq!(foreground(fairlock), group(parent(fairlock)), "the shell has the terminal");
    terminal.enter_and_expect("fg; echo code $?", "run x");
    terminal.enter_and_expect("typed", "<typed>");
    assert_eq!(terminal.number_after("code "), 6);
    terminal.expect("PROMPT> ");
}

#[test]
fn a_command_that_reads_in_the_background_waits_for_fg() {
    let (_redis, mut terminal) = open();
    let command = terminal.enter_for("pid ", "$F run x -- sh -c 'echo pid $$; read word; echo \"<$word>\"; exit 6' &");
    await_state(command, "T");
    await_state(parent(parent(command)), "T");
    // The shell hears of a stop when the last thread has stopped; it would not continue anything before.
    terminal.enter_and_expect("while [ -z \"$(jobs -s)\" ]; do sleep 0.01; done; fg; echo code $?", "run x");
    terminal.enter_and_expect("typed", "<typed>");
    assert_eq!(terminal.number_after("code "), 6);
}

#[test]
fn a_command_that_stays_stopped_is_ended_with_its_lease() {
    let (_redis, mut terminal) = open();
    let command = terminal.enter_for("pid ", "$F run x --lease 6s -- sh -c 'echo pid $$; exec sleep 1000'");
    terminal.keys_and_expect("\x1a", "PROMPT> ");
    await_death(command);
    assert_eq!(terminal.enter_for("code ", "fg; echo code $?"), 123);
}

#[test]
fn ctrl_z_through_fairlock_stops_a_command_that_is_not_in_front() {
    let (_redis, mut terminal) = open();
    let command = terminal.enter_for("pid ", "$F run x -- sh -c 'echo pid $$ >&2; exec sleep 1000' | cat");
    terminal.keys_and_expect("\x1a", "PROMPT> ");
    await_state(command, "T");
    terminal.enter("fg");
    await_state(command, "S");
    terminal.keys("\x03");
    await_death(command);
    terminal.expect("PROMPT> ");
}

/// No shell could continue an orphaned job, so it must not stay stopped.
#[test]
fn ctrl_z_without_a_job_control_shell_does_not_hang_the_run() {
    let (_redis, mut terminal) = open();
    // The session leader is fairlock itself, so its group is orphaned.
    terminal.enter_for("pid ", "exec $F run x -- sh -c 'echo pid $$; read word; echo \"<$word>\"'");
    let said = terminal.keys_and_expect("\x1a", "not stopped: no shell could continue this job");
    assert!(!said.contains("the lease on x ends"), "{said}");
    terminal.enter_and_expect("typed", "<typed>");
}

/// The kernel would fail the read of an orphaned job. The command's own group is not orphaned, because of the shim.
#[test]
fn a_command_that_reads_a_terminal_it_cannot_get_is_hung_up() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    let go = folder.path().join("go");
    let script = format!("echo pid $$; while [ ! -e {} ]; do sleep 0.02; done; read word", go.display());
    // A shell without job control starts it in the background, and ends.
    let command = terminal.enter_for(
        "pid ",
        &format!("sh -c '($F run x -- sh -c \"{}\"; echo code $?) <&1 &'", script.replace('$', "\\$")),
    );
    terminal.command("");
    std::fs::write(go, "").unwrap();
    await_death(command);
    assert_eq!(terminal.number_after("code "), 129);
}

#[test]
fn the_modes_of_a_killed_command_are_undone() {
    let (_redis, mut terminal) = open();
    let before = terminal.command("stty -g");
    // In one job, since an interactive shell would restore the modes itself.
    let command = terminal
        .enter_for("pid ", "bash -c '$F run x -- sh -c \"stty raw; echo pid \\$\\$; exec sleep 1000\"; stty -g'");
    signal(command, Signal::KILL);
    assert_eq!(terminal.expect("PROMPT> ").trim(), before.trim());
}

/// In one job, where no shell takes the terminal back or restores its modes.
#[test]
fn the_terminal_is_restored_when_fairlock_is_killed() {
    let (_redis, mut terminal) = open();
    let before = terminal.command("stty -g");
    let wait = format!("until [ \"$(stty -g)\" = {} ]; do sleep 0.02; done; echo restored", before.trim());
    let command = terminal.enter_for(
        "pid ",
        &format!(
            "bash -c '$F run x -- sh -c \"stty raw; echo pid \\$\\$; exec sleep 1000\"; {wait}; \
             read word; echo \"<$word>\"'"
        ),
    );
    signal(parent(parent(command)), Signal::KILL);
    terminal.expect("restored");
    terminal.enter_and_expect("typed", "<typed>");
}

/// As a debugger stops it. The shell takes the terminal, and does not know that fairlock goes on.
#[test]
fn a_fairlock_that_was_stopped_alone_does_not_take_the_terminal_from_the_shell() {
    let (_redis, mut terminal) = open();
    let command = terminal.enter_for("pid ", "$F run x -- sh -c 'echo pid $$; exec sleep 1000'");
    let fairlock = parent(parent(command));
    signal(fairlock, Signal::STOP);
    terminal.expect("PROMPT> ");
    signal(fairlock, Signal::CONT);
    signal(command, Signal::KILL);
    await_death(fairlock);
    assert_eq!(terminal.enter_for("answer ", "echo answer 42"), 42);
}

#[test]
fn a_hang_up_ends_the_command() {
    let (_redis, mut terminal) = open();
    let command = terminal.enter_for("pid ", "$F run x -- sh -c 'echo pid $$; exec sleep 1000'");
    drop(terminal);
    await_death(command);
}
