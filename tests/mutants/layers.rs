//! Which layer of tests finds what: a sample of the mutants, each in every layer alone, to its end or its first failure.
//! `make mutants-layers` prints the table of docs/mutants.md. All are in one build, with a switch.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{RedisServer, say};

use crate::list::{self, Mutant, root};
use crate::results::{self, Results};
use crate::stages::Target;
use crate::switch::{REACHED, switched};
use crate::tree::{Tree, Verdict};
use crate::{at_once, is_chosen};

/// Tests of one kind, which one command runs: `cargo test --test BINARY FILTER`, or `--lib FILTER`.
struct Layer {
    name: &'static str,
    targets: &'static [Target<'static>],
    arguments: &'static [&'static str],
    /// They start servers and wait for them, so several share a processor, and a failure must be seen twice.
    waits: bool,
}

const fn pure(name: &'static str, targets: &'static [Target<'static>]) -> Layer {
    Layer { name, targets, arguments: &[], waits: false }
}

const fn real(name: &'static str, targets: &'static [Target<'static>], arguments: &'static [&'static str]) -> Layer {
    Layer { name, targets, arguments, waits: true }
}

const LAYERS: [Layer; 10] = [
    real("model", &[("model", &[])], &[]),
    real("judges of scripts", &[("model::judged", &[])], &["--ignored"]),
    pure("explored worlds", &[("lib::keeper::tests::explore", &[]), ("lib::keeper::routes::tests::explore", &[])]),
    pure(
        "random worlds",
        &[
            ("lib::keeper::tests::properties", &[]),
            ("lib::keeper::tests::ranges", &[]),
            ("lib::keeper::tests::regressions", &[]),
            ("lib::keeper::routes::tests::walks", &[]),
        ],
    ),
    pure("decisions", &[("lib::decisions", &[]), ("lib::keeper::tests::cases", &[])]),
    // One test there notices each change of a script.
    pure("other unit tests", &[("lib", &["keeper::tests::", "keeper::routes::tests::", "the_rendered_scripts"])]),
    real("crews", &[("histories", &["conformance::", "python::"])], &[]),
    real(
        "servers",
        &[
            ("api", &[]),
            ("faults", &[]),
            ("hostile", &[]),
            ("topologies", &[]),
            ("observability", &[]),
            ("parity", &[]),
            ("tls", &[]),
            ("examples", &[]),
        ],
        &[],
    ),
    real("command line", &[("cli", &[])], &[]),
    real("conformance", &[("histories::conformance", &["each_mistake", "smallest_client"])], &["--include-ignored"]),
];

/// What all layers together need.
pub(crate) const EVERYTHING: [&str; 4] = ["-p", "fairlock-cli", "--lib", "--tests"];

pub(crate) fn targets<'a>() -> impl Iterator<Item = Target<'a>> {
    LAYERS.iter().flat_map(|layer| layer.targets).copied()
}

/// For each promise the first mutant that breaks no other, in a function of each of these parts, but three at most.
const PARTS: [&str; 4] = ["lua/", "src/keeper/machine/", "cli/", "src/"];

fn sample(mutants: &[Mutant]) -> Vec<Mutant> {
    let part_of = |mutant: &Mutant| PARTS.iter().position(|part| mutant.file.starts_with(part));
    let mut sample: Vec<Mutant> = Vec::new();
    for (part, promise) in (0..PARTS.len()).flat_map(|part| (1..=12).map(move |promise| (part, promise))) {
        let is_one = |one: &&Mutant| part_of(one) == Some(part) && one.promises == [promise] && fits(one);
        let before = sample.iter().filter(|one| one.promises == [promise]).count();
        sample.extend(mutants.iter().find(is_one).filter(|_| before < 3).cloned());
    }
    sample
}

fn fits(mutant: &Mutant) -> bool {
    let mutant = mutant.clone().in_rust();
    let text = fs::read_to_string(root().join(&mutant.file)).unwrap_or_default();
    !mutant.is_script() && !switched(&text, &[(0, &mutant)]).1.is_empty()
}

impl Layer {
    fn run(&self, tree: &Tree) -> Verdict {
        let mut by_chance = Vec::new();
        for target in self.targets {
            match tree.part(&[*target], self.waits, &mut by_chance) {
                Verdict::Survived(_) => {}
                verdict => return verdict,
            }
        }
        Verdict::Survived(by_chance.join(", "))
    }

    fn tree(&self, tree: &Tree) -> Tree {
        let mut tree = tree.clone();
        tree.processes.arguments = self.arguments;
        (tree.processes.timeout, tree.processes.processor_seconds) = (Duration::from_secs(1200), 2400);
        let each = std::thread::available_parallelism().unwrap().get() * if self.waits { 5 } else { 1 };
        tree.processes.env.push(("RUST_TEST_THREADS", each.to_string()));
        tree
    }

    /// Runs it without a mutant, unless it is known which of them it reaches.
    fn look_what_is_reached(&self, tree: &Tree, mutants: &[Mutant], whole: &Mutant, results: &Results) {
        if results.of(whole, self.name).is_some() {
            return;
        }
        let start = Instant::now();
        let folder = results::file("reached").join(self.name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for what is reached");
        let mut tree = self.tree(tree);
        tree.processes.env.push((REACHED, folder.display().to_string()));
        let verdict = self.run(&tree);
        assert!(matches!(verdict, Verdict::Survived(_)), "{} fails as it is: {}", self.name, verdict.told().1);
        for (number, mutant) in mutants.iter().enumerate() {
            if !folder.join(number.to_string()).exists() {
                results.add(mutant, self.name, &Verdict::NotReached, 0.0);
            }
        }
        results.add(whole, self.name, &verdict, start.elapsed().as_secs_f64());
    }
}

#[test]
#[ignore = "takes hours: make mutants-layers"]
fn each_layer_alone_is_tried() {
    let mutants = sample(&list::read().unwrap());
    let in_rust: Vec<Mutant> = mutants.iter().cloned().map(Mutant::in_rust).collect();
    let (tree, within, _) = Tree::with_switch("switch", &in_rust.iter().collect::<Vec<_>>(), &EVERYTHING);
    assert_eq!(within.len(), mutants.len(), "some do not compile as arms");
    // Without one every mutant would seem to be found.
    drop(RedisServer::start());
    let results = Results::open("layers.tsv");
    let whole = Mutant {
        name: "without a mutant".into(),
        before: mutants.iter().map(|mutant| &*mutant.name).collect::<Vec<_>>().join("\n"),
        ..Mutant::default()
    };
    let layers: Vec<&Layer> = LAYERS.iter().filter(|layer| is_chosen("LAYERS", layer.name)).collect();
    // One waits while another one computes.
    at_once(2, layers.iter(), |layer| layer.look_what_is_reached(&tree, &mutants, &whole, &results));
    let mine = mutants.iter().enumerate().filter(|(_, mutant)| is_chosen("ONLY", &mutant.name));
    let todo = mine.flat_map(|(number, mutant)| layers.iter().map(move |layer| (number, mutant, layer)));
    at_once(
        2,
        todo.filter(|(_, mutant, layer)| results.of(mutant, layer.name).is_none()),
        |(number, mutant, layer)| {
            let start = Instant::now();
            let verdict = layer.run(&layer.tree(&tree).on(number));
            results.add(mutant, layer.name, &verdict, start.elapsed().as_secs_f64());
        },
    );
    print(&mutants, &results);
}

/// The table: one row for each mutant.
fn print(mutants: &[Mutant], results: &Results) {
    let names = LAYERS.iter().map(|layer| layer.name).collect::<Vec<_>>().join(" | ");
    say(format_args!("\n| promise | mutant | {names} | alone |\n|---|---|{}", "---|".repeat(LAYERS.len() + 1)));
    let mut counts = [[0; 3]; LAYERS.len()];
    for mutant in mutants {
        let outcomes = LAYERS.each_ref().map(|layer| results.of(mutant, layer.name));
        let outcomes = outcomes.map(Option::unwrap_or_default);
        let cells = outcomes.each_ref().map(|(outcome, by)| match &**outcome {
            "" => "?",
            "not reached" => "",
            "survived" => "–",
            _ if by.contains("judged: ") => "judge",
            _ => "found",
        });
        if cells.iter().all(|cell| ["?", ""].contains(cell)) {
            continue;
        }
        let is_found = |layer: &usize| ["found", "judge"].contains(&cells[*layer]);
        let found: BTreeSet<usize> = (0..LAYERS.len()).filter(is_found).collect();
        for (layer, count) in counts.iter_mut().enumerate() {
            let is_found = found.contains(&layer);
            let is = [!["", "?"].contains(&cells[layer]), is_found, is_found && found.len() == 1];
            (0..3).for_each(|kind| count[kind] += usize::from(is[kind]));
        }
        let alone = match (found.len(), found.first()) {
            _ if cells.contains(&"?") => "",
            (1, Some(&layer)) => LAYERS[layer].name,
            (0, _) => "found by none",
            _ => "",
        };
        let part = Path::new(&mutant.file).iter().next().unwrap_or_default().display();
        let (promise, name) = (mutant.promises[0], &mutant.name);
        say(format_args!("| I{promise} | {name} ({part}) | {} | {alone} |", cells.join(" | ")));
    }
    for (layer, [reached, found, alone]) in LAYERS.iter().zip(counts) {
        say(format_args!("{}: reached {reached}, found {found}, {alone} of them alone", layer.name));
    }
}
