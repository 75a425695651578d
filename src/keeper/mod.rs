//! The keeper: the one thread of a client. It owns all protocol state; callers hold thin handles and await channels.
//!
//! # How it works
//!
//! ```text
//!  handles ──messages──▶ loop (this file) ──events──▶ Machine (machine.rs, sessions.rs, waiters.rs, leases.rs)
//!     ▲                    │      ▲                      │
//!     └──armed leases──────┘      └──────effects─────────┘
//!                          │
//!                          ▼
//!                 one connection (server/connection.rs), with pushes
//! ```
//!
//! The machine decides, the loop does: it feeds messages, answers, pushes and the clock in, and carries out what comes
//! out. The machine does no I/O and reads no clock, so property tests, a model checker and mutants work on the real thing.
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
//! that cannot be renewed is declared lost a `notice` before its deadline, which is final.
//!
//! **Giving back.** What is given up — a place, a lease, a grant that nobody wants — becomes a *farewell*, which is
//! repeated until the server has answered (I9). What travels to a caller is an armed lease: dropped on the way, it is
//! given back.
//!
//! **Trouble.** Any error of the connection means that the outcome of all that was under way is unknown. The connection
//! is made anew, the old one is killed first so that nothing of it can run late (I10), and everything is asked again.

mod farewells;
mod handle;
mod leases;
mod machine;
#[cfg(test)]
mod regressions;
mod requests;
mod sessions;
#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)]
mod tests;
mod timers;
mod waiters;

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

pub(crate) use handle::{Acquiring, Caller, Handle, Message, Notes};
pub(crate) use machine::{Command, Outcome, Refusal, margin};
pub(crate) use waiters::Mode;

use self::handle::End;
use self::machine::{ANSWER_TIMEOUT, CallId, Effect, Event, Id, Machine, RequestId};
use crate::clock::Time;
use crate::error::{ConnectError, LostReason};
use crate::guard::{Armed, Shared};
use crate::server::{Answer, Connected, Connection, Endpoint, Failure, Incoming, Previous};

/// While a lease is held the loop looks at the clock at least this often: a sleep does not count suspended time.
const LOOK: Duration = Duration::from_secs(1);
/// Events that are taken in before their effects are carried out.
const BATCH: usize = 256;

type Leases = Arc<Mutex<HashMap<Id, Arc<Shared>>>>;
type Reply = (RequestId, Result<Answer, Failure>);
type Connecting = Pin<Box<dyn Future<Output = Result<Connected, ConnectError>>>>;

/// The outcome of connecting, if that is under way.
async fn established(connecting: &mut Option<Connecting>) -> Result<Connected, ConnectError> {
    match connecting {
        Some(connecting) => connecting.await,
        None => std::future::pending().await,
    }
}

/// What a keeper is started with.
pub(crate) struct Start {
    pub(crate) endpoint: Endpoint,
    pub(crate) client: Arc<str>,
    pub(crate) prefix: Arc<str>,
    pub(crate) channel: Arc<str>,
    /// Told of the first connection. If that fails, the keeper ends. None: connect when there is something to do.
    pub(crate) first: Option<oneshot::Sender<Result<(), ConnectError>>>,
}

/// Starts the thread. It ends when the last handle is dropped and what was pending is given back.
pub(crate) fn start(start: Start) -> Result<Arc<Handle>, ConnectError> {
    let (messages, inbox) = unbounded_channel();
    let (end, notes) = (Arc::new(End::default()), Arc::new(Notes::default()));
    let (client, prefix, channel) = (start.client.clone(), start.prefix.clone(), start.channel.clone());
    let thread = {
        let (messages, end, notes) = (messages.clone(), end.clone(), notes.clone());
        std::thread::Builder::new().name("fairlock-keeper".into()).spawn(move || {
            let leases = Leases::default();
            let run = || -> std::io::Result<()> {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(Keeper::new(start, messages, leases.clone(), end.clone(), notes).run(inbox));
                Ok(())
            };
            // A panic here must not leave anybody believe in a lease that nobody renews. Calls that wait see their
            // channels closed.
            if !matches!(std::panic::catch_unwind(AssertUnwindSafe(run)), Ok(Ok(()))) {
                for shared in lock(&leases).values() {
                    shared.lose(LostReason::KeeperPanicked);
                }
            }
            end.set();
        })
    };
    let thread = thread.map_err(|error| ConnectError::Thread { cause: error.to_string() })?;
    Ok(Arc::new(Handle::new(messages, client, prefix, channel, thread.thread().id(), end, notes)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Keeper {
    endpoint: Endpoint,
    channel: Arc<str>,
    first: Option<oneshot::Sender<Result<(), ConnectError>>>,
    machine: Machine,
    /// For leases on their way to callers: dropped on it, they ask to be given back.
    messages: UnboundedSender<Message>,
    callers: HashMap<Id, Caller>,
    calls: HashMap<CallId, oneshot::Sender<Outcome>>,
    leases: Leases,
    end: Arc<End>,
    notes: Arc<Notes>,

    connection: Option<Connection>,
    connecting: Option<Connecting>,
    /// Counts connections: what an old one still says is not believed.
    generation: u64,
    attempts: u32,
    previous: Option<Previous>,
    replies: FuturesUnordered<Pin<Box<dyn Future<Output = Reply>>>>,
    /// What connections say by themselves, with their generation.
    incoming: UnboundedReceiver<(u64, Incoming)>,
    say: UnboundedSender<(u64, Incoming)>,
    ending: bool,
}

impl Keeper {
    fn new(start: Start, messages: UnboundedSender<Message>, leases: Leases, end: Arc<End>, notes: Arc<Notes>) -> Self {
        let (say, incoming) = unbounded_channel();
        Self {
            endpoint: start.endpoint,
            channel: start.channel,
            first: start.first,
            machine: Machine::new(start.client, start.prefix, fastrand::u64(..)),
            messages,
            callers: HashMap::new(),
            calls: HashMap::new(),
            leases,
            end,
            notes,
            connection: None,
            connecting: None,
            generation: 0,
            attempts: 0,
            previous: None,
            replies: FuturesUnordered::new(),
            incoming,
            say,
            ending: false,
        }
    }

    async fn run(mut self, mut inbox: UnboundedReceiver<Message>) {
        if self.first.is_some() {
            self.connect();
        }
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        loop {
            self.carry_out();
            if self.finished() {
                return;
            }
            let now = Time::now();
            let mut nap = self.machine.next_due().map_or(Duration::from_secs(3600), |due| due.since(now));
            if self.machine.holds_lease() {
                nap = nap.min(LOOK);
            }
            sleep.as_mut().reset(tokio::time::Instant::now() + nap);
            // Answers before pushes: a push is judged by the answers that came before it.
            tokio::select! {
                biased;
                Some(reply) = self.replies.next() => self.answered(reply),
                Some((generation, incoming)) = self.incoming.recv() => self.came_in(generation, incoming),
                Some(message) = inbox.recv() => self.message(message),
                connected = established(&mut self.connecting) => {
                    self.connecting = None;
                    if !self.connected(connected) {
                        return;
                    }
                }
                () = &mut sleep => self.machine.handle(Time::now(), Event::Tick),
            }
            for _ in 0..BATCH {
                if let Some(Some(reply)) = self.replies.next().now_or_never() {
                    self.answered(reply);
                } else if let Ok((generation, incoming)) = self.incoming.try_recv() {
                    self.came_in(generation, incoming);
                } else if let Ok(message) = inbox.try_recv() {
                    self.message(message);
                } else {
                    break;
                }
            }
        }
    }

    fn finished(&self) -> bool {
        // A lease that nobody took is on its way back through the inbox.
        if !self.ending || self.machine.holds_lease() {
            return false;
        }
        let over = self.machine.gives_back_until().is_none_or(|until| until <= Time::now());
        if over {
            self.end.set();
        }
        over
    }

    fn connect(&mut self) {
        if self.connection.is_some() || self.connecting.is_some() {
            return;
        }
        self.generation += 1;
        let (generation, incoming) = (self.generation, self.say.clone());
        let (endpoint, channel, previous) = (self.endpoint.clone(), self.channel.clone(), self.previous.clone());
        // A lost packet must not outlast a short lease.
        let patience = if self.first.is_some() { ANSWER_TIMEOUT } else { self.machine.patience().max(LOOK) };
        // At once, then after 10 ms, doubled up to about a second, half of it by chance.
        let ceiling = if self.attempts == 0 { 0 } else { 5_u64 << self.attempts.min(7) };
        let pause = Duration::from_millis(ceiling / 2 + fastrand::u64(0..=ceiling / 2));
        self.attempts = self.attempts.saturating_add(1);
        self.connecting = Some(Box::pin(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            endpoint.connect(&channel, previous, patience, move |said| drop(incoming.send((generation, said)))).await
        }));
    }

    /// Takes in the outcome of connecting. False: nobody wants this client.
    fn connected(&mut self, result: Result<Connected, ConnectError>) -> bool {
        match result {
            Ok(Connected { connection, previous, can_kill, warning }) => {
                if let Some(warning) = warning.filter(|_| self.previous.is_none()) {
                    self.notes.warn(warning);
                }
                if self.previous.is_some() {
                    self.notes.info("connected again".into());
                }
                self.connection = Some(connection);
                self.previous = previous;
                if let Some(first) = self.first.take() {
                    let _ = first.send(Ok(()));
                }
                self.machine.handle(Time::now(), Event::Connected { can_kill });
            }
            Err(error) => {
                let cause = error.to_string().into();
                if let Some(first) = self.first.take() {
                    let _ = first.send(Err(error));
                    return false;
                }
                self.machine.handle(Time::now(), Event::Disconnected { cause });
                self.connect();
            }
        }
        true
    }

    fn answered(&mut self, (request, result): Reply) {
        if !matches!(result, Err(Failure::Disconnected(_))) {
            self.attempts = 0;
        }
        self.machine.handle(Time::now(), Event::Answered { request, result });
    }

    fn came_in(&mut self, generation: u64, incoming: Incoming) {
        if generation != self.generation {
            return;
        }
        let event = match incoming {
            Incoming::Push(push) => Event::Push(push),
            Incoming::Gone => Event::Disconnected { cause: "the connection was closed".into() },
        };
        // While it is being set up, its end shows there.
        if self.connection.is_some() {
            self.machine.handle(Time::now(), event);
        }
    }

    fn message(&mut self, message: Message) {
        let now = Time::now();
        match message {
            Message::Acquire { id, spec, about, mode, timeout, called, caller } => {
                self.callers.insert(id, caller);
                self.machine.handle(now, Event::Command(Command::Acquire { id, spec, about, mode, timeout, called }));
            }
            Message::Call { call, command, reply } => {
                self.calls.insert(call, reply);
                self.machine.handle(now, Event::Command(command));
            }
            Message::Command(command) => {
                if let Command::Abandon { id } = &command {
                    self.callers.remove(id);
                }
                self.machine.handle(now, Event::Command(command));
            }
            Message::End => self.ending = true,
            #[cfg(feature = "test-hooks")]
            Message::Panic => panic!("the keeper was told to panic by a test"),
        }
        if !self.ending || self.machine.gives_back_until().is_some() {
            self.connect();
        }
    }

    fn carry_out(&mut self) {
        // Carrying out may lead to more.
        loop {
            let effects = self.machine.effects(Time::now());
            if effects.is_empty() {
                return;
            }
            effects.into_iter().for_each(|effect| self.carry_out_one(effect));
        }
    }

    fn carry_out_one(&mut self, effect: Effect) {
        match effect {
            Effect::Send { request, call } => {
                if let Some(connection) = &self.connection {
                    let reply = connection.send(&call);
                    self.replies.push(Box::pin(async move { (request, reply.await) }));
                }
            }
            Effect::Reconnect => {
                if self.connection.take().is_some() {
                    self.notes.warn("the connection was lost, connecting again".into());
                }
                self.replies.clear();
                self.connect();
            }
            Effect::Queued { id, ticket } => {
                if let Some(queued) = self.callers.get_mut(&id).and_then(|caller| caller.queued.take()) {
                    let _ = queued.send(ticket);
                }
            }
            Effect::Granted { id, spec, token, ticket, deadline } => {
                let shared = Arc::new(Shared::new(spec, id, token, ticket, deadline));
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
                    self.machine.handle(Time::now(), Event::NotTaken { id });
                }
            }
            Effect::Done { call, outcome } => {
                if let Some(reply) = self.calls.remove(&call) {
                    let _ = reply.send(outcome);
                }
            }
        }
    }

    fn with_lease(&self, id: Id, act: impl FnOnce(&Shared)) {
        let shared = lock(&self.leases).get(&id).cloned();
        if let Some(shared) = shared {
            act(&shared);
        }
    }
}
