//! The command line `fairlock`, as a user starts it.

#![cfg(unix)]
// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod broken_servers;
mod certificates;
mod descendants;
mod doctor;
mod events;
mod examples;
mod exporter;
mod flock;
mod give_back;
mod grants;
mod history;
mod hold;
mod hostile_texts;
mod layouts;
mod lease;
mod licences;
mod local;
mod look;
mod nested;
mod operating_page;
mod options;
mod passwords;
mod process_1;
mod pty;
mod queue_shim;
mod rest;
mod run;
mod semaphores;
mod several;
mod several_holders;
mod shared;
mod shipped;
mod signals;
mod status;
mod terminal;
mod unread_output;
mod wait;
mod wait_display;
mod watch;
