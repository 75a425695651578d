//! The names of keys.

use std::sync::Arc;

/// A lock, and the one of its keys that requests name. The scripts make the names of the others from it; all share one
/// hash slot.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LockKeys {
    pub(crate) name: Arc<str>,
    pub(crate) lock: String,
}

impl LockKeys {
    pub(crate) fn new(prefix: &str, name: &str) -> Self {
        Self { name: name.into(), lock: format!("{prefix}:{{{name}}}:lock") }
    }

    /// The keys that have its state, for people.
    pub(crate) fn of_state(&self) -> [Arc<str>; 2] {
        let beginning = self.lock.strip_suffix("lock").unwrap_or(&self.lock);
        [self.lock.as_str().into(), format!("{beginning}waiters").into()]
    }

    /// The lock of a push, which names its key.
    pub(crate) fn of_lock(prefix: &str, lock: &str) -> Option<Self> {
        let name = lock.strip_prefix(prefix)?.strip_prefix(":{")?.strip_suffix("}:lock")?;
        Some(Self::new(prefix, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_known_by_its_key() {
        for name in ["x", "a b:c", "}:lock"] {
            let keys = LockKeys::new("pre", name);
            assert_eq!(LockKeys::of_lock("pre", &keys.lock), Some(keys));
        }
        for other in ["fairlock:{x}:lock", "pre:{x}:waiters", "pre:x:lock", ""] {
            assert_eq!(LockKeys::of_lock("pre", other), None, "{other:?}");
        }
    }
}
