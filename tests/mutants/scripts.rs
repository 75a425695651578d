//! Mutants of the scripts against the model, within this process and without a build.

use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::list::Mutant;
use crate::model::driver::Driver;
use crate::model::events::{Case, case, quiet_case};
use crate::model::singles::SINGLES;
use crate::model::walks::{Regression, caught, config, explore, keep, paragraph, regressions, replay, shrunk};

/// Steps against the model, and against the promises alone. A mutant that takes more steps needs a case in the list of
/// regressions.
const STEPS: [usize; 2] = [30_000, 10_000];

/// The judge that finds the mutant, if one does. None as argument: the scripts as they are.
pub(crate) fn judge(mutant: Option<&Mutant>) -> Result<Option<String>, String> {
    if mutant.is_some_and(|mutant| ["lua/lib/time.lua", "lua/rights.lua"].contains(&&*mutant.file)) {
        // The one is the clock, which tests replace, and the other is no verb.
        return Ok(None);
    }
    let broken = mutant.map(Mutant::applied).transpose()?;
    let mut driver = driver(mutant, broken.as_deref());
    if let Some((name, _)) = SINGLES.iter().find(|(_, case)| caught(|| case(&mut driver)).is_err()) {
        return Ok(Some(format!("single case: {name}")));
    }
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

/// After how many steps something is wrong, if it ever is: in the cases that failed once, or on a walk.
fn notice(driver: &mut Driver, by_model: bool) -> Option<usize> {
    let mut replayed = 0;
    for regression in regressions() {
        let (taken, wrong) = replay(driver, &regression.case, by_model);
        replayed += taken;
        if wrong.is_some() {
            return Some(replayed);
        }
    }
    let steps = STEPS[usize::from(!by_model)];
    // The same seed each time, so that a finding is repeatable.
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"scripts go wrong");
    let (taken, failure) = explore(TestRunner::new_with_rng(config(steps), seed), driver, steps, case(3), by_model);
    failure.map(|_| replayed + taken)
}

fn driver(mutant: Option<&Mutant>, broken: Option<&str>) -> Driver {
    Driver::with(|file, text| changed(mutant, broken, file, text))
}

fn changed(mutant: Option<&Mutant>, broken: Option<&str>, file: &str, text: &str) -> String {
    match (mutant, broken) {
        (Some(mutant), Some(broken)) if mutant.file == file => broken.to_owned(),
        _ => text.to_owned(),
    }
}

/// What is wrong with the list of the cases that failed once: each must pass, and fail with the mutant that it names.
pub(crate) fn stale_cases(mutants: &[Mutant]) -> Vec<String> {
    let mut whole = driver(None, None);
    let mut stale = Vec::new();
    for Regression { name, case } in regressions() {
        let Some(mutant) = mutants.iter().find(|mutant| mutant.name == name) else {
            stale.push(format!("{name}: no such mutant"));
            continue;
        };
        let broken = mutant.applied().expect("the list is up to date");
        let fails = |driver: &mut Driver| replay(driver, &case, true).1.is_some();
        if fails(&mut whole) || !fails(&mut driver(Some(mutant), Some(&broken))) {
            stale.push(name);
        }
    }
    stale
}

/// Walks new ways until one shows the mutant, and adds the case to those that failed once. How many steps that took.
pub(crate) fn find_case(mutant: &Mutant, steps: usize) -> Option<usize> {
    let broken = mutant.applied().expect("the list is up to date");
    let (mut whole, mut driver) = (driver(None, None), driver(Some(mutant), Some(&broken)));
    // What is wrong with calm locks is seldom met where many wait.
    let quiet = explore(TestRunner::new(config(steps)), &mut driver, steps, quiet_case(), true);
    let (taken, failure) = match quiet {
        (_, None) => explore(TestRunner::new(config(steps)), &mut driver, steps, case(3), true),
        found => found,
    };
    let case = failure?.case?;
    if let Some(wrong) = replay(&mut whole, &case, true).1 {
        panic!("the scripts fail as they are: {wrong}\n{}", paragraph("NAME OF ITS MUTANT", &case));
    }
    let mut shows =
        |case: &Case| replay(&mut driver, case, true).1.is_some() && replay(&mut whole, case, true).1.is_none();
    let case = shrunk(case, &mut shows);
    keep(&mutant.name, &case);
    Some(taken)
}
