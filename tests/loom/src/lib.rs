//! Tries every order of the memory operations on which the library rests: `make loom`.
//!
//! The files of the library are the real ones. They take what threads share from `crate::sync`, which has loom's types
//! here. Loom runs each test again and again, in every order of its threads' operations that the memory model of C11
//! allows, and fails if one of them deadlocks or breaks an assertion. What the files need besides are small stand-ins:
//! a notifier, tokio's `Notify`, and a process that is never forked.

#![cfg(test)]
// Only what the tests call is used here.
#![allow(dead_code)]

#[path = "../../../src/blocking.rs"]
mod blocking;
#[path = "../../../src/cancel.rs"]
mod cancel;
#[path = "../../../src/keeper/change.rs"]
mod change;
mod clock;
#[path = "../../../src/keeper/course.rs"]
mod course;
mod error;
mod fork;
#[path = "../../../src/keeper/inbox.rs"]
mod inbox;
#[path = "../../../src/memory.rs"]
mod memory;
mod mutex;
mod notifier;
mod sync;
mod tests;
