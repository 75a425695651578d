//! The warning that a lease runs out, before it is lost.

use std::time::Duration;

use super::granted::Granted;
use super::news::News;
use super::timing::Timing;

/// Warns once half of the lease is left. Returns after how long to look again, unless there is a renewal before.
pub(crate) async fn look(granted: &Granted, timing: Timing, news: &mut News) -> Duration {
    let left = granted.guards.remaining();
    if let Some(due) = left.checked_sub(timing.warning).filter(|due| !due.is_zero()) {
        return due;
    }
    let left = left.saturating_sub(timing.notice);
    if let (Some(first), false) = (granted.first_to_end(), left.is_zero()) {
        let cause = granted.trouble().await;
        news.warned(first.name(), first.token(), left, &cause);
    }
    Duration::MAX
}
