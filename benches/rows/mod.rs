//! The rows of the table, in groups that can be chosen by name.

pub mod capacity;
pub mod cycle;
pub mod fleet;
pub mod hand_off;
pub mod holders;
pub mod leases;
pub mod renewal;
pub mod server_time;
pub mod waiters;
pub mod zombies;

use crate::kit::table::Table;

pub struct Group {
    pub name: &'static str,
    pub measure: fn(rounds: usize, table: &mut Table),
}

macro_rules! groups {
    ($($name:ident)*) => { &[$(Group { name: stringify!($name), measure: $name::measure }),*] };
}

pub const GROUPS: &[Group] = groups![server_time cycle hand_off waiters holders leases renewal fleet zombies capacity];

/// What a helper process does.
pub fn play(role: &str, arguments: &[String]) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match role {
        "waits" => hand_off::waits(&arguments),
        "waiters" => waiters::waiters(&arguments),
        "pings" => holders::pings(&arguments),
        "leases" => leases::leases(&arguments),
        "renews" => renewal::renews(&arguments),
        "bursts" => renewal::bursts(&arguments),
        "busy" => renewal::busy(&arguments),
        "fleet" => fleet::member(&arguments),
        other => panic!("no role {other}"),
    }
}
