//! Replies that single cases make up: a word, and the values that matter.

use std::time::Duration;

use crate::inspect::{Holder, QueuedWaiter};
use crate::keeper::machine::{Machine, RequestId, What};
use crate::protocol::{
    AcquireVerdict, BreakVerdict, Common, Epoch, HeartbeatVerdict, Inspected, OwnLease, ReleaseVerdict, RenewVerdict,
    Reply, Stamp, Ticket, Token, Verb, Verdict,
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
    pub(super) token: u64,
    pub(super) waiting: u64,
    pub(super) lease_left: Duration,
    pub(super) recover_left: Duration,
    pub(super) pace: Duration,
    pub(super) longest: Duration,
    pub(super) own: Option<OwnLease>,
    pub(super) again: bool,
    pub(super) claim: bool,
    pub(super) left: Duration,
    pub(super) granted_token: u64,
    pub(super) ticket: u64,
    pub(super) rank: Option<u64>,
    pub(super) held: Option<Box<Holder>>,
    pub(super) page: Vec<QueuedWaiter>,
}

impl Answer {
    /// The reply to this request, if its word is one of the request's verb.
    pub(super) fn to(self, machine: &Machine, request: RequestId) -> Reply {
        let verb = machine.core.requests.get(&request).map(|sent| match &sent.what {
            What::Acquire(_) | What::Position(..) => Verb::Acquire,
            What::Heartbeat => Verb::Heartbeat,
            What::Renew(_) | What::Confirm(_) => Verb::Renew,
            What::Release(_) => Verb::Release,
            What::Leave(_) => Verb::Leave,
            What::Question(_) if self.word == Word::State => Verb::Inspect,
            What::Question(_) => Verb::Break,
            What::Replicate(_) => panic!("replicas do not reply like this"),
        });
        // Nobody looks at the reply to a request that was forgotten.
        let verdict = verb.map_or(Verdict::Leave, |verb| self.verdict(verb));
        Reply { common: self.common(), verdict }
    }

    /// What it says whatever the verb.
    pub(super) fn common(self) -> Common {
        let (epoch, stamp, token) = (Epoch::new(self.epoch), Stamp::new(self.stamp), Token::new(self.token));
        let Self { waiting, lease_left, recover_left, pace, longest, own, again, .. } = self;
        Common { epoch, stamp, token, waiting, lease_left, recover_left, pace, longest, own, again }
    }

    fn verdict(&self, verb: Verb) -> Verdict {
        let left = self.left;
        match (verb, self.word) {
            (Verb::Acquire, Word::Granted) => {
                let token = Token::new(self.granted_token).expect("the token of a grant");
                Verdict::Acquire(AcquireVerdict::Granted { token, left, claim: self.claim })
            }
            (Verb::Acquire, Word::Queued) => Verdict::Acquire(AcquireVerdict::Queued {
                ticket: Ticket::new(self.ticket).expect("the ticket of a waiter in the queue"),
                rank: self.rank.expect("the rank of a waiter in the queue"),
            }),
            (Verb::Acquire, Word::Busy) => Verdict::Acquire(AcquireVerdict::Busy(self.held.clone())),
            (Verb::Acquire, Word::Disbelieved) => Verdict::Acquire(AcquireVerdict::Disbelieved),
            (Verb::Heartbeat, Word::Alive) => Verdict::Heartbeat(HeartbeatVerdict::Alive { rank: self.rank }),
            (Verb::Heartbeat, Word::Unknown) => Verdict::Heartbeat(HeartbeatVerdict::Unknown),
            (Verb::Renew, Word::Renewed) => Verdict::Renew(RenewVerdict::Renewed { left }),
            (Verb::Renew, Word::Broken) => Verdict::Renew(RenewVerdict::Broken),
            (Verb::Renew, Word::Lost) => Verdict::Renew(RenewVerdict::Lost),
            (Verb::Release, Word::Released) => Verdict::Release(ReleaseVerdict::Released),
            (Verb::Release, Word::Expired) => Verdict::Release(ReleaseVerdict::Expired),
            (Verb::Release, Word::Left) => Verdict::Release(ReleaseVerdict::Left),
            (Verb::Release, Word::Unknown) => Verdict::Release(ReleaseVerdict::Unknown),
            (Verb::Leave, Word::Left) => Verdict::Leave,
            (Verb::Inspect, Word::State) => {
                let (holder, queue) = (self.held.clone(), self.page.clone());
                Verdict::Inspect(Inspected { grants: 0, holder, queue })
            }
            (Verb::Break, Word::Told) => Verdict::Break(BreakVerdict::Told { left }),
            (Verb::Break, Word::Ended) => Verdict::Break(BreakVerdict::Ended),
            (Verb::Break, Word::Unknown) => Verdict::Break(BreakVerdict::Unknown),
            (verb, word) => panic!("{verb:?} does not reply {word:?}"),
        }
    }
}
