//! Options of a lock, and the checks that keep what cannot work from being sent.

use std::sync::Arc;
use std::time::Duration;

use crate::error::OptionError;
use crate::keeper::margin;
use crate::server::LockKeys;

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

    /// Count a grant or a renewal only once this many replicas have it (default 0).
    ///
    /// Redis replicates asynchronously: without this, a failover can forget a grant, and two hold the lock until the older
    /// is told. With all replicas here, whichever becomes the master knows of every grant that was handed out. With fewer, a
    /// replica that lacks the last grants may still be chosen. Costs one more script and a WAIT for each grant and each
    /// renewal, shared by those that come together. While too few replicas answer, a waiter keeps its place, also as the
    /// first; its error at its timeout says so.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    pub(crate) fn check(&self, keys: LockKeys) -> Result<Arc<Spec>, OptionError> {
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
            return Err(OptionError::RenewalTooLate { every, notice, lease: self.lease });
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
}

impl Spec {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.keys.name
    }
}

fn within(option: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), OptionError> {
    if value < least || value > most {
        return Err(OptionError::Duration { option, value, least, most });
    }
    Ok(())
}

pub(crate) fn check_timeout(timeout: Duration) -> Result<(), OptionError> {
    within("the timeout", timeout, Duration::from_millis(1), MOST_TIMEOUT)
}

pub(crate) fn check_name(name: &str) -> Result<(), OptionError> {
    if name.is_empty() {
        return Err(OptionError::EmptyName);
    }
    if name.len() > MOST_NAME {
        return Err(OptionError::NameTooLong { length: name.len() });
    }
    check_braces("the lock's name", name)
}

pub(crate) fn check_braces(what: &'static str, value: &str) -> Result<(), OptionError> {
    if value.contains(['{', '}']) {
        return Err(OptionError::Brace { what, value: value.into() });
    }
    Ok(())
}

pub(crate) fn check_text(what: &'static str, text: &str) -> Result<(), OptionError> {
    if text.len() > MOST_TEXT {
        return Err(OptionError::TooLong { what, length: text.len() });
    }
    Ok(())
}
