//! The tests that should notice a mutant, in stages, and those that a mutant names.

/// A part of the tests, without those that take too long, depend on chance, or notice each change of a script.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) targets: &'static [Target<'static>],
    /// A failure must be seen twice: real servers on a busy machine may fail a test by chance.
    pub(crate) twice: bool,
}

/// A test binary, or a module in it such as `api::leases`; and parts of the names of tests that are left out.
pub(crate) type Target<'a> = (&'a str, &'a [&'a str]);

impl Stage {
    /// Their names.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.targets.iter().map(|(name, _)| *name).collect()
    }
}

/// The binary of a target, and the beginning of its tests' names.
pub(crate) fn binary_of(target: &str) -> (&str, Option<String>) {
    match target.split_once("::") {
        Some((binary, file)) => (binary, Some(format!("{file}::"))),
        None => (target, None),
    }
}

pub(crate) const PURE: Stage =
    Stage { name: "without a server", targets: &[("lib", &["every_state_of", "the_rendered_scripts"])], twice: false };

pub(crate) const REAL: Stage = Stage {
    name: "with real servers",
    targets: &[
        ("api::busy_callers", &["burns_all_cores"]),
        ("api::bursts", &["a_hundred_thousand"]),
        ("api::cancellation", &["dropped_", "releases_reach_the_server"]),
        ("api::server_costs", &[]),
        ("faults::process_deaths", &[]),
        ("api::connect_errors", &[]),
        ("topologies::discovery", &[]),
        ("topologies::masters", &[]),
        ("faults::full_memory", &[]),
        ("api::cleanup", &["two_hundred"]),
        ("api::leases", &[]),
        ("api::history", &[]),
        ("hostile::names", &[]),
        ("api::panic_and_fork", &[]),
        ("faults::old_connections", &[]),
        ("faults::sigpipe", &[]),
        ("api::operations", &[]),
        ("topologies::many_slots", &[]),
        ("api::arrival_order", &[]),
        ("faults::outages", &["order_outlives", "just_before_the_release"]),
        ("api::refusals", &["never_answers"]),
        ("api::layouts", &[]),
        ("topologies::replicas", &[]),
        ("faults::reconnects", &[]),
        ("model", &["the_scripts_do"]),
        ("faults::suspended_time", &[]),
        ("faults::unreachable", &["says_that_the_server", "fail_after_five_seconds"]),
    ],
    twice: true,
};

/// The targets of both stages.
pub(crate) fn staged<'a>() -> impl Iterator<Item = Target<'a>> {
    [&PURE, &REAL].into_iter().flat_map(|stage| stage.targets).copied()
}

/// What a mutant names: with what its stage leaves out, if it is in one. Other tests run only for the mutants that name
/// them.
pub(crate) fn target_of(name: &str) -> Target<'_> {
    (name, staged().find(|(target, _)| [name, binary_of(name).0].contains(target)).map_or(&[], |(_, skipped)| skipped))
}
