//! Folders that `--local` does not use, and servers that do not start: each is explained.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::{fs, thread};

use super::Place;
use crate::shared::{Finished, Process};
use testkit::{another_layout, say};

#[test]
fn a_folder_that_others_can_use_is_refused() {
    let place = Place::new();
    let refused = |why: &str| {
        let finished = place.run("echo never").finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (125, ""), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    };
    fs::create_dir(place.folder()).unwrap();
    for mode in [0o750, 0o705, 0o701] {
        fs::set_permissions(place.folder(), fs::Permissions::from_mode(mode)).unwrap();
        refused("open to other users");
    }
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(place.folder(), Some(4711), None).unwrap();
        refused("belongs to user 4711");
    }
    fs::remove_dir(place.folder()).unwrap();
    symlink(place.root.path(), place.folder()).unwrap();
    refused("link");
    fs::remove_file(place.folder()).unwrap();
    fs::write(place.folder(), "").unwrap();
    assert_eq!(place.run("true").finish().code, 125, "a file");
}

/// It keeps its locks on disk, so its end alone does not help.
#[test]
fn a_server_with_locks_of_another_layout_begins_anew_as_the_tip_says() {
    let place = Place::new();
    assert_eq!(place.local(&["start"]).code, 0);
    let mut raw = redis::Client::open(format!("unix://{}", place.folder().join("redis.sock").display())).unwrap();
    another_layout::write(&mut raw, "x", another_layout::STATE);
    drop(raw);
    let refused = |finished: Finished| {
        assert_eq!((finished.code, finished.stdout.as_str()), (125, ""), "{finished:?}");
        finished.stderr
    };
    let told = refused(place.run("echo never").finish());
    for words in [["status", "x"], ["wait", "x"], ["break", "x"], ["history", "x"]] {
        assert_eq!(refused(Process::spawn(place.fairlock().arg("--local").args(words)).finish()), told);
    }
    let (_, tip) = told.split_once("\nfairlock: tip: to begin anew, where no job holds a lock or waits: ").unwrap();
    let binary = env!("CARGO_BIN_EXE_fairlock");
    let script = tip.trim_end().replacen("fairlock", binary, 1);
    let done = Process::spawn(place.set_up(Command::new("sh").args(["-c", &script]))).finish();
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{script}");
    assert_eq!(place.run("true").finish().code, 0);
}

#[test]
fn a_server_that_does_not_start_is_explained() {
    if testkit::run::lacks("a folder for the journal", (7, 0)) {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.folder()).unwrap();
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(place.folder().join("appendonlydir"), "in the way").unwrap();
    let finished = place.run("true").finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("append-only"), "the end of the server's log: {finished:?}");
}

/// A server that reads its data answers, but may still find that it cannot be read.
#[test]
fn a_server_that_ends_while_it_reads_its_data_is_explained() {
    if testkit::run::lacks("a folder for the journal", (7, 0)) {
        return;
    }
    let place = Place::new();
    let journal = place.folder().join("appendonlydir");
    fs::create_dir_all(&journal).unwrap();
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(journal.join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n").unwrap();
    fs::write(journal.join("appendonly.aof.1.incr.aof"), "no journal at all\r\n").unwrap();
    // This listener stands for a server that reads for a while, and then ends.
    let reading = UnixListener::bind(place.folder().join("redis.sock")).unwrap();
    let asked = thread::spawn(move || {
        let (mut caller, _) = reading.accept().unwrap();
        let mut question = [0; 6];
        caller.read_exact(&mut question).unwrap();
        caller.write_all(b"-LOADING Redis is loading the dataset in memory\r\n").unwrap();
        question
    });
    let finished = place.run("echo never").finish();
    assert_eq!(&asked.join().unwrap(), b"PING\r\n");
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("Bad file format"), "the end of the server's log: {finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "nobody waited for an answer of that server: {finished:?}");
}

#[test]
fn the_home_of_another_user_gets_no_files() {
    if !rustix::process::geteuid().is_root() {
        say("skipped: only root can make a folder that belongs to another");
        return;
    }
    let place = Place::new();
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(4711), None).unwrap();
    let mut run = place.fairlock();
    run.env("FAIRLOCK_LOCAL_DIR", home.join(".local/state/fairlock"));
    let finished = Process::spawn(run.args(["run", "--local", "x", "--", "true"])).finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("user 4711") && finished.stderr.contains("FAIRLOCK_LOCAL_DIR"), "{finished:?}");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}
