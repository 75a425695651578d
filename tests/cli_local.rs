//! `--local`: a private server that needs no set-up, is shared, and is nobody else's.
#![cfg(all(unix, feature = "cli"))]
// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::cli::{Process, Signal, ask, await_death, eventually, fairlock, signal, stat};

/// A folder for a private server, which is ended with it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("private")
    }

    fn fairlock(&self) -> Command {
        let mut command = fairlock();
        command.env("FAIRLOCK_LOCAL_DIR", self.folder());
        command
    }

    fn run(&self, script: &str) -> Process {
        Process::spawn(self.fairlock().args(["run", "--local", "x", "--", "sh", "-c", script]))
    }

    fn server(&self) -> Option<u32> {
        server_at(&self.folder().join("redis.sock"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = self.server() {
            signal(server, Signal::KILL);
        }
    }
}

fn server_at(socket: &Path) -> Option<u32> {
    let about = ask(socket, "INFO server")?;
    about.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
}

#[test]
fn it_works_without_any_set_up_and_many_starts_share_one_server() {
    let place = Place::new();
    let runs: Vec<Process> = (0..8).map(|_| place.run("echo done")).collect();
    for run in runs {
        let finished = run.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (0, "done\n"), "{finished:?}");
    }
    let server = place.server().expect("it goes on running");
    // Each server announces itself in the log, which they would share.
    let log = std::fs::read_to_string(place.folder().join("redis.log")).unwrap();
    assert_eq!(log.matches("Redis is starting").count(), 1, "{log}");

    // Nor does a second one wait for the end of the first.
    let folder = place.folder().to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let of_folder = processes.filter(|process| {
        std::fs::read_to_string(process.path().join("cmdline")).is_ok_and(|line| line.contains(&folder))
    });
    assert_eq!(of_folder.count(), 1);

    assert_eq!(place.folder().metadata().unwrap().mode() & 0o7777, 0o700);
    let settings = ask(&place.folder().join("redis.sock"), "CONFIG GET *").unwrap();
    for setting in
        ["\r\nport\r\n$1\r\n0\r\n", "\r\nappendonly\r\n$3\r\nyes\r\n", "\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"]
    {
        assert!(settings.contains(setting), "{setting:?} in {settings}");
    }
    assert_eq!(stat(server).unwrap()[3], server.to_string(), "its own session: no terminal can reach it");
}

/// Each of these would otherwise wait for the end of the server.
#[test]
fn the_server_holds_nothing_of_its_callers() {
    let place = Place::new();
    let mut caller = Command::new("bash");
    caller.env("FAIRLOCK_LOCAL_DIR", place.folder()).env("F", env!("CARGO_BIN_EXE_fairlock"));
    // Another copy of stdout, as descriptor 9; `finish` waits until nobody holds any.
    let finished = Process::spawn(caller.args(["-c", "exec 9>&1; $F run --local x -- true"])).finish();
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(place.server().is_some());
}

#[test]
fn stop_ends_it_but_not_under_a_running_command() {
    let place = Place::new();
    let local = |arguments: &[&str]| Process::spawn(place.fairlock().arg("local").args(arguments)).finish();
    assert!(local(&["status"]).stdout.starts_with("not running"));
    assert_eq!(local(&["stop"]).code, 0, "nothing to do");

    let holder = place.run("echo; exec sleep 1000");
    holder.line();
    let server = place.server().unwrap();
    assert!(local(&["status"]).stdout.contains(place.folder().to_str().unwrap()));
    assert_eq!(local(&["stop"]).code, 125);
    assert_eq!(place.server(), Some(server));
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish().code, 143);
    // The server may need a moment to see that the connection is closed.
    eventually("it stops", || (local(&["stop"]).code == 0).then_some(()));
    await_death(server);

    let holder = place.run("echo; exec sleep 1000");
    holder.line();
    let server = place.server().unwrap();
    assert_eq!(local(&["stop", "--force"]).code, 0);
    await_death(server);
}

/// Two servers would write the same journal.
#[test]
fn a_server_that_hangs_is_not_replaced() {
    let place = Place::new();
    assert_eq!(place.run("true").finish().code, 0);
    let server = place.server().unwrap();
    signal(server, Signal::STOP);
    let finished = place.run("true").finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("hangs"), "{finished:?}");

    // Nor is one whose socket was removed.
    let moved = place.folder().join("moved");
    std::fs::rename(place.folder().join("redis.sock"), &moved).unwrap();
    assert_eq!(place.run("true").finish().code, 125);
    signal(server, Signal::CONT);
    assert_eq!(server_at(&moved), Some(server));
    assert_eq!(place.server(), None);
    signal(server, Signal::KILL);
}

#[test]
fn what_it_knew_survives_a_crash() {
    let place = Place::new();
    let token = || place.run("echo $FAIRLOCK_TOKEN").finish().stdout.trim().parse::<u64>().unwrap();
    let before = token();
    let server = place.server().unwrap();
    // The journal is written every second.
    eventually("the journal has it", || {
        let journal = Command::new("sh")
            .arg("-c")
            .arg("cat appendonlydir/*.incr.aof")
            .current_dir(place.folder())
            .output()
            .ok()?;
        (journal.stdout.len() > 100).then_some(())
    });
    signal(server, Signal::KILL);
    await_death(server);
    assert!(place.folder().join("redis.sock").exists(), "a stale socket");
    assert!(token() > before);
    assert_ne!(place.server(), Some(server));
}

#[test]
fn a_folder_that_others_can_use_is_refused() {
    let place = Place::new();
    let refused = |why: &str| {
        let finished = place.run("echo never").finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (125, ""), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    };
    std::fs::create_dir(place.folder()).unwrap();
    for mode in [0o750, 0o705, 0o701] {
        std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(mode)).unwrap();
        refused("open to other users");
    }
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(place.folder(), Some(4711), None).unwrap();
        refused("belongs to user 4711");
    }
    std::fs::remove_dir(place.folder()).unwrap();
    symlink(place.0.path(), place.folder()).unwrap();
    refused("link");
    std::fs::remove_file(place.folder()).unwrap();
    std::fs::write(place.folder(), "").unwrap();
    assert_eq!(place.run("true").finish().code, 125, "a file");
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_explained() {
    let place = Place::new();
    let long = place.folder().join("long/".repeat(30));
    let mut run = place.fairlock();
    let finished =
        Process::spawn(run.env("FAIRLOCK_LOCAL_DIR", &long).args(["run", "--local", "x", "--", "true"])).finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("too long") && finished.stderr.contains("FAIRLOCK_LOCAL_DIR"), "{finished:?}");
    assert!(!place.folder().exists(), "nothing is made in vain");
}

#[test]
fn a_missing_redis_server_is_explained() {
    let place = Place::new();
    let mut run = place.fairlock();
    let finished =
        Process::spawn(run.env("PATH", "/nonexistent").args(["run", "--local", "x", "--", "/bin/true"])).finish();
    assert_eq!(finished.code, 125);
    for help in ["redis-server", "apt install", "--redis"] {
        assert!(finished.stderr.contains(help), "{finished:?}");
    }
}

#[test]
fn a_server_that_does_not_start_is_explained() {
    let place = Place::new();
    std::fs::create_dir(place.folder()).unwrap();
    std::fs::set_permissions(place.folder(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(place.folder().join("appendonlydir"), "in the way").unwrap();
    let finished = place.run("true").finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("append-only"), "the end of the server's log: {finished:?}");
}

#[test]
fn the_folders_are_tried_in_order_and_a_running_server_is_found_in_any() {
    let home = tempfile::tempdir().unwrap();
    let runtime = home.path().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let local = |variables: &[(&str, &Path)], arguments: &[&str]| {
        let mut command = fairlock();
        command.env("HOME", home.path()).envs(variables.iter().copied()).args(arguments);
        Process::spawn(&mut command).finish()
    };
    let run = ["run", "--local", "x", "--", "true"];
    let state = home.path().join("state");
    let with_state = [("XDG_RUNTIME_DIR", Path::new("relative")), ("XDG_STATE_HOME", &state)];
    assert_eq!(local(&with_state, &run).code, 0);
    let server = server_at(&state.join("fairlock/redis.sock")).expect("in XDG_STATE_HOME");
    // A login has another first choice, and still finds it.
    let login = [("XDG_RUNTIME_DIR", runtime.as_path()), ("XDG_STATE_HOME", &state)];
    assert_eq!(local(&login, &run).code, 0);
    assert!(!runtime.join("fairlock").exists());
    eventually("it stops", || (local(&login, &["local", "stop"]).code == 0).then_some(()));
    await_death(server);

    assert_eq!(local(&login, &run).code, 0);
    let server = server_at(&runtime.join("fairlock/redis.sock")).expect("in XDG_RUNTIME_DIR");
    signal(server, Signal::KILL);

    let only_home = [("XDG_RUNTIME_DIR", Path::new("relative"))];
    assert_eq!(local(&only_home, &run).code, 0);
    let server = server_at(&home.path().join(".local/state/fairlock/redis.sock")).expect("in ~/.local/state");
    signal(server, Signal::KILL);
}
