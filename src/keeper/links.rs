//! The connections to one server: one for commands and pushes, and where they are needed two more.
//!
//! Sharded subscriptions have a connection of their own: on one that also carries commands the library would take the
//! unsubscription that nobody asked for as a reply to a command, and every later reply for that of the next. WAIT has one,
//! because it blocks whatever comes after it. An address may lead to another server by the time that this one is made, whose
//! replicas know nothing of the grants: it is used only if it leads to the same run of the same server.

use std::collections::{BTreeMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream};
use tokio::time::Instant;

use super::machine::RequestId;
use crate::error::ConnectError;
use crate::protocol::{Failure, LockKeys, Request};
use crate::server::{Connected, Connection, Endpoint, Incoming, Node, Previous, Reply, Slot, Target};

/// The least time that connecting may take: a lost packet must not outlast a short lease, nor a slow network fail.
pub(super) const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// A server; None is the one that is not a node of a cluster, wherever it is.
pub(super) type Place = Option<Node>;
pub(super) type Made = Result<(Endpoint, Connected, Option<Connection>), ConnectError>;
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// The connections to one server.
#[derive(Default)]
pub(super) struct Link {
    /// Counts attempts: what an old connection still says is not believed.
    pub(super) generation: u64,
    pub(super) connecting: bool,
    /// That failed since the last answer.
    pub(super) attempts: u32,
    pub(super) connection: Option<Connection>,
    /// For sharded subscriptions, where the server knows them.
    pub(super) subscriber: Option<Connection>,
    /// Where they lead to.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) can_kill: bool,
    pub(super) previous: Option<Previous>,
    /// For WAIT, which blocks its connection. Made when it is needed first, and away while a WAIT is under way.
    pub(super) waiting: Option<Connection>,
    /// The question that is put to the replicas, and by whom; and what will be asked after it.
    pub(super) asked: Vec<Question>,
    pub(super) to_ask: Vec<Question>,
    pub(super) subscribed: HashSet<Arc<str>>,
    /// Those that were asked for and not confirmed.
    pub(super) subscribing: HashSet<Arc<str>>,
    pub(super) replies: FuturesUnordered<Boxed<Replied>>,
}

/// Whether so many replicas have what was written so far.
pub(super) struct Question {
    pub(super) slot: Slot,
    pub(super) request: RequestId,
    pub(super) keys: Arc<LockKeys>,
    pub(super) replicas: u32,
    pub(super) within: Duration,
}

/// What was answered at a server.
#[allow(clippy::large_enum_variant)] // The large one is the usual one.
pub(super) enum Replied {
    /// So many replicas have it, and the connection that this was asked on, if it is still of use.
    Replicas {
        result: Result<u32, Failure>,
        waiting: Option<Connection>,
    },
    /// The address leads to another server now, whose replicas say nothing of this one's grants.
    Moved,
    Call {
        slot: Slot,
        request: RequestId,
        call: Request,
        reply: Reply,
    },
    /// That a channel is subscribed shows elsewhere; here is what went wrong instead.
    Subscribe {
        slot: Slot,
        result: Result<(), Reply>,
    },
}

/// At once, then after 10 ms, doubled up to 640 ms, half of it by chance; but never for more than a quarter of the patience
/// of those who wait: a pause that outlasts a session or a lease costs it, although the server was there in between.
pub(super) fn back_off(attempts: u32, patience: Duration) -> Duration {
    let ceiling = if attempts == 0 { 0 } else { 5_u64 << attempts.min(7) };
    Duration::from_millis(ceiling / 2 + fastrand::u64(0..=ceiling / 2)).min(patience / 4)
}

impl Link {
    /// Puts the next question to the replicas, for all who have one.
    pub(super) fn ask_replicas(&mut self) {
        let (Some(endpoint), true) = (self.endpoint.clone(), self.asked.is_empty()) else { return };
        self.asked = std::mem::take(&mut self.to_ask);
        let Some(keys) = self.asked.first().map(|question| question.keys.clone()) else { return };
        let replicas = self.asked.iter().map(|question| question.replicas).max().unwrap_or_default();
        let within = self.asked.iter().map(|question| question.within).min().unwrap_or_default();
        let waiting = self.waiting.take();
        let server = self.previous.as_ref().map(|previous| previous.run_id().to_owned());
        self.replies.push(Box::pin(async move {
            // The connection itself may hang.
            let asked = tokio::time::timeout(within + LEAST_PATIENCE, async {
                let waiting = match waiting {
                    Some(waiting) => waiting,
                    None => match beside(&endpoint, server).await? {
                        Some(waiting) => waiting,
                        None => return Ok(None),
                    },
                };
                let have = waiting.replicas(&keys, replicas, within).await?;
                Ok(Some((have, waiting)))
            });
            match asked.await.unwrap_or_else(|_| Err(Failure::Refused("the replicas were asked in vain".into()))) {
                Ok(Some((have, waiting))) => Replied::Replicas { result: Ok(have), waiting: Some(waiting) },
                Ok(None) => Replied::Moved,
                Err(failure) => Replied::Replicas { result: Err(failure), waiting: None },
            }
        }));
    }
}

/// Another connection to the run of a server that has this id. None: another server answers at its address.
async fn beside(endpoint: &Endpoint, server: Option<String>) -> Result<Option<Connection>, Failure> {
    let refused = |error: String| Failure::Refused(error.into());
    let connection = endpoint.open(|_| ()).await.map_err(|error| refused(error.to_string()))?;
    match (server, connection.run_id().await.map_err(|error| refused(error.to_string()))?) {
        (Some(server), Some(run_id)) => Ok((run_id == server).then_some(connection)),
        _ => Err(refused("without CLIENT ID and INFO nobody knows whose replicas answer: allow them".into())),
    }
}

/// The first reply at any of the servers.
pub(super) async fn next_reply(links: &mut BTreeMap<Place, Link>) -> (Place, Replied) {
    poll_fn(|context| {
        for (place, link) in links.iter_mut().filter(|(_, link)| !link.replies.is_empty()) {
            if let Poll::Ready(Some(reply)) = Pin::new(&mut link.replies).poll_next(context) {
                return Poll::Ready((place.clone(), reply));
            }
        }
        Poll::Pending
    })
    .await
}

/// Finds the server, by then, and connects to it.
pub(super) async fn make(
    target: &Target,
    place: &Place,
    by: Instant,
    channel: Option<&str>,
    previous: Option<Previous>,
    incoming: impl Fn(Incoming) + Send + Sync + 'static,
    of_subscriber: impl Fn(Incoming) + Send + Sync + 'static,
) -> Made {
    let endpoint = match (target, place) {
        (Target::Server(server), _) => server.clone(),
        (Target::Sentinel(sentinels), _) => sentinels.master(by).await?,
        (Target::Cluster(seeds), place) => match (seeds.first(), place) {
            (Some(seed), Some(node)) => seed.at(node),
            _ => return Err(ConnectError::Url { reason: "a cluster has nodes".into() }),
        },
    };
    let connected = endpoint.connect(channel, previous, incoming).await?;
    // In a cluster the nodes tell who is a master.
    let no_master = match target {
        Target::Sentinel(_) if connected.is_replica => {
            Some("sentinels name it as the master, and it says that it is a replica")
        }
        Target::Server(_) if connected.read_only => Some("it is a read-only replica"),
        _ => None,
    };
    if let Some(cause) = no_master {
        return Err(ConnectError::NotReady { address: endpoint.to_string(), cause: cause.into() });
    }
    let sharded = connected.shards && matches!(target, Target::Cluster(_));
    let subscriber = if sharded { Some(endpoint.open(of_subscriber).await?) } else { None };
    Ok((endpoint, connected, subscriber))
}
