//! Mutants of the scripts against the model, within this process and without a build.

use proptest::test_runner::{Config, FailurePersistence, RngAlgorithm, TestRng, TestRunner};

use crate::list::Mutant;
use crate::model::driver::Driver;
use crate::model::walks::{ReadOnly, config, explore, named_regressions};

/// Steps against the model, and against the promises alone. A mutant that takes more steps needs a case in the list of
/// regressions.
const STEPS: [usize; 2] = [30_000, 10_000];

/// The judge that finds the mutant, if one does. None as argument: the scripts as they are.
pub(crate) fn judge(mutant: Option<&Mutant>) -> Result<Option<String>, String> {
    if mutant.is_some_and(|mutant| mutant.file == "lua/lib/time.lua") {
        // It is a mutant of the clock, which tests replace.
        return Ok(None);
    }
    let broken = mutant.map(Mutant::applied).transpose()?;
    let mut driver = driver(mutant, broken.as_deref());
    let [by_model, by_promises] = [true, false].map(|by_model| notice(&mut driver, by_model));
    Ok(by_model.map(|step| match by_promises {
        Some(other) => format!("model at step {step}, promises at step {other}"),
        None => format!("model at step {step}"),
    }))
}

/// Whether the promises alone find the mutant, without the model.
pub(crate) fn breaks_a_promise(mutant: &Mutant) -> bool {
    let broken = mutant.applied().expect("the list is up to date");
    notice(&mut driver(Some(mutant), Some(&broken)), false).is_some()
}

/// After how many steps something is wrong, if it is.
fn notice(driver: &mut Driver, by_model: bool) -> Option<usize> {
    let steps = STEPS[usize::from(!by_model)];
    // The same seed each time, so that a finding is repeatable.
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"scripts go wrong");
    let config = Config { failure_persistence: Some(Box::new(ReadOnly::All)), ..config(steps) };
    let (taken, failure) = explore(TestRunner::new_with_rng(config, seed), driver, steps, 3, by_model);
    failure.map(|_| taken)
}

fn driver(mutant: Option<&Mutant>, broken: Option<&str>) -> Driver {
    Driver::with(|file, text| match (mutant, broken) {
        (Some(mutant), Some(broken)) if mutant.file == file => broken.to_owned(),
        _ => text.to_owned(),
    })
}

/// Errors in the list of regressions: each case must pass, and fail with the mutant that it names.
pub(crate) fn stale_cases(mutants: &[Mutant]) -> Vec<String> {
    let mut whole = driver(None, None);
    let mut stale = Vec::new();
    for (seed, name) in named_regressions() {
        let Some(mutant) = mutants.iter().find(|mutant| mutant.name == name) else {
            stale.push(format!("{name}: no such break"));
            continue;
        };
        let broken = mutant.applied().expect("the list is up to date");
        let fails = |driver: &mut Driver| {
            let persistence = Some(Box::new(ReadOnly::One(seed.clone())) as Box<dyn FailurePersistence>);
            // The case alone, and no others.
            let runner = TestRunner::new(Config { failure_persistence: persistence, cases: 0, ..config(0) });
            explore(runner, driver, usize::MAX, 3, true).1.is_some()
        };
        if fails(&mut whole) || !fails(&mut driver(Some(mutant), Some(&broken))) {
            stale.push(name);
        }
    }
    stale
}
