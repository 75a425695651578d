//! A client of a world: the real machine, and around it a model of the loop, the handles and the guards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::guards::{Holding, Taken, tell_by};
use super::losses::Basis;
use super::server::Reply;
use crate::clock::Time;
use crate::inspect::READERS;
use crate::keeper::machine::{
    AcquireCall, Command, Effect, Id, Machine, Mode, Outcome, Question, QuestionId, Renewal, RequestId,
};
use crate::options::Spec;
use crate::protocol::{CallerData, ClientId, Push, Request, Secret, WireId};

/// What a client's clock shows when a world begins, in ns.
pub(super) const BOOT_NS: u64 = 1 << 61;

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) name: ClientId,
    pub(super) machine: Machine,
    /// By how many millionths its clock is fast.
    pub(super) fast: i64,
    pub(super) can_kill: bool,
    /// While so many requests are unanswered, others wait.
    pub(super) window: usize,
    pub(super) alive: bool,
    /// Whether the process stands still.
    pub(super) paused: bool,
    /// All handles were dropped.
    pub(super) ending: bool,
    pub(super) closed: bool,
    pub(super) next: u64,
    /// Calls do not tell when they were made, because it must not matter.
    pub(super) ever: bool,
    /// Commands of handles that the keeper has not taken in.
    pub(super) inbox: VecDeque<(u64, Command)>,
    pub(super) connecting: Option<u64>,
    pub(super) link: Option<Link>,
    /// Requests on broken connections that may still be executed.
    pub(super) limbo: VecDeque<Request>,
    pub(super) acquires: BTreeMap<Id, Acquire>,
    pub(super) guards: BTreeMap<Id, Holding>,
    pub(super) questions: BTreeMap<QuestionId, Option<Time>>,
    /// The leases that are to be a reader's, by their questions.
    pub(super) downgrading: BTreeMap<QuestionId, Id>,
    /// How many each acquire lets hold the lock together; at first, and after a downgrade.
    pub(super) asked_most: BTreeMap<Id, (u16, u16)>,
    /// How often each acquire was resolved.
    pub(super) resolved: BTreeMap<Id, u32>,
    /// The data on which each lock's last answered sign of life rests. The claims that follow rest on it, too.
    pub(super) kept: BTreeMap<Arc<str>, Basis>,
    /// Token and ticket of each grant.
    pub(super) granted: Vec<(u64, u64)>,
    /// Enough replicas have just acknowledged the writes.
    pub(super) replicated: bool,
    pub(super) pace: Pace,
    /// The patience that routes were told.
    pub(super) patience: Duration,
    /// Nothing has disturbed it since the last loss of data: it was awake and connected, and no message took long.
    pub(super) in_touch: bool,
}

/// A connection. Each message under way carries the true time at which it was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// The server's side is gone, and the client has not noticed.
    pub(super) dead: bool,
    pub(super) out: VecDeque<(u64, RequestId, Request)>,
    pub(super) back: VecDeque<(u64, Reply)>,
    pub(super) pushes: VecDeque<(u64, Push, Basis)>,
    /// The questions to replicas, each with the number that is needed and the data that it is about.
    pub(super) questions: VecDeque<(u64, RequestId, u32, Basis)>,
}

#[derive(Clone, Debug)]
pub(super) struct Acquire {
    pub(super) lock: usize,
    pub(super) lease: Duration,
    pub(super) mode: Mode,
    pub(super) ticket: Option<u64>,
    /// By when it must be resolved, once the keeper knows of it.
    pub(super) by: Option<Time>,
    pub(super) timeout: Option<Time>,
    pub(super) known: bool,
    /// A caller awaits it.
    pub(super) wanted: bool,
}

/// How many requests a client may send. A busy loop sends more.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub(super) since: u64,
    pub(super) sent: u32,
    /// Events that are a reason to send requests.
    pub(super) reasons: u32,
}

impl Client {
    pub(super) fn new(index: usize, fast: i64, can_kill: bool, window: usize) -> Self {
        let name = ClientId::new(&format!("c{index}")).expect("letters and digits");
        let mut machine = Machine::new(name.clone(), "fairlock".into(), index as u64);
        // In a range of its own, where a fingerprint can tell it from other numbers.
        machine.core.last_request = RequestId(super::canon::FIRST_REQUEST);
        Self {
            name,
            machine,
            fast,
            can_kill,
            window,
            alive: true,
            paused: false,
            ending: false,
            closed: false,
            next: 1,
            ever: false,
            inbox: VecDeque::new(),
            connecting: None,
            link: None,
            limbo: VecDeque::new(),
            acquires: BTreeMap::new(),
            guards: BTreeMap::new(),
            questions: BTreeMap::new(),
            downgrading: BTreeMap::new(),
            asked_most: BTreeMap::new(),
            resolved: BTreeMap::new(),
            kept: BTreeMap::new(),
            granted: Vec::new(),
            replicated: false,
            pace: Pace::default(),
            patience: crate::keeper::machine::ANSWER_TIMEOUT,
            in_touch: false,
        }
    }

    /// The client's clock at this true time.
    pub(super) fn clock(&self, now: u64) -> Time {
        let drift = i128::from(now) * i128::from(self.fast) / 1_000_000;
        Time(BOOT_NS + (i128::from(now) + drift) as u64)
    }

    /// The true time at which its clock shows this.
    pub(super) fn when(&self, time: Time) -> u64 {
        let shown = i128::from(time.0.saturating_sub(BOOT_NS)) * 1_000_000;
        let rate = 1_000_000 + i128::from(self.fast);
        u64::try_from((shown + rate - 1) / rate).unwrap_or(u64::MAX)
    }

    pub(super) fn runs(&self) -> bool {
        self.alive && !self.paused
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.machine.next_due().filter(|_| self.runs()).map(|due| self.when(due))
    }

    /// As the loop does: connects when there is something to do.
    pub(super) fn connect(&mut self, now: u64) {
        if self.link.is_none() && self.connecting.is_none() {
            self.connecting = Some(now);
        }
    }

    pub(super) fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            self.limbo.extend(link.out.into_iter().map(|(_, _, call)| call));
        }
    }

    /// A caller starts an acquire.
    pub(super) fn start(
        &mut self,
        now: u64,
        lock: usize,
        spec: Arc<Spec>,
        mode: Mode,
        timeout: Option<Duration>,
    ) -> Option<Id> {
        if self.ending || !self.alive {
            return None;
        }
        let (id, lease) = (Id(self.take_number()), spec.lease);
        let called = if self.ever { Time(BOOT_NS) } else { self.clock(now) };
        // As the model of the server makes them up.
        let id_on_wire = WireId::new(&self.name, id);
        let secret = Secret::repeated(&super::model::about(id_on_wire.as_str()).secret);
        let about = CallerData { secret, label: "".into(), owner: "".into() };
        let timeout_at = timeout.map(|timeout| called + timeout);
        let answer_by = (mode == Mode::Try).then_some(called + Duration::from_secs(5));
        let by = timeout_at.into_iter().chain(answer_by).min();
        self.asked_most.insert(id, (spec.most, spec.most));
        let acquire = Acquire { lock, lease, mode, ticket: None, by, timeout: timeout_at, known: false, wanted: true };
        self.acquires.insert(id, acquire);
        self.say(now, Command::Acquire { id, asked: AcquireCall { spec, about, mode, timeout, called } });
        Some(id)
    }

    /// A handle sends a command.
    pub(super) fn say(&mut self, now: u64, command: Command) {
        self.inbox.push_back((now, command));
    }

    pub(super) fn ask(&mut self, now: u64, question: Question) {
        let number = QuestionId(self.take_number());
        self.questions.insert(number, None);
        self.say(now, Command::Ask { number, question });
    }

    /// A writer becomes a reader, and knows it from now on.
    pub(super) fn downgrade(&mut self, now: u64, id: Id) {
        let Some(guard) = self.guards.get_mut(&id).filter(|guard| guard.spec.most == 1) else { return };
        guard.most = READERS;
        self.asked_most.entry(id).and_modify(|asked| asked.1 = READERS);
        self.downgrading.insert(QuestionId(self.next + 1), id);
        self.ask(now, Question::Downgrade { id });
    }

    pub(super) fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A guard, or a grant on its way to one, is dropped or released: nobody believes in it any more.
    pub(super) fn let_go(&mut self, now: u64, id: Id, ask: bool) {
        let Some(guard) = self.guards.get_mut(&id) else { return };
        if guard.taken == Taken::Reclaimed {
            self.guards.remove(&id);
            return;
        }
        self.guards.remove(&id);
        if ask {
            self.ask(now, Question::Release { id });
        } else {
            self.say(now, Command::GiveBack { id });
        }
    }

    /// Dropping every handle: futures, guards, then the end.
    pub(super) fn drop_handles(&mut self, now: u64) {
        let guards: Vec<Id> = self.guards.keys().copied().collect();
        guards.into_iter().for_each(|id| self.let_go(now, id, false));
        let wanted: Vec<Id> = self.acquires.iter().filter(|(_, a)| a.wanted).map(|(id, _)| *id).collect();
        wanted.into_iter().for_each(|id| self.drop_future(now, id));
        self.ending = true;
    }

    pub(super) fn drop_future(&mut self, now: u64, id: Id) {
        if let Some(acquire) = self.acquires.get_mut(&id) {
            acquire.wanted = false;
            self.say(now, Command::Abandon { id });
        }
    }

    /// Carries out the machine's effects. An error if one of them must not be.
    pub(super) fn carry_out(&mut self, now: u64, basis: Basis) -> Result<(), String> {
        // The effects of taking back a lease are carried out in the next round.
        loop {
            let local = self.clock(now);
            let room = self.window.saturating_sub(self.machine.core.requests.len());
            let effects = self.machine.effects(local, room);
            if effects.is_empty() {
                return Ok(());
            }
            for effect in effects {
                self.effect(now, local, basis, effect)?;
            }
        }
    }

    fn effect(&mut self, now: u64, local: Time, basis: Basis, effect: Effect) -> Result<(), String> {
        match effect {
            Effect::Send { request, call } => {
                self.pace.sent += 1;
                if let Some(link) = &mut self.link {
                    link.out.push_back((now, request, call));
                }
            }
            Effect::Replicate { request, replicas, .. } => {
                self.pace.sent += 1;
                if let Some(link) = &mut self.link {
                    link.questions.push_back((now, request, replicas, basis));
                }
            }
            Effect::Patience(patience) => self.patience = patience,
            Effect::Reconnect => {
                self.unlink();
                self.connect(now);
            }
            Effect::Queued { id, ticket, .. } => {
                if let Some(acquire) = self.acquires.get_mut(&id) {
                    if acquire.ticket.replace(ticket.get()).is_some() {
                        return Err(format!("{}.{id} was told two tickets", self.name));
                    }
                    acquire.by = acquire.timeout;
                }
            }
            Effect::Granted { id, spec, token, ticket, slot, deadline } => {
                self.resolve(id)?;
                if spec.replicas > 0 && !self.replicated {
                    return Err(format!("{}.{id} is granted what replicas do not have", self.name));
                }
                self.granted.push((token.get(), ticket.get()));
                let Some(acquire) = self.acquires.remove(&id).filter(|acquire| acquire.wanted) else {
                    self.say(now, Command::GiveBack { id });
                    return Ok(());
                };
                let lock = acquire.lock;
                let tell_by = tell_by(&spec, local, deadline);
                let most = spec.most;
                let (taken, era, basis) = (Taken::Offered, basis.era, Some(basis));
                let guard = Holding {
                    lock,
                    spec,
                    token: token.get(),
                    slot,
                    most,
                    is_reader: false,
                    deadline,
                    tell_by,
                    granted: local,
                    lost: false,
                    tended: true,
                    taken,
                    basis,
                    era,
                };
                self.guards.insert(id, guard);
            }
            Effect::NotGranted { id, .. } => {
                self.resolve(id)?;
                self.acquires.remove(&id);
            }
            Effect::Prolonged { id, deadline, .. } => {
                if let Some(guard) = self.guards.get_mut(&id) {
                    if guard.spec.replicas > 0 && !self.replicated {
                        return Err(format!("{}.{id} is prolonged, and replicas do not know", self.name));
                    }
                    guard.deadline = guard.deadline.max(deadline);
                    guard.tell_by = tell_by(&guard.spec, local, guard.deadline);
                    guard.basis = guard.basis.map(|_| basis);
                }
            }
            Effect::Lost { id, deadline, .. } => {
                if let Some(guard) = self.guards.get_mut(&id) {
                    if deadline > guard.deadline.max(local) {
                        return Err(format!(
                            "{}.{id} is lost, and lasts longer than its holder believed (I4)",
                            self.name
                        ));
                    }
                    guard.lost = true;
                }
            }
            Effect::Forgotten { id } => {
                if let Some(guard) = self.guards.get_mut(&id) {
                    guard.tended = false;
                    if guard.is_believed(local) {
                        return Err(format!("{}.{id} is forgotten, and its holder was not told (I4)", self.name));
                    }
                }
            }
            Effect::CheckTaken { id } => {
                if let Some(guard) = self.guards.get_mut(&id)
                    && guard.taken == Taken::Offered
                {
                    guard.taken = Taken::Reclaimed;
                    self.machine.handle(local, crate::keeper::machine::Event::NotTaken { id });
                }
            }
            Effect::Answer { question, outcome } => {
                if let Some(id) = self.downgrading.remove(&question)
                    && let Some(guard) = self.guards.get_mut(&id)
                    && matches!(outcome, Outcome::Renewal(Ok(Renewal::Renewed)))
                {
                    guard.is_reader = true;
                }
                if self.questions.remove(&question).is_none() {
                    return Err(format!("{}: {question:?} has two answers", self.name));
                }
            }
        }
        Ok(())
    }

    fn resolve(&mut self, id: Id) -> Result<(), String> {
        let times = self.resolved.entry(id).or_default();
        *times += 1;
        if *times > 1 { Err(format!("{}.{id} is resolved twice", self.name)) } else { Ok(()) }
    }
}
