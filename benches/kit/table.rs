//! The table of results, and the verdict on each of them.

use std::process::ExitCode;

use super::limits::{LIMITS, Limit, REASONS};

/// Collects the rows as they are measured.
#[derive(Default)]
pub struct Table {
    lines: Vec<String>,
    beyond: Vec<&'static str>,
}

impl Table {
    /// A row with a limit. The details are the figures that it was made of.
    pub fn row(&mut self, row: &str, measured: f64, details: &str) {
        let limit = LIMITS.iter().find(|limit| limit.row == row).unwrap_or_else(|| panic!("no limit for {row:?}"));
        let (verdict, keeps) = verdict(limit, measured);
        if !keeps {
            self.beyond.push(limit.row);
        }
        let figure = if measured.abs() < 100.0 { format!("{measured:.2}") } else { format!("{measured:.0}") };
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
        println!("\n| row | must | measured | verdict | made of |\n|---|---|---|---|---|\n{}", self.lines.join("\n"));
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
