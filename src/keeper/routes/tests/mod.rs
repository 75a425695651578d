//! Routes without any I/O: single decisions, and whole topologies of servers.
//!
//! * `decisions/` has single cases: what is connected, asked and told when.
//! * A [`Topology`](topology::Topology) has a few servers that move slots, fail over, hang, refuse and end, with
//!   connections that break at any time. Its requests are judged where they are sent, where a server executes them and
//!   where they are answered. `walks.rs` runs random schedules of it, `explore.rs` visits every state of small ones.

mod alone;
mod decisions;
mod explore;
mod topology;
mod walks;
