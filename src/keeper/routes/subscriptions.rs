//! The subscriptions to the messages of slots: asked for, confirmed, refused, and ended by a server that a slot leaves.

use std::sync::Arc;

use super::peers::{Role, Up};
use super::slots::whole;
use super::{ConnectionId, Effect, LEAST_PATIENCE, Routes, Timer};
use crate::clock::Time;
use crate::error::{ConnectError, brief};
use crate::protocol::Refusal;
use crate::server::{CallOutcome, Slot};

impl Routes {
    /// Asks for the messages of this slot, unless that is under way.
    pub(super) fn subscribe(&mut self, now: Time, slot: Slot) {
        let in_cluster = self.is_cluster();
        let Some(route) = self.routes.get(&slot) else { return };
        let Some(up) = route.peer.as_ref().and_then(|peer| self.links.get_mut(peer)).and_then(|link| link.up_mut())
        else {
            return;
        };
        if self.timers.contains(&Timer::Subscribe(slot)) || !up.subscribing.insert(route.channel.clone()) {
            return;
        }
        let (connection, channel, sharded) = (up.connection, route.channel.clone(), in_cluster && up.facts.shards);
        // No other request to this server may show its silence.
        self.timers.set(Timer::Confirm(slot), now + self.patience_of(slot).max(LEAST_PATIENCE));
        self.effects.push(Effect::Subscribe { connection, channel, sharded });
    }

    fn up_of(&mut self, connection: ConnectionId) -> Option<&mut Up> {
        let Some(Role::Main(peer)) = self.connections.get(&connection) else { return None };
        self.links.get_mut(peer)?.up_mut()
    }

    pub(super) fn subscribed(&mut self, now: Time, connection: ConnectionId, channel: &Arc<str>) {
        let Some(up) = self.up_of(connection) else { return };
        up.subscribing.remove(channel);
        up.subscribed.insert(channel.clone());
        if let Some(&slot) = self.slots.get(channel) {
            self.timers.clear(&Timer::Confirm(slot));
            self.open(now, slot);
        }
    }

    pub(super) fn unsubscribed(&mut self, now: Time, connection: ConnectionId, channel: &Arc<str>) {
        let Some(up) = self.up_of(connection) else { return };
        up.subscribed.remove(channel);
        if let Some(&slot) = self.slots.get(channel)
            && self.routes.get(&slot).is_some_and(|route| route.connection == Some(connection))
        {
            self.close(slot, "its slot left the node".into());
            self.search(now);
        }
    }

    pub(super) fn not_subscribed(
        &mut self,
        now: Time,
        connection: ConnectionId,
        channel: &Arc<str>,
        reply: CallOutcome,
    ) {
        let Some(Role::Main(peer)) = self.connections.get(&connection).cloned() else { return };
        let Some(up) = self.up_of(connection) else { return };
        up.subscribing.remove(channel);
        let address = up.facts.address.clone();
        let Some(&slot) = self.slots.get(channel) else { return };
        self.timers.clear(&Timer::Confirm(slot));
        let Some(route) = self.routes.get_mut(&slot).filter(|route| route.peer.as_ref() == Some(&peer)) else { return };
        let in_doubt = matches!(reply, CallOutcome::NotServing(_));
        let refusal = match reply {
            CallOutcome::Elsewhere { node, .. } => return self.moved(now, slot, whole(node, &peer)),
            CallOutcome::Result(Ok(_)) => return,
            CallOutcome::Result(Err(refusal)) => refusal,
            CallOutcome::NotServing(cause) => Refusal::Temporary(cause),
        };
        // Only the channel of this slot is refused. An operator may fix that, so the keeper asks again.
        route.refused = route.refused.saturating_add(1);
        let (refused, patience) = (route.refused, self.patience_of(slot));
        let cause = refusal.cause().clone();
        self.close(slot, cause.clone());
        let again = now + self.back_off(refused, patience);
        self.timers.set(Timer::Subscribe(slot), again);
        if in_doubt && self.doubts(now) {
            self.search(now);
        }
        let cause = cause.to_string().into();
        match refusal {
            Refusal::Temporary(_) => {}
            Refusal::Denied(_) => self.tell_unusable(vec![slot], &ConnectError::MissingRight { address, cause }),
            Refusal::Permanent(_)
            | Refusal::NotUnderstood(_)
            | Refusal::OutOfStep(_)
            | Refusal::WrongType(_)
            | Refusal::OtherLayout(_) => {
                self.tell_unusable(vec![slot], &ConnectError::Refused { address, cause });
            }
        }
    }

    pub(super) fn not_confirmed(&mut self, now: Time, slot: Slot) {
        let Some(route) = self.routes.get(&slot) else { return };
        let cause = format!("the server has not answered for {}", brief(&self.patience_of(slot).max(LEAST_PATIENCE)));
        if let Some(peer) = route.peer.clone() {
            self.fail(now, &peer, &cause.into());
        }
    }
}
