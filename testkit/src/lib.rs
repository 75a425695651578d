//! What the tests and the benchmarks share: private Redis servers, helper processes, and judges of what happened.
//!
//! Nothing here sleeps for a fixed time: a condition that takes time is checked until it holds (`eventually`). A handle
//! ends everything that it started, also when the test panics or is killed.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod another_layout;
pub mod certificates;
pub mod child;
mod clients;
pub mod cluster;
pub mod crew;
pub mod faults;
pub mod forgery;
pub mod history;
pub mod impostor;
pub mod log;
pub mod mark;
mod place;
pub mod process;
pub mod proxy;
pub mod resp;
pub mod run;
pub mod sentinel;
pub mod serve;
pub mod server;
pub mod sigpipe;
pub mod state;
pub mod texts;
pub mod urls;
#[cfg(target_os = "linux")]
pub mod vclock;
mod waiting;
pub mod watch;

pub use fairlock::__hooks::promises;

pub use self::{
    child::Child,
    clients::{calm, connect, quiet, server_and_client},
    cluster::Cluster,
    place::{root, say, tmp},
    proxy::{Act, Proxy, Target},
    sentinel::Sentinels,
    server::RedisServer,
    waiting::{SOON, eventually, eventually_async, poll_once, soon},
    watch::{Calls, Monitor, calls, keys_left, keys_left_after, keys_left_within},
};
