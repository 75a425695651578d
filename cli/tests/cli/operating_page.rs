//! Each example of docs/operating.md runs, and its sample looks like what is printed.

use std::process::Command;

use crate::pty::Terminal;
use crate::shared::Redis;
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
            let mut shell = Command::new("sh");
            let output = shell.args(["-c", command]).env("PATH", &path).env("REDIS_URL", &url).output().unwrap();
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
    assert_eq!(commands, ["status", "break", "doctor", "watch", "history", "history", "exporter"]);
}
