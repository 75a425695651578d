//! Random walks of the scripts, compared with the model.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRunner};

use super::driver::Driver;
use super::events::Case;
use super::walk::{Checked, Walk};

const REGRESSIONS: &str = "tests/model/regressions.txt";

/// A case that failed once.
pub struct Regression {
    /// The mutant that it shows.
    pub name: String,
    pub case: Case,
}

/// The cases that failed once.
pub fn regressions() -> Vec<Regression> {
    let text = std::fs::read_to_string(REGRESSIONS).expect("the list of cases");
    let cases = text.split("\n\n").filter_map(|paragraph| paragraph.strip_prefix("# "));
    cases
        .map(|paragraph| {
            let (name, case) = paragraph.split_once('\n').expect("# NAME, and a case below it");
            let case = ron::from_str(case).unwrap_or_else(|error| panic!("{name}: {error}"));
            Regression { name: name.to_owned(), case }
        })
        .collect()
}

/// The paragraph of a case in the list.
pub fn paragraph(name: &str, case: &Case) -> String {
    let lines = ron::ser::PrettyConfig::new().depth_limit(2).indentor("  ");
    format!("# {name}\n{}\n", ron::ser::to_string_pretty(case, lines).expect("a case can be written"))
}

/// Adds a case to the list.
pub fn keep(name: &str, case: &Case) {
    let mut file = std::fs::OpenOptions::new().append(true).open(REGRESSIONS).expect("the list of cases");
    write!(file, "\n{}", paragraph(name, case)).expect("the list can be written");
}

/// What is wrong where this case happens, if anything is, and after how many steps.
pub fn replay(driver: &mut Driver, case: &Case, by_model: bool) -> (usize, Option<String>) {
    let mut walk = Walk::new(driver, case, by_model);
    let outcome = caught(|| walk.run(case));
    (walk.steps, outcome.err())
}

/// What scripts that are broken on purpose leave behind may be nothing that can be read.
pub fn caught(check: impl FnOnce() -> Checked) -> Checked {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| Err("it panicked".into()))
}

/// What is left of a case without all the steps that may go: halves first, single steps in the end.
pub fn shrunk(mut case: Case, mut still: impl FnMut(&Case) -> bool) -> Case {
    let mut chunk = case.ops.len().div_ceil(2);
    while chunk > 0 {
        let mut end = case.ops.len();
        let before = end;
        while end > 0 {
            let start = end.saturating_sub(chunk);
            let mut without = case.clone();
            without.ops.drain(start..end);
            if still(&without) {
                case = without;
            }
            end = start;
        }
        // Some steps can be removed only after a later one was.
        if chunk > 1 || case.ops.len() == before {
            chunk /= 2;
        }
    }
    case
}

pub fn config(steps: usize) -> Config {
    Config {
        // These are more cases than are needed: the number of steps decides.
        cases: u32::try_from(steps / 50 + 1).expect("fewer steps"),
        failure_persistence: None,
        max_shrink_iters: 0,
        // Generation is a good part of the work where nothing is optimized.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::default()
    }
}

/// What a walk found to be wrong.
pub struct Failure {
    pub message: String,
    pub case: Option<Case>,
}

/// Runs cases until one fails or this many steps are taken. Returns the steps taken, and what failed.
pub fn explore(
    mut runner: TestRunner,
    driver: &mut Driver,
    steps: usize,
    cases: impl Strategy<Value = Case>,
    by_model: bool,
) -> (usize, Option<Failure>) {
    let (taken, failed, driver) = (Cell::new(0), Cell::new(false), RefCell::new(driver));
    let outcome = runner.run(&cases, |case| {
        // A failure is made small whatever it takes.
        if taken.get() >= steps && !failed.get() {
            return Ok(());
        }
        let (steps, wrong) = replay(&mut driver.borrow_mut(), &case, by_model);
        if !failed.get() {
            taken.set(taken.get() + steps);
        }
        wrong.map_or(Ok(()), |message| {
            failed.set(true);
            Err(TestCaseError::fail(message))
        })
    });
    let failure = outcome.err().map(|error| match error {
        TestError::Fail(reason, case) => Failure { message: reason.to_string(), case: Some(case) },
        TestError::Abort(reason) => Failure { message: reason.to_string(), case: None },
    });
    (taken.get(), failure)
}
