//! Replies that single cases make up: a word, and the values that matter.

use std::time::Duration;

use crate::inspect::{BreakOutcome, Holder, QueuedWaiter};
use crate::keeper::machine::{InFlight, Machine, RequestId};
use crate::protocol::{
    AcquireVerdict, Common, Epoch, HeartbeatVerdict, Inspected, Knowledge, Memory, OwnLease, ReleaseVerdict,
    RenewVerdict, Reply, Seat, Stamp, Ticket, Token, Verb, Verdict,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Word {
    #[default]
    Unknown,
    Granted,
    Queued,
    Busy,
    Disbelieved,
    Alive,
    Renewed,
    Broken,
    Lost,
    Released,
    Expired,
    Left,
    State,
    Told,
    Ended,
}

/// All values that a reply may have. Values that do not go with its word are left out.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) word: Word,
    pub(super) epoch: u64,
    pub(super) stamp: u64,
    pub(super) keep: Duration,
    pub(super) waiting: u64,
    pub(super) lease_left: Duration,
    pub(super) recover_left: Duration,
    pub(super) own: Vec<OwnLease>,
    pub(super) again: bool,
    pub(super) calm: bool,
    /// The token of the lease, if the machine does not know of another, and whether it is a claim.
    pub(super) granted_token: u64,
    pub(super) claim: bool,
    /// How many may hold the lock with that lease; 0 is one.
    pub(super) most: u16,
    pub(super) left: Duration,
    pub(super) ticket: u64,
    pub(super) rank: Option<u64>,
    pub(super) holders: Vec<Holder>,
    pub(super) page: Vec<QueuedWaiter>,
}

/// What a reply or message with this epoch and stamp tells to remember.
pub(super) fn told(epoch: u64, stamp: u64) -> Knowledge {
    Knowledge::new(memory(epoch, stamp), Epoch::new(epoch), Stamp::new(stamp))
}

/// A memory that the server gave under this epoch with this stamp. Its form is of no concern to the client.
pub(super) fn memory(epoch: u64, stamp: u64) -> Memory {
    Memory::new(format!("memory {epoch} {stamp}").as_bytes()).expect("short enough")
}

/// Epoch, ticket and token in a seat that [`seat`] made; all 0 if there is none.
pub(super) fn told_in(seat: Seat) -> [u64; 3] {
    let text = String::from_utf8(seat.as_bytes().to_vec()).expect("a text of a test");
    let mut numbers = text.split(' ').skip(1).map(|number| number.parse().expect("a number"));
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

/// The seat of this ticket, and of the lease with this token (0: none), as confirmed under this epoch.
pub(super) fn seat(epoch: u64, ticket: u64, token: u64) -> Seat {
    Seat::new(format!("seat {epoch} {ticket} {token}").as_bytes()).expect("short enough")
}

impl Answer {
    /// The reply to this request, if its word is one of the request's verb.
    pub(super) fn to(self, machine: &Machine, request: RequestId) -> Reply {
        let sent = machine.core.requests.get(&request);
        let verb = sent.map(|sent| sent.verb.expect("replicas do not reply like this"));
        // Nobody looks at the reply to a request that was forgotten.
        let verdict = verb.map_or(Verdict::Leave, |verb| self.verdict(verb));
        Reply { common: self.with_lease(machine, request).common(), verdict }
    }

    /// A reply that grants or renews names the lease.
    fn with_lease(mut self, machine: &Machine, request: RequestId) -> Self {
        let what = machine.core.requests.get(&request).map(|sent| &sent.what);
        if let Some(InFlight::Record(id)) = what
            && matches!(self.word, Word::Granted | Word::Renewed)
        {
            let token = machine.token_of(*id).or(Token::new(self.granted_token)).expect("the token of a grant");
            let ticket = Ticket::new(self.ticket).unwrap_or(token.as_ticket());
            let (id, seat) = (machine.core.wire_id(*id), seat(self.epoch, ticket.get(), token.get()));
            let (slot, most, claim) = (0, self.most.max(1), self.claim);
            if self.own.iter().all(|own| own.id != id) {
                self.own.push(OwnLease { id, token, ticket, slot, most, seat, claim, left: Duration::ZERO });
            }
        }
        self
    }

    /// What it says whatever the verb.
    pub(super) fn common(self) -> Common {
        let known = told(self.epoch, self.stamp);
        let Self { waiting, lease_left, recover_left, keep, own, again, calm, .. } = self;
        let (held, first_left) = ((!lease_left.is_zero()).into(), lease_left);
        let own = own.into_iter().map(|own| OwnLease { left: lease_left, ..own }).collect();
        Common { known, keep, waiting, held, first_left, recover_left, own, again, calm }
    }

    fn verdict(&self, verb: Verb) -> Verdict {
        match (verb, self.word) {
            (Verb::Acquire, Word::Granted) => Verdict::Acquire(AcquireVerdict::Granted),
            (Verb::Acquire, Word::Queued) => Verdict::Acquire(AcquireVerdict::Queued {
                ticket: Ticket::new(self.ticket).expect("the ticket of a waiter in the queue"),
                seat: seat(self.epoch, self.ticket, 0),
                rank: self.rank.expect("the rank of a waiter in the queue"),
            }),
            (Verb::Acquire, Word::Busy) => Verdict::Acquire(AcquireVerdict::Busy(self.holders.clone())),
            (Verb::Acquire, Word::Disbelieved) => Verdict::Acquire(AcquireVerdict::Disbelieved),
            (Verb::Heartbeat, Word::Alive) => Verdict::Heartbeat(HeartbeatVerdict::Alive { rank: self.rank }),
            (Verb::Heartbeat, Word::Unknown) => Verdict::Heartbeat(HeartbeatVerdict::Unknown),
            (Verb::Renew, Word::Renewed) => Verdict::Renew(RenewVerdict::Renewed),
            (Verb::Renew, Word::Broken) => Verdict::Renew(RenewVerdict::Broken),
            (Verb::Renew, Word::Lost) => Verdict::Renew(RenewVerdict::Lost),
            (Verb::Release, Word::Released) => Verdict::Release(ReleaseVerdict::Released),
            (Verb::Release, Word::Expired) => Verdict::Release(ReleaseVerdict::Expired),
            (Verb::Release, Word::Left) => Verdict::Release(ReleaseVerdict::Left),
            (Verb::Release, Word::Unknown) => Verdict::Release(ReleaseVerdict::Unknown),
            (Verb::Leave, Word::Left) => Verdict::Leave,
            (Verb::Inspect, Word::State) => {
                let (holders, queue) = (self.holders.clone(), self.page.clone());
                Verdict::Inspect(Inspected { epoch: None, grants: 0, token: None, holders, queue })
            }
            (Verb::Break, Word::Told) => Verdict::Break(BreakOutcome::Told { remaining: self.left }),
            (Verb::Break, Word::Ended) => Verdict::Break(BreakOutcome::Ended),
            (Verb::Break, Word::Unknown) => Verdict::Break(BreakOutcome::Unknown),
            (verb, word) => panic!("{verb:?} does not reply {word:?}"),
        }
    }
}
