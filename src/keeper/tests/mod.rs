//! The keeper's state machine against the model of the scripts, without any I/O.
//!
//! A [`World`](world::World) has a few clients, each of them a real [`Machine`](super::machine::Machine), one server
//! (the reference model, with a clock) and a network between them that loses, delays, doubles and reorders. What
//! happens there is a schedule: plain data, one [`Step`](steps::Step) after the other. After every step the promises
//! are judged (`judge.rs`), by what callers were told, what the server holds, and true time; over losses of data too
//! (`losses.rs`).
//!
//! * `properties.rs` runs random schedules, then lets the faults stop and expects everybody to be served, and nothing
//!   to be left behind when the handles are dropped.
//! * `ranges.rs` does so where lease, liveness and buffer are anything that options allow.
//! * `explore.rs` visits every state of small worlds.
//! * `cases.rs` and `decisions/` have single cases of one machine without a world (`alone.rs`): former bugs, and what
//!   is sent and told when, to the microsecond.

mod alone;
mod calm;
mod canon;
mod cases;
mod clients;
mod decisions;
mod explore;
mod guards;
mod judge;
mod losses;
mod on_write;
mod properties;
mod ranges;
mod regressions;
mod replies;
mod server;
mod steps;
mod traffic;
mod world;

use crate::testing::model;

/// Prints this past the test harness, which shows the output of failing tests only.
pub(super) fn say(text: std::fmt::Arguments<'_>) {
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{text}\n"));
}
