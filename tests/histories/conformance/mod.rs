//! Whether a client of docs/protocol.md is right: `make conformance CLIENT='COMMAND'`. The command is a driver
//! (docs/conformance.md). In the replay the client talks to a server that answers what the judge wants, and each of its
//! requests is checked; in the crew its processes and Rust processes share a queue under faults.

// As in `injected`: nothing of it is public API.
#![allow(unreachable_pub)]

mod by_hdel;
mod complaint;
mod crew;
mod holding;
mod judge;
mod ledger;
mod message;
mod messages;
mod mistakes;
mod referee;
mod scenes;
mod verdicts;
mod waiting;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use testkit::{RedisServer, root, say};

pub use self::crew::{share_a_queue, share_slots};
use self::{
    complaint::Verdict,
    holding::WHOLE,
    judge::Judge,
    mistakes::{MISTAKES, Mistake},
    referee::Scripts,
    scenes::SCENES,
};

/// Plays the scenes for which this holds, all at once: a client waits most of the time.
fn play(command: &str, wanted: impl Fn(&str) -> bool + Sync) -> Vec<(&'static str, Verdict<bool>)> {
    let (server, scripts) = (RedisServer::builder().plain().start(), Arc::new(Scripts::read()));
    let once = |needs: &[&str], lease, scene: scenes::Scene| {
        let most = if needs.contains(&"slots") { 3 } else { 1 };
        let mut judge = Judge::start(command, &server, &scripts, lease, most)?;
        let fits = needs.iter().all(|what| judge.ledger.terms.can(what));
        if fits {
            scene(&mut judge)?;
        }
        judge.end().map(|()| fits)
    };
    let one = |needs, lease, scene| {
        let mut verdict = once(needs, lease, scene);
        for _ in 0..2 {
            if is_late(&verdict) {
                verdict = once(needs, lease, scene);
            }
        }
        verdict
    };
    std::thread::scope(|scope| {
        let wanted = SCENES.iter().filter(|(name, ..)| wanted(name));
        let begun: Vec<_> =
            wanted.map(|&(name, needs, lease, scene)| (name, scope.spawn(move || one(needs, lease, scene)))).collect();
        begun.into_iter().map(|(name, scene)| (name, scene.join().expect("a scene does not panic"))).collect()
    })
}

fn is_late(verdict: &Verdict<bool>) -> bool {
    verdict.as_ref().is_err_and(|complaint| complaint.late)
}

/// Each scene that the client can play: it keeps the rules of the page.
pub fn replay(command: &str) {
    replay_scenes(command, |_| true);
}

fn replay_scenes(command: &str, wanted: impl Fn(&str) -> bool + Sync) {
    let mut complaints = Vec::new();
    for (name, verdict) in play(command, wanted) {
        match verdict {
            Ok(true) => say(format_args!("{name}: passed")),
            Ok(false) => say(format_args!("{name}: left out, because this client does less")),
            Err(complaint) => complaints.push(format!("{name}: {complaint}")),
        }
    }
    assert!(complaints.is_empty(), "\n\n{}", complaints.join("\n"));
}

#[test]
#[ignore = "it needs a client: make conformance"]
fn a_client_keeps_the_rules_of_the_page() {
    clients().first().into_iter().for_each(|command| replay(command));
}

#[test]
#[ignore = "it needs a client: make conformance"]
fn a_queue_of_a_client_and_rust_processes() {
    match clients_that_can("waits") {
        none if none.is_empty() => say("the queue: left out, because this client does not wait in one"),
        waiting => share_a_queue(&waiting),
    }
}

#[test]
#[ignore = "it needs a client: make conformance"]
fn a_semaphore_of_a_client_and_rust_processes() {
    match clients_that_can("slots") {
        none if none.is_empty() => say("the semaphore: left out, because this client has no slots"),
        sharing => share_slots(&sharing, 3),
    }
}

fn clients_that_can(what: &str) -> Vec<String> {
    let (server, scripts) = (RedisServer::builder().plain().start(), Arc::new(Scripts::read()));
    let can = |command: &String| {
        let judge = Judge::start(command, &server, &scripts, WHOLE, 1);
        judge.unwrap_or_else(|complaint| panic!("{complaint}")).ledger.terms.can(what)
    };
    clients().into_iter().filter(can).collect()
}

/// The smallest client of the page, which does not wait: all scenes that need no more.
#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn the_smallest_client_keeps_its_rules() {
    replay_of("smallest.py", |_| true);
}

/// The client of the example, with releases by an HDEL.
#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn the_client_that_releases_by_hdel_keeps_the_rules() {
    replay_of("by_hdel.py", |_| true);
}

/// The client of the example, with grants that it hands out without asking.
#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn the_client_that_hands_out_grants_of_messages_keeps_the_rules() {
    replay_of("full.py", |scene| ["a queue", "several holders", "doubtful messages"].contains(&scene));
}

fn replay_of(client: &str, wanted: impl Fn(&str) -> bool + Sync) {
    let Some(python) = super::python::python() else { return };
    let [path, client] =
        ["examples/python-client", &format!("tests/histories/conformance/{client}")].map(|of| root().join(of));
    let command = format!("env PYTHONPATH='{}' '{}' '{}'", path.display(), python.display(), client.display());
    replay_scenes(&command, wanted);
}

/// The deliberate mistakes are found, each by the rule that it breaks.
#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn each_mistake_in_the_python_client_is_found() {
    let Some(python) = super::python::python() else { return };
    // A judge that could not run for a second may miss one.
    let thrice =
        |mistake: &Mistake, of: &str| (0..3).map(|_| mistake.missed(&python, of)).collect::<Option<Vec<_>>>()?.pop();
    let each = MISTAKES.iter().flat_map(|&(of, mistakes)| mistakes.iter().map(move |mistake| (mistake, of)));
    let left = Mutex::new(each);
    let next = || left.lock().unwrap().next();
    let some = || std::iter::from_fn(next).filter_map(|(mistake, of)| thrice(mistake, of)).collect::<Vec<_>>();
    // Eight interpreters at once: with all of them, what runs beside this test would wait for seconds.
    let missed: Vec<String> = std::thread::scope(|scope| {
        let begun: Vec<_> = (0..8).map(|_| scope.spawn(some)).collect();
        begun.into_iter().flat_map(|tried| tried.join().expect("a mistake applies")).collect()
    });
    assert!(missed.is_empty(), "\n\n{}", missed.join("\n"));
}

/// A scene is played again if the machine was too busy for a try.
#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn a_client_that_is_late_once_is_not_condemned() {
    let Some(python) = super::python::python() else { return };
    let verdict = mistakes::LATE_ONCE.play(&python, "driver.py");
    assert!(matches!(verdict, Ok(true)), "{verdict:?}");
    let verdict = mistakes::LATE.play(&python, "driver.py");
    assert!(is_late(&verdict), "{verdict:?}");
}

/// The commands of drivers: the one of this run, or those of the Python client.
fn clients() -> Vec<String> {
    let named = std::env::var("FAIRLOCK_CLIENT").ok().filter(|command| !command.is_empty());
    let driver = root().join("examples/python-client/driver.py");
    let of_python = |python: PathBuf| format!("'{}' '{}'", python.display(), driver.display());
    match named {
        Some(command) => vec![command],
        None => {
            super::python::python().map(of_python).map(|one| vec![one.clone(), one + " --polls"]).unwrap_or_default()
        }
    }
}
