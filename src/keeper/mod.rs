//! The keeper: the one thread of a client. It owns all protocol state; callers hold thin handles and await channels.
//!
//! # How it works
//!
//! ```text
//!  handles ──messages──▶ loop (this file) ◀──events, effects──▶ a Machine for each slot (machine/)
//!     ▲                    │      ▲
//!     └──armed leases──────┘      └────────events, effects──▶ Routes (routes/)
//!                          │
//!                          ▼
//!        network.rs: a socket to each server (server/wire.rs), threads that connect (server/setup.rs)
//! ```
//!
//! Machines and routes decide, the loop does: it feeds messages, answers, pushes and the clock in, and carries out what
//! comes out. Both do no I/O and read no clock, so property tests, model checkers and mutants work on the real thing.
//!
//! In a machine each lock has a state of its own, which owns its waiters, leases and pending releases (`machine/lock.rs`);
//! the phases of a waiter are a table in `machine/waiter.rs`. A machine knows one server, and decides what is asked there. In a cluster each hash slot has a machine of its own, so
//! that what happens to one server is of no concern to the locks of another, and a slot that moves is to its machine a
//! connection that broke. Routes decide which server serves each slot, when to connect, and whom to ask.
//!
//! **The thread.** The keeper is a plain thread that sleeps in `poll`. A round takes in what sockets and handles have
//! said, in the order in which each said it, then what is due; carries out what was decided; and writes with one system
//! call for each server. Whatever blocks (name look-ups, connecting, logging in) is done on short-lived threads, which end
//! by a deadline and post their result. A message wakes the keeper only if it sleeps (`inbox.rs`).
//!
//! **Joining.** An acquire is one request. The server grants at once, or gives a ticket: the place in the queue (I2). A
//! waiter keeps its ticket until its acquire is resolved, and may send it again at any time (I7, I10).
//!
//! **Staying.** One heartbeat per lock keeps all waiters of this client alive (I11). Its answer shows whether the server
//! still knows them; if it does not, or its data is another (`epoch`), all re-enter in the order of their tickets (I7).
//!
//! **Hand-off.** The releaser's script makes the next waiter the holder and pushes that to its client: it owns the lock
//! when it wakes (I11). A push may be lost: then the next heartbeat's answer names the lease (I6). A push may be late:
//! it is believed only if its token is higher than any that an answer has named, otherwise confirmed first (I4).
//!
//! **Holding.** A local deadline is counted from before the request that last prolonged the lease was sent (I4), on a
//! clock that counts suspended time. Renewals go out from this thread, whatever the caller's threads do (I12). A lease
//! that cannot be renewed is declared lost a `notice` before its deadline, which is final. No code of callers runs here:
//! their wakers and their subscribers of `tracing` are called on a thread for wakers (`wakers.rs`).
//!
//! **Giving back.** A place, a lease or a grant that nobody wants any more becomes a *pending release*, which is repeated
//! until the server has answered (I9). What travels to a caller is an armed lease: dropped on the way, it is given back.
//!
//! **Trouble.** Any error of the connection means that the outcome of all that was under way is unknown. The connection
//! is made anew, the old one is killed first so that nothing of it can run late (I10), and everything is asked again. The
//! first waiter of each lock re-enters before the heartbeat, which says nothing of what was known: a server that was
//! rolled back may still know them all, and must hear what it has forgotten before it grants anything (I7). An error of
//! connecting that waiting does not mend ends calls and acquires at once; a waiter keeps its place over what an operator
//! mends at the server (I8; the table is docs/errors.md).

mod handle;
mod inbox;
mod machine;
mod network;
mod questions;
mod routes;
#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)]
mod tests;
mod timers;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::AsFd as _;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use handle::{Acquiring, Caller, Handle, Message, Notes};
pub(crate) use inbox::Outbox;
pub(crate) use machine::{Command, Mode, Refusal, Release, Renewal};

use self::handle::End;
use self::inbox::{Inbox, inbox};
use self::machine::{Effect, Event, Id, Machine, QuestionId};
use self::network::{Network, SetUp};
use self::questions::Questions;
use self::routes::Routes;
use crate::clock::Time;
use crate::error::{ConnectError, LostReason};
use crate::guard::{Armed, Shared};
use crate::server::{Slot, Target};
use crate::wakers::Wakers;

/// While something is due the loop looks at the clock at least this often: a sleep does not count suspended time.
const LOOK: Duration = Duration::from_secs(1);
/// Events that are taken in before their effects are carried out.
const BATCH: usize = 256;
/// A question whose answer nobody awaits.
const NOBODY: QuestionId = QuestionId(0);

type Leases = Arc<Mutex<HashMap<Id, Arc<Shared>>>>;

/// What a keeper is started with.
pub(crate) struct Start {
    pub(crate) target: Target,
    pub(crate) client: Arc<str>,
    pub(crate) prefix: Arc<str>,
    /// Told of the first connection. If that fails, the keeper ends. None: connect when there is something to do.
    pub(crate) first: Option<oneshot::Sender<Result<(), ConnectError>>>,
}

/// Starts the thread. It ends when the last handle is dropped and what was pending is given back.
pub(crate) fn start(start: Start) -> Result<Arc<Handle>, ConnectError> {
    let thread_error = |error: std::io::Error| ConnectError::Thread { cause: error.into() };
    let wakers = Wakers::of_this_process().map_err(thread_error)?;
    let (messages, inbox) = inbox().map_err(thread_error)?;
    let end = Arc::new(End::default());
    let (client, prefix) = (start.client.clone(), start.prefix.clone());
    let notes = Notes::new(wakers.clone(), client.clone());
    let thread = {
        let (messages, end, wakers) = (messages.clone(), end.clone(), wakers.clone());
        std::thread::Builder::new().name("fairlock-keeper".into()).spawn(move || {
            let leases = Leases::default();
            let run = || Keeper::new(start, messages, wakers, leases.clone(), end.clone(), notes).run(inbox);
            // A panic here must not leave anybody believe in a lease that nobody renews. Calls that wait see their
            // channels closed.
            if std::panic::catch_unwind(AssertUnwindSafe(run)).is_err() {
                for shared in lock(&leases).values() {
                    shared.lose(LostReason::KeeperPanicked);
                }
            }
            end.set();
        })
    };
    let keeper = thread.map_err(thread_error)?.thread().id();
    Ok(Arc::new(Handle::new(messages, wakers, client, prefix, keeper, end)))
}

/// How long the loop sleeps if nothing happens.
fn nap(now: Time, due: Option<Time>) -> Duration {
    due.map_or(Duration::from_secs(3600), |due| due.since(now).min(LOOK))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Keeper {
    client: Arc<str>,
    prefix: Arc<str>,
    first: Option<oneshot::Sender<Result<(), ConnectError>>>,
    /// Which server serves each lock.
    routes: Routes,
    network: Network,
    notes: Notes,
    /// One for each slot that this client has had to do with: a single one, unless the server is a cluster.
    machines: BTreeMap<Slot, Machine>,
    /// When each machine wants to look at the clock again, as far as it does.
    due: BTreeSet<(Time, Slot)>,
    /// Those that have taken in events since their effects were carried out, and when they were due before that.
    stirred: BTreeMap<Slot, Option<Time>>,
    /// For leases on their way to callers: dropped on it, they ask to be given back.
    messages: Outbox<Message>,
    /// For those who await the loss of a lease.
    wakers: Arc<Wakers>,
    callers: HashMap<Id, Caller>,
    questions: Questions,
    leases: Leases,
    end: Arc<End>,
    closed: bool,
    ending: bool,
    /// The first attempt to connect failed.
    unwanted: bool,
}

impl Keeper {
    fn new(
        start: Start,
        messages: Outbox<Message>,
        wakers: Arc<Wakers>,
        leases: Leases,
        end: Arc<End>,
        notes: Notes,
    ) -> Self {
        let (client, prefix) = (start.client, start.prefix);
        Self {
            routes: Routes::new(
                Time::now(),
                Network::shape(&start.target),
                client.clone(),
                prefix.clone(),
                fastrand::u64(..),
                start.first.is_some(),
            ),
            network: Network::new(start.target, messages.clone()),
            notes,
            client,
            prefix,
            first: start.first,
            machines: BTreeMap::new(),
            due: BTreeSet::new(),
            stirred: BTreeMap::new(),
            messages,
            wakers,
            callers: HashMap::new(),
            questions: Questions::default(),
            leases,
            end,
            closed: false,
            ending: false,
            unwanted: false,
        }
    }

    /// A round: do what was decided, write it, sleep, take in what has come.
    fn run(mut self, mut inbox: Inbox<Message>) {
        loop {
            self.carry_out();
            if self.finished() {
                return;
            }
            let due = self.due.first().map(|&(due, _)| due).into_iter().chain(self.routes.next_due()).min();
            let longest = if inbox.fall_asleep() { nap(Time::now(), due) } else { Duration::ZERO };
            let rung = self.network.sleep(inbox.as_fd(), longest);
            inbox.wake_up(rung);
            self.hear();
            for message in std::iter::from_fn(|| inbox.next()).take(BATCH) {
                self.message(message);
            }
            // What has come is taken in before it is judged what has not.
            self.tick();
        }
    }

    /// Routes hear what the network says.
    fn hear(&mut self) {
        for event in self.network.events() {
            self.routes.handle(Time::now(), event);
            self.follow();
        }
    }

    fn finished(&self) -> bool {
        if self.unwanted {
            return true;
        }
        // A lease that nobody took is on its way back through the inbox.
        if !self.ending || !lock(&self.leases).is_empty() {
            return false;
        }
        let until = self.machines.values().filter_map(Machine::gives_back_until).max();
        let over = until.is_none_or(|until| until <= Time::now());
        if over {
            self.end.set();
        }
        over
    }

    /// The machine of this slot takes in an event.
    fn feed(&mut self, slot: Slot, event: Event) {
        let machine = self.machines.entry(slot).or_insert_with(|| {
            let mut machine = Machine::new(self.client.clone(), self.prefix.clone(), fastrand::u64(..));
            if self.closed {
                machine.handle(Time::now(), Event::Command(Command::Close { question: NOBODY }));
            }
            machine
        });
        self.stirred.entry(slot).or_insert_with(|| machine.next_due());
        machine.handle(Time::now(), event);
    }

    fn tick(&mut self) {
        let now = Time::now();
        let due: Vec<Slot> = self.due.range(..=(now, Slot::MAX)).map(|(_, slot)| *slot).collect();
        due.into_iter().for_each(|slot| self.feed(slot, Event::Tick));
        if self.routes.next_due().is_some_and(|due| due <= now) {
            self.routes.handle(now, routes::Event::Tick);
        }
    }

    /// Does what routes have decided.
    fn follow(&mut self) {
        for effect in self.routes.effects() {
            match effect {
                // Whoever may publish may name any lock: that makes no machine for it.
                routes::Effect::Tell { slot, event: Event::Push(_) } if !self.machines.contains_key(&slot) => {}
                routes::Effect::Tell { slot, event } => self.feed(slot, event),
                routes::Effect::First(result) => {
                    self.unwanted = result.is_err();
                    if let Some(first) = self.first.take() {
                        let _ = first.send(result);
                    }
                }
                routes::Effect::Note { warning: true, text } => self.notes.warn(text),
                routes::Effect::Note { warning: false, text } => self.notes.info(text),
                effect => self.network.carry_out(effect),
            }
        }
    }

    fn message(&mut self, message: Message) {
        let (lock, command) = match message {
            Message::Acquire { id, spec, about, mode, timeout, called, caller } => {
                self.callers.insert(id, caller);
                (spec.name().clone(), Command::Acquire { id, spec, about, mode, timeout, called })
            }
            Message::Ask { lock, ask } => (lock, self.questions.ask(ask)),
            Message::Command { lock, command } => {
                if let Command::Abandon { id } = &command {
                    self.callers.remove(id);
                }
                (lock, command)
            }
            Message::Trouble { lock, reply } => {
                let machine = self.machines.get(&self.routes.slot(&lock));
                let _ = reply.send(machine.and_then(Machine::trouble));
                return;
            }
            Message::Close { reply } => return self.close(reply),
            Message::SetUp(done) => return self.set_up(done),
            Message::End => {
                self.ending = true;
                return;
            }
            #[cfg(feature = "__test-hooks")]
            Message::Panic => panic!("the keeper was told to panic by a test"),
        };
        let slot = self.routes.slot(&lock);
        self.feed(slot, Event::Command(command));
        if let Some(machine) = self.machines.get(&slot)
            && (!self.ending || machine.gives_back_until().is_some())
        {
            let patience = machine.patience();
            self.routes.handle(Time::now(), routes::Event::Want { slot, name: lock, patience });
            self.follow();
        }
    }

    fn set_up(&mut self, done: SetUp) {
        let event = self.network.set_up(done);
        let line = if let routes::Event::Ready { line, .. } = &event { Some(*line) } else { None };
        self.routes.handle(Time::now(), event);
        self.follow();
        // The server may have said something with the last words of the set-up.
        line.into_iter().for_each(|line| self.network.receive(line));
        self.hear();
    }

    fn close(&mut self, reply: oneshot::Sender<()>) {
        self.closed = true;
        let machines: Vec<Slot> = self.machines.keys().copied().collect();
        let question = self.questions.close(machines.len(), reply);
        machines.into_iter().for_each(|slot| self.feed(slot, Event::Command(Command::Close { question })));
    }

    fn carry_out(&mut self) {
        // Carrying out may lead to more.
        loop {
            self.follow();
            let Some((slot, was_due)) = self.stirred.pop_first() else {
                self.network.flush();
                if self.network.events_are_due() {
                    self.hear();
                    continue;
                }
                return;
            };
            let Some(machine) = self.machines.get_mut(&slot) else { continue };
            let now = Time::now();
            let effects = machine.effects(now);
            let (due, patience) = (machine.next_due(), machine.patience());
            self.routes.handle(now, routes::Event::Patience { slot, patience });
            if due != was_due {
                was_due.map(|due| self.due.remove(&(due, slot)));
                due.map(|due| self.due.insert((due, slot)));
            }
            effects.into_iter().for_each(|effect| self.carry_out_one(slot, effect));
        }
    }

    fn carry_out_one(&mut self, slot: Slot, effect: Effect) {
        match effect {
            Effect::Send { request, call } => {
                self.routes.handle(Time::now(), routes::Event::Send { slot, request, call });
            }
            Effect::Replicate { request, keys, replicas, within } => {
                let event = routes::Event::Replicate { slot, request, keys, replicas, within };
                self.routes.handle(Time::now(), event);
            }
            Effect::Reconnect => self.routes.handle(Time::now(), routes::Event::GiveUp { slot }),
            Effect::Queued { id, ticket } => {
                if let Some(queued) = self.callers.get_mut(&id).and_then(|caller| caller.queued.take()) {
                    let _ = queued.send(ticket);
                }
            }
            Effect::Granted { id, spec, token, ticket, deadline } => {
                let shared = Arc::new(Shared::new(spec, id, token, ticket, deadline, self.wakers.clone()));
                lock(&self.leases).insert(id, shared.clone());
                // Nobody there to take it: dropping it gives it back.
                let armed = Armed::new(shared, self.messages.clone());
                if let Some(caller) = self.callers.remove(&id) {
                    let _ = caller.resolved.send(Ok(armed));
                    caller.queued.map(|queued| queued.send(ticket));
                }
            }
            Effect::Refused { id, why } => {
                if let Some(caller) = self.callers.remove(&id) {
                    let _ = caller.resolved.send(Err(why));
                }
            }
            Effect::Prolonged { id, deadline } => self.with_lease(id, |shared| shared.prolong(deadline)),
            Effect::Lost { id, reason } => self.with_lease(id, |shared| shared.lose(reason)),
            Effect::Forgotten { id } => drop(lock(&self.leases).remove(&id)),
            Effect::CheckTaken { id } => {
                let mut reclaimed = false;
                self.with_lease(id, |shared| reclaimed = shared.reclaim());
                if reclaimed {
                    self.feed(slot, Event::NotTaken { id });
                }
            }
            Effect::Answer { question, outcome } => self.questions.answer(question, outcome),
        }
    }

    fn with_lease(&self, id: Id, act: impl FnOnce(&Shared)) {
        let shared = lock(&self.leases).get(&id).cloned();
        if let Some(shared) = shared {
            act(&shared);
        }
    }
}
