//! The keeper: the one thread of a client. It owns the protocol state; callers hold thin handles and await channels.
//!
//! The numbers I1 to I12 are those of the promises in `docs/guarantees.md`, the words those of `docs/glossary.md`.
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
//! Machines and routes decide, and the loop does what they decide. It feeds messages, answers, pushes and the time to
//! them (`taking_in.rs`), and carries out their effects (`carrying_out.rs`). Machines and routes do no I/O and read no
//! clock, so property tests, model checkers and mutants work on the real code.
//!
//! A machine knows one server, and decides what is asked there. In a cluster each hash slot has its own machine: the
//! failure of one server does not concern the locks of another, and a slot that moves is to its machine a connection
//! that broke. Routes decide which server serves each slot, when to connect, and whom to ask.
//!
//! **Records.** An acquire is one record in its machine, from the call until nothing is left of it. The table in
//! `machine/record.rs` says what it sends in each phase. An answer, a message, a refusal, a timer, a loss of data and a
//! new connection are one act: the record is changed, and then looked at again.
//!
//! **The thread.** The keeper is a plain thread that sleeps in `epoll`, or `poll` (`poller/`). In each round it takes
//! in what sockets and handles have sent, keeping the order of each socket and of the inbox, then the timers that are
//! due; it carries out the effects; and it writes with one system call for each server. Everything that blocks (name
//! look-ups, connecting, logging in) is done on short-lived threads, which end by a deadline and send their result. All
//! threads of the library block signals (`thread.rs`). A message wakes the keeper only if it sleeps (`inbox.rs`). The
//! keeper waits for no lock that another thread may hold (`inbox.rs`, `course.rs`, `wakers/`).
//!
//! **Joining.** An acquire is one request. The server grants the lock at once, or gives a ticket: the place in the
//! queue (I2). A waiter keeps its ticket until its acquire is resolved, and may send its request again at any time (I7,
//! I10).
//!
//! **Staying.** One heartbeat per lock keeps all waiters of this client alive (I11). Its answer shows whether the
//! server still knows them. If it does not, or if the data is not the same (another `epoch`), all waiters re-enter in
//! the order of their tickets (I7).
//!
//! **Hand-off.** The releaser's script makes the next waiter the holder and pushes that to its client: the waiter owns
//! the lock when it wakes (I11). If the push is lost, the answer to the next heartbeat names the lease (I6). If the
//! push is late, its lease counts only if its token is higher than all that this client knew from earlier scripts;
//! otherwise the waiter asks the server first (I4).
//!
//! **Holding.** The local deadline (`course.rs` says who writes it) counts from just before the client sent the request
//! that brought the grant or the last renewal (I4), on a clock that counts suspended time. For a grant that a push
//! brought, that is the last answered request that kept the session alive. This thread sends renewals, whatever the
//! caller's threads do (I12), and for an extended lease as often as for any other, because a renewal shows whether the
//! server still knows the lease. A lease that cannot be renewed is declared lost a `notice` before its deadline, which
//! is final. No code of callers runs on this thread: the waker thread calls their wakers, subscribers of `tracing` and
//! recorders of `metrics` (`wakers/`, `observe.rs`).
//!
//! **Several holders.** How many may hold a lock together is a number in each acquire: a semaphore's, 1000 for a
//! reader, 1 for a lock or a writer. The scripts do the rest. A client may have several leases of one lock, and a reply
//! may name several: each goes to its waiter or lease by its id, and one that nobody here knows goes back. A token
//! above that of a lease says nothing about it. A downgrade is a renewal that asks for more readers; it is repeated
//! until the server has answered, and until then a release brings no seat, since its seat may say `most` 1 still.
//!
//! **Bursts.** Only so many requests are unanswered on a connection. Acquires, leaves and questions beyond that wait in
//! the machine, and are built when there is room (`machine/line.rs`). Renewals and releases do not wait, so they are
//! never behind them (I12). In a cluster the machines that share a connection take turns (`turns.rs`).
//!
//! **Releasing.** A place, a lease or a grant that its caller has given up is a *pending release*: its record leaves,
//! which the keeper repeats until the server answers (I9). A lease on its way to a caller is armed: if it is dropped,
//! it is released. Where the grant has left the lock *calm*, and nothing else of it was sent or heard since, a release
//! is an HDEL of this lease, a plain command. If it removes nothing, somebody came meanwhile, and the script follows.
//!
//! **Trouble.** After an error of the connection the outcome of all requests under way is unknown. The keeper connects
//! again, ends the old connection at the server so that none of its requests can be executed late (I10), and asks
//! everything again. Each request of a holder or waiter tells what the client knows of the lock: a server that was
//! rolled back must hear what it has forgotten before it grants anything, whichever request it executes first (I1, I7).
//! The keeper also leaves a server that answers, but says that it is not the one (`routes/doubt.rs`).
//! A permanent connection error fails calls and acquires at once, but a waiter keeps its place over an error that an
//! operator fixes at the server (I8, `docs/errors.md`).

mod carrying_out;
mod change;
mod course;
mod handle;
mod inbox;
mod machine;
mod message;
mod network;
mod observe;
mod poller;
mod questions;
mod routes;
mod shared;
mod starter;
mod taking_in;
#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)]
mod tests;
mod timers;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use handle::{Acquiring, Handle};
pub(crate) use inbox::Outbox;
pub(crate) use machine::{Command, Mode, NotGranted, Release, Renewal};
pub(crate) use message::{Caller, Message};
pub(crate) use observe::Hold;
pub(crate) use shared::{OwnedLease, Shared};

use self::inbox::{Inbox, inbox};
use self::machine::{Event, Id, Machine, Question, QuestionId};
use self::message::End;
use self::network::Network;
use self::poller::{Poller, poller};
use self::questions::Questions;
use self::routes::Routes;
use self::starter::Starter;
use self::turns::Turns;
use crate::clock::Time;
use crate::error::{ConnectError, LostReason};
use crate::fork::Process;
use crate::mutex::lock;
use crate::protocol::ClientId;
use crate::server::{Slot, Target};
use crate::thread::caught;
use crate::wakers::{IsKeeper, Wakers};

/// While something is due the loop looks at the clock at least this often: a sleep does not count suspended time.
const LOOK: Duration = Duration::from_secs(1);
/// How soon the keeper tries again to pass on wakers, while another thread has their queue.
const SOON: Duration = Duration::from_millis(1);
/// The most events that are taken in before their effects are carried out.
const BATCH: usize = 256;
/// A question whose answer nobody awaits.
const NOBODY: QuestionId = QuestionId(0);

type Leases = Arc<Mutex<HashMap<Id, Arc<Shared>>>>;

/// The parameters of a keeper.
pub(crate) struct Start {
    pub(crate) target: Target,
    pub(crate) client: ClientId,
    pub(crate) prefix: Arc<str>,
    /// Receives the outcome of the first connection. If that fails, the keeper ends. None: the keeper starts with the
    /// first message, and connects when there is something to do.
    pub(crate) first: Option<oneshot::Sender<Result<(), ConnectError>>>,
}

/// Starts the thread, or lets the first message start it. It ends when the last handle is dropped and all pending
/// releases are answered.
pub(crate) fn start(start: Start) -> Result<Arc<Handle>, ConnectError> {
    let thread_error = |error: std::io::Error| ConnectError::Thread { cause: error.into() };
    observe::describe();
    let wakers = Wakers::of_this_process();
    let (notifier, poller) = poller().map_err(thread_error)?;
    let (messages, inbox) = inbox(notifier);
    let process = Process::this();
    let end = Arc::new(End::default());
    let (client, prefix, at_once) = (start.client.clone(), start.prefix.clone(), start.first.is_some());
    let starter = {
        let (messages, end, wakers) = (messages.clone(), end.clone(), wakers.clone());
        Starter::new(move || {
            let _is_keeper = IsKeeper::new(&wakers);
            let (teller, of) = (wakers.clone(), start.client.clone());
            let leases = Leases::default();
            let run = || {
                Keeper::new(start, poller, messages, wakers, leases.clone(), end.clone()).run(inbox);
            };
            // A panic here must not leave a holder believing in a lease that is not renewed any more. Waiting callers
            // see their channels closed.
            if let Err(text) = caught(run) {
                observe::panicked(&teller, &of, text);
                for shared in lock(&leases).values() {
                    shared.end(LostReason::KeeperPanicked);
                }
            }
            end.set();
        })
    };
    if at_once {
        starter.start(&wakers).map_err(thread_error)?;
    }
    Ok(Arc::new(Handle::new(messages, starter, wakers, client, prefix, process, end)))
}

/// How long the loop sleeps if nothing happens.
fn nap(now: Time, due: Option<Time>) -> Duration {
    due.map_or(Duration::from_secs(3600), |due| due.since(now).min(LOOK))
}

struct Keeper {
    client: ClientId,
    prefix: Arc<str>,
    first: Option<oneshot::Sender<Result<(), ConnectError>>>,
    /// Which server serves each lock.
    routes: Routes,
    network: Network,
    /// One machine for each slot that this client has used: a single one, unless the server is a cluster.
    machines: BTreeMap<Slot, Machine>,
    /// When each machine wants to check the clock again, if it does.
    due: BTreeSet<(Time, Slot)>,
    /// The machines that have taken in events since their effects were carried out, and when they were due before.
    dirty: BTreeMap<Slot, Option<Time>>,
    /// The machines whose requests wait for room.
    turns: Turns,
    /// Slots with a command since their effects were carried out, each with the name of one of its locks.
    used: BTreeMap<Slot, Arc<str>>,
    /// For leases on their way to callers: if they are dropped, they send their release here.
    messages: Outbox<Message>,
    /// For callers that await the loss of a lease.
    wakers: Arc<Wakers>,
    callers: HashMap<Id, Caller>,
    questions: Questions,
    leases: Leases,
    end: Arc<End>,
    closed: bool,
    ending: bool,
}

impl Keeper {
    fn new(
        start: Start,
        poller: Poller,
        messages: Outbox<Message>,
        wakers: Arc<Wakers>,
        leases: Leases,
        end: Arc<End>,
    ) -> Self {
        let (client, prefix) = (start.client, start.prefix);
        let network = Network::new(start.target, prefix.clone(), poller, messages.clone());
        Self {
            routes: Routes::new(
                Time::now(),
                network.shape(),
                client.clone(),
                prefix.clone(),
                fastrand::u64(..),
                start.first.is_some(),
            ),
            network,
            client,
            prefix,
            first: start.first,
            machines: BTreeMap::new(),
            due: BTreeSet::new(),
            dirty: BTreeMap::new(),
            turns: Turns::default(),
            used: BTreeMap::new(),
            messages,
            wakers,
            callers: HashMap::new(),
            questions: Questions::default(),
            leases,
            end,
            closed: false,
            ending: false,
        }
    }

    /// A round: carry out effects, write, sleep, take in what has come.
    fn run(mut self, mut inbox: Inbox<Message>) {
        inbox.belongs_here();
        loop {
            self.carry_out();
            if self.finished() {
                return;
            }
            let machines_due = self.due.first().map(|&(due, _)| due);
            let next_due = machines_due.into_iter().chain(self.routes.next_due()).chain(self.network.next_due()).min();
            let longest = if inbox.fall_asleep() { nap(Time::now(), next_due) } else { Duration::ZERO };
            let nap = if self.wakers.pass_on() { longest } else { longest.min(SOON) };
            self.network.sleep(nap);
            inbox.wake_up();
            self.pass_network_events_to_routes();
            for message in std::iter::from_fn(|| inbox.next()).take(BATCH) {
                self.take_in(message);
            }
            // Everything that has come is taken in before timeouts are judged.
            self.tick();
        }
    }

    /// Passes the network's reports to the routes.
    fn pass_network_events_to_routes(&mut self) {
        for event in self.network.events() {
            self.routes.handle(Time::now(), event);
            self.carry_out_for_routes();
        }
    }

    /// Whether no handle is left, and everything is given back that the server does not forget by itself. A client that
    /// was closed waits for all answers.
    fn finished(&mut self) -> bool {
        // A lease that its caller did not take is on its way back through the inbox.
        if !(self.ending || self.closed) || !lock(&self.leases).is_empty() {
            return false;
        }
        let mut given_back = self.machines.values().filter_map(Machine::gives_back_until);
        let over = given_back.all(|until| self.ending && until <= Time::now());
        if over {
            // The handles of a closed client may outlive its servers.
            self.routes.hang_up();
            self.carry_out_for_routes();
            self.end.set();
        }
        over && self.ending
    }

    /// The machine of this slot takes in an event.
    fn tell_machine(&mut self, slot: Slot, event: Event) {
        let machine = self.machines.entry(slot).or_insert_with(|| {
            let mut machine = Machine::new(self.client.clone(), self.prefix.clone(), fastrand::u64(..));
            if self.closed {
                let close = Command::Ask { number: NOBODY, question: Question::Close };
                machine.handle(Time::now(), Event::Command(close));
            }
            machine
        });
        self.dirty.entry(slot).or_insert_with(|| machine.next_due());
        machine.handle(Time::now(), event);
    }

    fn tick(&mut self) {
        let now = Time::now();
        let due: Vec<Slot> = self.due.range(..=(now, Slot::MAX)).map(|(_, slot)| *slot).collect();
        due.into_iter().for_each(|slot| self.tell_machine(slot, Event::Tick));
        if self.routes.next_due().is_some_and(|due| due <= now) {
            self.routes.handle(now, routes::Event::Tick);
        }
        self.network.renew_logins(now);
    }

    /// Carries out the decisions of the routes.
    fn carry_out_for_routes(&mut self) {
        for effect in self.routes.effects() {
            match effect {
                // A user with the right to publish may name any lock: no machine is made for it.
                routes::Effect::Tell { slot, event: Event::Push(_) } if !self.machines.contains_key(&slot) => {}
                routes::Effect::Tell { slot, event } => self.tell_machine(slot, event),
                routes::Effect::First(result) => {
                    self.ending |= result.is_err();
                    if let Some(first) = self.first.take() {
                        let _ = first.send(result);
                    }
                }
                routes::Effect::LogRecord(record) => observe::note(&self.wakers, &self.client, record),
                effect => self.network.carry_out(effect),
            }
        }
    }
}
