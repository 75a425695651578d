//! Which messages of a wait go to a log, or to anything else that is no terminal.

use std::time::{Duration, Instant};

/// How often a log is told of a wait that does not change. Some services end a job that has printed nothing for ten
/// minutes.
const NOW_AND_THEN: Duration = Duration::from_secs(5 * 60);

/// The first message, those that are new, and one now and then.
#[derive(Default)]
pub(crate) struct Log {
    told: Option<String>,
    last: Option<Instant>,
}

impl Log {
    /// Whether a message about this is to be written now.
    pub(crate) fn is_due(&mut self, topic: String) -> bool {
        self.is_due_at(topic, Instant::now())
    }

    fn is_due_at(&mut self, topic: String, now: Instant) -> bool {
        let is_new = self.told.as_ref() != Some(&topic);
        let is_time = self.last.is_none_or(|last| now.duration_since(last) >= NOW_AND_THEN);
        if is_new || is_time {
            (self.told, self.last) = (Some(topic), Some(now));
        }
        is_new || is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_what_is_new_and_now_and_then_that_nothing_is() {
        let (mut log, start) = (Log::default(), Instant::now());
        let mut at = |seconds, topic: &str| log.is_due_at(topic.to_owned(), start + Duration::from_secs(seconds));
        assert!(at(0, "waiting") && !at(1, "waiting") && !at(299, "waiting"));
        assert!(at(300, "waiting") && !at(301, "waiting") && !at(599, "waiting"));
        assert!(at(599, "no answer") && !at(700, "no answer") && at(701, "waiting"));
    }
}
