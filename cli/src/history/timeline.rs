//! Grants on one axis of time.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use fairlock::state::{EndedAs, Holder, PastGrant};

use crate::duration::short;

/// One grant, of the past or a present one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) label: String,
    pub(crate) owner: String,
    pub(crate) token: u64,
    pub(crate) slot: u32,
    pub(crate) granted_at: SystemTime,
    /// Zero if it is not known.
    pub(crate) waited: Duration,
    pub(crate) held: Duration,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Expired,
    Broken,
    Lost,
    /// A lease that has not ended.
    Held,
    /// A later version of the server's scripts knows more.
    Other,
}

impl End {
    pub(crate) fn word(self) -> &'static str {
        match self {
            End::Released => "released",
            End::Expired => "expired",
            End::Broken => "broken",
            End::Lost => "lost",
            End::Held => "held",
            End::Other => "ended",
        }
    }

    /// Whether people should look at it.
    pub(crate) fn is_bad(self) -> bool {
        matches!(self, End::Expired | End::Broken | End::Lost)
    }
}

impl Grant {
    pub(crate) fn past(past: &PastGrant) -> Self {
        let end = match past.ended {
            EndedAs::Released => End::Released,
            EndedAs::Expired => End::Expired,
            EndedAs::Broken => End::Broken,
            EndedAs::Lost => End::Lost,
            _ => End::Other,
        };
        let label = if past.label.is_empty() { past.id.clone() } else { past.label.clone() };
        let (owner, token, slot, granted_at) = (past.owner.clone(), past.token, past.slot, past.granted_at());
        Self { label, owner, token, slot, granted_at, waited: past.waited, held: past.held, end }
    }

    /// The server does not tell how long a present holder had waited.
    pub(crate) fn present(holder: &Holder) -> Self {
        let label = if holder.label.is_empty() { holder.id.clone() } else { holder.label.clone() };
        let granted_at = SystemTime::UNIX_EPOCH + Duration::from_micros(holder.token);
        let (owner, token, slot, held) = (holder.owner.clone(), holder.token, holder.slot, holder.held_for);
        Self { label, owner, token, slot, granted_at, waited: Duration::ZERO, held, end: End::Held }
    }

    /// None if it is not known, or if it took the lock at once.
    pub(crate) fn waited(&self) -> Option<Duration> {
        Some(self.waited).filter(|waited| *waited >= Duration::from_millis(1))
    }

    pub(crate) fn queued_at(&self) -> SystemTime {
        self.granted_at.checked_sub(self.waited).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    pub(crate) fn ended_at(&self) -> SystemTime {
        self.granted_at.checked_add(self.held).unwrap_or(self.granted_at)
    }
}

/// Grants in their order, and the time that all of them take.
pub(crate) struct Timeline {
    pub(crate) name: String,
    pub(crate) grants: Vec<Grant>,
    pub(crate) from: SystemTime,
    pub(crate) to: SystemTime,
}

impl Timeline {
    /// None without any grant.
    pub(crate) fn new(name: &str, mut grants: Vec<Grant>) -> Option<Self> {
        grants.sort_by_key(|grant| grant.granted_at);
        let from = grants.iter().map(Grant::queued_at).min()?;
        let to = grants.iter().map(Grant::ended_at).max()?;
        Some(Self { name: name.to_owned(), grants, from, to })
    }

    pub(crate) fn span(&self) -> Duration {
        self.to.duration_since(self.from).unwrap_or_default().max(Duration::from_millis(1))
    }

    /// Where a moment is between the beginning and the end, from 0 to 1.
    pub(crate) fn at(&self, moment: SystemTime) -> f64 {
        let since = moment.duration_since(self.from).unwrap_or_default();
        (since.as_secs_f64() / self.span().as_secs_f64()).min(1.0)
    }

    /// The share of the time in which the lock was held, from 0 to 1, by one or several.
    pub(crate) fn busy(&self) -> f64 {
        let (mut held, mut until) = (Duration::ZERO, self.from);
        for grant in &self.grants {
            held += grant.ended_at().duration_since(grant.granted_at.max(until)).unwrap_or_default();
            until = until.max(grant.ended_at());
        }
        (held.as_secs_f64() / self.span().as_secs_f64()).min(1.0)
    }

    /// The grants of each slot, if there are several: leases of one slot follow each other.
    pub(crate) fn lanes(&self) -> BTreeMap<u32, Vec<&Grant>> {
        let mut lanes: BTreeMap<u32, Vec<&Grant>> = BTreeMap::new();
        self.grants.iter().for_each(|grant| lanes.entry(grant.slot).or_default().push(grant));
        if lanes.len() > 1 { lanes } else { BTreeMap::new() }
    }

    /// Half of all are not longer.
    pub(crate) fn median(&self, of: impl Fn(&Grant) -> Duration) -> Duration {
        let mut all: Vec<Duration> = self.grants.iter().map(of).collect();
        all.sort();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    pub(crate) fn longest(&self, of: impl Fn(&Grant) -> Duration) -> Duration {
        self.grants.iter().map(of).max().unwrap_or_default()
    }
}

/// A duration of a grant for people, in at most seven columns.
pub(crate) fn span(span: Duration) -> String {
    match span.as_millis() {
        ms @ 0..1000 => format!("{ms}ms"),
        1000..10_000 => format!("{:.1}s", span.as_secs_f64()),
        _ => short(span),
    }
}
