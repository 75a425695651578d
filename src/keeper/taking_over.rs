//! The keeper's side of the direct connection (`direct/`): it reads the answers to tasks, and takes over what is more than
//! a lease of a moment.

use super::direct::{Held, Whose, Word};
use super::machine::{ANSWER_TIMEOUT, Command, DirectAcquire};
use super::questions::Ask;
use super::{Keeper, LOOK, lock, routes};
use crate::clock::Time;
use crate::server::Heard;

impl Keeper {
    /// Takes in the answer to a task, if it has come. A connection that is given up gives none.
    pub(super) fn hear_directly(&mut self) {
        let Some(asked) = &mut self.asked_directly else { return };
        let answer = match asked.wire.answer() {
            _ if self.direct.slot.line() != asked.line => Err("its server was given up".into()),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => return,
            Err(cause) => Err(cause),
        };
        self.settle_directly(answer);
    }

    fn settle_directly(&mut self, answer: Heard) {
        if let Some(asked) = self.asked_directly.take() {
            self.direct.clone().settle(*asked, answer, |word| self.hear_caller(word));
        }
    }

    /// Looks for a lease that lasts and for an answer that does not come, and closes a connection that nobody uses.
    pub(super) fn look_at_direct(&mut self, now: Time) {
        // The caller waits for `ANSWER_TIMEOUT` at most, and the keeper looks again later.
        if self.asked_directly.as_ref().is_some_and(|asked| asked.sent + ANSWER_TIMEOUT <= now + LOOK) {
            self.settle_directly(Err("the server does not answer".into()));
        }
        self.direct.lasting(now).into_iter().for_each(|held| self.adopt(held));
        if let Some(line) = self.direct.slot.look() {
            self.routes.handle(now, routes::Event::DirectEnded { line: routes::Line(line), broke: None });
        }
        let goes_on = self.direct.is_in_use() || self.asked_directly.is_some();
        self.look_at_direct = goes_on.then(|| now + LOOK);
    }

    /// Takes over the lease of the direct connection, if it is of this kind.
    pub(super) fn take_over(&mut self, which: impl FnOnce(&Held) -> bool) {
        self.direct.claim.take_if(which).into_iter().for_each(|held| self.adopt(held));
    }

    fn adopt(&mut self, Held { acquire, shared }: Held) {
        lock(&self.leases).insert(shared.id, shared.clone());
        self.command(shared.spec.name().clone(), Command::TakeOver { acquire, release: None });
    }

    /// A command about a lease that the machine may not know yet.
    pub(super) fn before(&mut self, command: Command) -> Command {
        match command {
            Command::Renew { id, .. } | Command::Automatic { id, .. } => self.take_over(|held| held.shared.id == id),
            Command::Release { id, question } => {
                if let Some(Held { acquire, shared }) = self.direct.claim.take_if(|held| held.shared.id == id) {
                    lock(&self.leases).insert(id, shared);
                    return Command::TakeOver { acquire, release: question };
                }
            }
            _ => {}
        }
        command
    }

    pub(super) fn hear_caller(&mut self, word: Word) {
        match word {
            Word::Missed => self.routes.handle(Time::now(), routes::Event::DirectWanted),
            Word::Asked(asked) => {
                self.asked_directly = Some(asked);
                self.hear_directly();
            }
            Word::Disturbed => self.take_over(|_| true),
            Word::Open { acquire, whose, broke } => {
                if let Some((line, cause)) = broke {
                    self.routes.handle(Time::now(), routes::Event::DirectEnded { line, broke: Some(cause) });
                    // Machines hear that nothing is connected before they ask again.
                    self.follow();
                }
                self.go_on(acquire, whose);
            }
        }
    }

    fn go_on(&mut self, acquire: DirectAcquire, whose: Whose) {
        let id = acquire.id;
        match whose {
            Whose::Acquire(caller) => {
                let (name, gone) = (caller.spec.name().clone(), caller.resolved.is_closed());
                self.callers.insert(id, caller);
                self.command(name.clone(), Command::TakeOver { acquire, release: None });
                if gone {
                    self.forget_caller(id);
                    self.command(name, Command::Abandon { id });
                }
            }
            Whose::Release(lease, reply) => {
                let name = lease.spec.name().clone();
                if let Command::Release { question, .. } =
                    self.questions.ask(Ask::Release { lease, reply: Some(reply) })
                {
                    self.command(name, Command::TakeOver { acquire, release: question });
                }
            }
        }
    }
}
