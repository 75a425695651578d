//! Giving back: what a client no longer wants, repeated until the server has answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Id, Machine, Outcome, QuestionId, Release, RequestId, Timer, What};
use crate::clock::Time;
use crate::error::LostReason;
use crate::protocol::{Common, LeaveRequest, LockKeys, ReleaseRequest, ReleaseVerdict, Request, wire_id};

/// What is given back: repeated until the server has answered.
#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct Farewell {
    pub(in crate::keeper) keys: Arc<LockKeys>,
    pub(super) kind: Kind,
    pub(super) question: Option<QuestionId>,
    pub(super) request: Option<RequestId>,
    /// An earlier request may have been executed.
    pub(super) repeated: bool,
    /// After this the server forgets it by itself.
    pub(super) until: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Leave,
    /// All that was asked was refused, and so there should be nothing to be given back. A server that goes on refusing must
    /// not have a list of these made longer and longer.
    LeaveInCase,
    /// The lease of this token (0 if it is not known), which was last confirmed under this epoch.
    Release {
        token: u64,
        epoch: u64,
        liveness: Duration,
    },
}

impl Machine {
    pub(super) fn bid_farewell(
        &mut self,
        now: Time,
        id: Id,
        keys: Arc<LockKeys>,
        kind: Kind,
        question: Option<QuestionId>,
        until: Time,
    ) {
        self.session(&keys).members += 1;
        self.farewells.insert(id, Farewell { keys, kind, question, request: None, repeated: false, until });
        self.say_farewell(now, id);
    }

    pub(super) fn say_farewell(&mut self, now: Time, id: Id) {
        let Some(farewell) = self.farewells.get(&id) else { return };
        if !self.connected || farewell.request.is_some() {
            return;
        }
        let Kind::Release { token, epoch, liveness } = farewell.kind else { return self.to_leave.push(id) };
        let Some(session) = self.sessions.get(&farewell.keys.name) else { return };
        let call = Request::Release(ReleaseRequest {
            keys: farewell.keys.clone(),
            id: wire_id(&self.client, id),
            token,
            liveness,
            epoch,
            floor: session.floor,
            longest: session.longest,
            last_token: session.last_token,
            pace: session.pace,
        });
        let request = self.send(now, What::Release(id), call);
        if let Some(farewell) = self.farewells.get_mut(&id) {
            farewell.request = Some(request);
        }
    }

    /// Waiters that leave together leave with one call per lock.
    pub(super) fn send_leaves(&mut self, now: Time) {
        const BATCH: usize = 100;
        let ids = std::mem::take(&mut self.to_leave);
        let mut by_lock: BTreeMap<Arc<str>, (Arc<LockKeys>, Vec<Id>)> = BTreeMap::new();
        for id in ids {
            let Some(farewell) = self.farewells.get(&id) else { continue };
            if self.connected && farewell.request.is_none() {
                let entry =
                    by_lock.entry(farewell.keys.name.clone()).or_insert_with(|| (farewell.keys.clone(), vec![]));
                entry.1.push(id);
            }
        }
        for (keys, ids) in by_lock.into_values() {
            for batch in ids.chunks(BATCH) {
                let wire = batch.iter().map(|&id| wire_id(&self.client, id)).collect();
                let request = self.send(
                    now,
                    What::Leave(batch.to_vec()),
                    Request::Leave(LeaveRequest { keys: keys.clone(), ids: wire }),
                );
                for id in batch {
                    if let Some(farewell) = self.farewells.get_mut(id) {
                        farewell.request = Some(request);
                    }
                }
            }
        }
    }

    pub(super) fn on_release(&mut self, now: Time, id: Id, common: &Common, verdict: ReleaseVerdict) {
        let Some(farewell) = self.farewells.get_mut(&id) else { return };
        farewell.request = None;
        // Only this client ends a live lease: if it is gone after an earlier request, that request ended it.
        let outcome = match verdict {
            ReleaseVerdict::Released => Release::Released,
            ReleaseVerdict::Unknown if farewell.repeated => Release::Released,
            ReleaseVerdict::Expired | ReleaseVerdict::Left | ReleaseVerdict::Unknown => {
                Release::Lost(LostReason::Ended)
            }
        };
        self.answer_release(id, outcome);
        if common.again {
            self.say_farewell(now, id);
        } else {
            self.forget_farewell(id);
        }
    }

    pub(super) fn on_leave(&mut self, now: Time, ids: &[Id], common: &Common) {
        for (index, &id) in ids.iter().enumerate() {
            let Some(farewell) = self.farewells.get_mut(&id) else { continue };
            farewell.request = None;
            if common.again && index == 0 {
                self.say_farewell(now, id);
            } else {
                self.forget_farewell(id);
            }
        }
    }

    pub(super) fn farewell_refused(&mut self, now: Time, id: Id, again: Time, for_good: bool) {
        let Some(farewell) = self.farewells.get_mut(&id) else { return };
        farewell.request = None;
        if (for_good || farewell.kind == Kind::LeaveInCase) && farewell.until <= now {
            self.forget_farewell(id);
        } else {
            self.timers.set(Timer::Farewell(id), again);
        }
    }

    pub(super) fn answer_release(&mut self, id: Id, outcome: Release) {
        self.timers.clear(&Timer::AnswerBy(id));
        if let Some(question) = self.farewells.get_mut(&id).and_then(|farewell| farewell.question.take()) {
            self.answer(question, Outcome::Release(outcome));
        }
    }

    pub(super) fn forget_farewell(&mut self, id: Id) {
        self.timers.clear(&Timer::Farewell(id));
        self.answer_release(id, Release::Unknown(self.cause.clone()));
        if let Some(farewell) = self.farewells.remove(&id) {
            self.leave_session(&farewell.keys.name);
        }
    }
}
