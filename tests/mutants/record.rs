//! Each row of `docs/track-record.md` has a command that puts its bug back. The mutant that it names must exist.

use std::fs;

use crate::list::{self, root};

#[test]
fn each_bug_of_the_track_record_has_a_mutant_that_shows_it_again() {
    let page = fs::read_to_string(root().join("docs/track-record.md")).unwrap();
    let mutants = list::read().unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let shows = |row: &str| {
        let name = row.split("`ONLY='").nth(1).and_then(|command| command.split("' make mutants` |").next());
        name.is_some_and(|name| mutants.iter().any(|mutant| mutant.name.contains(name)))
    };
    let stale: Vec<_> = rows.iter().filter(|row| !shows(row)).collect();
    assert!(rows.len() > 10 && stale.is_empty(), "no such mutants: {stale:#?}");
}
