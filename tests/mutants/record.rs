//! `docs/track-record.md` names tests and mutants; all of them must exist.

use std::fs;
use std::path::Path;

use crate::list::{self, root};

#[test]
fn the_track_record_names_mutants_and_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/track-record.md")).unwrap();
    let mutants = list::read().unwrap();
    let mut code = String::new();
    ["src", "tests", "cli"].iter().for_each(|folder| read_all(&root().join(folder), &mut code));
    let mut stale = Vec::new();
    for bug in page.split("\n- ") {
        // A name may be broken over lines.
        let bug = bug.split("\n## ").next().unwrap_or_default();
        let bug = bug.split_whitespace().collect::<Vec<_>>().join(" ");
        let (rest, named) = bug.split_once("Mutant: ").unwrap_or((&bug, ""));
        let unknown = |name: &&str| mutants.iter().all(|mutant| mutant.name != **name);
        stale.extend(named.split('"').skip(1).step_by(2).filter(unknown).map(str::to_owned));
        let tests = rest.split("Test: ").nth(1).and_then(|tests| tests.split("Undo: ").next()).unwrap_or_default();
        let cases = tests.split('`').skip(1).step_by(2).filter_map(|path| path.split("::").last());
        let missing = |case: &&str| ["fn", "mod", "#"].iter().all(|item| !code.contains(&format!("{item} {case}")));
        stale.extend(cases.filter(missing).map(str::to_owned));
    }
    assert!(stale.is_empty(), "no such mutants or tests: {stale:#?}");
}

fn read_all(folder: &Path, code: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") || path.ends_with("regressions.txt") {
            code.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
