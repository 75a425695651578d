//! What fairlock leaves behind, and what it needs, where there is less than usual: a first process that collects
//! nobody, and no /proc.

use std::process::Command;

use crate::shared::{Process, Redis, Signal, await_death, eventually, fairlock, signal, stat};

/// The children of this process that are dead and not collected, by their names.
fn zombies() -> Vec<String> {
    let own = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let dead = numbers.filter(|pid| stat(*pid).is_some_and(|stat| stat[0] == "Z" && stat[1] == own));
    dead.map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim().to_owned()).collect()
}

/// Adopts all orphans and collects none of them, as the first process of many a container: a service that only waits
/// for its own children.
#[test]
#[ignore = "a process of the test below"]
fn a_process_that_collects_nobody() {
    let Some(url) = std::env::var_os("COLLECTS_NOBODY") else { return };
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let run = |words: &[&str]| {
        let mut run = fairlock();
        run.env("REDIS_URL", &url).env("F", env!("CARGO_BIN_EXE_fairlock")).arg("run").args(words);
        run
    };
    for words in [
        &["x", "true"][..],
        &["x", "-c", "true; true"],
        &["x", "-a", "y", "false"],
        &["x", "--slots", "4", "-c", "$F run z true"],
    ] {
        for _ in 0..10 {
            assert!(matches!(run(words).status().unwrap().code(), Some(0 | 1)), "{words:?}");
        }
        assert_eq!(zombies(), [""; 0], "{words:?}");
    }
    // fairlock is this process's own child, and the shim is an orphan then. The command is the shim's.
    let holder = Process::spawn(&mut run(&["x", "--", "sh", "-c", "echo $$; exec sleep 1000"]));
    let command = holder.number();
    holder.signal(Signal::KILL);
    await_death(command);
    let left = eventually("the shim ends", || Some(zombies()).filter(|all| all.contains(&"lease-shim".to_owned())));
    assert!(left.iter().all(|name| ["fairlock", "lease-shim"].contains(&&**name)), "{left:?}");
}

#[test]
fn a_run_leaves_no_zombie_to_a_process_that_collects_nobody() {
    let redis = Redis::start();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--ignored", "--exact", "process_1::a_process_that_collects_nobody"]);
    let ended = Process::spawn(process.env("COLLECTS_NOBODY", redis.url())).finish();
    assert!(ended.code == 0 && ended.stdout.contains("1 passed"), "{ended:?}");
}

/// As in a chroot. No `fairlock` in PATH is this one.
#[test]
fn the_shim_is_the_same_program_where_proc_is_empty() {
    let hidden = |line: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", &format!("mount -t tmpfs none /proc && {line}")]);
        unshare
    };
    let allowed = hidden("true").output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        testkit::say(format_args!("SKIPPED: may not mount: {allowed:?}"));
        return;
    }
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("fairlock"), "#!/bin/sh\necho another one\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path().join("fairlock"), mode).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fairlock"));
    for fairlock in [binary.to_str().unwrap(), "./fairlock"] {
        let mut run = hidden(&format!("exec {fairlock} run x echo it ran"));
        run.current_dir(binary.parent().unwrap()).env("REDIS_URL", redis.url()).env("PATH", &path);
        let ended = Process::spawn(&mut run).finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "it ran\n"), "{fairlock}: {ended:?}");
    }
    let holder = Process::spawn(
        hidden(&format!("exec {} run x -- sh -c 'echo $$; exec sleep 1000'", binary.display()))
            .env("REDIS_URL", redis.url()),
    );
    let command = holder.number();
    signal(holder.id(), Signal::KILL);
    await_death(command);
}
