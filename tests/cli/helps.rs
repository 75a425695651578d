//! Each help fits one screen, and says what a newcomer needs.
// A test reports its failure by a panic.
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::shared::fairlock;

/// What this help prints at a terminal of 80 columns.
fn help(words: &[&str]) -> String {
    let output = fairlock().env("COLUMNS", "80").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names of all subcommands, from the help itself.
fn subcommands() -> Vec<String> {
    let help = help(&["-h"]);
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn each_short_help_fits_one_screen() {
    let subcommands = subcommands();
    assert!(subcommands.iter().any(|name| name == "run"), "{subcommands:?}");
    let calls = subcommands.iter().filter(|name| *name != "help").map(|name| vec![name.as_str(), "-h"]);
    for call in calls.chain([vec!["-h"]]) {
        let help = help(&call);
        assert!(help.lines().count() < 24, "{call:?} has {} lines:\n{help}", help.lines().count());
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{call:?}: {help}");
        assert!(!help.contains("tls") && !help.contains("entinel"), "encryption has its own heading in --help: {help}");
    }
}

#[test]
fn the_long_help_of_run_has_examples_exit_codes_and_what_it_cannot_do() {
    let help = help(&["run", "--help"]);
    for part in [
        "Examples:",
        "Exit codes:",
        "Environment:",
        "Encryption (",
        "redis+sentinel://",
        "FAIRLOCK_WAITED_MS",
        "lease-shim",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

/// The program of an example is replaced by one that exists; everything else is as it is shown.
#[test]
fn the_examples_of_the_helps_work() {
    let redis = crate::shared::Redis::start();
    let local = tempfile::tempdir().unwrap();
    std::fs::set_permissions(local.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let programs = tempfile::tempdir().unwrap();
    for name in ["deploy.sh", "move.sh", "backup.sh", "start.sh", "make", "a", "b"] {
        std::os::unix::fs::symlink("/bin/true", programs.path().join(name)).unwrap();
    }
    let server = testkit::server::redis_server().canonicalize().unwrap();
    std::os::unix::fs::symlink(server, programs.path().join("redis-server")).unwrap();
    let path = format!("{}:{}:{}", programs.path().display(), built().display(), std::env::var("PATH").unwrap());
    let mut tried = 0;
    for call in
        subcommands().iter().map(|name| vec![name.as_str(), "--help"]).chain([vec!["--help"], vec!["run", "-h"]])
    {
        if call[0] == "help" {
            continue;
        }
        let help = help(&call);
        let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
        for line in examples.lines().take_while(|line| line.starts_with("  fairlock ")) {
            let example = line.trim().split("  ").next().unwrap();
            let mut shell = Command::new("sh");
            shell.current_dir(programs.path()).env("PATH", &path).env("REDIS_URL", redis.url());
            shell.env("FAIRLOCK_LOCAL_DIR", local.path()).stdin(std::process::Stdio::null());
            let output = shell.args(["-c", example]).output().unwrap();
            // A lock that is free is an answer of `status`.
            let asks = [" status ", " break "].iter().any(|command| example.contains(command));
            let fine = output.status.success() || (asks && output.status.code() == Some(1));
            assert!(fine, "{example}: {output:?}");
            tried += 1;
        }
    }
    assert!(tried > 5, "{tried}");
    let mut stop = fairlock();
    assert!(
        stop.env("FAIRLOCK_LOCAL_DIR", local.path()).args(["local", "stop", "--force"]).status().unwrap().success()
    );
}

/// The folder of the binary under test.
fn built() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_BIN_EXE_fairlock")).parent().unwrap()
}
