//! Options of a lock, and the checks that keep what cannot work from being sent.

use std::sync::Arc;
use std::time::Duration;

use crate::error::InvalidOption;
use crate::protocol::LockKeys;
use crate::term::margin;

const LEAST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(30 * 24 * 3600);
const MOST_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);
const MOST_NAME: usize = 512;
const MOST_TEXT: usize = 4096;

/// How a lock is held and waited for. Checked by [`Client::lock_with`](crate::Client::lock_with).
///
/// The liveness of all waiters of one lock should be alike: the longest sets the pace at which the lock's clock may
/// advance after an outage, so that short ones lose part of their protection.
#[derive(Debug, Clone)]
#[must_use]
pub struct LockOptions {
    lease: Duration,
    liveness: Duration,
    buffer: Duration,
    notice: Option<Duration>,
    renewal: Renewal,
    max_hold: Option<Duration>,
    replicas: u32,
    confirm_grants: bool,
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
            lease: Duration::from_secs(30),
            liveness: Duration::from_secs(10),
            buffer: Duration::from_secs(2),
            notice: None,
            renewal: Renewal::Third,
            max_hold: None,
            replicas: 0,
            confirm_grants: false,
        }
    }
}

impl LockOptions {
    /// The defaults: lease 30 s, renewed every 10 s, notice 3 s, liveness 10 s, buffer 2 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a holder may keep the lock without a renewal (default 30 s). A holder that dies costs what is left of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a waiting process counts as alive without a word (default 10 s). It sends one every third of this.
    pub fn liveness(mut self, liveness: Duration) -> Self {
        self.liveness = liveness;
        self
    }

    /// What the server adds to the liveness before it purges a waiter (default 2 s).
    pub fn buffer(mut self, buffer: Duration) -> Self {
        self.buffer = buffer;
        self
    }

    /// How long before its deadline a lease that cannot be renewed is declared lost (default a tenth of the lease).
    pub fn notice(mut self, notice: Duration) -> Self {
        self.notice = Some(notice);
        self
    }

    /// Renew the lease at this interval (default a third of the lease).
    pub fn renew_every(mut self, interval: Duration) -> Self {
        self.renewal = Renewal::Every(interval);
        self
    }

    /// Renew only when [`Guard::renew`](crate::Guard::renew) is called.
    pub fn manual_renewal(mut self) -> Self {
        self.renewal = Renewal::Manual;
        self
    }

    /// Stop renewing after this time (default never): the lease is then lost when its last renewal runs out.
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// Hand out a grant only once its whole lease is confirmed (default: as soon as it is made).
    ///
    /// A waiter is granted the lock by the script that releases it. What it is given is a *claim*, no longer than its
    /// liveness, so that a waiter that died meanwhile costs little; a guard confirms its claim a tenth of a second after
    /// the grant. Use this where the work that follows cannot be stopped again in the time that a claim leaves: it costs
    /// one round trip for each grant that was waited for, before the guard is returned. A claim that came too late to be
    /// confirmed is no grant: the wait goes on in its old place.
    pub fn confirm_grants(mut self, confirm: bool) -> Self {
        self.confirm_grants = confirm;
        self
    }

    /// Count a grant or a renewal only once this many replicas have it (default 0).
    ///
    /// Redis replicates asynchronously: without this, a failover can forget a grant, and two hold the lock until the older
    /// is told. With all replicas here, whichever becomes the master knows of every grant that was handed out. With fewer, a
    /// replica that lacks the last grants may still be chosen. Costs one more script and a WAIT, two round trips, for each
    /// grant and each renewal, shared by those that come together; they go over a connection of their own, so that they hold
    /// up nobody's renewals. While too few replicas answer, a waiter keeps its place, also as the first; its error at its
    /// timeout says so.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Whether a lock of this name can have these options; [`Client::lock_with`](crate::Client::lock_with) asks the same.
    /// No client and no server is needed for this.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name or an option cannot work.
    pub fn check(&self, name: &str) -> Result<(), InvalidOption> {
        check_name(name)?;
        self.of(LockKeys::new("", name)).map(drop)
    }

    pub(crate) fn of(&self, keys: LockKeys) -> Result<Arc<Spec>, InvalidOption> {
        within("the lease", self.lease, LEAST, MOST)?;
        within("the liveness", self.liveness, LEAST, MOST)?;
        within("the buffer", self.buffer, Duration::ZERO, MOST)?;
        let notice = self.notice.unwrap_or(self.lease / 10);
        within("the notice", notice, Duration::from_millis(1), MOST)?;
        let renew_every = match self.renewal {
            Renewal::Third => Some(self.lease / 3),
            Renewal::Every(interval) => Some(interval),
            Renewal::Manual => None,
        };
        if let Some(interval) = renew_every {
            within("the renewal interval", interval, Duration::from_millis(1), MOST)?;
        }
        let every = renew_every.unwrap_or_default();
        // Clocks drift, and an answer takes a while.
        if every + notice + margin(self.lease) * 2 >= self.lease {
            return Err(InvalidOption::RenewalTooLate { every, notice, lease: self.lease });
        }
        if let Some(longest) = self.max_hold {
            within("the longest hold", longest, LEAST, MOST)?;
        }
        Ok(Arc::new(Spec {
            keys: Arc::new(keys),
            lease: self.lease,
            liveness: self.liveness,
            buffer: self.buffer,
            notice,
            renew_every,
            max_hold: self.max_hold,
            replicas: self.replicas,
            confirm_grants: self.confirm_grants,
        }))
    }
}

/// Options that were checked, together with the lock they are for.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) lease: Duration,
    pub(crate) liveness: Duration,
    pub(crate) buffer: Duration,
    pub(crate) notice: Duration,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    /// How many replicas must have a grant or a renewal before it counts.
    pub(crate) replicas: u32,
    /// Whether only a confirmed lease is handed out.
    pub(crate) confirm_grants: bool,
}

impl Spec {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.keys.name
    }
}

fn within(option: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), InvalidOption> {
    if value < least || value > most {
        return Err(InvalidOption::Duration { option, value, least, most });
    }
    Ok(())
}

/// A timeout that timers can have: more than none, and no longer than anybody waits.
pub(crate) fn in_bounds(timeout: Duration) -> Duration {
    timeout.clamp(Duration::from_millis(1), MOST_TIMEOUT)
}

pub(crate) fn check_name(name: &str) -> Result<(), InvalidOption> {
    if name.is_empty() {
        return Err(InvalidOption::EmptyName);
    }
    if name.len() > MOST_NAME {
        return Err(InvalidOption::NameTooLong { length: name.len() });
    }
    check_braces("the lock's name", name)
}

pub(crate) fn check_braces(what: &'static str, value: &str) -> Result<(), InvalidOption> {
    if value.contains(['{', '}']) {
        return Err(InvalidOption::Brace { what, value: value.into() });
    }
    Ok(())
}

pub(crate) fn check_text(what: &'static str, text: &str) -> Result<(), InvalidOption> {
    if text.len() > MOST_TEXT {
        return Err(InvalidOption::TooLong { what, length: text.len() });
    }
    Ok(())
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

    // Every option is set to what no other is.
    #[test]
    fn options_arrive_where_they_belong() {
        let seconds = Duration::from_secs;
        let spec = |lease, liveness, buffer, notice, renew_every, max_hold| Spec {
            keys: Arc::new(LockKeys::new("fairlock", "x")),
            lease: seconds(lease),
            liveness: seconds(liveness),
            buffer: seconds(buffer),
            notice: seconds(notice),
            renew_every,
            max_hold,
            replicas: 0,
            confirm_grants: false,
        };
        let all = LockOptions::new().lease(seconds(100)).liveness(seconds(11)).buffer(seconds(12)).notice(seconds(13));
        assert_eq!(*check(all.clone()).unwrap(), spec(100, 11, 12, 13, Some(seconds(100) / 3), None));
        let every = all.clone().renew_every(seconds(14)).max_hold(seconds(15));
        assert_eq!(*check(every).unwrap(), spec(100, 11, 12, 13, Some(seconds(14)), Some(seconds(15))));
        let replicated = Spec { replicas: 2, ..spec(100, 11, 12, 13, Some(seconds(100) / 3), None) };
        assert_eq!(*check(all.clone().replicas(2)).unwrap(), replicated);
        let confirmed = Spec { confirm_grants: true, ..spec(100, 11, 12, 13, Some(seconds(100) / 3), None) };
        assert_eq!(*check(all.clone().confirm_grants(true)).unwrap(), confirmed);
        assert_eq!(*check(all.manual_renewal()).unwrap(), spec(100, 11, 12, 13, None, None));
        assert_eq!(*check(LockOptions::new()).unwrap(), spec(30, 10, 2, 3, Some(seconds(10)), None));
        assert_eq!(&**check(LockOptions::new()).unwrap().name(), "x");
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
    fn timeouts_are_brought_within_bounds() {
        for (given, used) in [
            (Duration::ZERO, MS),
            (MS / 2, MS),
            (MS, MS),
            (366 * DAY, 366 * DAY),
            (366 * DAY + MS, 366 * DAY),
            (Duration::MAX, 366 * DAY),
        ] {
            assert_eq!(in_bounds(given), used);
        }
    }

    // The last renewal that can help is sent an interval after the one before, and must be answered before the notice.
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

    #[test]
    fn names_and_texts_have_bounds() {
        check_name("x").unwrap();
        check_name(&"x".repeat(512)).unwrap();
        assert!(matches!(check_name(&"x".repeat(513)), Err(InvalidOption::NameTooLong { length: 513 })));
        assert!(matches!(check_name(""), Err(InvalidOption::EmptyName)));
        for braces in ["{", "}", "a{b}c"] {
            assert!(matches!(check_name(braces), Err(InvalidOption::Brace { .. })), "{braces:?}");
        }
        check_text("the label", "{}").unwrap();
        check_text("the label", &"x".repeat(4096)).unwrap();
        assert!(matches!(check_text("the label", &"x".repeat(4097)), Err(InvalidOption::TooLong { length: 4097, .. })));
    }
}
