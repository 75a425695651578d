//! Each example of docs/operating.md runs, and its sample looks like what is printed.

use std::process::{Command, Output};

use crate::pty::Terminal;
use crate::shared::{Process, Redis, Signal, eventually, is_slow};
use testkit::RedisServer;

const PAGE: &str = include_str!("../../../docs/operating.md");

/// The commands of the page, each with its sample.
fn examples() -> Vec<(&'static str, Vec<&'static str>)> {
    let blocks = PAGE.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks
        .map(|block| {
            let (command, sample) = block.split_once('\n').unwrap();
            (command.strip_prefix("$ ").unwrap(), sample.lines().collect())
        })
        .collect()
}

/// Without what differs from run to run: numbers with their units, and spaces.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for word in text.split_whitespace() {
        let is_amount = word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
        let word = match word {
            _ if is_amount => "N",
            "Valkey" => "Redis",
            word => word,
        };
        // `1m 30s`, and a unit on its own.
        let follows = shape.ends_with("N ") && ["N", "ms"].contains(&word);
        if !follows {
            shape += word;
            shape.push(' ');
        }
    }
    shape
}

/// A row about one lock or one grant, whose names and times are of another day.
fn is_data(line: &str) -> bool {
    ["vm1:", "vm2:", "ops@", "batch@", "▁", "held ", "waited ", "1 fault"].iter().any(|mark| line.contains(mark))
}

#[test]
fn the_examples_of_the_page_run_and_look_like_their_samples() {
    let server = RedisServer::builder().plain().tcp().config("maxmemory 100mb").config("maxmemory-policy allkeys-lru");
    let redis = Redis::of(server.start());
    let url = redis.tcp_url();
    let _jobs = ["prod:web:deploy", "reports:nightly"].map(|name| redis.hold(name, &[]));
    let _semaphore = [(), ()].map(|()| redis.hold("gpu", &["--slots", "4"]));
    let programs = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fairlock"), programs.path().join("fairlock")).unwrap();
    let path = format!("{}:{}", programs.path().display(), std::env::var("PATH").unwrap());
    let examples = examples();
    for (command, sample) in &examples {
        if command.contains(" history ") && testkit::run::lacks("a history", (6, 2)) {
            continue;
        }
        let printed = if command.ends_with(" watch") {
            let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &url), ("PATH", &path)]);
            terminal.enter(command);
            terminal.await_screen(|screen| screen.contains("reports:nightly") && screen.contains("quit"))
        } else {
            let run = || {
                let mut shell = Command::new("sh");
                shell.args(["-c", command]).env("PATH", &path).env("REDIS_URL", &url).output().unwrap()
            };
            // Only doctor tells of it.
            let is_quick = |output: &Output| !is_slow(&String::from_utf8_lossy(&output.stdout));
            let output = eventually("no round trip is slow", || Some(run()).filter(is_quick));
            let code = output.status.code();
            assert!(code == Some(0) || (command.ends_with("doctor") && code == Some(2)), "{command}: {output:?}");
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        let printed = shape(&printed);
        // Lines are wrapped elsewhere where numbers have more digits.
        let mut expected =
            sample.iter().filter(|line| !is_data(line)).map(|line| shape(line)).filter(|line| !line.is_empty());
        assert!(expected.all(|line| printed.contains(&line)), "{command}:\n{sample:#?}\n{printed}");
        if command.ends_with(" on") {
            assert_eq!(redis.run("deploy", &[], "true").finish().code, 0);
        }
    }
    let commands: Vec<&str> = examples.iter().filter_map(|(command, _)| command.split(' ').nth(1)).collect();
    assert_eq!(commands, ["status", "status", "break", "doctor", "watch", "history", "history", "exporter"]);
}

/// The section "A lock is stuck", word by word, with a holder that hangs and fifty waiters.
#[test]
fn a_stuck_queue_of_fifty_is_read_and_ended_as_the_page_says() {
    const NAME: &str = "prod:web:deploy";
    let redis = Redis::start();
    let fairlock = |words: &[&str]| {
        let output = redis.fairlock().args(words).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let holder = redis.hold(NAME, &["--lease", "15s"]);
    let mut waiters = Vec::from_iter((0..3).map(|_| redis.waiter(NAME, &[], "echo; exec sleep 1000")));
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    let lock = client.lock(NAME).unwrap();
    let mut others: Vec<_> = (4..=50).map(|_| lock.enqueue().blocking().unwrap()).collect();

    // Who holds it, and who waits: the first twenty, and all of them as JSON.
    let (_, status) = fairlock(&["status", NAME]);
    let process = |label: &str| label.rsplit_once(':').unwrap().1.split(' ').next().unwrap().parse::<u32>().unwrap();
    assert_eq!(process(status.lines().next().unwrap()), holder.id(), "{status}");
    assert!(status.contains("\n  20.  waits ") && status.ends_with("and 30 more\n"), "{status}");
    let state = redis.state(NAME);
    assert_eq!(state["queue"].as_array().unwrap().len(), 50);
    // Is it alive: once the time that is left rises.
    let remaining = || redis.state(NAME)["holders"][0]["remaining_ms"].as_u64().unwrap();
    let mut before = remaining();
    eventually("a renewal is seen", || {
        let now = remaining();
        (now > std::mem::replace(&mut before, now)).then_some(())
    });
    // To end a waiter: the first one, whose process the status names.
    assert_eq!(process(state["queue"][0]["label"].as_str().unwrap()), waiters[0].id());
    waiters[0].signal(Signal::TERM);
    redis.await_waiting(NAME, 49);

    // What ends the hold. A script must say which lease it means.
    let token = state["holders"][0]["token"].to_string();
    let (code, refusal) = fairlock(&["break", NAME]);
    assert!(code == Some(125) && refusal.contains(&format!("--token {token}, or use --force")), "{refusal}");
    let (code, told) = fairlock(&["break", NAME, "--token", &token]);
    assert!(code == Some(0) && told.contains("let go"), "{told}");
    assert_eq!(holder.finish().code, 123);
    waiters[1].line();
    let (code, told) = fairlock(&["break", NAME, "--force"]);
    assert!(code == Some(0) && told.contains("may go on until it hears of it"), "{told}");
    waiters[2].line();
    assert_eq!(waiters.swap_remove(1).finish().code, 123, "the former holder has heard of it");
    waiters[1].signal(Signal::TERM);

    // Before maintenance: it returns when nobody holds the lock or waits for it, each in turn.
    let wait = Process::spawn(redis.fairlock().args(["wait", NAME]));
    for waiter in others.drain(..) {
        waiter.blocking().unwrap().release().blocking().unwrap();
    }
    assert_eq!(wait.finish().code, 0);
    assert_eq!(fairlock(&["status", NAME]).1.trim_end(), format!("{NAME}  free"));
}
