//! Where the locks are: the connections to the servers, and which of them serves each lock.
//!
//! The locks of a hash slot share a *route*: the way to the server that serves them. Without a cluster all locks are
//! in one slot, and its route leads to the one server, or to the master that sentinels know. A route is open when the
//! connection is set up and the channel of its hand-offs subscribed. Every machine (see [`super`]) has one route and
//! hears of nothing else: that it opened, answers and pushes, that it closed.
//!
//! A connection that fails closes all routes over it. It is made anew for ever, with backoff; sentinels are asked again
//! each time, and the nodes of a cluster are asked who serves what. A node that names another one for a slot (MOVED, or
//! an unsubscription that nobody asked for) closes that slot's route alone. It is followed at once; if it leads to another
//! such word and to no answer, the nodes of the cluster are asked first.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, pending};
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::handle::Notes;
use super::links::{Boxed, LEAST_PATIENCE, Link, Made, Place, Question, Replied, back_off, make, next_reply};
use super::machine::{ANSWER_TIMEOUT, RequestId};
use crate::error::{ConnectError, brief};
use crate::protocol::{self, Failure, LockKeys, Push, Request};
use crate::server::{Connection, Endpoint, Incoming, Node, Reply, Slot, SlotMap, Target, discover, slot_of};

/// How long a node of a cluster may be silent before the first attempt to connect tries another one beside it.
const NEXT_TRY: Duration = Duration::from_millis(250);

/// What the machine of a slot is to hear.
pub(super) enum News {
    Connected {
        slot: Slot,
        can_kill: bool,
    },
    Disconnected {
        slot: Slot,
        cause: Arc<str>,
    },
    Answered {
        slot: Slot,
        request: RequestId,
        result: Result<protocol::Reply, Failure>,
    },
    Replicated {
        slot: Slot,
        request: RequestId,
        result: Result<u32, Failure>,
    },
    Push {
        slot: Slot,
        push: Push,
    },
    /// The server of this slot cannot be used, and waiting does not mend that.
    Denied {
        slot: Slot,
        error: ConnectError,
    },
    /// The outcome of the first attempt to connect.
    First(Result<(), ConnectError>),
}

/// The way of one slot's locks to their server.
struct Route {
    /// Where its hand-offs come to.
    channel: Arc<str>,
    /// How soon an answer is needed.
    patience: Duration,
    place: Place,
    open: bool,
    /// Since the last answer.
    moved: bool,
}

pub(super) struct Network {
    target: Target,
    notes: Notes,
    client: Arc<str>,
    prefix: Arc<str>,
    routes: BTreeMap<Slot, Route>,
    /// Whose hand-offs come to each channel: there may be thousands, and what is said of one concerns no other.
    slots: HashMap<Arc<str>, Slot>,
    links: BTreeMap<Place, Link>,
    map: SlotMap,
    news: VecDeque<News>,
    first: Option<First>,
    /// When another node of a cluster is tried beside those that have not answered the first attempt yet.
    next_try: Option<Boxed<()>>,
    made: FuturesUnordered<Boxed<(Place, u64, Made)>>,
    discovering: Option<Boxed<Result<SlotMap, ConnectError>>>,
    /// Discoveries since all routes were open and led to answers: that one node answers tells nothing of another.
    discoveries: u32,
    /// What connections say by themselves.
    incoming: UnboundedReceiver<(Place, u64, Incoming)>,
    say: UnboundedSender<(Place, u64, Incoming)>,
}

/// The first attempt to connect, whose outcome somebody awaits.
struct First {
    by: Instant,
    /// The most telling so far of the nodes that have failed.
    error: Option<ConnectError>,
}

/// What the network itself has to act upon.
enum Happening {
    Reply(Place, Replied),
    Incoming(Place, u64, Incoming),
    Made(Place, u64, Made),
    Discovered(Result<SlotMap, ConnectError>),
    NextTry,
}

impl Network {
    pub(super) fn new(target: Target, client: Arc<str>, prefix: Arc<str>, notes: Notes, first: bool) -> Self {
        let (say, incoming) = unbounded_channel();
        let mut network = Self {
            target,
            notes,
            client,
            prefix,
            routes: BTreeMap::new(),
            slots: HashMap::new(),
            links: BTreeMap::new(),
            map: SlotMap::default(),
            news: VecDeque::new(),
            first: first.then(|| First { by: Instant::now() + ANSWER_TIMEOUT, error: None }),
            next_try: None,
            made: FuturesUnordered::new(),
            discovering: None,
            discoveries: 0,
            incoming,
            say,
        };
        if first && network.is_cluster() {
            network.discover();
        } else if first {
            network.connect(None);
        }
        network
    }

    fn is_cluster(&self) -> bool {
        matches!(self.target, Target::Cluster(_))
    }

    /// The slot of a lock. Without a cluster all are in one.
    pub(super) fn slot(&self, name: &str) -> Slot {
        if self.is_cluster() { slot_of(name) } else { 0 }
    }

    /// Opens the route of this lock, unless it is open or on its way. `patience`: how soon an answer is needed.
    pub(super) fn want(&mut self, slot: Slot, name: &str, patience: Duration) {
        let sharded = self.is_cluster();
        let (prefix, client, slots) = (&self.prefix, &self.client, &mut self.slots);
        let route = self.routes.entry(slot).or_insert_with(|| {
            // The braces make it a channel of the slot, and tell the scripts so.
            let channel = if sharded {
                format!("{prefix}:{{{name}}}:client:{client}")
            } else {
                format!("{prefix}:client:{client}")
            };
            let channel = Arc::<str>::from(channel);
            slots.insert(channel.clone(), slot);
            Route { channel, patience, place: None, open: false, moved: false }
        });
        route.patience = patience;
        if !route.open {
            self.open(slot);
        }
    }

    /// Sends a call if the route is open. If it is not, its machine asks again when it opens.
    pub(super) fn send(&mut self, slot: Slot, request: RequestId, call: Request) {
        if let Some(route) = self.routes.get(&slot).filter(|route| route.open) {
            let (place, channel) = (route.place.clone(), route.channel.clone());
            let waits = matches!(call, Request::Heartbeat(_));
            self.send_to(&place, slot, request, call, &channel, false);
            // Nothing else is asked of the connection for messages that would show its silence.
            if waits && self.links.get(&place).is_some_and(|link| link.subscriber.is_some()) {
                self.subscribe(slot);
            }
        }
    }

    /// Asks how many replicas have what this client has seen written. Those who ask while others wait are asked for together.
    pub(super) fn replicate(
        &mut self,
        slot: Slot,
        request: RequestId,
        keys: Arc<LockKeys>,
        replicas: u32,
        within: Duration,
    ) {
        let Some(route) = self.routes.get(&slot).filter(|route| route.open) else { return };
        let Some(link) = self.links.get_mut(&route.place) else { return };
        link.to_ask.push(Question { slot, request, keys, replicas, within });
        link.ask_replicas();
    }

    fn replicated(&mut self, place: &Place, result: &Result<u32, Failure>, waiting: Option<Connection>) {
        let Some(link) = self.links.get_mut(place) else { return };
        link.waiting = waiting;
        let news = |Question { slot, request, .. }| News::Replicated { slot, request, result: result.clone() };
        self.news.extend(link.asked.drain(..).map(news));
        link.ask_replicas();
    }

    /// The machine of this slot finds its route of no use: the server does not answer.
    pub(super) fn give_up(&mut self, slot: Slot) {
        if let Some(route) = self.routes.get_mut(&slot)
            && std::mem::replace(&mut route.open, false)
        {
            let place = route.place.clone();
            self.fail(&place, &"the server does not answer".into());
        }
    }

    /// What the machines are to hear next. Cancel safe.
    pub(super) async fn next(&mut self) -> News {
        loop {
            if let Some(news) = self.news.pop_front() {
                return news;
            }
            let Self { links, incoming, made, discovering, next_try, .. } = self;
            // Answers before pushes: a push is judged by the answers that came before it.
            let happening = tokio::select! {
                biased;
                (place, reply) = next_reply(links) => Happening::Reply(place, reply),
                Some((place, generation, said)) = incoming.recv() => Happening::Incoming(place, generation, said),
                Some((place, generation, outcome)) = futures_util::StreamExt::next(made), if !made.is_empty() => {
                    Happening::Made(place, generation, outcome)
                }
                Some(found) = async { Some(discovering.as_mut()?.await) } => Happening::Discovered(found),
                () = async { next_try.as_mut().map_or_else(|| Either::Left(pending()), Either::Right).await } => {
                    Happening::NextTry
                }
            };
            match happening {
                Happening::Reply(place, Replied::Call { slot, request, call, reply }) => {
                    self.replied(&place, slot, request, call, reply);
                }
                Happening::Reply(place, Replied::Replicas { result, waiting }) => {
                    self.replicated(&place, &result, waiting);
                }
                Happening::Reply(place, Replied::Moved) => {
                    self.fail(&place, &"its address leads to another server now".into());
                }
                Happening::Reply(place, Replied::Subscribe { slot, result }) => {
                    if let Err(reply) = result {
                        self.not_subscribed(&place, slot, reply);
                    }
                }
                Happening::Incoming(place, generation, said) => self.came_in(place, generation, said),
                Happening::Made(place, generation, outcome) => self.made(&place, generation, outcome),
                Happening::Discovered(found) => {
                    self.discovering = None;
                    self.discovered(found);
                }
                Happening::NextTry => {
                    self.next_try = None;
                    self.try_another();
                }
            }
        }
    }

    fn send_to(&mut self, place: &Place, slot: Slot, request: RequestId, call: Request, channel: &str, asking: bool) {
        let Some(link) = self.links.get_mut(place) else { return };
        let Some(connection) = &link.connection else { return };
        let reply = connection.send(&call, channel, asking);
        link.replies.push(Box::pin(async move { Replied::Call { slot, request, call, reply: reply.await } }));
    }

    fn replied(&mut self, place: &Place, slot: Slot, request: RequestId, call: Request, reply: Reply) {
        if !matches!(reply, Reply::Gone(_))
            && let Some(link) = self.links.get_mut(place)
        {
            link.attempts = 0;
        }
        match reply {
            Reply::Gone(cause) => self.fail(place, &cause),
            Reply::Result(result) => {
                self.routes.entry(slot).and_modify(|route| route.moved = false);
                self.news.push_back(News::Answered { slot, request, result });
            }
            // Where another is the master, sentinels know it.
            Reply::Replica(cause) if matches!(self.target, Target::Sentinel(_)) => self.fail(place, &cause),
            Reply::Replica(cause) => self.refuse(slot, request, cause),
            Reply::Elsewhere { node, .. } if !self.is_cluster() => {
                let cause = format!("it is one node of a cluster, and sends on to {node}: use redis+cluster://");
                self.news.push_back(News::Answered { slot, request, result: Err(Failure::Rejected(cause.into())) });
            }
            Reply::Elsewhere { node, asking } => {
                let Some(route) = self.routes.get(&slot) else { return };
                let (to, channel) = (self.whole(node, place), route.channel.clone());
                if !asking && route.place == *place {
                    return self.moved(slot, to);
                }
                let to = Some(to);
                if !asking {
                    self.refuse(slot, request, "its slot is not expected yet where it goes".into());
                } else if self.links.get(&to).is_some_and(|link| link.connection.is_some()) {
                    self.send_to(&to, slot, request, call, &channel, true);
                } else {
                    self.connect(to);
                    self.refuse(slot, request, "its slot is on the way to another node".into());
                }
            }
        }
    }

    fn refuse(&mut self, slot: Slot, request: RequestId, cause: Arc<str>) {
        self.news.push_back(News::Answered { slot, request, result: Err(Failure::Refused(cause)) });
    }

    /// A node that names its own host leaves it out.
    fn whole(&self, node: Node, said_by: &Place) -> Node {
        match said_by {
            Some(by) if node.host.is_empty() => Node { host: by.host.clone(), ..node },
            _ => node,
        }
    }

    fn came_in(&mut self, place: Place, generation: u64, said: Incoming) {
        let Some(link) = self.links.get_mut(&place).filter(|link| link.generation == generation) else { return };
        match said {
            Incoming::Push(push) => {
                let name = LockKeys::of_queue(&self.prefix, &push.queue).map(|keys| keys.name);
                if let Some(name) = name
                    && link.connection.is_some()
                {
                    let slot = self.slot(&name);
                    self.news.push_back(News::Push { slot, push });
                }
            }
            Incoming::Subscribed(channel) => {
                let slot = self.slots.get(channel.as_str()).copied();
                link.subscribing.remove(channel.as_str());
                link.subscribed.insert(channel.into());
                if let Some(slot) = slot {
                    self.open(slot);
                }
            }
            // While others are asked for, nobody knows which reply the library took this for.
            Incoming::Unsubscribed(_) if !link.subscribing.is_empty() => {
                self.fail(&place, &"a slot left its node".into());
            }
            Incoming::Unsubscribed(channel) => {
                link.subscribed.remove(channel.as_str());
                if let Some(&slot) = self.slots.get(channel.as_str())
                    && self.routes.get(&slot).is_some_and(|route| route.open && route.place == place)
                {
                    self.close(slot, "its slot left the node".into());
                    self.discover();
                }
            }
            // While it is being set up, its end shows there.
            Incoming::Gone if link.connection.is_some() => self.fail(&place, &"the connection was closed".into()),
            Incoming::Gone => {}
        }
    }

    /// Connects, unless that is done or under way.
    fn connect(&mut self, place: Place) {
        if self.links.get(&place).is_some_and(|link| link.connecting || link.connection.is_some()) {
            return;
        }
        let needed = self.patience(|route| route.place == place);
        let link = self.links.entry(place.clone()).or_default();
        let pause = back_off(link.attempts, needed);
        // Longer each time that this was in vain: the network may be slow and the server alive.
        let patience = (needed.max(LEAST_PATIENCE) * (1 << link.attempts.min(3))).min(ANSWER_TIMEOUT);
        // All that the first attempt consists of has one time together.
        let by = self.first.as_ref().map_or_else(|| Instant::now() + pause + patience, |first| first.by);
        link.connecting = true;
        link.generation += 1;
        let (generation, previous) = (link.generation, link.previous.clone());
        link.attempts = link.attempts.saturating_add(1);
        let say = |place: &Place| {
            let (say, place) = (self.say.clone(), place.clone());
            move |said| drop(say.send((place.clone(), generation, said)))
        };
        let (incoming, of_subscriber) = (say(&place), say(&place));
        let target = self.target.clone();
        let channel = (!self.is_cluster()).then(|| format!("{}:client:{}", self.prefix, self.client));
        self.made.push(Box::pin(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let making = make(&target, &place, by, channel.as_deref(), previous, incoming, of_subscriber);
            let made = tokio::time::timeout_at(by, making).await.unwrap_or_else(|_| {
                Err(ConnectError::silent(place.as_ref().map_or_else(|| format!("{target:?}"), Node::to_string)))
            });
            (place, generation, made)
        }));
    }

    /// How long the most impatient of those who use these routes can wait.
    fn patience(&self, of: impl Fn(&Route) -> bool) -> Duration {
        let patience = self.routes.values().filter(|route| of(route)).map(|route| route.patience).min();
        patience.filter(|_| self.first.is_none()).unwrap_or(ANSWER_TIMEOUT)
    }

    fn made(&mut self, place: &Place, generation: u64, made: Made) {
        let Some(link) = self.links.get_mut(place).filter(|link| link.generation == generation) else { return };
        link.connecting = false;
        match made {
            Ok((endpoint, connected, subscriber)) => {
                link.endpoint = Some(endpoint);
                if let Some(warning) = connected.warning.filter(|_| link.previous.is_none()) {
                    self.notes.warn(warning);
                }
                if link.previous.is_some() {
                    self.notes.info("connected again".into());
                }
                link.connection = Some(connected.connection);
                link.subscriber = subscriber;
                link.previous = connected.previous;
                link.can_kill = connected.can_kill;
                if self.first.take().is_some() {
                    self.next_try = None;
                    self.news.push_back(News::First(Ok(())));
                }
                self.open_all(place);
            }
            Err(error) => self.not_connected(place, error),
        }
    }

    fn not_connected(&mut self, place: &Place, error: ConnectError) {
        if let Some(first) = &mut self.first {
            let of_this_node = error.is_transient() || place.is_some() && error.is_of_a_stranger();
            if first.error.as_ref().is_none_or(|before| error.rank() < before.rank()) {
                first.error = Some(error);
            }
            if of_this_node && (self.try_another() || self.links.values().any(|link| link.connecting)) {
                return;
            }
            self.next_try = None;
            let error = self.first.take().and_then(|first| first.error);
            return self.news.extend(error.map(|error| News::First(Err(error))));
        }
        let there: Vec<Slot> = self.routes.iter().filter(|(_, r)| r.place == *place).map(|(slot, _)| *slot).collect();
        if self.close_all(place, &error.to_string().into()) || !self.is_cluster() {
            self.connect(place.clone());
        }
        // What has the address of a node now says nothing of the cluster.
        if place.is_none() || !error.is_of_a_stranger() {
            self.deny(there, &error);
        }
        self.discover();
    }

    /// Tries the next node of a cluster beside those that have not answered the first attempt. False: there is none.
    fn try_another(&mut self) -> bool {
        let untried = self.map.nodes().find(|node| !self.links.contains_key(&Some((*node).clone()))).cloned();
        let Some(node) = untried.filter(|_| self.first.is_some()) else { return false };
        self.connect(Some(node));
        self.next_try = Some(Box::pin(tokio::time::sleep(NEXT_TRY)));
        true
    }

    /// These routes lead to a server that cannot be used, unless that may pass.
    fn deny(&mut self, slots: Vec<Slot>, error: &ConnectError) {
        if !error.is_transient() {
            self.news.extend(slots.into_iter().map(|slot| News::Denied { slot, error: error.clone() }));
        }
    }

    fn closed(&self) -> impl Iterator<Item = (Slot, &Route)> {
        self.routes.iter().filter(|(_, route)| !route.open).map(|(slot, route)| (*slot, route))
    }

    /// A connection to this server broke: all routes over it close, and it is made anew.
    fn fail(&mut self, place: &Place, cause: &Arc<str>) {
        let Some(link) = self.links.get_mut(place).filter(|link| link.connection.is_some()) else { return };
        self.notes.warn(format!("the connection was lost, connecting again ({cause})"));
        link.connection = None;
        link.subscriber = None;
        link.waiting = None;
        link.asked.clear();
        link.to_ask.clear();
        link.subscribed.clear();
        link.subscribing.clear();
        // What was not sent yet is not sent any more.
        link.replies.clear();
        self.close_all(place, cause);
        self.connect(place.clone());
        self.discover();
    }

    /// Closes all routes to this place. True if there are any.
    fn close_all(&mut self, place: &Place, cause: &Arc<str>) -> bool {
        let there = self.routes.iter().filter(|(_, route)| route.place == *place);
        let there: Vec<Slot> = there.map(|(slot, _)| *slot).collect();
        there.iter().for_each(|slot| self.close(*slot, cause.clone()));
        !there.is_empty()
    }

    /// Who waits for a route hears what is in the way, too.
    fn close(&mut self, slot: Slot, cause: Arc<str>) {
        if let Some(route) = self.routes.get_mut(&slot) {
            route.open = false;
            self.news.push_back(News::Disconnected { slot, cause });
        }
    }

    /// A node says that this slot is another's.
    fn moved(&mut self, slot: Slot, to: Node) {
        let Some(route) = self.routes.get_mut(&slot) else { return };
        let again = std::mem::replace(&mut route.moved, true);
        self.close(slot, format!("its slot moved to {to}").into());
        self.map.moved(slot, to);
        // Nodes that name each other would be asked in turn without an end: the others are asked first, with a pause.
        if again {
            self.discover();
        } else {
            self.open(slot);
        }
    }

    fn open_all(&mut self, place: &Place) {
        let closed: Vec<Slot> = self.closed().map(|(slot, _)| slot).collect();
        for slot in closed {
            if self.map.node_of(slot) == place.as_ref() {
                self.open(slot);
            }
        }
    }

    /// Goes the next step to an open route: knows its server, connects, subscribes.
    fn open(&mut self, slot: Slot) {
        let place = self.map.node_of(slot).cloned();
        if self.is_cluster() && place.is_none() {
            return self.discover();
        }
        let Some(route) = self.routes.get_mut(&slot).filter(|route| !route.open) else { return };
        route.place = place.clone();
        let Some(link) = self.links.get_mut(&place).filter(|link| link.connection.is_some()) else {
            return self.connect(place);
        };
        if link.subscribed.contains(&route.channel) {
            route.open = true;
            return self.news.push_back(News::Connected { slot, can_kill: link.can_kill });
        }
        self.subscribe(slot);
    }

    /// Asks for the messages of this slot, unless that is under way. Asked again, it shows whether they can still come.
    fn subscribe(&mut self, slot: Slot) {
        let Some(route) = self.routes.get(&slot) else { return };
        let Some(link) = self.links.get_mut(&route.place) else { return };
        if !link.subscribing.insert(route.channel.clone()) {
            return;
        }
        let (sharded, connection) = (link.subscriber.is_some(), link.subscriber.as_ref().or(link.connection.as_ref()));
        if let Some(connection) = connection {
            // Nothing else may be asked of this server that would show its silence.
            let patience = route.patience.max(LEAST_PATIENCE);
            let subscribed = tokio::time::timeout(patience, connection.subscribe(&route.channel, sharded));
            link.replies.push(Box::pin(async move {
                let result = match subscribed.await {
                    Ok(result) => result,
                    Err(_) => Err(Reply::Gone(format!("the server has not answered for {}", brief(&patience)).into())),
                };
                Replied::Subscribe { slot, result }
            }));
        }
    }

    fn not_subscribed(&mut self, place: &Place, slot: Slot, why: Reply) {
        if let Some(link) = self.links.get_mut(place)
            && let Some(route) = self.routes.get(&slot)
        {
            link.subscribing.remove(&route.channel);
        }
        match why {
            Reply::Elsewhere { node, .. } => {
                let to = self.whole(node, place);
                self.moved(slot, to);
            }
            Reply::Result(Ok(_)) => {}
            Reply::Result(Err(failure)) => {
                self.fail(place, failure.cause());
                if let Failure::Denied(cause) = failure {
                    let server = self.links.get(place).and_then(|link| link.endpoint.as_ref());
                    let (address, cause) = (server.map(Endpoint::to_string).unwrap_or_default(), cause.to_string());
                    self.deny(vec![slot], &ConnectError::MissingRight { address, cause });
                }
            }
            Reply::Gone(cause) | Reply::Replica(cause) => self.fail(place, &cause),
        }
    }

    /// Asks nodes of the cluster who serves what.
    fn discover(&mut self) {
        let Target::Cluster(seeds) = &self.target else { return };
        let Some(template) = seeds.first() else { return };
        if self.discovering.is_some() {
            return;
        }
        let mut nodes: BTreeMap<String, Endpoint> = self.map.nodes().map(|n| (n.to_string(), template.at(n))).collect();
        nodes.extend(seeds.iter().map(|seed| (seed.to_string(), seed.clone())));
        let mut nodes: Vec<Endpoint> = nodes.into_values().collect();
        fastrand::shuffle(&mut nodes);
        let pause = back_off(self.discoveries, self.patience(|route| !route.open));
        self.discoveries = self.discoveries.saturating_add(1);
        let by = self.first.as_ref().map_or_else(|| Instant::now() + pause + LEAST_PATIENCE, |first| first.by);
        self.discovering = Some(Box::pin(async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            discover(nodes, by).await
        }));
    }

    fn discovered(&mut self, found: Result<SlotMap, ConnectError>) {
        let closed: Vec<Slot> = self.closed().map(|(slot, _)| slot).collect();
        match found {
            Ok(map) => {
                self.map = map;
                self.try_another();
                closed.iter().for_each(|slot| self.open(*slot));
            }
            Err(error) if self.first.take().is_some() => return self.news.push_back(News::First(Err(error))),
            Err(error) => {
                let cause: Arc<str> = error.to_string().into();
                closed.iter().for_each(|slot| self.close(*slot, cause.clone()));
                // A cluster that was found is not doubted because something else has the addresses of its nodes.
                if self.map.nodes().next().is_none() || !error.is_of_a_stranger() {
                    self.deny(closed.clone(), &error);
                }
            }
        }
        // A node that does not answer may have been replaced by now.
        if !closed.is_empty() {
            self.discover();
        } else if !self.routes.values().any(|route| route.moved) {
            self.discoveries = 0;
        }
    }
}
