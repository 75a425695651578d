//! Schedules that broke a promise once, from `regressions.txt`.

use super::properties::run;
use super::steps::Step;
use super::world::Plan;

#[test]
fn what_broke_a_promise_once_breaks_none() {
    let cases = include_str!("regressions.txt").split("\n\n").filter_map(|paragraph| paragraph.strip_prefix("# "));
    for (name, case) in cases.map(|case| case.split_once('\n').unwrap()) {
        let (clients, locks, schedule): (usize, usize, Vec<Step>) = ron::from_str(case).unwrap();
        let plan = Plan { fast: vec![0, 2000, -2000], ..Plan::usual(clients, locks) };
        assert_eq!(run(&plan, &schedule).0.broken, None, "{name}");
    }
}
