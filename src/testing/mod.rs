//! Tests of programs that use locks, without a Redis server.

pub(crate) mod model;
