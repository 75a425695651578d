//! Carries out the effects of the machines.

use std::sync::Arc;

use super::machine::{Command, Effect, Event, Id, Machine};
use super::message::Caller;
use super::shared::{OwnedLease, Shared};
use super::{Keeper, observe, routes};
use crate::clock::Time;
use crate::memory::GiveBack as _;
use crate::mutex::lock;
use crate::server::Slot;

impl Keeper {
    pub(super) fn carry_out(&mut self) {
        // Carrying out effects may lead to more of them.
        loop {
            self.carry_out_for_routes();
            // What does not wait for room comes first, of all machines.
            if let Some((slot, was_due)) = self.dirty.pop_first() {
                self.carry_out_of(slot, was_due, 0);
            } else if let Some((slot, room)) = self.turns.next(|connection| self.network.room(connection)) {
                let due = self.machines.get(&slot).and_then(Machine::next_due);
                self.carry_out_of(slot, due, room);
            } else {
                self.network.flush();
                if !self.network.events_are_due() {
                    return;
                }
                self.pass_network_events_to_routes();
            }
        }
    }

    /// Carries out the effects of a machine, which was due then before, and may send so many of the requests that wait.
    fn carry_out_of(&mut self, slot: Slot, was_due: Option<Time>, room: usize) {
        let Some(machine) = self.machines.get_mut(&slot) else { return };
        let effects = machine.effects(Time::now(), room);
        let (due, has_unsent) = (machine.next_due(), machine.has_unsent());
        if due != was_due {
            was_due.map(|due| self.due.remove(&(due, slot)));
            due.map(|due| self.due.insert((due, slot)));
        }
        effects.into_iter().for_each(|effect| self.carry_out_one(slot, effect));
        self.request_route(slot);
        if let Some(connection) = self.routes.connection(slot).filter(|_| has_unsent) {
            self.turns.enter(connection, slot);
        }
    }

    fn carry_out_one(&mut self, slot: Slot, effect: Effect) {
        match effect {
            Effect::Send { request, call } => {
                self.routes.handle(Time::now(), routes::Event::Ask { slot, request, call });
            }
            Effect::Replicate { request, keys, replicas, within } => {
                let question = routes::ReplicaQuestion { slot, request, keys, replicas, within };
                self.routes.handle(Time::now(), routes::Event::Replicate(question));
            }
            Effect::Patience(patience) => self.routes.handle(Time::now(), routes::Event::Patience { slot, patience }),
            Effect::Reconnect => self.routes.handle(Time::now(), routes::Event::GiveUp { slot }),
            Effect::Queued { id, ticket, rank } => {
                let Some(caller) = self.callers.get_mut(&id) else { return };
                observe::queued(&self.wakers, &caller.spec, ticket, rank);
                caller.queued.take().map(|queued| queued.send(ticket));
            }
            // Not `slot`: that is the machine's, and of the same type.
            Effect::Granted { id, spec, token, ticket, slot: of_lease, deadline } => {
                let wakers = self.wakers.clone();
                let Some(Caller { origin, queued, resolved, .. }) = self.forget_caller(id) else {
                    // No caller is left to take it.
                    return self.tell_machine(slot, Event::Command(Command::GiveBack { id }));
                };
                let shared = Arc::new(Shared::new(spec, id, (token, ticket, of_lease), origin, deadline, wakers));
                lock(&self.leases).insert(id, shared.clone());
                let _ = resolved.send(Ok(OwnedLease::new(shared, self.messages.clone())));
                queued.map(|queued| queued.send(ticket));
            }
            Effect::NotGranted { id, why } => {
                if let Some(caller) = self.forget_caller(id) {
                    let _ = caller.resolved.send(Err(why));
                }
            }
            Effect::Prolonged { id, deadline, every, most } => {
                self.with_lease(id, |shared| shared.prolong(deadline, every, most));
            }
            Effect::Lost { id, reason, deadline } => self.with_lease(id, |shared| shared.lose(reason, deadline)),
            Effect::Forgotten { id } => {
                let mut leases = lock(&self.leases);
                leases.remove(&id);
                leases.give_back();
            }
            Effect::CheckTaken { id } => {
                let mut reclaimed = false;
                self.with_lease(id, |shared| reclaimed = shared.reclaim());
                if reclaimed {
                    self.tell_machine(slot, Event::NotTaken { id });
                }
            }
            Effect::Answer { question, outcome } => self.questions.answer(question, outcome),
        }
    }

    fn with_lease(&self, id: Id, act: impl FnOnce(&Arc<Shared>)) {
        let shared = lock(&self.leases).get(&id).cloned();
        if let Some(shared) = shared {
            act(&shared);
        }
    }
}
