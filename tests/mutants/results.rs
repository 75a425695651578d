//! The verdicts on mutants, kept in a file so that an interrupted run goes on where it stopped.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::list::{Mutant, root};
use crate::say;
use crate::tree::{self, Verdict};

pub(crate) struct Results {
    fingerprint: u64,
    /// The verdict and the test that gave it, by mutant and code.
    known: Mutex<HashMap<u64, (String, String)>>,
    file: Mutex<File>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In the folder of mutants.
pub(crate) fn file(name: &str) -> PathBuf {
    root().join("target/mutants").join(name)
}

impl Results {
    /// With the verdicts of earlier runs on the same mutants in the same code.
    pub(crate) fn open(name: &str) -> Self {
        let path = file(name);
        fs::create_dir_all(path.parent().expect("it lies in target")).expect("a folder for the results");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let known = text.lines().filter_map(|line| {
            let mut fields = line.split('\t');
            let key = u64::from_str_radix(fields.next()?, 16).ok()?;
            Some((key, (fields.next()?.to_owned(), fields.next()?.to_owned())))
        });
        let file = OpenOptions::new().create(true).append(true).open(&path).expect("the file of results");
        Self { fingerprint: tree::fingerprint(), known: Mutex::new(known.collect()), file: Mutex::new(file) }
    }

    fn key(&self, mutant: &Mutant, tests: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (mutant, tests, self.fingerprint).hash(&mut hasher);
        hasher.finish()
    }

    /// The verdict of these tests, and the one that gave it.
    pub(crate) fn of(&self, mutant: &Mutant, tests: &str) -> Option<(String, String)> {
        lock(&self.known).get(&self.key(mutant, tests)).cloned()
    }

    pub(crate) fn add(&self, mutant: &Mutant, tests: &str, verdict: &Verdict, seconds: f64) {
        let key = self.key(mutant, tests);
        let (outcome, by) = verdict.told();
        let by = by.split_whitespace().collect::<Vec<_>>().join(" ");
        let promises: Vec<_> = mutant.promises.iter().map(|promise| format!("I{promise}")).collect();
        let promises = promises.join(" ");
        let line = format!("{key:016x}\t{outcome}\t{by}\t{seconds:.1}\t{promises}\t{}\t{tests}", mutant.name);
        writeln!(lock(&self.file), "{line}").expect("the result is kept");
        let (name, by_whom) = (&mutant.name, by.chars().take(160).collect::<String>());
        let tests = if tests.is_empty() { String::new() } else { format!("{tests}: ") };
        say(format_args!("{outcome:>11} {seconds:>6.1} s  {name}  ({tests}{by_whom})"));
        lock(&self.known).insert(key, (outcome.into(), by));
    }
}
