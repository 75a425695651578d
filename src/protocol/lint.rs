//! The rules for the text of the scripts: parts declare what they need and what they set, and leak nothing else. Also
//! writes out the scripts as they are sent, for clients in other languages.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use super::scripts::{FILES, SCRIPTS, assemble, declared_constants};

/// The names that a text declares outside of any block, and those that it assigns without declaring them.
fn assigned(text: &str) -> (Vec<String>, BTreeSet<String>) {
    let (mut declared, mut set, mut inner) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    // A declaration may go on over several lines.
    let text = text.replace(",\n  ", ", ");
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    for line in text.lines().filter(|line| !line.trim_start().starts_with("--")) {
        let code = line.split(" --").next().unwrap().trim_end();
        // Such as `if … then a = 1 end`.
        for code in code.split(" then ").flat_map(|code| code.split(" else ")).map(str::trim_start) {
            let (left, assigns) = match code.split_once(" =") {
                Some((left, right)) => (left, right.is_empty() || right.starts_with(' ')),
                None => (code, false),
            };
            let names = |list: &str| list.split(", ").filter(is_name).map(str::to_owned).collect::<Vec<_>>();
            match left.strip_prefix("local ") {
                Some(list) if line.starts_with("local ") => declared.extend(names(list)),
                Some(list) => inner.extend(names(list)),
                None if assigns => set.extend(names(left)),
                None => {}
            }
        }
    }
    set.retain(|name| !inner.contains(name) && !declared.contains(name));
    (declared, set)
}

/// The names after a marker in the header of a part.
fn named(text: &str, marker: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(marker));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn parts() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.into_iter().filter(|(name, _)| name.starts_with("lib/"))
}

#[test]
fn a_part_sets_what_its_header_says_and_nothing_else() {
    for (name, text) in parts() {
        let (declared, set) = assigned(text);
        let sets = named(text, "-- SETS: ");
        let does: BTreeSet<String> = declared.into_iter().chain(set).collect();
        let fields = ["sessions", "leaving", "fields", "messages", "leases", "ended", "own"].map(str::to_owned);
        let undeclared: Vec<_> = does.difference(&sets).collect();
        assert!(undeclared.is_empty(), "{name} sets {undeclared:?}, its header does not say so");
        let unset: Vec<_> = sets.difference(&does).filter(|name| !fields.contains(name)).collect();
        assert!(unset.is_empty(), "{name} sets no {unset:?}, its header says so");
    }
}

/// Its value stands in all scripts, whichever of them have the file that declares it.
#[test]
fn no_constant_is_declared_twice() {
    let mut names = BTreeSet::new();
    for (name, _) in FILES.iter().flat_map(|(_, text)| text.lines().filter_map(declared_constants).flatten()) {
        assert!(names.insert(name), "{name} is declared twice");
    }
    assert!(names.contains("VERSION"), "{names:?}");
}

/// In the order in which a script includes them.
#[test]
fn a_part_comes_after_the_variables_that_it_needs() {
    for (script, marked) in assemble(&|name, text| format!("-- PART {name}\n{text}")) {
        let marked = marked.replace(",\n  ", ", ");
        let (mut outside, mut anywhere, mut part) = (BTreeSet::new(), BTreeSet::new(), String::new());
        for line in marked.lines() {
            let code = line.trim_start();
            if let Some(name) = code.strip_prefix("-- PART ") {
                name.clone_into(&mut part);
            }
            for needed in named(code, "-- NEEDS: ") {
                assert!(anywhere.contains(&needed), "{part} needs {needed:?}, which {script} has not declared");
            }
            let (names, _) = assigned(code);
            if line.starts_with("local ") {
                let again = names.iter().find(|name| !outside.insert((*name).clone()));
                assert_eq!(again, None, "{script} declares a name twice");
            }
            anywhere.extend(names);
        }
    }
}

/// `make scripts` writes them.
#[test]
fn the_rendered_scripts_are_those_that_are_sent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua/rendered");
    for script in SCRIPTS.iter() {
        let path = folder.join(format!("{}.lua", script.name));
        if std::env::var_os("FAIRLOCK_RENDER").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, script.text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == script.text, "{} is not what is sent: run make scripts", path.display());
    }
}
