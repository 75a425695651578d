//! The script of examples/ that hands out licences by slot.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::shared::{Process, Redis, Signal};

/// It takes the lock file of its licence, tells which one it has, and leaves the file behind when it is killed.
const SIMULATE: &str = r#"#!/bin/sh
[ ! -e "$LM_LICENSE_FILE.in-use" ] || exit 9
: >"$LM_LICENSE_FILE.in-use"
basename "$LM_LICENSE_FILE"
[ "$1" != "fails at once" ] || exit 7
exec sleep 1000
"#;

fn job(redis: &Redis, folder: &Path, argument: &str) -> Process {
    let mut script = std::process::Command::new(testkit::root().join("examples/licences.sh"));
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    script.arg(argument).env("PATH", path).env("LICENCES", folder).env("REDIS_URL", redis.url());
    Process::spawn(script.env("CI_JOB_URL", argument))
}

#[test]
fn three_licences_are_handed_out_to_jobs_in_their_order_each_to_one_job_at_a_time() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let simulate = folder.path().join("simulate");
    std::fs::write(&simulate, SIMULATE).unwrap();
    std::fs::set_permissions(&simulate, std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_fairlock"), folder.path().join("fairlock")).unwrap();
    let job = |argument| job(&redis, folder.path(), argument);

    let mut jobs: Vec<(u32, Process)> = ["a", "b", "c"].map(job).map(|job| (job.number(), job)).into();
    jobs.sort_by_key(|(licence, _)| *licence);
    assert_eq!(jobs.iter().map(|(licence, _)| *licence).collect::<Vec<_>>(), [0, 1, 2]);
    let waiters = [(1, "d"), (2, "fails at once")].map(|(waiting, name)| {
        let waiter = job(name);
        redis.await_waiting("simulator", waiting);
        waiter
    });
    assert_eq!(redis.state("simulator")["queue"][0]["label"], "d");
    let [next, last] = waiters;

    // Killed with its lock file. The next job has this licence, and the last one waits for another.
    let (_, second) = jobs.remove(1);
    second.signal(Signal::TERM);
    second.finish();
    assert_eq!(next.number(), 1);
    let (_, first) = jobs.remove(0);
    first.signal(Signal::TERM);
    first.finish();
    let ended = last.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (7, "0\n"), "{ended:?}");
}
