//! The table of results, and the verdict on each of them.

use std::process::ExitCode;

use super::limits::{LIMITS, TOLERANCE};

/// Prints each row as it is measured, and remembers whether one is beyond its limit.
#[derive(Default)]
pub struct Table {
    beyond: Vec<&'static str>,
}

impl Table {
    /// A measured row: the figure that is limited, and what it was made of.
    pub fn row(&mut self, row: &str, measured: f64, details: &str) {
        let limit = LIMITS.iter().find(|limit| limit.row == row).unwrap_or_else(|| panic!("no limit for {row:?}"));
        let must = limit.must;
        let (most, reason) = limit.known.unwrap_or((must, ""));
        let verdict = if measured <= must {
            "ok".to_owned()
        } else if measured > most + TOLERANCE * most.max(1.0) {
            self.beyond.push(limit.row);
            match limit.known {
                None => "BEYOND ITS LIMIT".to_owned(),
                Some(_) => format!("WORSE THAN the recorded {most}"),
            }
        } else if reason.is_empty() {
            "ok, within the noise".to_owned()
        } else {
            format!("known shortfall, recorded {most}: {reason}")
        };
        println!("{row}: {measured:.2}, must {must}: {verdict}");
        if !details.is_empty() {
            println!("    {details}");
        }
    }

    /// A row that cannot be measured here.
    pub fn skipped(&self, row: &str, reason: &str) {
        println!("{row}: SKIPPED, {reason}");
    }

    pub fn verdict(self) -> ExitCode {
        if self.beyond.is_empty() {
            return ExitCode::SUCCESS;
        }
        println!("\n{} beyond their limits: {}", self.beyond.len(), self.beyond.join("; "));
        ExitCode::FAILURE
    }
}
