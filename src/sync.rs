//! What threads share, where it rests on the order of memory operations, is made of these. `tests/loom` compiles the
//! same files with the types of loom, which tries every order that the memory model allows.

pub(crate) use std::sync::{Mutex, OnceLock, atomic};
pub(crate) use std::{thread, thread_local};

pub(crate) use tokio::sync::Notify;
pub(crate) use tokio::sync::futures::OwnedNotified;
