//! Random walks of the scripts beside the model.

use std::cell::{Cell, RefCell};

use proptest::test_runner::{
    Config, FailurePersistence, FileFailurePersistence, PersistedSeed, RngAlgorithm, TestCaseError, TestError,
    TestRunner,
};

use super::driver::Driver;
use super::world::{World, case};

const REGRESSIONS: &str = "tests/model/regressions.txt";

/// The cases that failed once.
pub fn regressions() -> FileFailurePersistence {
    FileFailurePersistence::Direct(REGRESSIONS)
}

/// For walks that are expected to fail, whose findings are not recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum ReadOnly {
    /// The cases that failed once.
    All,
    One(PersistedSeed),
}

/// The cases that failed once, each with the break that it shows.
pub fn named_regressions() -> Vec<(PersistedSeed, String)> {
    let text = std::fs::read_to_string(REGRESSIONS).expect("the list of cases");
    let cases = text.lines().filter(|line| line.starts_with("xs "));
    let named =
        cases.map(|line| line.split_once(" # ").and_then(|(seed, what)| Some((seed, what.split_once(": ")?.1))));
    named
        .map(|case| case.expect("xs SEED # NUMBER: NAME"))
        .map(|(seed, name)| (seed.parse().expect("a seed"), name.to_owned()))
        .collect()
}

impl FailurePersistence for ReadOnly {
    fn load_persisted_failures2(&self, source_file: Option<&'static str>) -> Vec<PersistedSeed> {
        match self {
            Self::All => regressions().load_persisted_failures2(source_file),
            Self::One(seed) => vec![seed.clone()],
        }
    }

    fn save_persisted_failure2(&mut self, _: Option<&'static str>, _: PersistedSeed, _: &dyn std::fmt::Debug) {}

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(self.clone())
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().is::<Self>()
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

pub fn config(steps: usize) -> Config {
    Config {
        // More than enough: the number of steps decides.
        cases: u32::try_from(steps / 50 + 1).expect("fewer steps"),
        failure_persistence: None,
        max_shrink_iters: 0,
        // Generation is a good part of the work where nothing is optimized.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::default()
    }
}

/// Runs cases until one fails or this many steps are taken. The steps taken, and what failed.
pub fn explore(
    mut runner: TestRunner,
    driver: &mut Driver,
    steps: usize,
    batch: usize,
    by_model: bool,
) -> (usize, Option<String>) {
    let (taken, failed, driver) = (Cell::new(0), Cell::new(false), RefCell::new(driver));
    let outcome = runner.run(&case(batch), |case| {
        // A failure is made small whatever it takes.
        if taken.get() >= steps && !failed.get() {
            return Ok(());
        }
        let mut driver = driver.borrow_mut();
        let mut world = World::new(&mut driver, &case, by_model);
        let outcome = world.run(&case);
        if !failed.get() {
            taken.set(taken.get() + world.steps);
        }
        outcome.map_err(|message| {
            failed.set(true);
            TestCaseError::fail(message)
        })
    });
    let failure = outcome.err().map(|error| match error {
        TestError::Fail(reason, case) => format!("{reason}\nafter {} operations: {:?}", case.ops.len(), case.ops),
        TestError::Abort(reason) => reason.to_string(),
    });
    (taken.get(), failure)
}
