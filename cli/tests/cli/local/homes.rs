//! The folder of `--local` is that of the user, whatever the environment says.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use super::{Place, server_at};
use crate::shared::Process;
use testkit::say;

/// A user database for one process, which names another home for the user that runs the tests.
fn with_home(place: &Place, home: &str) -> Option<Command> {
    let users = place.path("passwd");
    fs::write(&users, format!("root:x:0:0::{home}:/bin/sh\n")).unwrap();
    let spaces = if rustix::process::geteuid().is_root() { "--mount" } else { "--mount --map-root-user" };
    let under = |program: &str| {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
        command.args(spaces.split(' ')).args(["sh", "-c", script]).arg(&users).arg(program);
        command
    };
    if !under("true").output().is_ok_and(|output| output.status.success()) {
        say("skipped: no mount namespaces here");
        return None;
    }
    let mut command = under(env!("CARGO_BIN_EXE_fairlock"));
    place.set_up(&mut command).env_remove("FAIRLOCK_LOCAL_DIR");
    Some(command)
}

#[test]
fn jobs_of_one_user_meet_at_one_server_in_any_environment() {
    let mut place = Place::new();
    let (home, runtime, other) = (place.path("home"), place.path("runtime"), place.path("other"));
    for folder in [&home, &runtime, &other] {
        fs::create_dir(folder).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&other, Some(4711), None).unwrap();
    }
    let environments: [&[(&str, &Path)]; 5] = [
        // A login that ends while its jobs go on.
        &[("HOME", &home), ("XDG_RUNTIME_DIR", &runtime), ("XDG_STATE_HOME", &runtime)],
        // cron, sudo -E, a bare unit, and something odd.
        &[("HOME", &home)],
        &[("HOME", &other), ("XDG_RUNTIME_DIR", &other), ("XDG_STATE_HOME", &other)],
        &[],
        &[("HOME", Path::new("relative"))],
    ];
    let mut server = None;
    for environment in environments {
        let Some(mut run) = with_home(&place, home.to_str().unwrap()) else { return };
        for variable in ["HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
            run.env_remove(variable);
        }
        run.envs(environment.iter().copied()).args(["run", "--local", "x", "--", "true"]);
        let finished = Process::spawn(&mut run).finish();
        assert_eq!(finished.code, 0, "{environment:?} {finished:?}");
        let _ = fs::remove_dir_all(&runtime);
        let found = server_at(&home.join(".local/state/fairlock/redis.sock"));
        place.strays.extend(found);
        assert!(found.is_some() && server.is_none_or(|server| Some(server) == found), "{environment:?}");
        server = found;
    }
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "nothing is left in the home of another");
    assert_eq!(home.join(".local").metadata().unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn a_user_without_a_home_is_told_what_to_do() {
    let place = Place::new();
    let Some(mut run) = with_home(&place, "") else { return };
    let finished =
        Process::spawn(run.env("HOME", place.root.path()).args(["run", "--local", "x", "--", "true"])).finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("FAIRLOCK_LOCAL_DIR"), "{finished:?}");
    assert!(!place.path(".local").exists());
}
