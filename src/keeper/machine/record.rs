//! An acquire, from its call until the server is known to have nothing left of it. Its id never changes.
//!
//! | phase | what it waits for | what it sends, when `at` has come | leaves it by |
//! |---|---|---|---|
//! | asking | a place, or the lock | acquire, once there is room: the first, or the return after a loss | `queued` → queued; `granted` or a message → confirming, securing or held |
//! | queued | its turn: heartbeats keep its place | acquire, if a caller asks for its position, or its timeout is near and what it knows is old | a grant, as above; a loss → asking |
//! | confirming | the server's word for a grant that is short, or that only a message told | renew | `renewed` → securing or held; `lost` → asking |
//! | securing | replicas, whether they have the grant | WAIT | enough → held; too late or too few → confirming |
//! | held | its holder, who gives it back | renew; WAIT, if replicas must have the renewal | the end, as its holder must know it, or the server's word → lost; a release → leaving |
//! | lost | its holder, or its deadline | nothing | either → leaving |
//! | leaving | the server's word that nothing is left | leave, once there is room, if it may have a place; release, if it held: by HDEL, where nothing was heard since its grant left the lock calm | any answer, or a refusal where nothing can be left → gone |
//!
//! Who gives up while it waits is leaving then, or gone if nothing was sent. One request of a record is in flight at a
//! time. A connection that breaks turns securing into confirming; every other phase stays. A new connection, a loss of
//! data, a refusal, a timer and an answer are one act: they change the record, and [`LockMachine::look`] looks at it
//! again. Only this file says what a record sends.
//!
//! [`LockMachine::look`]: super::lock::LockMachine::look

use std::sync::Arc;
use std::time::Duration;

use super::api::{ANSWER_TIMEOUT, Mode, QuestionId, RequestId};
use super::line::Turn;
use crate::clock::Time;
use crate::options::Spec;
use crate::protocol::{CallerData, Epoch, Id, LockKeys, OwnLease, Seat, Secret, Ticket, Token};
use crate::term::Term;

/// How long before its timeout a waiter asks for its position once more, if what it knows is as old.
const ASK_BEFORE: Duration = Duration::from_millis(250);
/// How soon after a grant by hand-off its holder asks for the whole lease.
const CONFIRM_AFTER: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Record {
    pub(super) keys: Arc<LockKeys>,
    pub(super) state: State,
    /// The request in flight whose answer it awaits.
    pub(super) request: Option<RequestId>,
    /// Not before then does it send what its phase says. None: not before something happens.
    pub(super) at: Option<Time>,
    /// It waits for room (`line.rs`).
    pub(super) in_line: bool,
    pub(super) trace: Trace,
    /// The place, or the lease, as the server last told, and under which epoch.
    pub(super) seat: Seat,
    pub(super) epoch: Option<Epoch>,
    /// Callers that await an answer.
    pub(super) calls: Vec<Call>,
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) enum State {
    /// Asking, queued, confirming or securing.
    Waiting(Waiter),
    /// Held or lost.
    Held(Box<Lease>),
    Leaving(Leaving),
}

/// How much the server may have of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Trace {
    /// Nothing was sent.
    None,
    /// All its requests were refused. A server that goes on refusing must not make the list of those that leave longer
    /// and longer.
    Unlikely,
    /// A place or a lease: the server answered, or a request was cut off.
    Likely,
    /// Its caller had the lease.
    Lease,
}

/// See the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::keeper) enum Phase {
    Asking,
    Queued,
    Confirming { token: Token },
    Securing { grant: Grant },
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Waiter {
    pub(super) spec: Arc<Spec>,
    pub(super) about: CallerData,
    pub(super) mode: Mode,
    pub(super) called: Time,
    pub(super) timeout: Option<Time>,
    pub(super) phase: Phase,
    /// None until the server has given one.
    pub(super) ticket: Option<Ticket>,
    /// Its place on the line (`lock.rs`), and when that was heard.
    pub(super) place: Option<(u64, Time)>,
    /// Whether its caller knows the ticket.
    pub(super) announced: bool,
    /// A confirmation came so late that little was left of the lease.
    pub(super) late: bool,
    /// The answer of replicas when too few had the grant.
    pub(super) shortage: Option<Arc<str>>,
    /// It found the lock held by its own client, which was giving it back. It asks again once.
    pub(super) asked_again: bool,
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Lease {
    pub(super) spec: Arc<Spec>,
    pub(super) about: CallerData,
    pub(in crate::keeper) token: Token,
    /// How many may hold the lock together while it lasts: as its caller wants it, and as the server last told.
    pub(super) most: u16,
    pub(super) told_most: u16,
    pub(super) granted: Time,
    /// When to look whether the caller has taken its grant.
    pub(super) look_if_taken: Option<Time>,
    /// The interval of its automatic renewals; None while they are switched off.
    pub(super) renew_every: Option<Duration>,
    /// The furthest term that the server has granted.
    pub(super) term: Term,
    /// The last one. It may end earlier: a lease that is re-asserted keeps what is left of it, less a margin.
    pub(super) last: Term,
    /// Whether it is a full lease, and no claim.
    pub(super) confirmed: bool,
    pub(super) lost: bool,
    /// Another lease may have been granted since.
    pub(super) over: bool,
    /// When its holder is told that it runs out, and once it is lost, when the keeper gives it back.
    pub(super) ends: Time,
    /// The length that the last renewal asked for.
    pub(super) asked: Duration,
    /// The term that counts once replicas have it.
    pub(super) unsecured: Option<Term>,
    pub(super) cause: Option<Arc<str>>,
}

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Leaving {
    /// An earlier request was executed, or may have been.
    pub(super) repeated: bool,
    /// After this the server forgets it by itself.
    pub(super) until: Time,
}

/// A caller's question about an acquire.
#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Call {
    pub(super) question: QuestionId,
    /// When it is answered at the latest. None: when the lease ends.
    pub(super) by: Option<Time>,
    pub(super) wants: Wants,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Wants {
    Position,
    /// A whole lease whose deadline is no earlier than this, and while which so many may hold the lock.
    Renewal {
        until: Time,
        most: u16,
    },
    Release,
}

/// A lease that the server has granted to a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::keeper) struct Grant {
    pub(super) token: Token,
    pub(super) slot: u16,
    pub(super) term: Term,
    /// The lease is shorter than what the waiter asked for, until it is confirmed.
    pub(super) claim: bool,
}

/// What a record sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Acquire,
    /// A renewal, or a confirmation.
    Renew,
    /// WAIT.
    Replicate,
    Release,
    Leave,
}

impl Record {
    /// One that has something to send at once.
    pub(super) fn new(keys: Arc<LockKeys>, now: Time, state: State) -> Self {
        Self {
            keys,
            state,
            request: None,
            at: Some(now),
            in_line: false,
            trace: Trace::None,
            seat: Seat::NONE,
            epoch: None,
            calls: Vec::new(),
        }
    }

    /// What it would send now, if there were a connection, and room for what waits for room.
    pub(super) fn next(&self, now: Time) -> Option<Next> {
        if self.request.is_some() || self.at.is_none_or(|at| now < at) {
            return None;
        }
        match &self.state {
            State::Waiting(waiter) => match waiter.phase {
                Phase::Asking => Some(Next::Acquire),
                Phase::Queued => {
                    let is_near = waiter.wants_position_at().is_some_and(|at| at <= now);
                    (is_near || self.is_asked_for_position()).then_some(Next::Acquire)
                }
                Phase::Confirming { .. } => Some(Next::Renew),
                Phase::Securing { .. } => Some(Next::Replicate),
            },
            State::Held(lease) if lease.lost => None,
            State::Held(lease) if lease.unsecured.is_some() => Some(Next::Replicate),
            State::Held(_) => Some(Next::Renew),
            State::Leaving(_) if self.trace == Trace::Lease => Some(Next::Release),
            State::Leaving(_) => Some(Next::Leave),
        }
    }

    /// When to look at it again, if nothing happens before.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        // What is to be sent already waits for room, for a connection, or for an answer.
        let sends = self.at.filter(|at| now < *at && self.request.is_none());
        let ends = match &self.state {
            State::Waiting(waiter) => waiter.wants_position_at().filter(|at| now < *at).or(waiter.gives_up()),
            State::Held(lease) => Some(lease.look_if_taken.map_or(lease.ends, |at| at.min(lease.ends))),
            State::Leaving(_) => None,
        };
        self.calls.iter().filter_map(|call| call.by).chain(sends).chain(ends).min()
    }

    /// The connection broke: a request in flight has no answer, and may have been executed.
    pub(super) fn disconnected(&mut self) {
        let cut_off = self.request.take().is_some();
        self.in_line = false;
        match &mut self.state {
            State::Waiting(waiter) => {
                if cut_off {
                    self.trace = Trace::Likely;
                }
                if let Phase::Securing { grant } = waiter.phase {
                    waiter.phase = Phase::Confirming { token: grant.token };
                }
            }
            State::Held(lease) => lease.unsecured = None,
            State::Leaving(leaving) => leaving.repeated |= cut_off,
        }
    }

    /// Itself, if it awaits the answer to this request: now it has it.
    pub(super) fn answered(&mut self, request: RequestId) -> Option<&mut Self> {
        self.request.take_if(|awaited| *awaited == request)?;
        Some(self)
    }

    /// Its turn among the requests that wait for room.
    pub(super) fn turn(&self, id: Id) -> Turn {
        match &self.state {
            State::Waiting(Waiter { ticket: Some(ticket), .. }) => Turn::Returner(*ticket, id),
            State::Waiting(_) => Turn::Newcomer(id),
            // One that holds never stands in line.
            State::Held(_) | State::Leaving(_) => Turn::Leave(self.keys.name.clone(), id),
        }
    }

    pub(super) fn waiter(&self) -> Option<&Waiter> {
        if let State::Waiting(waiter) = &self.state { Some(waiter) } else { None }
    }

    pub(super) fn waiter_mut(&mut self) -> Option<&mut Waiter> {
        if let State::Waiting(waiter) = &mut self.state { Some(waiter) } else { None }
    }

    pub(in crate::keeper) fn lease(&self) -> Option<&Lease> {
        if let State::Held(lease) = &self.state { Some(lease) } else { None }
    }

    pub(super) fn lease_mut(&mut self) -> Option<&mut Lease> {
        if let State::Held(lease) = &mut self.state { Some(lease) } else { None }
    }

    /// Whether it waits or holds.
    pub(super) fn is_member(&self) -> bool {
        !matches!(self.state, State::Leaving(_))
    }

    pub(super) fn leaving(&self) -> Option<&Leaving> {
        if let State::Leaving(leaving) = &self.state { Some(leaving) } else { None }
    }

    fn is_asked_for_position(&self) -> bool {
        self.calls.iter().any(|call| call.wants == Wants::Position)
    }

    /// Takes out the calls of this kind.
    pub(super) fn take_calls(&mut self, which: impl Fn(&Call) -> bool) -> Vec<Call> {
        let (taken, left) = std::mem::take(&mut self.calls).into_iter().partition(which);
        self.calls = left;
        taken
    }
}

impl Call {
    /// The deadline that a renewal is to bring at least.
    pub(super) fn renewed_until(&self) -> Option<Time> {
        if let Wants::Renewal { until, .. } = self.wants { Some(until) } else { None }
    }
}

impl Waiter {
    /// Whether it knows of a grant, which is on its way to the caller.
    pub(super) fn has_grant(&self) -> bool {
        matches!(self.phase, Phase::Confirming { .. } | Phase::Securing { .. })
    }

    fn gives_up(&self) -> Option<Time> {
        let answer_by = (self.mode == Mode::Try).then(|| self.called + ANSWER_TIMEOUT);
        self.timeout.or(answer_by)
    }

    pub(super) fn is_late(&self, now: Time) -> bool {
        self.gives_up().is_some_and(|at| at <= now)
    }

    /// Its error is to tell a position that is not old.
    fn wants_position_at(&self) -> Option<Time> {
        let at = self.timeout? - ASK_BEFORE;
        let is_old = self.place.is_some_and(|(_, heard)| heard + ASK_BEFORE < at);
        (is_old && self.phase == Phase::Queued).then_some(at)
    }
}

impl Lease {
    /// The local deadline, if it is not renewed.
    pub(in crate::keeper) fn deadline(&self) -> Time {
        self.term.deadline()
    }

    /// Whether a message with this secret is about it.
    pub(super) fn is_about(&self, secret: &Secret) -> bool {
        self.about.secret == *secret
    }

    /// When it is renewed next, and when its holder is told that it runs out.
    pub(super) fn plan(&mut self, now: Time) -> Option<Time> {
        let (spec, term, last) = (&self.spec, self.term, self.last);
        self.ends = term.deadline() - term.notice(spec.lease, spec.notice);
        let renew_at = match (self.confirmed, self.renew_every) {
            // The full lease is asked for soon, also with manual renewal: a claim does not protect its holder for long.
            // Not at once, because a hold that ends before costs no request.
            (false, _) => now + confirm_after(term, now),
            // An extended lease is renewed as often as any other: that is how its holder hears of a loss of data.
            (true, Some(every)) => last.sent + last.span.min(spec.lease) + every - spec.lease,
            (true, None) => return None,
        };
        let longest = spec.max_hold.map(|longest| self.granted + longest);
        Some(renew_at).filter(|at| longest.is_none_or(|longest| now.max(*at) < longest))
    }
}

impl Grant {
    pub(super) fn replied(own: &OwnLease, sent: Time, spec: &Spec) -> Self {
        Self { token: own.token, slot: own.slot, term: Term::told(sent, own.left, spec.lease), claim: own.claim }
    }

    /// Whether the end is so near that its holder would have to be told. Of a claim: whether it ends before a
    /// confirmation, which is sent after [`confirm_after`], can be answered as fast.
    pub(super) fn is_short(&self, now: Time, spec: &Spec) -> bool {
        let confirmed = if self.claim { 2 * confirm_after(self.term, now) } else { Duration::ZERO };
        self.term.deadline() <= now + confirmed + self.term.notice(spec.lease, spec.notice)
    }
}

/// How long after it is handed out a claim is confirmed.
fn confirm_after(claim: Term, now: Time) -> Duration {
    CONFIRM_AFTER.min(claim.deadline().since(now) / 3)
}
