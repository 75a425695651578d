//! On what terms the client of a scene takes part.

use std::collections::HashSet;

/// What `open` said, in µs.
pub struct Terms {
    pub prefix: &'static str,
    pub lock: &'static str,
    pub lease: u64,
    pub liveness: u64,
    pub buffer: u64,
    pub notice: u64,
    pub most: u16,
    /// What the driver says that its client can do.
    pub can: HashSet<String>,
}

impl Terms {
    pub fn key(&self) -> String {
        format!("{}:{{{}}}:lock", self.prefix, self.lock)
    }

    /// How long the client waits for an answer.
    pub fn patience(&self) -> &'static str {
        if self.can("waits") {
            "The client waits for an answer for a third of the liveness or of the lease, whichever is shorter"
        } else {
            "and closes the connection over which none came"
        }
    }

    pub fn can(&self, what: &str) -> bool {
        self.can.contains(what)
    }
}
