//! The futures that are dropped: every future of the public interface.

use std::any::Any;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use fairlock::{Client, Guard, Lock};

use super::drive::{complete, insist, pause};
use testkit::{SOON, calm};

/// A future of the public interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Connect,
    /// The first acquire of a client that was not connected.
    Lazy,
    Acquire,
    AcquireTimeout,
    Enqueue,
    Waiting,
    Position,
    Try,
    Renew,
    Release,
    Lost,
    HeldLost,
    Renewed,
    Run,
    Inspect,
    Break,
    ForceBreak,
    EndRecovery,
    History,
    RecordHistory,
    Close,
}

/// What operators ask: it has no place and no lease.
const LOOKING: [What; 6] =
    [What::Inspect, What::Break, What::ForceBreak, What::EndRecovery, What::History, What::RecordHistory];

impl What {
    pub fn all() -> impl Iterator<Item = What> {
        use What::*;
        let taking = [Connect, Lazy, Acquire, AcquireTimeout, Enqueue, Waiting, Position, Try, Run];
        let holding = [Renew, Release, Lost, HeldLost, Renewed, Close];
        taking.into_iter().chain(holding).chain(LOOKING)
    }

    /// Whether its client holds the lock when it begins.
    pub fn holds(self) -> bool {
        matches!(self, What::Renew | What::Release | What::Lost | What::HeldLost | What::Renewed | What::Close)
    }

    /// The requests that it sends itself, scripts or commands, without those that follow its drop.
    pub fn sends(self) -> &'static [&'static str] {
        match self {
            What::Connect => &["hello", "client", "info", "script", "subscribe", "evalsha"],
            What::Lazy => &["hello", "script", "subscribe", "acquire"],
            What::Acquire | What::AcquireTimeout | What::Enqueue | What::Try => &["acquire"],
            What::Position => &["acquire"],
            What::Renew => &["renew"],
            What::Release => &["release"],
            What::Run => &["acquire", "release"],
            What::Inspect => &["inspect"],
            What::Break | What::ForceBreak | What::EndRecovery => &["break"],
            What::History | What::RecordHistory => &["history"],
            What::Close => &["release", "leave"],
            What::Waiting | What::Lost | What::HeldLost | What::Renewed => &[],
        }
    }

    /// Whether it stays pending as long as no holder releases.
    pub fn waits(self) -> bool {
        use What::{Acquire, AcquireTimeout, Lazy, Run, Waiting};
        matches!(self, Lazy | Acquire | AcquireTimeout | Waiting | Run)
    }

    /// Whether nothing that happens here completes it.
    pub fn is_endless(self) -> bool {
        matches!(self, What::Lost | What::HeldLost | What::Renewed)
    }

    /// Whether there is something to give back when it is dropped after its first poll.
    pub fn gives_back(self) -> bool {
        !matches!(self, What::Connect | What::Lazy) && !LOOKING.contains(&self)
    }
}

type Any_ = Box<dyn Any>;

/// A future to be driven and dropped, with everything that belongs to it.
pub struct Subject {
    pub future: Pin<Box<dyn Future<Output = Any_>>>,
    /// The guard or place that the future is about and does not own.
    kept: Vec<Any_>,
    pub client: Option<Client>,
    /// Closed clients serve no callers any more.
    pub closed: bool,
}

impl Subject {
    /// Its client goes through the proxy. `token` is that of the lease which somebody else may hold.
    pub fn prepare(what: What, url: &str, name: &str, token: u64) -> Subject {
        let url = url.to_owned();
        if what == What::Connect {
            let future = boxed(async move { Client::connect(&url).await });
            return Subject { future, kept: vec![], client: None, closed: false };
        }
        let client = match what {
            What::Lazy => Client::connect_lazy(&url).unwrap(),
            _ => insist(|| Client::connect(&url)),
        };
        let lock = client.lock_with(name, calm()).unwrap();
        let mut kept: Vec<Any_> = Vec::new();
        let future = match what {
            What::Connect | What::Lazy | What::Acquire => boxed(lock.acquire().label("a label").into_future()),
            What::AcquireTimeout => boxed(lock.acquire().timeout(100 * SOON).into_future()),
            What::Enqueue => boxed(lock.enqueue().owner("an owner").into_future()),
            What::Waiting => boxed(insist(|| lock.enqueue())),
            What::Position => {
                let waiting = insist(|| lock.enqueue());
                let position = waiting.position();
                kept.push(Box::new(waiting));
                boxed(position)
            }
            What::Try => boxed(lock.try_acquire().into_future()),
            What::Renew => {
                let guard = hold(&lock, &mut kept);
                boxed(async move { guard.renew().await })
            }
            What::Release => boxed(complete(lock.acquire()).unwrap().release()),
            What::Lost => {
                let guard = hold(&lock, &mut kept);
                boxed(async move { guard.lost().await })
            }
            What::Renewed => boxed(hold(&lock, &mut kept).renewed()),
            What::HeldLost => boxed(hold(&lock, &mut kept).held().ended()),
            What::Run => boxed(lock.acquire().timeout(100 * SOON).run(job)),
            What::Inspect => boxed(async move { lock.inspect().await }),
            What::Break => boxed(async move { lock.break_lease(token).await }),
            What::ForceBreak => boxed(async move { lock.force_break_lease(token).await }),
            What::EndRecovery => boxed(async move { lock.end_recovery().await }),
            What::History => boxed(async move { lock.history(9).await }),
            // Switched off, it leaves nothing behind.
            What::RecordHistory => boxed(async move { lock.record_history(false).await }),
            What::Close => {
                hold(&lock, &mut kept);
                kept.push(Box::new(insist(|| lock.enqueue())));
                let client = client.clone();
                boxed(async move { client.close().await })
            }
        };
        Subject { future, kept, client: Some(client), closed: what == What::Close }
    }

    /// Drops the future, then its guard or place, then on request the client.
    pub fn cancel(&mut self, polled: bool, last: bool) {
        self.future = boxed(std::future::pending::<()>());
        self.closed &= polled;
        // The leases of a closed client are released without being dropped.
        if !self.closed {
            self.kept.clear();
        }
        if last {
            self.client = None;
        }
    }
}

fn boxed<F: Future<Output: 'static> + 'static>(future: F) -> Pin<Box<dyn Future<Output = Any_>>> {
    Box::pin(async move { Box::new(future.await) as Any_ })
}

fn hold(lock: &Lock, kept: &mut Vec<Any_>) -> Arc<Guard> {
    let guard = Arc::new(complete(lock.acquire()).unwrap());
    kept.push(Box::new(guard.clone()));
    guard
}

/// Awaits a few times while it holds the lock.
async fn job(held: fairlock::Held) -> u64 {
    for _ in 0..3 {
        pause().await;
        held.check().expect("the lease is held");
    }
    held.token()
}
