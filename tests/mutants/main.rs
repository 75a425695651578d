//! Mutants, one at a time: the tests must notice each of them, or they prove less than they seem to.
//!
//! The lists are `*.txt` next to this file; `list.rs` describes their form. A mutant of a script is first compared with
//! the model, within this process. Mutants that the model cannot see, and those in Rust, are applied to a copy of the
//! package, which is built and tested, first without a server and then with real ones. Of those in Rust nearly all go
//! into one build, with a switch.
//!
//! `MUTANTS=FILE` tries those of cargo-mutants instead (`generic.rs`), and `layers.rs` tries a sample in each layer of
//! tests alone.
//!
//! `make mutants` tries all that are not yet in `target/mutants/results.tsv`, so it can be interrupted. `SHARD=2/5`
//! takes the second of five parts, `ONLY='text|other'` those whose names contain one of these, and `AGAIN=1` ignores
//! earlier verdicts.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod generic;
mod layers;
mod list;
#[path = "../model/mod.rs"]
mod model;
mod processes;
mod record;
mod results;
mod scripts;
mod stages;
mod switch;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use list::Mutant;
use results::Results;
use stages::{PURE, REAL, Stage};
use testkit::say;
use tree::{Tree, Verdict};

/// The promises that rest on the scripts, and on the client: each needs at least two mutants there.
const ON_SCRIPTS: [u8; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const ON_THE_CLIENT: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// The file of verdicts.
const RESULTS: &str = "results.tsv";

#[test]
fn the_list_is_up_to_date_and_breaks_every_promise_twice() {
    let mutants = list::read().unwrap();
    let stale: Vec<_> =
        mutants.iter().filter_map(|mutant| Some(format!("{}: {}", mutant.name, mutant.applied().err()?))).collect();
    assert!(stale.is_empty(), "{stale:#?}");
    let missing = tree::missing(&mutants.iter().filter_map(|mutant| mutant.by.as_deref()).collect::<Vec<_>>());
    assert!(missing.is_empty(), "no such files of tests, or tests in them: {missing:?}");
    let mut names: Vec<_> = mutants.iter().map(|mutant| &mutant.name).collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "two of one name: {names:#?}");
    for (scripts, promises) in [(true, &ON_SCRIPTS[..]), (false, &ON_THE_CLIENT[..])] {
        for promise in promises {
            let such = mutants.iter().filter(|one| one.is_script() == scripts && one.promises.contains(promise));
            assert!(
                such.count() >= 2,
                "I{promise} is broken less than twice in {}",
                if scripts { "Lua" } else { "Rust" }
            );
        }
    }
}

#[test]
fn a_list_that_is_wrong_is_an_error() {
    let whole = "[I1] name\nin lua/x.lua\n- a b\n+ c\n";
    let mutant = &list::parse(whole).unwrap()[0];
    assert_eq!(mutant.apply("x a b y").unwrap(), "x c y");
    mutant.apply("x").unwrap_err();
    mutant.apply("a b a b").unwrap_err();
    list::parse("[I1] name\nin x\n- a\n+ a\n").unwrap()[0].apply("a").unwrap_err();
    assert_eq!(list::parse("[I1] n\nin x\n-   a\n- b\n").unwrap()[0].apply("  a\nb").unwrap(), "");
    for wrong in
        ["in x\n", "[1] n\n", "[I1]\n", "[I1] n\n- a\n", "[I1] n\nin x\n+ a\n", "[I1] n\nin x\n- a\n+ b\n- c\n"]
    {
        assert!(list::parse(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn every_case_that_failed_once_shows_its_mutant() {
    let stale = scripts::stale_cases(&list::read().unwrap());
    assert!(stale.is_empty(), "these pass though it is there, or fail without it: {stale:#?}");
}

/// For mutants of scripts that walks seldom meet: `ONLY='name' STEPS=1000000 cargo test --test mutants find_a_case --
/// --ignored`.
#[test]
#[ignore = "adds to the list of cases that failed once"]
fn find_a_case_for_each() {
    let steps = std::env::var("STEPS").map_or(200_000, |steps| steps.parse().expect("STEPS is a number"));
    for mutant in chosen(&list::read().unwrap()).into_iter().filter(|mutant| mutant.is_script()) {
        match scripts::find_case(mutant, steps) {
            Some(taken) => say(format_args!("{}: at step {taken}", mutant.name)),
            None => say(format_args!("{}: not within {steps} steps", mutant.name)),
        }
    }
}

/// The promises are judged separately too: the judges need no model to notice these.
#[test]
fn the_judged_promises_find_mutants_without_the_model() {
    let mutants = list::read().unwrap();
    for (promise, name) in [
        (1, "anybody releases"),
        (1, "a holder does not stop a grant"),
        (2, "a newcomer overtakes"),
        (3, "tokens are counted"),
        (5, "the dead are granted the lock"),
        (7, "a heartbeat does not show that data was lost"),
        (8, "a client that asks is dead"),
        (9, "the lock stays for ever"),
        (10, "any token breaks"),
    ] {
        let mutant = mutants.iter().find(|mutant| mutant.name == name && mutant.promises.contains(&promise));
        assert!(scripts::breaks_a_promise(mutant.unwrap()), "I{promise} holds though {name}");
    }
}

/// The mutants of this run, and those of them without a verdict.
fn chosen(mutants: &[Mutant]) -> Vec<&Mutant> {
    let shard = std::env::var("SHARD").unwrap_or_else(|_| "1/1".into());
    let (part, parts) = shard.split_once('/').expect("SHARD=2/5");
    let (part, parts): (usize, usize) = (part.parse().unwrap(), parts.parse().unwrap());
    assert!((1..=parts).contains(&part), "SHARD=2/5");
    let is_here = |one: &Mutant| !one.name.ends_with(" on Redis 6") || testkit::run::version() < (7, 0);
    let wanted = |one: &Mutant| is_chosen("ONLY", &one.name) && is_here(one);
    let mine = mutants.iter().enumerate().filter(|(index, one)| index % parts == part - 1 && wanted(one));
    mine.map(|(_, mutant)| mutant).collect()
}

/// Whether this name contains one of the texts in a variable of the environment.
fn is_chosen(variable: &str, name: &str) -> bool {
    std::env::var(variable).unwrap_or_default().split('|').any(|text| name.contains(text))
}

/// Does the work on so many threads, each of which takes the next task when it is done with one.
fn at_once<T>(threads: usize, tasks: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let tasks = Mutex::new(tasks);
    let next = || tasks.lock().unwrap().next();
    let worker = || {
        while let Some(task) = next() {
            work(task);
        }
    };
    std::thread::scope(|scope| drop((0..threads).map(|_| scope.spawn(worker)).collect::<Vec<_>>()));
}

#[test]
#[ignore = "takes long: make mutants"]
fn no_mutant_survives() {
    let mutants = match std::env::var_os("MUTANTS") {
        Some(file) => generic::parse(&std::fs::read_to_string(file).expect("the list of cargo-mutants")).unwrap(),
        None => list::read().unwrap(),
    };
    if std::env::var_os("AGAIN").is_some() {
        let _ = std::fs::remove_file(results::file(RESULTS));
    }
    let results = Results::open(RESULTS);
    let mine = chosen(&mutants);
    let is_open = |mutant: &&Mutant| mutant.applied().is_ok() && results.of(mutant, "").is_none();
    let todo: Vec<&Mutant> = mine.iter().copied().filter(is_open).collect();
    say(format_args!("{} mutants, {} to be run", mine.len(), todo.len()));
    if !todo.is_empty() {
        run(&todo, &results);
    }
    let outcomes: Vec<_> = mine
        .into_iter()
        .map(|mutant| match results.of(mutant, "") {
            Some((outcome, by)) => (mutant, outcome, by),
            None if mutant.applied().is_err() => (mutant, "does not apply".to_owned(), String::new()),
            None => (mutant, "not run".to_owned(), String::new()),
        })
        .collect();
    report(&outcomes);
    assert!(outcomes.iter().all(|(mutant, outcome, _)| is_fine(mutant, outcome)), "not all were killed");
}

fn is_fine(mutant: &Mutant, outcome: &str) -> bool {
    outcome == "killed" || mutant.is_generic() && outcome == "does not compile"
}

fn run(todo: &[&Mutant], results: &Results) {
    if todo.iter().any(|mutant| mutant.is_script()) {
        let start = Instant::now();
        assert_eq!(scripts::judge(None).unwrap(), None, "the scripts fail as they are");
        say(format_args!("the scripts as they are: nothing found in {:.1} s", start.elapsed().as_secs_f64()));
    }
    let (leave, left) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for mutant in todo.iter().filter(|mutant| mutant.is_script()) {
                let start = Instant::now();
                match scripts::judge(Some(mutant)).expect("it was seen to apply") {
                    Some(by) => results.add(mutant, "", &Verdict::Killed(by), start.elapsed().as_secs_f64()),
                    None => leave.send(*mutant).expect("the other thread waits for it"),
                }
            }
        });
        scope.spawn(|| {
            let mine: Vec<&Mutant> = todo.iter().copied().filter(|mutant| !mutant.is_script()).collect();
            let rest: Vec<&Mutant> = survivors_of_the_switch(&mine, results).into_iter().chain(left).collect();
            if rest.is_empty() {
                return;
            }
            let tree = Tree::copy();
            healthy(&tree, &rest);
            for mutant in rest {
                let start = Instant::now();
                let verdict = tree.judge(mutant, order(mutant));
                results.add(mutant, "", &verdict, start.elapsed().as_secs_f64());
            }
        });
    });
}

/// The verdicts on all that fit into one build and are killed there; the others. Those of cargo-mutants start no process,
/// so what survives there is not tried again.
fn survivors_of_the_switch<'a>(mutants: &[&'a Mutant], results: &Results) -> Vec<&'a Mutant> {
    // One build for all takes as long as some of one.
    if mutants.len() < 8 {
        return mutants.to_vec();
    }
    let are_generic = mutants.iter().all(|mutant| mutant.is_generic());
    let (tree, within, wrong) = match are_generic {
        true => Tree::with_switch("generic", mutants, &["--lib"]),
        false => Tree::with_switch("switch", mutants, &layers::EVERYTHING),
    };
    let (all, here, not) = (mutants.len(), within.len(), wrong.len());
    say(format_args!("{here} of {all} mutants are behind a switch in one build, {not} do not compile there"));
    healthy(&tree, mutants);
    let alone = Mutex::new(Vec::new());
    // Those with servers wait for them and for timers most of the time.
    let threads = if are_generic { 1 } else { 4 } * std::thread::available_parallelism().unwrap().get();
    at_once(threads, mutants.iter().enumerate(), |(number, mutant)| {
        let start = Instant::now();
        let verdict = match within.contains(&number) {
            true => Some(tree.judge_switched(number, mutant, order(mutant))),
            false => wrong.contains(&number).then(|| Verdict::DoesNotCompile("as an arm".into())),
        };
        match verdict.filter(|verdict| are_generic || matches!(verdict, Verdict::Killed(_))) {
            Some(verdict) => results.add(mutant, "", &verdict, start.elapsed().as_secs_f64()),
            None => alone.lock().unwrap().push(*mutant),
        }
    });
    alone.into_inner().unwrap()
}

/// The stages, the more likely one first.
fn order(mutant: &Mutant) -> &'static [&'static Stage] {
    if mutant.is_generic() {
        return &[&PURE];
    }
    let outside = ["keeper/mod.rs", "keeper/taking_in.rs", "keeper/handle.rs", "keeper/network.rs", "server/setup.rs"];
    let is_outside = outside.iter().any(|file| mutant.file == format!("src/{file}"));
    let decides = ["src/keeper/", "src/protocol/", "src/server/"].iter().any(|folder| mutant.file.starts_with(folder));
    if decides && !is_outside { &[&PURE, &REAL] } else { &[&REAL, &PURE] }
}

/// A test that fails on the healthy code shows nothing.
fn healthy(tree: &Tree, todo: &[&Mutant]) {
    let named: BTreeSet<&str> = todo.iter().filter_map(|mutant| mutant.by.as_deref()).collect();
    let all: &[&Stage] = if todo.iter().all(|mutant| mutant.is_generic()) { &[&PURE] } else { &[&PURE, &REAL] };
    let staged = all.iter().map(|stage| (stage.name, stage.names()));
    for (name, targets) in staged.chain([("that mutants name", named.into_iter().collect())]) {
        let took = tree.passes(&targets).unwrap_or_else(|error| panic!("{error}"));
        say(format_args!("the tests {name}: passed in {:.1} s", took.as_secs_f64()));
    }
}

/// How many each test killed, and which survived.
fn report(outcomes: &[(&Mutant, String, String)]) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_test: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, outcome, by) in outcomes {
        *counts.entry(outcome).or_default() += 1;
        if outcome == "killed" {
            *by_test.entry(by.split(" at ").next().unwrap_or(by)).or_default() += 1;
        }
    }
    say("\nkilled by");
    by_test.iter().for_each(|(test, count)| say(format_args!("{count:>5}  {test}")));
    say("\noutcome");
    counts.iter().for_each(|(outcome, count)| say(format_args!("{count:>5}  {outcome}")));
    for (mutant, outcome, by) in outcomes.iter().filter(|(mutant, outcome, _)| !is_fine(mutant, outcome)) {
        say(format_args!("{outcome}: {} ({}) {by}", mutant.name, mutant.file));
    }
}
