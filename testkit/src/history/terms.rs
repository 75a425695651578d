//! What the judges must know in addition to the history: the options of the lock, and the faults of the server.

use std::time::Duration;

/// The terms by which a history is judged. By default all durations of the lock are zero and there are no faults: for
/// the judges that look at no durations.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub lease: Duration,
    pub liveness: Duration,
    pub buffer: Duration,
    /// The shortest liveness of all waiters, where they differ. The other durations are the longest.
    pub shortest: Duration,
    /// What a busy machine may add to every bound in time but the next.
    pub slack: Duration,
    /// How long after its timeout an acquire may return, and after a jump of the clock a process may notice a grant. No
    /// fault of the server excuses more.
    pub lateness: Duration,
    pub admitted: Vec<Admitted>,
}

/// A fault of the server, and when. Outside of it nothing is excused, and within it only the exceptions of
/// `docs/guarantees.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub trouble: Trouble,
    /// Where data was lost: before the first write that was. Earlier than `from_ns` if the server went on for a while
    /// after the state that is left.
    pub lost_since_ns: u64,
    /// Before it began.
    pub from_ns: u64,
    /// After it was over.
    pub to_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The server gave no answers, or they reached no client. That costs the time that it takes, but neither places nor
    /// order nor tokens.
    Silent,
    /// The server lost all writes, or the latest. A holder may hear of it only at its deadline, a stranger may be
    /// granted the lock before any client is back, or confirm a claim that the lost server took back, and then all
    /// waiters wait for the earlier clients.
    LostData,
    /// The server lost data, but no lease that a client was told of: what a failover costs locks whose grants wait for
    /// all replicas. A stranger may be granted the lock before any client is back, and all waiters wait for the earlier
    /// clients; but no two hold the lock at once.
    LostPlaces,
    /// Two servers took themselves for the master, each with some of the clients. Each keeps the order of its own
    /// clients. Whether two can hold the lock at once, and so whether tokens rise, depends on the other faults.
    Divided,
    /// The server's clock jumped forwards, so the leases of that moment ended earlier. Their holders hear of it at
    /// their next request or at their deadlines. It excuses nothing else.
    Jumped,
}

impl Terms {
    pub(super) fn heartbeat(&self) -> u64 {
        nanos(self.liveness / 3)
    }

    /// What waiters that died may cost, in all.
    pub(super) fn window(&self) -> u64 {
        nanos(self.liveness + self.buffer) + self.heartbeat()
    }

    pub(super) fn lease_ns(&self) -> u64 {
        nanos(self.lease)
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

    /// By when the server and a process that runs from this moment on have heard of each other.
    pub(super) fn heard_by(&self, at: u64) -> u64 {
        let grace = self.heartbeat() + nanos(self.slack);
        let mut heard = at.saturating_add(grace);
        // Several silences can follow each other.
        loop {
            let in_the_way = |silence: &&Admitted| silence.from_ns <= heard && silence.to_ns >= at;
            let over = self.silences().filter(in_the_way).map(|silence| silence.to_ns + grace).max();
            match over.filter(|&over| over > heard) {
                Some(over) => heard = over,
                None => return heard,
            }
        }
    }

    /// Whether there was this fault at that moment.
    pub(super) fn there_was(&self, trouble: Trouble, at: u64) -> bool {
        let its =
            |admitted: &Admitted| admitted.trouble == trouble && (admitted.from_ns..=admitted.to_ns).contains(&at);
        self.admitted.iter().any(its)
    }

    /// The faults that can let an earlier holder believe in its lease although the server, for which the lease was
    /// over, granted the lock to another: until the earlier holder's deadline, which nothing has prolonged since. If
    /// the later grant is lost too in the meantime, nothing shows it any more, and the older lease goes on. So does one
    /// that lets in others, after a loss, if the later lease is over (`later_over`) when its holder is back.
    pub(super) fn reasons_to_believe(
        &self,
        granted_by: impl Fn(u64) -> bool,
        until: u64,
        other_granted: u64,
        later_over: Option<u64>,
    ) -> impl Iterator<Item = &Admitted> {
        let harmless = [Trouble::Silent, Trouble::LostPlaces, Trouble::Divided];
        self.admitted.iter().filter(move |trouble| !harmless.contains(&trouble.trouble)).filter(move |trouble| {
            let deadline = trouble.to_ns + self.lease_ns();
            let is_back = || trouble.trouble == Trouble::LostData && later_over.is_some_and(|over| over <= deadline);
            let goes_on = || self.losses().any(|loss| other_granted <= loss.to_ns && loss.from_ns <= deadline);
            let ends = until <= deadline || is_back() || goes_on();
            granted_by(trouble.to_ns) && trouble.from_ns <= other_granted && ends
        })
    }
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
