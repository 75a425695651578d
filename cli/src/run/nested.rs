//! `run` inside `run`: the locks that the ancestors of this job hold.
//!
//! A job that waits for a lock of its own parent would wait for ever, since the parent waits for the job. So each `run`
//! tells its command which locks are held above it. The server decides, because the environment may be out of date:
//! only a lease with the inherited token is the parent's. (Another server gives other tokens, so a lock of the same
//! name there is no conflict.)

use serde_json::{Value, json};

use crate::exit::Failure;
use crate::text::printable;

/// A JSON array of objects with name, token, slot and pid; the outermost `run` is first.
pub(crate) const VARIABLE: &str = "FAIRLOCK_HELD";

/// The `run`s that this process descends from.
pub(crate) struct Ancestors(Vec<Value>);

impl Ancestors {
    /// A variable that cannot be parsed names no ancestors.
    pub(crate) fn of_this_process() -> Self {
        let told = std::env::var(VARIABLE).unwrap_or_default();
        Self(serde_json::from_str(&told).unwrap_or_default())
    }

    /// The variable for the command of this process.
    pub(crate) fn with<'a>(&self, held: impl IntoIterator<Item = (&'a str, u64, u32)>) -> String {
        let mut all = self.0.clone();
        let pid = std::process::id();
        let told = |(name, token, slot)| json!({ "name": name, "token": token, "slot": slot, "pid": pid });
        all.extend(held.into_iter().map(told));
        Value::Array(all).to_string()
    }

    /// Whether one of them held this lock when it started its command.
    pub(crate) fn had(&self, name: &str) -> bool {
        self.0.iter().any(|ancestor| ancestor["name"] == name)
    }

    /// Fails if one of them has one of these tokens of the holders.
    pub(crate) fn check(&self, name: &str, tokens: impl IntoIterator<Item = u64>) -> Result<(), Failure> {
        let of = |token| self.0.iter().find(move |parent| parent["name"] == name && parent["token"] == token);
        let parent = tokens.into_iter().find_map(of);
        parent.map_or(Ok(()), |parent| {
            let (name, pid) = (printable(name), &parent["pid"]);
            Err(Failure::own(format!(
                "{name} is already held by this job's parent (pid {pid}): the job would wait for itself"
            )))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Ancestors;

    fn of(told: &str) -> Ancestors {
        Ancestors(serde_json::from_str(told).unwrap_or_default())
    }

    fn held(name: &str, token: u64) -> [(&str, u64, u32); 1] {
        [(name, token, 3)]
    }

    #[test]
    fn all_ancestors_are_handed_down() {
        let outer = of("").with(held("a \"name\"\n\u{1b}", 7));
        let inner = of(&of(&outer).with(held("b", 8)));
        assert!(inner.had("b") && inner.had("a \"name\"\n\u{1b}") && !inner.had("c"));
        assert!(inner.check("a \"name\"\n\u{1b}", [7]).is_err() && inner.check("b", [6, 8]).is_err());
        assert!(inner.0.iter().all(|parent| parent["slot"] == 3));
        assert!(inner.check("b", [7, 9]).is_ok() && inner.check("c", [8]).is_ok());
    }

    #[test]
    fn what_is_not_understood_is_no_ancestor() {
        for told in
            ["", "deploy", "{}", "[1, \"a\", null]", "[{\"name\": \"a\"}]", "[{\"name\": \"a\", \"token\": \"7\"}]"]
        {
            assert!(of(told).check("a", [7]).is_ok(), "{told}");
            assert!(of(&of(told).with(held("a", 7))).check("a", [7]).is_err(), "{told}");
        }
    }
}
