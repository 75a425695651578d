//! What the doctor found.

/// How much a finding matters for locks, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Good,
    /// To know; nothing is wrong.
    Note,
    /// Something that harms locks when something else fails.
    Warning,
    /// Locks fail, or two jobs may hold one lock.
    Fault,
}

impl Level {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fault => "fault",
        }
    }

    /// The exit code when nothing is worse.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Level::Good | Level::Note => 0,
            Level::Warning => 1,
            Level::Fault => 2,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// One word for what was looked at.
    pub(crate) check: &'static str,
    pub(crate) found: String,
    /// What it risks for locks.
    pub(crate) risk: Option<String>,
    /// The line that fixes it.
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Good, check, found: found.into(), risk: None, fix: None }
    }

    pub(crate) fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::good(check, found) }
    }

    pub(crate) fn warning(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::good(check, found) }
    }

    pub(crate) fn fault(check: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Fault, ..Self::good(check, found) }
    }

    pub(crate) fn risk(self, risk: impl Into<String>) -> Self {
        Self { risk: Some(risk.into()), ..self }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}
