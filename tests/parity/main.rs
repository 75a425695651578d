//! Other locks: each module is named after one, and plays what its users rely on, as `docs/coming-from.md` describes it.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod async_redis_keyed_mutex;
mod cluster_lock;
mod distributed_lock;
