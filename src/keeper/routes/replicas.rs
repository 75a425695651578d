//! Questions to replicas: how many of them have all writes so far.
//!
//! WAIT has a separate connection, because it blocks all later requests on its own. Questions that come during a WAIT
//! are asked together in the next one. When this connection is made, the address may lead to another server, whose
//! replicas know nothing of the grants: the connection is used only if it leads to the same run of the same server.

use super::peers::{Role, Up};
use super::{ConnectionId, Effect, LEAST_PATIENCE, Peer, ReplicaQuestion, Routes, Timer};
use crate::clock::Time;
use crate::keeper::machine::Event as Told;
use crate::protocol::Refusal;
use crate::server::Previous;

/// The questions to the replicas of one server, and the connection for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Asking {
    connection: Option<ConnectionId>,
    /// Whether the connection is set up.
    ready: bool,
    /// The questions that one WAIT answers, and those that come after it.
    asked: Vec<ReplicaQuestion>,
    to_ask: Vec<ReplicaQuestion>,
}

impl Routes {
    pub(super) fn replicate(&mut self, now: Time, question: ReplicaQuestion) {
        let Some(route) = self.routes.get(&question.slot).filter(|route| route.connection.is_some()) else { return };
        let Some(peer) = route.peer.clone() else { return };
        if let Some(up) = self.up_at(&peer) {
            up.asking.to_ask.push(question);
            self.ask_replicas(now, &peer);
        }
    }

    pub(super) fn up_at(&mut self, peer: &Peer) -> Option<&mut Up> {
        self.links.get_mut(peer)?.up_mut()
    }

    /// Asks the replicas the next question, for all waiting machines.
    fn ask_replicas(&mut self, now: Time, peer: &Peer) {
        let connection = self.new_connection();
        let Some(up) = self.up_at(peer).filter(|up| up.asking.asked.is_empty()) else { return };
        let (node, asking) = (up.node.clone(), &mut up.asking);
        asking.asked = std::mem::take(&mut asking.to_ask);
        let Some(within) = asking.asked.iter().map(|question| question.within).min() else { return };
        let by = now + within + LEAST_PATIENCE;
        let ready = asking.ready;
        if asking.connection.is_none() {
            asking.connection = Some(connection);
            self.connections.insert(connection, Role::Replicas(peer.clone()));
            self.effects.push(Effect::ConnectSecond { connection, node, by });
        }
        self.timers.set(Timer::Replicas(peer.clone()), by);
        if ready {
            self.wait_for_replicas(peer);
        }
    }

    fn wait_for_replicas(&mut self, peer: &Peer) {
        let Some(asking) = self.up_at(peer).map(|up| &up.asking) else { return };
        let replicas = asking.asked.iter().map(|question| question.replicas).max();
        let within = asking.asked.iter().map(|question| question.within).min();
        if let (Some(connection), Some(question), Some(replicas), Some(within)) =
            (asking.connection, asking.asked.first(), replicas, within)
        {
            let keys = question.keys.clone();
            self.effects.push(Effect::Replicas { connection, keys, replicas, within });
        }
    }

    /// The second connection is set up.
    pub(super) fn replicas_connected(
        &mut self,
        now: Time,
        peer: &Peer,
        connection: ConnectionId,
        run: Option<Previous>,
    ) {
        let Some(up) = self.up_at(peer).filter(|up| up.asking.connection == Some(connection)) else { return };
        match (&up.facts.run, &run) {
            (Some(main), Some(run)) if main.run_id() == run.run_id() => {
                up.asking.ready = true;
                self.wait_for_replicas(peer);
            }
            (Some(_), Some(_)) => self.fail(now, peer, &"its address leads to another server now".into()),
            _ => {
                let cause = "without CLIENT ID and INFO nobody knows whose replicas answer: allow them";
                self.replicas_failed(now, peer, &Refusal::Temporary(cause.into()));
            }
        }
    }

    pub(super) fn replicas_answered(&mut self, now: Time, connection: ConnectionId, result: Result<u32, Refusal>) {
        let Some(Role::Replicas(peer)) = self.connections.get(&connection).cloned() else { return };
        match result {
            Ok(have) => self.answer_questions(now, &peer, &Ok(have)),
            Err(refusal) => self.replicas_failed(now, &peer, &refusal),
        }
    }

    /// The second connection is not usable any more. A new one is made for the next question.
    pub(super) fn replicas_failed(&mut self, now: Time, peer: &Peer, refusal: &Refusal) {
        let Some(asking) = self.up_at(peer).map(|up| &mut up.asking) else { return };
        asking.ready = false;
        let connection = asking.connection.take();
        connection.into_iter().for_each(|connection| self.drop_line(connection));
        self.answer_questions(now, peer, &Err(refusal.clone()));
    }

    fn answer_questions(&mut self, now: Time, peer: &Peer, result: &Result<u32, Refusal>) {
        self.timers.clear(&Timer::Replicas(peer.clone()));
        let Some(up) = self.up_at(peer) else { return };
        for ReplicaQuestion { slot, request, .. } in std::mem::take(&mut up.asking.asked) {
            if self.routes.get(&slot).is_some_and(|route| route.connection.is_some()) {
                self.tell(slot, Told::Replicated { request, result: result.clone() });
            }
        }
        self.ask_replicas(now, peer);
    }

    /// The first connection ended, and the second one with it: machines ask again.
    pub(super) fn end_questions(&mut self, peer: &Peer, asking: &Asking) {
        self.timers.clear(&Timer::Replicas(peer.clone()));
        asking.connection.into_iter().for_each(|connection| self.drop_line(connection));
    }
}
