//! The native half of the npm package `fairlock`: the Rust library, as `lib/*.js` uses it.
//!
//! Every call that waits is an [`Operation`](operation::Operation) around a future of the library. JavaScript polls it on
//! the thread of its event loop, and needs no other runtime: a waker only queues the operation's number there
//! ([`EventLoop`](event_loop::EventLoop)). So a blocked event loop delays its own callers and nobody else: the client's
//! own thread renews their leases meanwhile.
//!
//! Each environment (the main thread, a worker) has its own objects. Node drops them when it ends, and with them what they
//! hold.
//!
//! What people see (defaults, documentation, errors, signals) is JavaScript, in `lib/`. Times are milliseconds.

#[macro_use]
mod convert;

mod client;
mod errors;
mod event_loop;
mod guard;
mod lock;
mod operation;
mod testing;
