//! What people bring along from flock(1): its options, and its idioms.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::shared::{Process, Redis, hold};

/// With each of these flock does the same on a file as fairlock on a name, held or free.
#[test]
fn the_options_of_flock_do_what_they_do_there() {
    let (redis, _holder) = Redis::held("the holder");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut holder = Command::new("flock");
    let holder = holder.args(["--no-fork".as_ref(), file("x").as_os_str(), "sh".as_ref(), "-c".as_ref()]);
    // Ends with its stdin.
    let mut holder = holder.arg("echo; read -r _").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    for options in [
        &["-n"][..],
        &["--nb"],
        &["--nonblock"],
        &["-xn"],
        &["-en"],
        &["--exclusive", "-n", "-x", "-e"],
        &["-sn"],
        &["--shared", "-n", "-s"],
        &["-n", "-w", "1000"],
        &["-xn", "--timeout", "1000"],
        &["-w", "0"],
        &["--wait", "0"],
    ] {
        for name in ["x", "free"] {
            let mut flock = Command::new("flock");
            let flock = flock.args(options).args(["-E", "7"]).arg(file(name)).args(["sh", "-c", "exit 3"]).status();
            let mut run = redis.fairlock();
            let run =
                Process::spawn(run.arg("run").args(options).args(["-E", "7", name, "sh", "-c", "exit 3"])).finish();
            assert_eq!(flock.unwrap().code(), Some(run.code), "{options:?} {name}: {run:?}");
        }
    }
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

/// A command has nothing to unlock, unlike a script.
#[test]
fn run_does_not_unlock_and_says_what_does() {
    let redis = Redis::start();
    for option in ["-u", "--unlock"] {
        let ended = Process::spawn(redis.fairlock().args(["run", option, "x", "true"])).finish();
        let tip = "tip: a lock is released when its command ends; a script that holds it releases it by `fairlock hold NAME -u`";
        assert!(ended.code == 125 && ended.stderr.contains(tip), "{option}: {ended:?}");
        assert_eq!(ended.stderr.matches("tip:").count(), 1, "{option}: {ended:?}");
    }
}

/// As in a unit that is copied: `ExecStart=/usr/bin/flock --shared --no-fork …`.
#[test]
fn options_of_flock_that_change_nothing_here_are_accepted() {
    let redis = Redis::start();
    for options in [&["--shared", "--no-fork"][..], &["-oF"], &["--close", "-n", "-F"], &["-so", "-o"]] {
        let ended =
            Process::spawn(redis.fairlock().arg("run").args(options).args(["x", "sh", "-c", "exit 3"])).finish();
        assert_eq!((ended.code, ended.stderr.as_str()), (3, ""), "{options:?}: {ended:?}");
    }
    let help = redis.fairlock().args(["run", "--help"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&help.stdout).contains("--no-fork"));
}

/// The line of the page with which a script runs itself once more, under the lock.
#[test]
fn a_script_that_runs_once_only_takes_its_lock_inside_of_other_jobs_too() {
    let redis = Redis::start();
    let page = std::fs::read_to_string(testkit::root().join("docs/command-line.md")).unwrap();
    let line = page.lines().find(|line| line.starts_with('[') && line.contains("exec fairlock")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("sync.sh");
    std::fs::write(&script, format!("#!/bin/sh\n{line}\nprintf '%s|' \"$@\"; fairlock status sync\n")).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fairlock"), folder.path().join("fairlock")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let run = |words: &[&str]| {
        let mut fairlock = Command::new("env");
        fairlock.env("REDIS_URL", redis.url()).env("PATH", &path);
        Process::spawn(fairlock.args(words).arg(&script).args(["a b", "-n"])).finish()
    };
    for around in [&[][..], &["fairlock", "run", "outer"]] {
        let ended = run(around);
        assert!(ended.code == 0 && ended.stdout.starts_with("a b|-n|sync  held"), "{around:?}: {ended:?}");
    }
    let _other = hold(&redis, "sync", "the other");
    assert_eq!(run(&["fairlock", "run", "outer"]).code, 122);
}
