//! A proxy in front of a private redis-server that treats a connection as networks and servers may: it delays frames,
//! loses them, answers instead of the server, cuts, refuses, and goes on delivering the requests of a client that is
//! gone. It counts what it did, so that a test can demand that its fault struck.
//!
//! ```ignore
//! let proxy = Proxy::start(&server);
//! let client = Client::connect(&proxy.url()).await?;
//! let fault = proxy.fault(Target::reply(digest("acquire")), Act::Hold);
//! // … start an acquire …
//! fault.await_struck();   // the server has granted, the client does not know
//! proxy.heal();           // what was held is delivered, and nothing strikes any more
//! ```
//!
//! Each connection has two threads, one for each direction. So a frame that is held back delays the frames behind it in
//! its direction only, as in a stream. For the same reason nothing gets through behind a lost frame.

mod connection;

use std::{
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use tempfile::TempDir;

use self::connection::Connection;
pub use super::faults::{Act, Target};
use super::{
    faults::Rules,
    server::RedisServer,
    urls::{before_host, of_socket},
    waiting::SOON,
};

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted, and those that were accepted only to be closed at once.
    pub connections: u64,
    pub refused: u64,
    /// Frames that went through.
    pub requests: u64,
    pub replies: u64,
    pub pushes: u64,
    /// Requests that were delivered after their client had gone, and those of them that the server did not take.
    pub late: u64,
    pub late_refused: u64,
    /// Connections that are open at one end or both.
    pub open: u64,
}

/// A fault, and how often it struck.
#[derive(Clone, Debug)]
pub struct Fault {
    number: usize,
    shared: Arc<Shared>,
}

impl Fault {
    pub fn struck(&self) -> u64 {
        self.shared.lock().rules.struck(self.number)
    }

    /// Blocks until it has struck.
    #[track_caller]
    pub fn await_struck(&self) {
        self.shared.wait("the fault strikes", |inner| inner.rules.struck(self.number) > 0);
    }

    /// It does not strike any more, and the frames that it held go on.
    pub fn lift(&self) {
        self.shared.lock().rules.lift(self.number);
        self.shared.changed.notify_all();
    }
}

#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    dir: TempDir,
    port: Option<u16>,
    login: Option<(String, String)>,
    listeners: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    /// The socket to which new connections lead.
    server: PathBuf,
    rules: Rules,
    counts: Counts,
    connections: Vec<Arc<Connection>>,
    refuses: bool,
    ended: bool,
}

impl Proxy {
    /// A server that is alone whatever the environment says about the run, and this in front of it.
    #[track_caller]
    pub fn of_a_server() -> (RedisServer, Proxy) {
        let server = RedisServer::builder().alone().start();
        let proxy = Proxy::start(&server);
        (server, proxy)
    }

    /// Listens on its own unix socket.
    #[track_caller]
    pub fn start(server: &RedisServer) -> Proxy {
        let dir = tempfile::Builder::new().prefix("fairlock-proxy-").tempdir().expect("a folder for a socket");
        let inner = Mutex::new(Inner { server: server.socket(), ..Inner::default() });
        let shared = Arc::new(Shared { inner, changed: Condvar::new() });
        let mut proxy = Proxy { shared, dir, port: None, login: server.login.clone(), listeners: Vec::new() };
        let listener = UnixListener::bind(proxy.socket()).expect("binding a unix socket");
        proxy.listen(move || listener.accept().map(|(client, _)| client.into()));
        proxy
    }

    /// Also listens on a loopback port.
    #[track_caller]
    pub fn tcp(mut self) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        self.port = Some(listener.local_addr().expect("a bound socket has an address").port());
        self.listen(move || listener.accept().map(|(client, _)| client.into()));
        self
    }

    fn listen(&mut self, accept: impl Fn() -> std::io::Result<OwnedFd> + Send + 'static) {
        let shared = self.shared.clone();
        self.listeners.push(std::thread::spawn(move || {
            while let Ok(client) = accept() {
                if shared.lock().ended {
                    return;
                }
                shared.take(client);
            }
        }));
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("proxy.sock")
    }

    /// The URL of its unix socket, with the login of clients at the server.
    pub fn url(&self) -> String {
        of_socket(&self.socket(), self.login())
    }

    #[track_caller]
    pub fn port(&self) -> u16 {
        self.port.expect("this proxy was started without `tcp()`")
    }

    /// The URL of its loopback port, with the same login.
    #[track_caller]
    pub fn tcp_url(&self) -> String {
        format!("redis://{}127.0.0.1:{}/", before_host(self.login()), self.port())
    }

    fn login(&self) -> Option<(&str, &str)> {
        self.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()))
    }

    /// Applies `act` to every frame that `target` matches, until the fault is lifted.
    pub fn fault(&self, target: Target, act: Act) -> Fault {
        self.fault_times(u64::MAX, target, act)
    }

    /// The same, for at most this many frames. Faults that were set earlier come first.
    pub fn fault_times(&self, times: u64, target: Target, act: Act) -> Fault {
        let number = self.shared.lock().rules.add(times, target, act);
        Fault { number, shared: self.shared.clone() }
    }

    /// From now on this is a long link: what comes from either side takes half of this time, or twice as long if something
    /// is on its way.
    pub fn far(&self, round_trip: Duration) {
        for target in [Target::request(""), Target::reply(""), Target::push("")] {
            self.fault(target, Act::Delay(round_trip / 2));
        }
    }

    /// Lifts all faults: held frames go on, and new connections are accepted again.
    pub fn heal(&self) {
        let mut inner = self.shared.lock();
        inner.rules.lift_all();
        inner.refuses = false;
        self.shared.changed.notify_all();
    }

    /// New connections are closed at once.
    pub fn refuse(&self) {
        self.shared.lock().refuses = true;
    }

    /// New connections lead to this server, as with a virtual address that moved. Existing connections stay.
    pub fn lead_to(&self, server: &RedisServer) {
        self.shared.lock().server = server.socket();
    }

    /// Ends all connections at both ends, with all frames that are held in them.
    pub fn cut(&self) {
        self.shared.lock().connections.iter().for_each(|connection| connection.cut());
        self.shared.changed.notify_all();
    }

    /// Ends the clients' side of all connections. The server's side stays, and held frames get there when they are
    /// released.
    pub fn abandon(&self) {
        let connections = self.shared.lock().connections.clone();
        connections.iter().for_each(|connection| connection.abandon());
    }

    pub fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// Blocks until `holds` accepts the counts.
    #[track_caller]
    pub fn wait(&self, what: &str, holds: impl Fn(&Counts) -> bool) {
        self.shared.wait(what, |inner| holds(&inner.counts));
    }

    /// How many held requests have a client that has closed its side: healing delivers them late.
    pub fn abandoned(&self) -> usize {
        let connections = self.shared.lock().connections.clone();
        connections.iter().filter(|connection| connection.state().holds && connection.client_gone()).count()
    }

    /// How many held requests have a connection that the server has ended: it will not take them.
    pub fn held_in_vain(&self) -> usize {
        let connections = self.shared.lock().connections.clone();
        let in_vain = |connection: &&Arc<Connection>| {
            let state = connection.state();
            state.holds && state.ended > 0
        };
        connections.iter().filter(in_vain).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut inner = self.shared.lock();
            inner.ended = true;
            inner.rules.lift_all();
        }
        self.cut();
        // Wakes the threads that accept.
        let _ = UnixStream::connect(self.socket());
        let _ = self.port.map(|port| TcpStream::connect(("127.0.0.1", port)));
        self.listeners.drain(..).for_each(|listener| drop(listener.join()));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&Inner) -> bool) {
        let (inner, timeout) = self
            .changed
            .wait_timeout_while(self.lock(), SOON, |inner| !holds(inner))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "not within {SOON:?}: {what}; {:?}", inner.counts);
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock().counts);
        self.changed.notify_all();
    }
}
