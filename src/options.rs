//! The options of a lock: how they are chosen, and whether they can work together.

mod limits;
mod spec;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use limits::{LEAST, LONGEST, check_name, check_prefix, check_text, in_bounds};
use limits::{check_slots, within};
pub(crate) use spec::Spec;

use crate::error::InvalidOption;
use crate::protocol::LockKeys;
use crate::term::margin;

/// How a lock is held and waited for. [`Client::lock_with`](crate::Client::lock_with) checks it, and so does
/// [`check`](Self::check), before anything is sent.
///
/// The liveness of all waiters of one lock should be alike: the longest sets the pace at which the lock's clock may
/// advance after an outage, so that short ones lose part of their protection.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use fairlock::LockOptions;
///
/// let options = LockOptions::new().lease(Duration::from_secs(10)).max_hold(Duration::from_secs(3600));
/// assert!(options.check("reports:nightly").is_ok());
/// let error = options.renew_every(Duration::from_secs(10)).check("reports:nightly").unwrap_err();
/// assert!(error.to_string().contains("renew earlier"));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct LockOptions {
    slots: Option<u32>,
    lease: Duration,
    liveness: Duration,
    buffer: Duration,
    notice: Option<Duration>,
    renewal: Renewal,
    max_hold: Option<Duration>,
    replicas: u32,
    confirm_grants: bool,
    max_waiting: Option<u32>,
    owner: Option<String>,
    label: Option<String>,
    metrics_label: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
enum Renewal {
    Third,
    Every(Duration),
    Manual,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            slots: None,
            lease: Duration::from_secs(30),
            liveness: Duration::from_secs(10),
            buffer: Duration::from_secs(2),
            notice: None,
            renewal: Renewal::Third,
            max_hold: None,
            replicas: 0,
            confirm_grants: false,
            max_waiting: None,
            metrics_label: None,
            owner: None,
            label: None,
        }
    }
}

impl LockOptions {
    /// The defaults: lease 30 s, renewed every 10 s, notice 3 s, liveness 10 s, buffer 2 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many may hold the lock together: a semaphore (default 1, from 1 to 1000). Each holder has a
    /// [slot](crate::Held::slot) of its own, from 0 on. [`Client::semaphore`](crate::Client::semaphore) sets only this.
    ///
    /// Nothing is stored at the server: each lease brings its own number, and while it lasts, no more than that hold.
    /// So programs that disagree, such as two versions during a deployment, need no error: the smallest number of those
    /// who hold counts, and a waiter waits until one more is within its own number, too. A name that some use as a lock
    /// and others as a semaphore is the same with 1. Waiters are served in the order of their tickets, whatever their
    /// numbers are: one that has to wait stops all behind it, so that nobody starves.
    ///
    /// There are no weights and no priorities: a waiter that needs more, or counts for less, could starve.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = Some(slots);
        self
    }

    /// How long a holder may keep the lock without a renewal (default 30 s, from 50 ms to 30 days). A holder that dies
    /// costs what is left of it. A lease below a second is lost as soon as a busy machine is late with a renewal, and a
    /// grant that its future does not take for a whole lease is given back
    /// ([`AcquireError::NotTaken`](crate::error::AcquireError::NotTaken)).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a waiting process counts as alive without a heartbeat (default 10 s, from 50 ms to 30 days). It sends
    /// one every third of this.
    pub fn liveness(mut self, liveness: Duration) -> Self {
        self.liveness = liveness;
        self
    }

    /// What the server adds to the liveness before it purges a waiter (default 2 s, at most 30 days).
    pub fn buffer(mut self, buffer: Duration) -> Self {
        self.buffer = buffer;
        self
    }

    /// How long before its deadline a lease that cannot be renewed is declared lost (default a tenth of the lease, at
    /// least a millisecond). Together with the interval of renewals it must stay below the lease.
    pub fn notice(mut self, notice: Duration) -> Self {
        self.notice = Some(notice);
        self
    }

    /// Renew the lease at this interval (default a third of the lease, at least a millisecond).
    pub fn renew_every(mut self, interval: Duration) -> Self {
        self.renewal = Renewal::Every(interval);
        self
    }

    /// Renew only when [`Guard::renew`](crate::Guard::renew) is called.
    pub fn manual_renewal(mut self) -> Self {
        self.renewal = Renewal::Manual;
        self
    }

    /// Stop renewing after this time (default never, from 50 ms to 30 days): the lease is then lost when its last
    /// renewal runs out.
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// Hand out a grant only once its whole lease is confirmed (default: at once).
    ///
    /// The script that releases a lock grants it to the next waiter. That waiter's first lease is a *claim*, no longer
    /// than its liveness, so that a waiter that died meanwhile costs little; a guard confirms its claim a tenth of a
    /// second after the grant. Use this option if the work that follows cannot be stopped within a claim: it costs one
    /// round trip for each grant that was waited for, before the guard is returned. A claim that comes too late to be
    /// confirmed is no grant: the wait goes on in its old place.
    pub fn confirm_grants(mut self) -> Self {
        self.confirm_grants = true;
        self
    }

    /// Count a grant or a renewal only once this many replicas have acknowledged it (default 0).
    ///
    /// Redis replicates asynchronously: without this option a failover can forget a grant, and two processes hold the
    /// lock until the older holder is told. With the number of all replicas, any promoted replica knows every grant
    /// that was handed out; with fewer, a replica that lacks the last grants may be promoted. It costs one more script
    /// and a WAIT, two round trips, for each grant and each renewal, shared by all that come together. WAIT has a
    /// connection of its own, so that it delays no renewals. While too few replicas answer, a waiter keeps its place,
    /// even as the first; its error at its timeout says so.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Do not join a queue that has this many waiters (default: any number). An acquire then fails with
    /// [`AcquireError::QueueFull`](crate::error::AcquireError::QueueFull) instead of waiting; with zero it never waits.
    ///
    /// For callers that would rather hear soon that they are too many. Each acquire goes by the bound of its own
    /// options, so all users of a lock should have the same. The server decides, so the bound is exact. Waiters that
    /// died count until their turn. A waiter that has a place keeps it, also over a loss of data.
    pub fn max_waiting(mut self, most: u32) -> Self {
        self.max_waiting = Some(most);
        self
    }

    /// The value of the label `lock` of this lock's metrics (default: they have no such label, and count for all locks
    /// together): its name, or one text for locks with many names, such as one for each user. A recorder keeps every label
    /// that it has seen. At most 4096 bytes.
    ///
    /// Needs the feature `metrics`.
    #[cfg(feature = "metrics")]
    pub fn metrics_label(mut self, label: impl Into<String>) -> Self {
        self.metrics_label = Some(label.into().into());
        self
    }

    /// For whom the acquires of this lock are made, unless they name another [owner](crate::Acquire::owner): at most
    /// 4096 bytes (default empty). The name of a worker, for instance, that its next process uses again.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// The label of this lock's acquires, unless they name another [label](crate::Acquire::label): at most 4096 bytes
    /// (default: the client's [label](crate::ClientBuilder::label)).
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The slots that were chosen.
    pub(crate) fn chosen_slots(&self) -> Option<u32> {
        self.slots
    }

    /// The owner and the label that were chosen.
    pub(crate) fn texts(&self) -> (Option<&str>, Option<&str>) {
        (self.owner.as_deref(), self.label.as_deref())
    }

    /// Checks whether a lock of this name can have these options, as [`Client::lock_with`](crate::Client::lock_with)
    /// does. No client and no server is needed.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name or an option cannot work.
    pub fn check(&self, name: &str) -> Result<(), InvalidOption> {
        check_name(name)?;
        self.of(LockKeys::new("", name)).map(drop)
    }

    pub(crate) fn of(&self, keys: LockKeys) -> Result<Arc<Spec>, InvalidOption> {
        check_text("the owner", self.owner.as_deref().unwrap_or_default())?;
        check_text("the label", self.label.as_deref().unwrap_or_default())?;
        check_text("the label of metrics", self.metrics_label.as_deref().unwrap_or_default())?;
        let most = self.slots.map_or(Ok(1), check_slots)?;
        within("the lease", self.lease, LEAST, LONGEST)?;
        within("the liveness", self.liveness, LEAST, LONGEST)?;
        within("the buffer", self.buffer, Duration::ZERO, LONGEST)?;
        let notice = self.notice.unwrap_or(self.lease / 10);
        within("the notice", notice, Duration::from_millis(1), LONGEST)?;
        let renew_every = match self.renewal {
            Renewal::Third => Some(self.lease / 3),
            Renewal::Every(interval) => Some(interval),
            Renewal::Manual => None,
        };
        if let Some(interval) = renew_every {
            within("the renewal interval", interval, Duration::from_millis(1), LONGEST)?;
        }
        let every = renew_every.unwrap_or_default();
        // Clocks drift, and an answer takes a while.
        if every + notice + margin(self.lease) * 2 >= self.lease {
            return Err(InvalidOption::RenewalTooLate { every, notice, lease: self.lease });
        }
        if let Some(longest) = self.max_hold {
            within("the longest hold", longest, LEAST, LONGEST)?;
        }
        Ok(Arc::new(Spec {
            metrics_label: self.metrics_label.clone(),
            keys: Arc::new(keys),
            most,
            lease: self.lease,
            liveness: self.liveness,
            buffer: self.buffer,
            notice,
            renew_every,
            max_hold: self.max_hold,
            replicas: self.replicas,
            confirm_grants: self.confirm_grants,
            max_waiting: self.max_waiting,
        }))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn check(options: LockOptions) -> Result<Arc<Spec>, InvalidOption> {
        options.of(LockKeys::new("fairlock", "x"))
    }

    // Every option has a value that no other option has.
    #[test]
    fn options_arrive_where_they_belong() {
        let seconds = Duration::from_secs;
        let spec = |lease, liveness, buffer, notice, renew_every, max_hold| Spec {
            keys: Arc::new(LockKeys::new("fairlock", "x")),
            most: 1,
            lease: seconds(lease),
            liveness: seconds(liveness),
            buffer: seconds(buffer),
            notice: seconds(notice),
            renew_every,
            max_hold,
            replicas: 0,
            confirm_grants: false,
            max_waiting: None,
            metrics_label: None,
        };
        let all = LockOptions::new().lease(seconds(100)).liveness(seconds(11)).buffer(seconds(12)).notice(seconds(13));
        assert_eq!(*check(all.clone()).unwrap(), spec(100, 11, 12, 13, Some(seconds(100) / 3), None));
        let every = all.clone().renew_every(seconds(14)).max_hold(seconds(15));
        assert_eq!(*check(every).unwrap(), spec(100, 11, 12, 13, Some(seconds(14)), Some(seconds(15))));
        let replicated = Spec { replicas: 2, ..spec(100, 11, 12, 13, Some(seconds(100) / 3), None) };
        assert_eq!(*check(all.clone().replicas(2)).unwrap(), replicated);
        let confirmed = Spec { confirm_grants: true, ..spec(100, 11, 12, 13, Some(seconds(100) / 3), None) };
        assert_eq!(*check(all.clone().confirm_grants()).unwrap(), confirmed);
        let bounded = Spec { max_waiting: Some(7), ..spec(100, 11, 12, 13, Some(seconds(100) / 3), None) };
        assert_eq!(*check(all.clone().max_waiting(7)).unwrap(), bounded);
        let several = Spec { most: 5, ..spec(100, 11, 12, 13, Some(seconds(100) / 3), None) };
        assert_eq!(*check(all.clone().slots(5)).unwrap(), several);
        assert_eq!(*check(all.manual_renewal()).unwrap(), spec(100, 11, 12, 13, None, None));
        assert_eq!(*check(LockOptions::new()).unwrap(), spec(30, 10, 2, 3, Some(seconds(10)), None));
        assert_eq!(&**check(LockOptions::new()).unwrap().name(), "x");
        assert_eq!(LockOptions::new().owner("an owner").label("a label").texts(), (Some("an owner"), Some("a label")));
        assert_eq!(LockOptions::new().texts(), (None, None));
    }

    #[test]
    fn durations_have_bounds() {
        let (least, most) = (50 * MS, 30 * DAY);
        let new = LockOptions::new;
        type With = fn(LockOptions, Duration) -> LockOptions;
        let bounded: [(With, Duration, Duration); 5] = [
            (|options, span| options.lease(span).manual_renewal().notice(MS), least, most),
            (LockOptions::liveness, least, most),
            (LockOptions::buffer, Duration::ZERO, most),
            (LockOptions::max_hold, least, most),
            (|options, span| options.lease(30 * DAY).renew_every(span).notice(MS), MS, 20 * DAY),
        ];
        for (with, least, most) in bounded {
            check(with(new(), least)).unwrap();
            check(with(new(), most)).unwrap();
            if !least.is_zero() {
                let error = check(with(new(), least - Duration::from_nanos(1))).unwrap_err();
                assert!(matches!(error, InvalidOption::Duration { .. }), "{error:?}");
            }
            check(with(new(), 30 * DAY + Duration::from_nanos(1))).unwrap_err();
        }
    }

    #[test]
    fn name_and_options_are_checked_without_a_client() {
        LockOptions::new().check("x").unwrap();
        assert!(matches!(LockOptions::new().check(""), Err(InvalidOption::EmptyName)));
        assert!(matches!(LockOptions::new().lease(MS).check("x"), Err(InvalidOption::Duration { .. })));
    }

    // The last useful renewal is sent an interval after the one before, and must be answered before the notice.
    #[test]
    fn a_renewal_must_come_before_the_notice() {
        let lease = Duration::from_secs(10);
        let (notice, spare) = (Duration::from_secs(1), 2 * margin(lease));
        let with = |every| check(LockOptions::new().lease(lease).notice(notice).renew_every(every));
        let latest = lease - notice - spare;
        with(latest - MS).unwrap();
        assert!(matches!(with(latest), Err(InvalidOption::RenewalTooLate { .. })));
        with(latest + MS).unwrap_err();
    }
}
