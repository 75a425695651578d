//! A lock is calm while nobody waits for it, nobody holds it or one who found it calm, and there is neither a recovery
//! nor a history. Then the server keeps less of it, and a lease is given back without a script.

use super::turn::Turn;
use super::{Answer, DAY, Lock, Memory, Request, SLACK, Seat, State, client_of};

impl Lock {
    /// Whether the client knows of nothing that the server does not have.
    fn is_in_touch(&self, memory: &Memory) -> bool {
        let State { epoch, stamp, token, .. } = self.state;
        memory.is_strangers() || memory.epoch == epoch && memory.stamp <= stamp && memory.token <= token
    }

    /// Whether a calm lock is granted by this request, and stays calm.
    pub(super) fn grants_calmly(&self, time: u64, request: &Request) -> bool {
        let Request::Acquire { claim, terms, memory, seat, .. } = request else { return false };
        let State { calm, stamp, seen, skew, ttl_until, .. } = self.state;
        let now = time.saturating_add_signed(skew);
        let needed_until = time + DAY + terms.lease;
        calm && self.leases.is_empty()
            && *seat == Seat::default()
            && self.is_in_touch(memory)
            && (!claim || terms.lease <= terms.liveness)
            && time > stamp
            && now >= seen.max(self.state.recover_until())
            && (needed_until..=needed_until + 2 * SLACK).contains(&ttl_until)
    }

    /// The holder of a calm lock gives its lease back: by HDEL, or by a release in whose client's eyes nothing was lost.
    /// The lock clock does not hear of it.
    pub(super) fn is_given_back(&mut self, request: &Request) -> Option<Answer> {
        let (id, pace) = match request {
            Request::Hdel { id } => (id, 0),
            Request::Release { id, memory, .. } if self.is_in_touch(memory) => (id, memory.pace),
            _ => return None,
        };
        let is_holder = self.state.calm && self.holds(id);
        if is_holder {
            self.leases.clear();
            self.entries.clear();
            (self.state.first_end, self.state.last_end) = (0, 0);
        }
        match request {
            Request::Hdel { .. } => {
                let word = if is_holder { "released" } else { "nothing" };
                Some(Answer { word: word.into(), ..Answer::default() })
            }
            _ => is_holder.then(|| Turn::at_rest(self, pace).answer("released", client_of(id), &[])),
        }
    }
}

impl State {
    /// Of a calm lock no more is kept than what the next grant needs.
    pub fn calm_down(&mut self) {
        self.calm = true;
        (self.pace, self.pace_next, self.pace_turn, self.silent_from, self.silent_until) = (0, 0, 0, 0, 0);
        self.sole = 0;
        self.close_recovery();
        self.generation = self.stamp;
    }
}
