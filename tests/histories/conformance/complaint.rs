//! What a client is told that breaks a rule: the rule in the words of docs/protocol.md, and where it is there.

use std::{collections::BTreeSet, fmt, sync::Mutex};

const PAGE: &str = include_str!("../../../docs/protocol.md");

#[derive(Debug)]
pub struct Complaint {
    /// The words of the page, in one line. None if the driver is to blame.
    pub rule: &'static str,
    pub found: String,
    /// The exchange until then; the offending request is the last one.
    pub exchange: Vec<String>,
    /// A busy machine can be to blame.
    pub late: bool,
}

pub type Verdict<T = ()> = Result<T, Complaint>;

/// Complains about what was `found`, unless the rule was kept.
pub fn must(kept: bool, rule: &'static str, found: impl FnOnce() -> String) -> Verdict {
    static KNOWN: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if KNOWN.lock().unwrap().insert(rule) {
        assert!(place(rule).is_some(), "docs/protocol.md does not say {rule:?}");
    }
    if kept { Ok(()) } else { Err(Complaint { rule, found: found(), exchange: Vec::new(), late: false }) }
}

/// The number of the line in which these words begin, and the heading above it.
fn place(rule: &str) -> Option<(usize, &'static str)> {
    let lines: Vec<&str> = PAGE.lines().collect();
    let begins = |&at: &usize| {
        let text = lines[at..].iter().take(8).flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ");
        text.find(rule).is_some_and(|column| column < lines[at].len())
    };
    let line = (0..lines.len()).find(begins)?;
    let heading = lines[..=line].iter().rev().find(|line| line.starts_with('#'))?;
    Some((line + 1, heading.trim_start_matches(['#', ' '])))
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match place(self.rule).filter(|_| !self.rule.is_empty()) {
            Some((line, heading)) => writeln!(f, "docs/protocol.md:{line} ({heading}): \"{}\"", self.rule)?,
            None => writeln!(f, "the driver, see docs/conformance.md:")?,
        }
        writeln!(f, "  but {}", self.found)?;
        self.exchange.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}
