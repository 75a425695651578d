//! The table of results, and the verdict on each of them.

use std::process::ExitCode;

use super::limits::{LIMITS, Limit, REASONS};
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

    /// A row with a limit. The details are the figures that it was made of.
    pub fn row(&mut self, row: &str, measured: f64, details: &str) {
        let limit = limit_of(row);
        let (verdict, keeps) = verdict(limit, measured);
        if !keeps {
            self.beyond.push(limit.row);
        }
        self.with_verdict(limit, measured, &verdict, details);
    }

    /// A row that depends on where the kernel puts processes: not judged if it had no choice.
    pub fn row_if_quiet(&mut self, quiet: bool, row: &str, measured: f64, details: &str) {
        if quiet {
            return self.row(row, measured, details);
        }
        self.with_verdict(limit_of(row), measured, "not judged: a busy machine", details);
    }

    fn with_verdict(&mut self, limit: &Limit, measured: f64, verdict: &str, details: &str) {
        let figure = if measured.abs() < 100.0 { format!("{measured:.2}") } else { format!("{measured:.0}") };
        let row = limit.row;
        self.line(&format!("| {row} | {} {} | {figure} | {verdict} | {details} |", limit.must.figure(), limit.unit));
    }

    /// A row that is there to be read, and has no limit.
    pub fn note(&mut self, row: &str, measured: &str) {
        self.line(&format!("| {row} | | {measured} | | |"));
    }

    /// A row that cannot be measured here.
    pub fn skipped(&mut self, row: &str, reason: &str) {
        self.line(&format!("| {row} | | | SKIPPED | {reason} |"));
    }

    fn line(&mut self, line: &str) {
        println!("{line}");
        self.lines.push(line.to_owned());
    }

    pub fn verdict(self) -> ExitCode {
        println!("\n{}\n", self.about);
        println!("| row | must | measured | verdict | made of |\n|---|---|---|---|---|\n{}", self.lines.join("\n"));
        for (reason, meaning) in
            REASONS.iter().filter(|(reason, _)| self.lines.iter().any(|line| line.contains(reason)))
        {
            println!("\n{reason}: {meaning}");
        }
        if self.beyond.is_empty() {
            return ExitCode::SUCCESS;
        }
        println!("\n{} beyond their limits: {}", self.beyond.len(), self.beyond.join("; "));
        ExitCode::FAILURE
    }
}

fn limit_of(row: &str) -> &'static Limit {
    LIMITS.iter().find(|limit| limit.row == row).unwrap_or_else(|| panic!("no limit for {row:?}"))
}

/// The verdict in words, and whether the row keeps to what it must or is known to miss.
fn verdict(limit: &Limit, measured: f64) -> (String, bool) {
    let must = limit.must;
    let within = |noise: f64| must.holds(measured, noise);
    match limit.known {
        _ if within(0.0) => ("ok".to_owned(), true),
        _ if within(must.tolerance()) => ("ok, within the noise".to_owned(), true),
        None => ("BEYOND".to_owned(), false),
        Some((recorded, reason)) => {
            let known = must.at(recorded);
            match known.holds(measured, known.tolerance()) {
                true => (format!("known: {recorded} ({reason})"), true),
                false => (format!("WORSE than the known {recorded} ({reason})"), false),
            }
        }
    }
}
