//! A few clients, one server, the network between them, and true time.

use std::sync::Arc;
use std::time::Duration;

use super::clients::Client;
use super::losses::Basis;
use super::on_write::OnWrite;
use super::server::Server;
use crate::keeper::machine::{Command, Event, Question};
use crate::options::{LockOptions, Spec};
use crate::protocol::{LockKeys, Refusal};

pub(super) const MS: u64 = 1_000_000;
/// How long anything takes on its way while nothing disturbs it.
pub(super) const LATENCY: u64 = MS / 2;

/// Room for all requests at once.
pub(super) const WIDE: usize = 1000;
/// The steps of a world in which one client may send a million heartbeats while another sends one.
const BUDGET: u64 = 10_000;

/// What a world is made of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    pub(super) locks: usize,
    /// By how many millionths each client's clock is fast.
    pub(super) fast: Vec<i64>,
    /// Whether each may kill its old connections.
    pub(super) can_kill: Vec<bool>,
    /// How long each script takes.
    pub(super) script: u64,
    /// How many requests of a client may be unanswered.
    pub(super) window: usize,
    /// Options that callers choose from; the usual ones if there are none.
    pub(super) times: Vec<Times>,
    /// By how much longer than usual the spans of a schedule are.
    pub(super) scale: u64,
    /// How many slots callers ask for, in turn.
    pub(super) slots: Vec<u32>,
}

/// The times in a caller's options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) lease: Duration,
    pub(super) liveness: Duration,
    pub(super) buffer: Duration,
    pub(super) by_hand: bool,
}

impl Plan {
    /// Clients with the usual options, which may kill their connections.
    pub(super) fn usual(clients: usize, locks: usize) -> Self {
        Self {
            clients,
            locks,
            fast: vec![0],
            can_kill: vec![true],
            script: 3_000,
            window: WIDE,
            times: vec![],
            scale: 1,
            slots: vec![1],
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct World {
    /// True time, in ns.
    pub(super) now: u64,
    pub(super) script: u64,
    pub(super) scale: u64,
    pub(super) server: Server,
    pub(super) clients: Vec<OnWrite<Client>>,
    pub(super) specs: Arc<[Vec<Arc<Spec>>]>,
    /// The first promise that was broken.
    pub(super) broken: Option<String>,
    pub(super) steps: u64,
    /// The number of steps after which the world ends without a judgement.
    pub(super) budget: u64,
    /// Messages get lost, all of them.
    pub(super) no_pushes: bool,
    pub(super) trace: bool,
}

/// What happens next when nobody disturbs it.
enum Next {
    Tick(usize),
    Take(usize),
    Execute(usize),
    Answer(usize),
    Push(usize),
    Replicas(usize),
    Connect(usize),
}

impl World {
    pub(super) fn new(plan: &Plan) -> Self {
        let keys: Vec<_> =
            (0..plan.locks).map(|lock| Arc::new(LockKeys::new("fairlock", &format!("lock {lock}")))).collect();
        let clients = (0..plan.clients)
            .map(|index| {
                let (fast, can_kill) = (plan.fast[index % plan.fast.len()], plan.can_kill[index % plan.can_kill.len()]);
                Client::new(index, fast, can_kill, plan.window).into()
            })
            .collect();
        Self {
            now: MS,
            script: plan.script,
            scale: plan.scale,
            server: Server::new(&keys),
            clients,
            specs: keys.iter().map(|keys| specs(keys, &plan.times, &plan.slots)).collect(),
            broken: None,
            steps: 0,
            budget: if plan.times.is_empty() { u64::MAX } else { BUDGET },
            no_pushes: false,
            trace: false,
        }
    }

    /// Whether nothing more is to be seen here.
    pub(super) fn is_over(&self) -> bool {
        self.broken.is_some() || self.steps > self.budget
    }

    pub(super) fn fail(&mut self, what: String) {
        self.tell(|_| format!("BROKEN: {what}"));
        self.broken.get_or_insert(what);
    }

    pub(super) fn tell(&self, what: impl FnOnce(&Self) -> String) {
        if self.trace {
            eprintln!("{:>10.3} ms  {}", self.now as f64 / 1e6, what(self));
        }
    }

    // ---- the clients ----

    /// Feeds one client with events that arrive together, and carries out their effects.
    pub(super) fn feed(&mut self, index: usize, basis: Basis, events: impl IntoIterator<Item = Event>) {
        let client = &mut self.clients[index];
        if !client.runs() {
            return;
        }
        let local = client.clock(self.now);
        let before = client.machine.highest_stamps(local);
        let sent = client.link.as_ref().map_or(0, |link| link.out.len());
        for event in events {
            if self.trace {
                eprintln!("{:>10.3} ms  {} <- {event:?}", self.now as f64 / 1e6, client.name);
            }
            client.machine.handle(local, event);
        }
        if self.trace {
            eprintln!("{:>10.3} ms  {} -> {:?}", self.now as f64 / 1e6, client.name, client.machine.core.effects);
        }
        let carried_out = client.carry_out(self.now, basis);
        let silent = client.judge_words(local, &before, sent);
        if let Some(what) = carried_out.err().or(silent) {
            self.fail(what);
        }
        self.judge_client(index);
    }

    /// The keeper takes in what its handles said, up to so many messages at once.
    pub(super) fn take_in(&mut self, index: usize, most: usize) {
        if !self.clients[index].runs() {
            return;
        }
        let client = &mut self.clients[index];
        let local = client.clock(self.now);
        let mut events = Vec::new();
        for _ in 0..most {
            let Some((_, command)) = client.inbox.pop_front() else { break };
            client.pace.reasons += 1;
            match &command {
                Command::Acquire { id, .. } => {
                    if let Some(acquire) = client.acquires.get_mut(id) {
                        acquire.known = true;
                    }
                }
                Command::Abandon { id } => drop(client.acquires.remove(id)),
                Command::Ask { number, question: Question::Release { id } } => {
                    let deadline = client.machine.lease(*id).map_or(local, |lease| lease.deadline());
                    client.questions.insert(*number, Some(deadline.max(local)));
                }
                // It lasts as long as its lease may.
                Command::Ask { number, question: Question::Downgrade { .. } } => {
                    client.questions.insert(*number, None);
                }
                Command::Ask { number, question } => {
                    let seconds = if let Question::Close = question { 1 } else { 5 };
                    client.questions.insert(*number, Some(local + Duration::from_secs(seconds)));
                }
                Command::GiveBack { .. } | Command::Automatic { .. } => {}
            }
            events.push(Event::Command(command));
        }
        if events.is_empty() {
            return;
        }
        self.feed(index, self.server.basis, events);
        let client = &mut self.clients[index];
        if !client.ending || client.machine.gives_back_until().is_some() {
            client.connect(self.now);
        }
    }

    pub(super) fn tick(&mut self, index: usize) {
        self.feed(index, self.server.basis, [Event::Tick]);
    }

    // ---- time ----

    /// Time passes; keepers that run are woken when they asked for it.
    pub(super) fn pass(&mut self, span: u64) {
        let end = self.now + span;
        let mut wakes = 0;
        while let Some((due, index)) = self.first_due().filter(|(due, _)| *due <= end) {
            self.now = self.now.max(due);
            self.tick(index);
            self.judge();
            wakes += 1;
            if self.budget < u64::MAX {
                self.steps += 1;
            }
            if self.is_over() {
                return;
            }
            if wakes > 10_000 {
                return self.fail(format!("{} is due for ever", self.clients[index].name));
            }
        }
        self.now = self.now.max(end);
    }

    pub(super) fn first_due(&self) -> Option<(u64, usize)> {
        self.clients.iter().enumerate().filter_map(|(index, client)| Some((client.due()?, index))).min()
    }

    /// Time passes, and all goes its way: whatever was sent arrives a little later.
    pub(super) fn flow(&mut self, span: u64) {
        let end = self.now + span;
        while self.flow_once(end) && !self.is_over() {}
        self.now = self.now.max(end);
    }

    /// The next thing that happens by itself before `end`, and is judged. False: nothing does.
    pub(super) fn flow_once(&mut self, end: u64) -> bool {
        let Some((at, next)) = self.next().filter(|(at, _)| *at <= end) else { return false };
        self.now = self.now.max(at);
        self.steps += 1;
        match next {
            Next::Tick(index) => self.tick(index),
            Next::Take(index) => self.take_in(index, 4),
            Next::Execute(index) => self.execute(index, 1),
            Next::Answer(index) => self.answer(index, 1),
            Next::Push(index) => self.push(index, 0),
            Next::Replicas(index) => self.replicas(index, true),
            Next::Connect(index) => self.connected(index),
        }
        self.judge();
        true
    }

    fn next(&self) -> Option<(u64, Next)> {
        let mut best: Option<(u64, Next)> = None;
        let mut offer = |at: Option<u64>, next: Next| {
            if let Some(at) = at
                && best.as_ref().is_none_or(|(other, _)| at < *other)
            {
                best = Some((at, next));
            }
        };
        for (index, client) in self.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            if let Some(link) = client.link.as_ref() {
                let later = |at: &u64| at + LATENCY;
                if self.server.up && !link.dead {
                    offer(link.out.front().map(|(at, ..)| later(at)), Next::Execute(index));
                }
                if client.runs() {
                    offer(link.back.front().map(|(at, _)| later(at)), Next::Answer(index));
                    offer(link.pushes.front().map(|(at, ..)| later(at)), Next::Push(index));
                    offer(link.questions.front().map(|(at, ..)| later(at)), Next::Replicas(index));
                }
            }
            if client.runs() {
                offer(client.inbox.front().map(|(at, _)| *at), Next::Take(index));
                if self.server.up {
                    offer(client.connecting.map(|at| at + LATENCY), Next::Connect(index));
                }
                offer(client.due(), Next::Tick(index));
            }
        }
        best
    }

    /// The server refuses this, or goes on.
    pub(super) fn refuse(&mut self, refusal: Option<Refusal>) {
        self.server.refuses = refusal;
    }
}

/// Options that differ in which of their times is the longest, and in how they renew. The first are the most common.
fn specs(keys: &LockKeys, times: &[Times], slots: &[u32]) -> Vec<Arc<Spec>> {
    let mut slots = slots.iter().cycle();
    let of = |options: LockOptions| {
        let slots = *slots.next().expect("there is one");
        options.slots(slots).of(LockKeys::new("fairlock", &keys.name)).unwrap()
    };
    let with = |lease, liveness, buffer| LockOptions::new().lease(lease).liveness(liveness).buffer(buffer);
    if !times.is_empty() {
        let with = |&Times { lease, liveness, buffer, by_hand }: &Times| {
            let options = with(lease, liveness, buffer);
            if by_hand { options.manual_renewal() } else { options }
        };
        return times.iter().map(with).map(of).collect();
    }
    let ms = Duration::from_millis;
    let with = |lease, liveness, buffer| with(ms(lease), ms(liveness), ms(buffer));
    let all = [
        with(900, 300, 60),
        with(3000, 300, 60),
        with(600, 300, 60).manual_renewal(),
        with(300, 900, 200),
        // It joins no long queue.
        with(600, 300, 60).max_hold(ms(1500)).max_waiting(2),
        with(600, 300, 60).replicas(2),
        with(600, 1500, 20),
        with(1500, 150, 300),
    ];
    all.map(of).into()
}
