//! A lock service in the process: tests of programs that use locks need no Redis server.
//!
//! Needs the feature `testing`, which belongs to `[dev-dependencies]`:
//!
//! ```toml
//! [dev-dependencies]
//! fairlock = { version = "0.1", features = ["testing"] }
//! ```
//!
//! A [`LockService`] listens at a port of 127.0.0.1 and speaks as much of Redis's protocol as this crate's [`Client`]
//! needs. So a test runs the real client with its thread, its connections and its timers; only the server is another:
//! a model of the scripts in Rust, which the tests of this crate compare with the scripts on a real server. Any number
//! of clients, threads, processes and locks may use one service, and each test can have its own: it costs a thread and
//! a port. `docs/testing.md` in the repository has the test of a handler of a web service, and says which method stands
//! for what may happen.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use fairlock::{LockOptions, testing::LockService};
//!
//! let service = LockService::start()?;
//! let [one, two] = [service.client().await?, service.client().await?];
//! let guard = one.lock("nightly")?.acquire().await?;
//! let waiting = two.lock("nightly")?.enqueue().await?;
//!
//! // The holder is not heard of for as long as its lease lasts: the next in line is granted the lock.
//! service.advance(guard.lease_length());
//! let next = waiting.await?;
//! assert!(next.token() > guard.token());
//!
//! // An operator ends its lease: it is told at once.
//! assert!(service.break_lease("nightly"));
//! next.lost().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What it does as a server does
//!
//! Everything that [`Lock`](crate::Lock), [`Guard`](crate::Guard) and the others promise on one server: order, tokens,
//! leases, sessions of waiters, recovery after a loss of data, [`inspect`](crate::Lock::inspect), breaking leases.
//!
//! # What it does not
//!
//! - It is one server without TLS, users, replicas and databases: every login is accepted, database 0 is the only one,
//!   and [`LockOptions::replicas`](crate::LockOptions::replicas) waits in vain. Test those with a real server.
//! - It is made for tests and not for speed: a request takes time in proportion to the length of its queue.
//! - [`history`](crate::Lock::history) has the latest eight grants.
//! - Clients of other versions of fairlock, and in other languages, may not find what they need.
//! - The clock of the service is not that of the clients, see [`advance`](LockService::advance).

pub(crate) mod calls;
mod commands;
mod locks;
pub(crate) mod model;
#[cfg(feature = "__test-hooks")]
pub(crate) mod packing;
#[cfg(any(test, feature = "__test-hooks"))]
pub(crate) mod promises;
mod server;

use std::io::{self, PipeWriter, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use self::server::{Server, Task};
use crate::client::Client;
use crate::error::ConnectError;
use crate::fork::Process;
use crate::operation::Operation;
use crate::thread;

/// A lock service in the process. When it is dropped it ends all connections: clients see a server that is gone.
///
/// A forked process may use the [`url`](Self::url) of its parent's service. Dropping that service there does nothing,
/// and the methods that change it panic: its thread stays in the parent.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = fairlock::testing::LockService::start()?;
/// let lock = service.client().await?.lock("nightly")?;
/// service.pause();
/// lock.acquire().timeout(std::time::Duration::from_millis(10)).await.unwrap_err();
/// service.resume();
/// lock.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LockService {
    process: Process,
    url: String,
    tasks: Sender<Task>,
    wake: PipeWriter,
}

impl LockService {
    /// Starts a service without locks, at a free port of 127.0.0.1.
    ///
    /// # Errors
    /// The system's, if it has no port, no descriptor or no thread left.
    pub fn start() -> io::Result<Self> {
        let process = Process::this();
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("redis://{}/", listener.local_addr()?);
        let (asleep, wake) = io::pipe()?;
        let (tasks, asked) = mpsc::channel();
        let server = Server::new(listener, asleep, asked);
        thread::spawn("fairlock-testing", move || server.serve())?;
        Ok(Self { process, url, tasks, wake })
    }

    /// For [`Client::connect`], a [builder](Client::builder), or another process: `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A new client of this service, with the usual settings. About three round trips.
    ///
    /// # Errors
    /// [`ConnectError`] after 5 seconds if the service is paused.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed again.
    pub fn client(&self) -> Operation<Result<Client, ConnectError>> {
        Client::connect(&self.url)
    }

    /// From now on nothing is answered, as by a server that hangs: requests wait in the sockets, and clients run into
    /// their timeouts. The other methods of the service work meanwhile; what clients are told by them is sent later.
    pub fn pause(&self) {
        self.ask(|server| server.paused = true);
    }

    /// Ends a [`pause`](Self::pause). What has arrived meanwhile is executed now, also requests of callers that have
    /// given up. Leases have gone on; waiters keep their places.
    pub fn resume(&self) {
        self.ask(|server| server.paused = false);
    }

    /// All data is lost, as by `FLUSHALL`. Clients notice it at their next heartbeat or renewal and bring back their
    /// leases and places. Meanwhile nothing is granted: for three heartbeats of the slowest waiter, and for as long as
    /// a lease may last of which a client knows, its own included. [`advance`](Self::advance) shortens that.
    pub fn lose_data(&self) {
        self.ask(|server| server.locks.lose());
    }

    /// Ends the lease of the lock with this name at once, as an operator does with
    /// [`force_break_lease`](crate::Lock::force_break_lease), and grants the lock to the next waiter. The holder is told
    /// by a message: its lease is lost as [`Broken`](crate::error::LostReason::Broken). Of several holders each loses
    /// its lease. False if nobody holds it. If clients with several [prefixes](crate::ClientBuilder::prefix) have a lock
    /// of this name, this is about each of them.
    pub fn break_lease(&self, name: &str) -> bool {
        let name = name.to_owned();
        self.ask(move |server| {
            let (broke, messages) = server.locks.break_lease(&name);
            server.publish(&messages);
            broke
        })
    }

    /// Sets the clock of the service forward, to the year 2112 at the most, as if all clients that are connected had
    /// sent their heartbeats meanwhile and no holder a renewal. Leases that would end in this time end at once, and so do
    /// recoveries. The next waiters are granted their locks. Waiters whose processes are gone lose their places.
    ///
    /// So this is what a test needs for a *holder that has died*, or is cut off: it need not die.
    ///
    /// It does **not** set the clock of the clients: timeouts of acquires, the timers of renewals and
    /// [`Held::remaining`](crate::Held::remaining) go by true time. A holder whose lease was ended like this hears of
    /// it with its next renewal, after a third of the lease in true time (10 s by default; a shorter
    /// [lease](crate::LockOptions::lease) is told sooner), or by [`Guard::renew`](crate::Guard::renew) at once: its
    /// lease is lost as [`Ended`](crate::error::LostReason::Ended). Until then two guards exist, which a server whose
    /// clock runs as fast as that of the holder rules out.
    pub fn advance(&self, by: Duration) {
        self.ask(move |server| {
            // The end of a process that was killed a moment ago counts.
            if !server.paused {
                server.hear(server.connections.keys().copied().collect::<Vec<_>>());
            }
            let channels: Vec<_> = server.connections.values().flat_map(|one| one.channels.clone()).collect();
            let messages = server.locks.advance(by, |channel| channels.iter().any(|heard| heard == channel));
            server.publish(&messages);
        });
    }

    /// What the thread of the service finds when it does this.
    #[allow(clippy::expect_used)] // The thread lives as long as the service, unless it has panicked.
    fn ask<T: Send + 'static>(&self, act: impl FnOnce(&mut Server) -> T + Send + 'static) -> T {
        assert!(!self.process.is_forked(), "the lock service has stayed in the parent process");
        let (tell, told) = mpsc::channel();
        self.order(Box::new(move |server| drop(tell.send(act(server)))));
        told.recv().expect("the thread of the lock service has panicked")
    }

    fn order(&self, task: Task) {
        // They fail if the thread has panicked.
        let _ = self.tasks.send(task);
        let _ = (&self.wake).write_all(&[1]);
    }
}

impl Drop for LockService {
    fn drop(&mut self) {
        if self.process.is_forked() {
            return;
        }
        let (last, dropped) = mpsc::channel();
        self.order(Box::new(|server| server.over = Some(last)));
        // An error: the thread has dropped everything.
        let _ = dropped.recv();
    }
}
