//! What the lock costs, row by row, each with what it must keep to: `make bench`, or
//! `cargo bench --bench table -- [ROUNDS] [GROUP...]`. README.md tells how to read it.

#![allow(unreachable_pub, clippy::expect_used, clippy::unwrap_used)]

mod kit;
mod rows;

use std::process::ExitCode;
use std::time::Instant;

use kit::{roles, table::Table};
use rows::GROUPS;

fn main() -> ExitCode {
    if let Some((role, arguments)) = roles::of_this_process() {
        rows::play(&role, &arguments);
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (numbers, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.parse::<usize>().is_ok());
    let rounds = numbers.first().map_or(15, |number| number.parse().expect("a number"));
    for name in &names {
        let known: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        assert!(known.contains(&name.as_str()), "no group {name:?}: there are {known:?}");
    }
    let _urgent = kit::place::Urgent::become_so();
    let mut table = Table::new();
    for group in GROUPS.iter().filter(|group| names.is_empty() || names.iter().any(|name| *name == group.name)) {
        let start = Instant::now();
        (group.measure)(rounds, &mut table);
        eprintln!("({}: {:.0} s)", group.name, start.elapsed().as_secs_f64());
    }
    table.verdict()
}
