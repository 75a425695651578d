//! The variables of the environment that stand for options.

use clap::Arg;

/// The options of `run` and `hold` that have a variable. The others have none: all processes below a job would inherit
/// it, so a variable such as FAIRLOCK_NO_WAIT, set for one job, would decide for the jobs inside of it too.
pub(crate) const OF_RUN: [&str; 2] = ["FAIRLOCK_LABEL", "FAIRLOCK_LEASE"];

/// The variable that stands for this option. Each option of the connection has one.
pub(crate) fn of(arg: &Arg) -> Option<String> {
    let name = format!("FAIRLOCK_{}", arg.get_long()?.to_uppercase().replace('-', "_"));
    (arg.is_global_set() || OF_RUN.contains(&name.as_str())).then_some(name)
}
