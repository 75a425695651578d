//! What the judges must know beside the history: the options of the lock, and the faults of the server.

use std::time::Duration;

/// By what terms a history is judged. The default is a lock whose durations are all zero, where nothing went wrong:
/// good for the judges that look at no durations.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub lease: Duration,
    pub liveness: Duration,
    pub buffer: Duration,
    /// The shortest liveness of anybody, where they differ: the other durations are the longest.
    pub shortest: Duration,
    /// What a busy machine may take on top of every bound in time but the next.
    pub slack: Duration,
    /// How long after its timeout an acquire may return. What befalls the server is no reason for more.
    pub lateness: Duration,
    pub admitted: Vec<Admitted>,
}

/// A fault of the server, and when. Outside of it nothing is excused, and within it only the exceptions of
/// `docs/guarantees.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub trouble: Trouble,
    /// Before it began.
    pub from_ns: u64,
    /// After it was over.
    pub to_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It gave no answers, or to nobody. It costs the time that it takes, and neither place nor order nor token.
    Silent,
    /// It lost data, of all writes or of the latest. A holder may hear of it at its local deadline only, a stranger may
    /// be granted before anybody is back, and then all wait for those who were there before.
    LostData,
    /// It lost data, but no lease that anybody was told of: what a failover costs locks whose grants wait for all
    /// replicas. A stranger may be granted before anybody is back, and all wait for those who were there before; but no
    /// two hold at once.
    LostPlaces,
    /// Two servers took themselves for the master, and some of the clients were at each: each keeps the order of those
    /// who are there. Whether two can hold at once, and so whether tokens rise, depends on what else is admitted.
    Divided,
    /// Its clock jumped forwards, and the leases of that moment ended the earlier. Their holders hear of it when they
    /// next ask, or at their local deadlines. It excuses nothing else.
    Jumped,
}

impl Terms {
    pub(super) fn heartbeat(&self) -> u64 {
        nanos(self.liveness / 3)
    }

    /// What those who died waiting may cost, in all.
    pub(super) fn window(&self) -> u64 {
        nanos(self.liveness + self.buffer) + self.heartbeat()
    }

    pub(super) fn lease_ns(&self) -> u64 {
        nanos(self.lease)
    }

    pub(super) fn lateness_ns(&self) -> u64 {
        nanos(self.lateness)
    }

    /// How long nothing is granted after a loss of data, at the most.
    pub(super) fn recovery(&self) -> u64 {
        nanos(self.liveness.max(self.lease))
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = &Admitted> {
        let lost = [Trouble::LostData, Trouble::LostPlaces];
        self.admitted.iter().filter(move |admitted| lost.contains(&admitted.trouble))
    }

    pub(super) fn silences(&self) -> impl Iterator<Item = &Admitted> {
        self.admitted.iter().filter(|admitted| admitted.trouble == Trouble::Silent)
    }

    /// Whether there was this trouble at that moment.
    pub(super) fn there_was(&self, trouble: Trouble, at: u64) -> bool {
        let its =
            |admitted: &Admitted| admitted.trouble == trouble && (admitted.from_ns..=admitted.to_ns).contains(&at);
        self.admitted.iter().any(its)
    }

    /// What can be the reason that one who was granted the lock before it still believes in its lease although the
    /// server, for which it was over, granted the lock to another: until its local deadline, which nothing has
    /// prolonged since. If the other's grant is lost too in the meantime, nothing shows it any more, and the older
    /// lease goes on.
    pub(super) fn reasons_to_believe(
        &self,
        granted: u64,
        until: u64,
        other_granted: u64,
    ) -> impl Iterator<Item = &Admitted> {
        let harmless = [Trouble::Silent, Trouble::LostPlaces, Trouble::Divided];
        self.admitted.iter().filter(move |trouble| !harmless.contains(&trouble.trouble)).filter(move |trouble| {
            let deadline = trouble.to_ns + self.lease_ns();
            let goes_on = || self.losses().any(|loss| other_granted <= loss.to_ns && loss.from_ns <= deadline);
            granted <= trouble.to_ns && trouble.from_ns <= other_granted && (until <= deadline || goes_on())
        })
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
