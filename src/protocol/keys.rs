//! The names of keys.

use std::sync::Arc;

/// The keys of one lock, in the order in which the scripts declare them. All of them share one hash slot.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LockKeys {
    pub(crate) name: Arc<str>,
    pub(crate) keys: [String; 2],
}

impl LockKeys {
    pub(crate) fn new(prefix: &str, name: &str) -> Self {
        let key = |what: &str| format!("{prefix}:{{{name}}}:{what}");
        Self { name: name.into(), keys: [key("lock"), key("waiters")] }
    }

    /// The keys of the lock of a push, which names the first of them.
    pub(crate) fn of_lock(prefix: &str, lock: &str) -> Option<Self> {
        let name = lock.strip_prefix(prefix)?.strip_prefix(":{")?.strip_suffix("}:lock")?;
        Some(Self::new(prefix, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_known_by_its_first_key() {
        for name in ["x", "a b:c", "}:lock"] {
            let keys = LockKeys::new("pre", name);
            assert_eq!(LockKeys::of_lock("pre", &keys.keys[0]), Some(keys));
        }
        for other in ["fairlock:{x}:lock", "pre:{x}:waiters", "pre:x:lock", ""] {
            assert_eq!(LockKeys::of_lock("pre", other), None, "{other:?}");
        }
    }
}
