//! Takes in the messages of callers and of the threads that connect.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::machine::{Command, Event, Id, Question};
use super::message::{Caller, Message};
use super::network::SetUp;
use super::questions::AnswerSender;
use super::{Keeper, routes};
use crate::clock::Time;
use crate::memory::GiveBack as _;
use crate::server::Slot;

impl Keeper {
    pub(super) fn take_in(&mut self, message: Message) {
        let (lock, command) = match message {
            // Its caller gave up while the message was under way.
            Message::Acquire { caller, .. } if caller.resolved.is_closed() => return,
            Message::Acquire { id, asked, caller } => {
                self.callers.insert(id, caller);
                (asked.spec.name().clone(), Command::Acquire { id, asked })
            }
            Message::Ask { lock, question, asker } => {
                (lock, Command::Ask { number: self.questions.ask(asker), question })
            }
            Message::Command { lock, command } => {
                if let Command::Abandon { id } = &command {
                    self.forget_caller(*id);
                }
                (lock, command)
            }
            Message::Trouble { lock, reply } => {
                let machine = self.machines.get(&self.routes.slot(&lock));
                let _ = reply.send(machine.and_then(|machine| machine.trouble(&lock)));
                return;
            }
            Message::Close { reply } => return self.close(reply),
            Message::SetUp(done) => return self.set_up(done),
            Message::End => return self.ending = true,
            #[cfg(feature = "__test-hooks")]
            Message::Panic => panic!("the keeper was told to panic by a test"),
        };
        self.pass_command_to_machine(lock, command);
    }

    /// Nobody awaits this acquire any more.
    pub(super) fn forget_caller(&mut self, id: Id) -> Option<Caller> {
        let caller = self.callers.remove(&id);
        self.callers.give_back();
        caller
    }

    fn pass_command_to_machine(&mut self, lock: Arc<str>, command: Command) {
        let slot = self.routes.slot(&lock);
        self.used.insert(slot, lock);
        self.tell_machine(slot, Event::Command(command));
    }

    /// Starts to connect for a command that a machine has taken in. Its effects come first: they say how soon it needs
    /// answers.
    pub(super) fn request_route(&mut self, slot: Slot) {
        if let Some(name) = self.used.remove(&slot)
            && let Some(machine) = self.machines.get(&slot)
            && (!(self.ending || self.closed) || machine.gives_back_until().is_some())
        {
            self.routes.handle(Time::now(), routes::Event::RequestRoute { slot, name });
        }
    }

    fn set_up(&mut self, done: SetUp) {
        let Some(event) = self.network.set_up(done) else { return };
        let connection = if let routes::Event::Ready { connection, .. } = &event { Some(*connection) } else { None };
        self.routes.handle(Time::now(), event);
        self.carry_out_for_routes();
        // The last reply of the set-up may have come together with more data.
        connection.into_iter().for_each(|connection| self.network.receive(connection));
        self.pass_network_events_to_routes();
    }

    fn close(&mut self, reply: oneshot::Sender<()>) {
        self.closed = true;
        let machines: Vec<Slot> = self.machines.keys().copied().collect();
        if machines.is_empty() {
            let _ = reply.send(());
            return;
        }
        let number = self.questions.ask(AnswerSender::Close(reply, machines.len()));
        for slot in machines {
            self.tell_machine(slot, Event::Command(Command::Ask { number, question: Question::Close }));
        }
    }
}
