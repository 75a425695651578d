//! The faults of servers and networks. Each is a fault for `Crew::suffer`: it strikes once at a time, and reports what
//! it hit and what the judges must excuse for it.
//!
//! A fault of the server hits the processes that hold or want the lock at that moment. Without any it has missed.

// Each module uses a part of this. Nothing of it is public API, and a test reports its failure by a panic.
#![allow(dead_code, clippy::expect_used, clippy::unwrap_used, unreachable_pub)]

pub mod connections;
pub mod data;
pub mod memory;
pub mod messages;
pub mod promotion;
pub mod silence;
pub mod slots;
pub mod time;
pub mod wire;

use std::collections::BTreeSet;

use redis::cmd;

use testkit::RedisServer;

/// The commands of an administrator.
fn tell(server: &RedisServer, words: &[&str]) {
    let _: redis::Value = cmd(words[0]).arg(&words[1..]).query(&mut server.raw()).expect("an administrator's command");
}

/// The ids of the connections that receive grants: one for each client, unless there are old ones.
fn subscribers(server: &RedisServer) -> BTreeSet<String> {
    let list: String = cmd("CLIENT").arg(&["LIST", "TYPE", "pubsub"]).query(&mut server.raw()).unwrap();
    list.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
