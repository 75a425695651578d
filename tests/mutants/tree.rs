//! Copies of the package with mutants, and the tests that should notice: one in which many mutants are behind a switch
//! (`switch.rs`), and one to which one mutant at a time is applied.
//!
//! The copies share this package's target folder, where its dependencies are already built. To cargo they are other
//! versions of the packages, so that none uses artifacts of another.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::layers;
use crate::list::{Mutant, root};
use crate::processes::{END, Processes, panic_in};
use crate::stages::{Stage, Target, binary_of, staged, target_of};
use crate::switch::{VARIABLE, switch, switched};

pub(crate) enum Verdict {
    /// Killed by this test.
    Killed(String),
    /// Perhaps with tests that failed once and passed then.
    Survived(String),
    /// It does not compile.
    DoesNotCompile(String),
    TimedOut(String),
    /// The tests do not run what it changes.
    NotReached,
}

impl Verdict {
    /// What it was and who gave it, in the words of the file of verdicts.
    pub(crate) fn told(&self) -> (&'static str, &str) {
        match self {
            Verdict::Killed(by) => ("killed", by),
            Verdict::Survived(by) => ("survived", by),
            Verdict::DoesNotCompile(by) => ("does not compile", by),
            Verdict::TimedOut(by) => ("timed out", by),
            Verdict::NotReached => ("not reached", ""),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Tree {
    target: PathBuf,
    /// With a switch: all test binaries.
    built: Option<BTreeMap<String, PathBuf>>,
    pub(crate) processes: Processes,
}

/// Of the compiler: files and lines, and what it says.
struct Errors {
    places: Vec<(PathBuf, usize)>,
    text: String,
}

/// Of both crates.
const ROOTS: [&str; 2] = ["src/lib.rs", "cli/src/main.rs"];

/// Of these targets and those of the stages: the ones without a file, for which nothing would run, and names that are
/// left out although no test has them.
pub(crate) fn missing(named: &[&str]) -> Vec<String> {
    let mut missing = Vec::new();
    let all = staged().chain(layers::targets()).chain(named.iter().map(|name| target_of(name)));
    for (target, left_out) in all.filter(|(target, _)| binary_of(target).0 != "lib") {
        let path = if target.contains("::") { target.replace("::", "/") } else { format!("{target}/main") };
        let tests = if binary_of(target).0 == "cli" { "cli/tests" } else { "tests" };
        let path = root().join(tests).join(path);
        let in_folder = fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = in_folder.chain([path.with_extension("rs")]);
        let text: String = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
        let is_in = |line: &str, part: &str| match part.strip_suffix("::") {
            Some(module) => line == format!("mod {module};"),
            None => line.contains("fn ") && line.contains(part),
        };
        let has = |part: &&&str| text.lines().any(|line| is_in(line, part));
        missing.extend(text.is_empty().then(|| (*target).to_owned()));
        missing.extend(left_out.iter().filter(|part| !has(part)).map(|part| format!("{target} without {part}")));
    }
    missing
}

impl Tree {
    pub(crate) fn copy() -> Self {
        Self::of("mutant", |_, text| text)
    }

    /// The tree with all of these mutants that fit into one build of these targets, and their numbers; and those of the
    /// mutants that do not compile.
    pub(crate) fn with_switch(
        version: &str,
        mutants: &[&Mutant],
        targets: &[&str],
    ) -> (Self, BTreeSet<usize>, BTreeSet<usize>) {
        let (mut within, mut wrong): (BTreeSet<usize>, _) = ((0..mutants.len()).collect(), BTreeSet::new());
        loop {
            let mut places: Vec<(PathBuf, Range<usize>, usize)> = Vec::new();
            let mut tree = Self::of(version, |file, text| {
                let here: Vec<_> = within.iter().map(|&number| (number, mutants[number])).collect();
                let here: Vec<_> = here.into_iter().filter(|(_, mutant)| Path::new(&mutant.file) == file).collect();
                let is_root = ROOTS.iter().any(|root| file == Path::new(root));
                if here.is_empty() && !is_root {
                    return text;
                }
                let (mut text, lines) = switched(&String::from_utf8(text).expect("code is text"), &here);
                places.extend(lines.into_iter().map(|(number, lines)| (file.to_owned(), lines, number)));
                if is_root {
                    text.push_str(&switch());
                }
                text.into_bytes()
            });
            within = places.iter().map(|(.., number)| *number).collect();
            // What the machine does takes long without optimizations, and this is built once.
            let mut cargo = tree.cargo();
            cargo.args(["--config", "profile.dev.package.fairlock.opt-level=1", "--features", "fairlock/metrics"]);
            match tree.binaries(cargo.args(targets)) {
                Ok(built) => {
                    tree.built = Some(built);
                    return (tree, within, wrong);
                }
                Err(errors) => {
                    let is_wrong = |(file, lines, _): &&(PathBuf, Range<usize>, usize)| {
                        errors.places.iter().any(|(path, line)| path == file && lines.contains(line))
                    };
                    let before = wrong.len();
                    wrong.extend(places.iter().filter(is_wrong).map(|(.., number)| *number));
                    assert!(wrong.len() > before, "what is without mutants does not compile: {}", errors.text);
                    within.retain(|number| !wrong.contains(number));
                }
            }
        }
    }

    /// Copies the files that have changed since the last time, as another version and with another text.
    fn of(version: &str, mut edited: impl FnMut(&Path, Vec<u8>) -> Vec<u8>) -> Self {
        let target = root().join("target");
        let processes = Processes::of(target.join("mutants").join(version));
        let tree = Self { target, built: None, processes };
        let files = files();
        for file in &files {
            let (from, to) = (root().join(file), tree.processes.folder.join(file));
            let mut text = edited(file, fs::read(&from).expect("a file of the package"));
            if file.ends_with("Cargo.toml") && !file.starts_with("fuzz") {
                let manifest = String::from_utf8(text).expect("a manifest is text");
                let manifest = manifest.replacen("\nversion = \"", &format!("\nversion = \"0.0.0-{version}+"), 1);
                // The command line asks for the library's release.
                text = manifest.replace(concat!("version = \"=", env!("CARGO_PKG_VERSION"), "\", "), "").into_bytes();
            }
            if fs::read(&to).ok().as_ref() != Some(&text) {
                fs::create_dir_all(to.parent().expect("it lies in the copy")).expect("a folder of the copy");
                fs::write(&to, text).expect("a file of the copy");
            }
        }
        for gone in below(&tree.processes.folder).difference(&files) {
            fs::remove_file(tree.processes.folder.join(gone)).expect("a file of the copy");
        }
        tree
    }

    /// With the mutant of this number on.
    pub(crate) fn on(&self, number: usize) -> Self {
        let mut tree = self.clone();
        tree.processes.env.push((VARIABLE, number.to_string()));
        tree
    }

    /// Runs the tests that it names with the mutant of this number on, or all if it names none, or unit tests.
    pub(crate) fn judge_switched(&self, number: usize, mutant: &Mutant, stages: &[&Stage]) -> Verdict {
        let tree = self.on(number);
        match mutant.by.as_deref() {
            Some(named) if binary_of(named).0 != "lib" => tree.part(&[target_of(named)], true, &mut Vec::new()),
            likely => tree.suite(stages, likely),
        }
    }

    /// Applies the mutant, runs the tests, and takes it back.
    pub(crate) fn judge(&self, mutant: &Mutant, stages: &[&Stage]) -> Verdict {
        let file = self.processes.folder.join(&mutant.file);
        let whole = fs::read_to_string(&file).expect("a file of the copy");
        let broken = mutant.apply(&whole).expect("it was seen to apply");
        fs::write(&file, broken).expect("a file of the copy");
        let verdict = self.suite(stages, mutant.by.as_deref());
        fs::write(&file, whole).expect("a file of the copy");
        verdict
    }

    /// Stage by stage, until a test fails; the target that is most likely to notice comes first.
    pub(crate) fn suite(&self, stages: &[&Stage], likely: Option<&str>) -> Verdict {
        let mut by_chance = Vec::new();
        let likely: Vec<Target<'_>> = likely.map(target_of).into_iter().collect();
        let stages = stages.iter().map(|stage| (stage.targets, stage.twice));
        for (targets, twice) in [(&*likely, true)].into_iter().chain(stages) {
            match self.part(targets, twice, &mut by_chance) {
                Verdict::Survived(_) => {}
                verdict => return verdict,
            }
        }
        Verdict::Survived(by_chance.join(", "))
    }

    pub(crate) fn part(&self, targets: &[Target<'_>], twice: bool, by_chance: &mut Vec<String>) -> Verdict {
        let binaries = match self.build(targets) {
            Ok(binaries) => binaries,
            Err(error) => return Verdict::DoesNotCompile(error),
        };
        loop {
            match self.run(targets, &binaries, by_chance) {
                Verdict::Killed(test) if twice => {
                    let (name, test_name) = test.split_once("::").unwrap_or((&test, ""));
                    let again = binaries.iter().find(|(target, _)| binary_of(target).0 == name).cloned();
                    let alone = if test_name == END { vec![] } else { vec!["--exact".into(), test_name.into()] };
                    let stderr = tempfile::NamedTempFile::new().expect("a file for what it says");
                    match self.processes.run(again.as_slice(), Some(stderr.as_file()), |_| alone.clone()) {
                        Verdict::Survived(_) => by_chance.push(test),
                        Verdict::Killed(_) if self.fails_anyway(&again, &alone) => by_chance.push(test),
                        Verdict::Killed(test) => {
                            let mut said = String::new();
                            let _ = stderr.reopen().and_then(|mut file| file.read_to_string(&mut said));
                            return Verdict::Killed(format!("{test} at {}", panic_in(&said, test_name)));
                        }
                        verdict => return verdict,
                    }
                }
                verdict => return verdict,
            }
        }
    }

    /// Whether a test fails without the mutant that is on, too, because the machine is busy.
    fn fails_anyway(&self, test: &Option<(String, PathBuf)>, arguments: &[String]) -> bool {
        let mut healthy = self.processes.clone();
        healthy.env.retain(|(name, _)| *name != VARIABLE);
        let is_on = healthy.env.len() < self.processes.env.len();
        is_on && !matches!(healthy.run(test.as_slice(), None, |_| arguments.to_vec()), Verdict::Survived(_))
    }

    /// Builds and runs these targets on the healthy code, and returns how long that took.
    pub(crate) fn passes(&self, targets: &[&str]) -> Result<Duration, String> {
        let start = Instant::now();
        let targets: Vec<Target<'_>> = targets.iter().map(|name| target_of(name)).collect();
        match self.part(&targets, true, &mut Vec::new()) {
            Verdict::Survived(_) => Ok(start.elapsed()),
            Verdict::Killed(test) => Err(format!("{test} fails as it is")),
            Verdict::TimedOut(what) | Verdict::DoesNotCompile(what) => Err(what),
            Verdict::NotReached => unreachable!("tests are run"),
        }
    }

    /// Builds test targets: their names and the binaries that they are in.
    fn build(&self, targets: &[Target<'_>]) -> Result<Vec<(String, PathBuf)>, String> {
        if targets.is_empty() {
            return Ok(Vec::new());
        }
        let built = match &self.built {
            Some(built) => Cow::Borrowed(built),
            None => {
                let mut cargo = self.cargo();
                let names: BTreeSet<&str> = targets.iter().map(|(target, _)| binary_of(target).0).collect();
                for name in names {
                    match name {
                        "lib" => cargo.arg("--lib"),
                        "cli" => cargo.args(["-p", "fairlock-cli", "--test", name]),
                        "observability" => cargo.args(["--features", "fairlock/metrics", "--test", name]),
                        name => cargo.args(["--test", name]),
                    };
                }
                Cow::Owned(self.binaries(&mut cargo).map_err(|errors| errors.text)?)
            }
        };
        let binary = |target: &str| built.get(binary_of(target).0).expect("cargo built what it was asked for").clone();
        Ok(targets.iter().map(|(target, _)| ((*target).to_owned(), binary(target))).collect())
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["test", "--no-run", "--quiet", "--message-format=json"]);
        // Without encryption the tests of streams are left out.
        cargo.args(["-p", "fairlock", "--features", "fairlock/tls"]);
        cargo.current_dir(&self.processes.folder).env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// The test binaries by their names.
    fn binaries(&self, cargo: &mut Command) -> Result<BTreeMap<String, PathBuf>, Errors> {
        let output = cargo.output().expect("cargo");
        let said = output.stdout.split(|byte| *byte == b'\n');
        let said = said.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
        if !output.status.success() {
            let errors = said.map(|message| message["message"].clone()).filter(|message| message["level"] == "error");
            let errors: Vec<serde_json::Value> = errors.collect();
            let spans = errors.iter().filter_map(|message| message["spans"].as_array()).flatten();
            let places = spans.filter(|span| span["is_primary"] == true).filter_map(|span| {
                let (file, line) = (span["file_name"].as_str()?, span["line_start"].as_u64()?);
                Some((file.into(), usize::try_from(line).ok()?))
            });
            let text = errors.iter().filter_map(|message| message["rendered"].as_str()).collect::<String>();
            let text = text + &String::from_utf8_lossy(&output.stderr);
            return Err(Errors { places: places.collect(), text });
        }
        let artifacts = said.filter_map(|message| {
            message["profile"]["test"].as_bool().filter(|is_test| *is_test)?;
            let (name, executable) = (message["target"]["name"].as_str()?, message["executable"].as_str()?);
            let name = if message["target"]["kind"][0] == "lib" { "lib" } else { name };
            Some((name.to_owned(), PathBuf::from(executable)))
        });
        Ok(artifacts.collect())
    }

    /// Runs test targets but for some tests, given as `target::test`.
    fn run(&self, targets: &[Target<'_>], binaries: &[(String, PathBuf)], but: &[String]) -> Verdict {
        self.processes.run(binaries, None, |target| {
            let (binary, file) = binary_of(target);
            let skipped = targets.iter().filter(|(name, _)| *name == target).flat_map(|(_, skipped)| *skipped);
            let but = but.iter().filter_map(|test| test.split_once("::").filter(|(name, _)| *name == binary));
            let skipped = skipped.copied().chain(but.map(|(_, test)| test));
            file.into_iter().chain(skipped.flat_map(|test| ["--skip".into(), test.into()])).collect()
        })
    }
}

/// The content of the copy: everything but build artifacts and hidden files.
fn files() -> BTreeSet<PathBuf> {
    below(root()).into_iter().filter(|file| !file.starts_with("target")).collect()
}

fn below(folder: &Path) -> BTreeSet<PathBuf> {
    fn walk(folder: &Path, at: &Path, files: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder.join(at)).into_iter().flatten().flatten() {
            let (name, file) = (entry.file_name(), at.join(entry.file_name()));
            if name.as_encoded_bytes().starts_with(b".") || name == "target" {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => walk(folder, &file, files),
                _ => drop(files.insert(file)),
            }
        }
    }
    let mut files = BTreeSet::new();
    walk(folder, Path::new(""), &mut files);
    files
}

/// Changes with everything that a verdict depends on, except the list.
pub(crate) fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    let aside = ["docs", "tests/mutants"];
    for file in files().iter().filter(|file| aside.iter().all(|aside| !file.starts_with(aside))) {
        file.hash(&mut hasher);
        fs::read(root().join(file)).expect("a file of the package").hash(&mut hasher);
    }
    hasher.finish()
}
