//! The table of results, and the verdict on each of them.

use std::process::ExitCode;

use super::limits::{LIMITS, Limit};
use super::machine;

/// Collects the rows as they are measured.
pub struct Table {
    /// What was measured, and where.
    about: String,
    lines: Vec<String>,
    beyond: Vec<&'static str>,
}

impl Table {
    pub fn new() -> Table {
        Table { about: machine::description(), lines: Vec::new(), beyond: Vec::new() }
    }

    /// A row with a limit, and what its figure is compared with or made of.
    pub fn row(&mut self, row: &str, measured: f64, compared: &str) {
        let limit = limit_of(row);
        let holds = limit.bound.holds(measured);
        if !holds {
            self.beyond.push(limit.row);
        }
        let worse = format!("WORSE than {:?}", limit.bound);
        let remark = if holds { limit.remark } else { &worse };
        let figure = if measured.abs() < 100.0 { format!("{measured:.2}") } else { format!("{measured:.0}") };
        self.line(&format!("| {} | {figure} {} | {compared} | {remark} |", limit.row, limit.unit));
    }

    /// A row that is there to be read, and has no limit.
    pub fn note(&mut self, row: &str, measured: &str) {
        self.line(&format!("| {row} | {measured} | | |"));
    }

    /// A row that cannot be measured here.
    pub fn skipped(&mut self, row: &str, reason: &str) {
        self.line(&format!("| {row} | SKIPPED | | {reason} |"));
    }

    fn line(&mut self, line: &str) {
        println!("{line}");
        self.lines.push(line.to_owned());
    }

    pub fn verdict(self) -> ExitCode {
        println!("\n{}\n", self.about);
        println!(
            "| row | measured | compared with, or made of | remark |\n|---|---|---|---|\n{}",
            self.lines.join("\n")
        );
        if self.beyond.is_empty() {
            return ExitCode::SUCCESS;
        }
        println!("\n{} worse than they were: {}", self.beyond.len(), self.beyond.join("; "));
        ExitCode::FAILURE
    }
}

fn limit_of(row: &str) -> &'static Limit {
    LIMITS.iter().find(|limit| limit.row == row).unwrap_or_else(|| panic!("no limit for {row:?}"))
}
