//! Callers that block until the answer comes.

use std::sync::Arc;

use super::super::handle::NewAcquire;
use super::super::machine::{ANSWER_TIMEOUT, Id, NotGranted, Release};
use super::super::shared::Shared;
use super::{Broke, Direct, Inside, Trouble, Unanswered};
use crate::clock::Time;
use crate::protocol::{Reply, Request};

/// The outcome of an acquire over the direct connection.
pub(in crate::keeper) enum Tried {
    Granted(Arc<Shared>),
    NotGranted(NotGranted),
    /// The keeper is to be asked, after it was told of these troubles.
    AskKeeper(Vec<Trouble>),
}

/// The outcome of a release over the direct connection.
pub(in crate::keeper) enum Returned {
    Done(Release),
    /// The keeper has the lease, or takes it over when it is asked to release it. The connection may have broken.
    AskKeeper(Option<Broke>),
}

impl Direct {
    /// Tries to acquire a lock. Blocks for one round trip, at most [`ANSWER_TIMEOUT`].
    pub(in crate::keeper) fn acquire(&self, acquire: &NewAcquire) -> Tried {
        if let Err(trouble) = self.admit(&acquire.caller) {
            return Tried::AskKeeper(Vec::from_iter(trouble));
        }
        let tried = self.inside(|inside| {
            if !self.is_usable(inside) {
                return Tried::AskKeeper(vec![]);
            }
            let (of, sent) = (self.new_acquire(inside, acquire), Time::now());
            let answer = self.ask(inside, of.request(&self.client, sent));
            self.acquired(inside, acquire, of, sent, answer)
        });
        if !matches!(tried, Tried::Granted(_)) {
            self.leave();
        }
        tried
    }

    /// Releases a lease, if the keeper has not taken it over. Blocks for one round trip, at most [`ANSWER_TIMEOUT`].
    pub(in crate::keeper) fn release(&self, id: Id) -> Returned {
        if !self.may_release(id) {
            return Returned::AskKeeper(None);
        }
        let returned = self.inside(|inside| {
            let answer = match self.release_request() {
                request @ Some(_) if self.is_usable(inside) => self.ask(inside, request),
                _ => Err(Unanswered::Refused),
            };
            self.released(id, answer)
        });
        if let Returned::Done(_) = returned {
            self.leave();
        }
        returned
    }

    /// Sends a request and waits for its answer. A connection that gives none is closed.
    fn ask(&self, inside: &mut Inside, request: Option<Request>) -> Result<Reply, Unanswered> {
        let (Some((_, wire)), Some(request)) = (&mut inside.wire, request) else { return Err(Unanswered::Refused) };
        match wire.ask(request, &self.channel, Time::now() + ANSWER_TIMEOUT) {
            Ok(answer) => answer.map_err(|_| Unanswered::Refused),
            Err(cause) => Err(inside.broke(cause)),
        }
    }
}
