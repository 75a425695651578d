//! What happened to the waiters of one lock, as they and the injected faults recorded it, and whether the promises
//! allow it.
//!
//! Processes write one file together, one event in a line, each line with one write to a file opened for appending:
//!
//! ```text
//! TIME_NS PROCESS WAITER EVENT [NUMBER]…
//!
//! 118200345 p3 p3.1 called [TIMEOUT_NS]       the acquire begins
//! 118211100 p3 p3.1 queued 1763733712000001   it has a ticket; for a grant at once this is its token
//! 118200345 p3 p3.1 shares 3                  of leases like its own three may be held together; without this, one
//! 118300000 p3 p3.1 granted 1763733712000009 1  it has the lock, under this token, in this slot; without one, slot 0
//! 118350000 p3 p3.1 held                      its own check says that it holds the lock still
//! 118360000 p3 p3.1 downgrades 1000           it may let so many hold together from here on,
//! 118370000 p3 p3.1 downgraded                and from here on it certainly does
//! 118400000 p3 p3.1 released                  one of these ends a hold: released,
//! 118400000 p3 p3.1 lost                      told that the lease is lost,
//! 118400000 p3 p3.2 left                      and these end a wait without a grant: timeout or cancellation,
//! 118400000 p3 p3.2 untaken                   or a grant that its caller did not take for a whole lease
//! 118400000 p3 p3.2 returned                  the caller of an acquire that was not granted goes on
//! 118500000 p3 - died                         ends everything of that process (SIGKILL)
//! 118500000 p3 - paused                       ends its claims to be served and believed (SIGSTOP), see below
//! 118550000 p3 - resumed                      the pause is over; it also affects waiters that called meanwhile
//! 118600000 c  - clock 1763733712000300 90000 the server's clock said this, asked then and answered 90 µs later
//! 118600000 c  - seen 1763733712000009 1 3    the server said by now: that token's lease is in slot 1, and shares 3
//! # anything                                  a remark for the reader
//! ```
//!
//! Times are [`now_ns`], one clock for all processes of a machine. **Stamp every beginning after the act and every end
//! before it**: `granted` when the guard is there; `held` before a check that says yes; `downgrades` before
//! `downgrade` is called, and `downgraded` when it has returned; `released` before `release` is
//! called or the guard dropped; `left` before the future is dropped, or with the moment of its timeout; `died` and
//! `paused` before the signal is sent. Then each interval on record lies within the real one, and what the judges find
//! is certain. Only `lost` can be stamped no earlier than it is told; where there are `held` marks the last of them
//! counts instead. Write `paused` only for a pause that is long enough to cost the place or the lease: it excuses
//! waiters that overtake. A signal takes a moment to arrive, so a process may seem to act after it. Tickets and tokens
//! are times of the server's clock, so that `clock` marks tell when it granted what.
//!
//! The judges are pure functions over a history: `exclusion.rs`, `sharing.rs`, `told.rs`, `tokens.rs`, `order.rs`,
//! `stalls.rs`, `ends.rs`. [`Terms`] tells them which faults the server suffered, and so which exceptions the promises
//! make (`docs/guarantees.md`).

mod clock;
mod ends;
mod exclusion;
mod losses;
mod order;
mod record;
mod sharing;
mod stalls;
mod terms;
mod tokens;
mod told;
mod waits;

// Not every test binary needs every name.
#[allow(unused_imports)]
pub use self::{
    record::{Event, Recorder, now_ns},
    stalls::Stall,
    terms::{Admitted, Terms, Trouble},
    waits::{History, Wait},
};

impl History {
    /// The judges that need to know neither durations nor the server's clock, where nothing befell the server. The
    /// first complaint.
    pub fn check(&self) -> Result<(), String> {
        let calm = Terms::default();
        self.exclusion(&calm)?;
        self.raised_by_downgrades_alone()?;
        self.tokens_rise(&calm)?;
        self.order(&calm)?;
        self.all_finished()
    }

    /// All judges. The first complaint.
    pub fn judge(&self, terms: &Terms) -> Result<(), String> {
        self.exclusion(terms)?;
        self.raised_by_downgrades_alone()?;
        self.told_before_taken(terms)?;
        self.tokens_rise(terms)?;
        self.order(terms)?;
        self.by_their_timeouts(terms)?;
        self.all_finished()?;
        self.no_stall(terms)
    }
}
