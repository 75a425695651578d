//! The warning that a lease runs out, before it is lost.

use std::time::Duration;

use super::holding::Leases;
use super::news::News;
use super::timing::Timing;

/// Warns once half of the lease is left. Returns after how long to look again, unless there is a renewal before.
pub(crate) async fn look(leases: &Leases, timing: Timing, news: &mut News) -> Duration {
    let left = leases.remaining();
    if let Some(due) = left.checked_sub(timing.warning).filter(|due| !due.is_zero()) {
        return due;
    }
    let left = left.saturating_sub(timing.notice);
    if let (Some((_, held)), false) = (leases.first_to_end(), left.is_zero()) {
        let cause = leases.trouble().await;
        news.warned(held.name(), held.token(), left, &cause);
    }
    Duration::MAX
}
