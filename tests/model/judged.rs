//! The judges of the promises alone, without the model.

use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::model::driver::Driver;
use crate::model::events::case;
use crate::model::walks::{config, explore, regressions, replay};

const STEPS: usize = 60_000;

#[test]
#[ignore = "the tests with the model judge too: make mutants-layers"]
fn the_scripts_break_no_promise() {
    let mut driver = Driver::start();
    for regression in regressions() {
        let (_, wrong) = replay(&mut driver, &regression.case, false);
        assert_eq!(wrong, None, "{}", regression.name);
    }
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"the usual walks.");
    let (_, failure) = explore(TestRunner::new_with_rng(config(STEPS), seed), &mut driver, STEPS, case(3), false);
    assert_eq!(failure.map(|failure| failure.message), None);
}
