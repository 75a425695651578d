//! Random walks of the scripts beside the model.

use std::cell::{Cell, RefCell};

use proptest::test_runner::{
    Config, FailurePersistence, FileFailurePersistence, PersistedSeed, RngAlgorithm, TestCaseError, TestError,
    TestRunner,
};

use super::driver::Driver;
use super::world::{World, case};

const REGRESSIONS: &str = "tests/scripts_model.proptest-regressions";

/// The cases that failed once.
pub fn regressions() -> FileFailurePersistence {
    FileFailurePersistence::Direct(REGRESSIONS)
}

/// The cases that failed once, where failing is what is expected and nothing new is to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOnly;

impl FailurePersistence for ReadOnly {
    fn load_persisted_failures2(&self, source_file: Option<&'static str>) -> Vec<PersistedSeed> {
        regressions().load_persisted_failures2(source_file)
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
