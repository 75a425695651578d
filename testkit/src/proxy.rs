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

use std::{
    collections::VecDeque,
    fs::File,
    io::Write as _,
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{Shutdown, shutdown},
};
use tempfile::TempDir;

pub use super::faults::{Act, Target};
use super::{
    SOON,
    faults::{Rules, Side},
    resp::{Frames, is_push, words},
    server::RedisServer,
    urls::{before_host, of_socket},
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

#[derive(Debug)]
struct Connection {
    client: File,
    server: File,
    /// The unanswered requests, in order.
    asked: Mutex<VecDeque<Asked>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cut: bool,
    /// A request is being held.
    holds: bool,
    /// Directions that have ended.
    ended: u8,
}

#[derive(Debug)]
enum Asked {
    Server(Vec<Vec<u8>>),
    /// The proxy answers it when its turn comes.
    Here(&'static str),
}

impl Proxy {
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
        for connection in connections {
            let _ = shutdown(&connection.client, Shutdown::Both);
        }
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

    fn take(self: &Arc<Self>, client: OwnedFd) {
        // The server does not see refused clients: it would count them.
        let (refused, server) = {
            let inner = self.lock();
            (inner.refuses, inner.server.clone())
        };
        let server = (!refused).then(|| UnixStream::connect(server)).and_then(Result::ok);
        let Some(server) = server else { return self.count(|counts| counts.refused += 1) };
        let (client, server) = (File::from(client), File::from(OwnedFd::from(server)));
        let connection = Arc::new(Connection { client, server, asked: Mutex::default(), state: Mutex::default() });
        {
            let mut inner = self.lock();
            inner.connections.push(connection.clone());
            inner.counts.connections += 1;
            inner.counts.open += 1;
        }
        self.changed.notify_all();
        for pump in [Shared::requests, Shared::replies] {
            let (shared, connection) = (self.clone(), connection.clone());
            std::thread::spawn(move || {
                pump(&shared, &connection);
                shared.ended(&connection);
            });
        }
    }

    /// One direction has ended. The other may still deliver what was sent before.
    fn ended(&self, connection: &Arc<Connection>) {
        let mut inner = self.lock();
        let mut state = connection.state();
        state.ended += 1;
        if state.ended == 2 {
            inner.connections.retain(|other| !Arc::ptr_eq(other, connection));
            inner.counts.open -= 1;
        }
        // Also for a frame that is held when the other direction has just been cut.
        self.changed.notify_all();
    }

    fn requests(&self, connection: &Connection) {
        let mut frames = Frames::new(&connection.client);
        while let Some(frame) = frames.next() {
            let words = words(&frame);
            match self.judge(connection, Side::Request, &words) {
                None if connection.state().cut => return,
                None => {
                    let gone = connection.client_gone();
                    connection.asked().push_back(Asked::Server(words));
                    let delivered = (&connection.server).write_all(&frame).is_ok();
                    self.count(|counts| {
                        counts.requests += u64::from(delivered);
                        counts.late += u64::from(gone && delivered);
                        counts.late_refused += u64::from(gone && !delivered);
                    });
                }
                Some(Act::Answer(error)) => {
                    let mut asked = connection.asked();
                    asked.push_back(Asked::Here(error));
                    connection.answer_here(&mut asked);
                }
                Some(Act::Cut(bytes)) => {
                    let _ = (&connection.server).write_all(&frame[..bytes.min(frame.len())]);
                    return connection.cut();
                }
                // All later frames are lost too.
                Some(_) => while frames.next().is_some() {},
            }
        }
        // A server that cannot send its reply ends the connection, and does not read the requests that are still in it.
        let _ = shutdown(&connection.server, Shutdown::Write);
    }

    fn replies(&self, connection: &Connection) {
        let mut frames = Frames::new(&connection.server);
        while let Some(frame) = frames.next() {
            let push = is_push(&frame);
            let verdict = if push {
                self.judge(connection, Side::Push, &words(&frame))
            } else {
                // It stays first until it has passed, so that no other answer overtakes it.
                let words = match connection.asked().front() {
                    Some(Asked::Server(words)) => words.clone(),
                    other => panic!("a reply to {other:?}"),
                };
                self.judge(connection, Side::Reply, &words)
            };
            let (bytes, end) = match verdict {
                None => (frame.as_slice(), false),
                Some(Act::Answer(_)) => (&[][..], false),
                Some(Act::Cut(bytes)) => (&frame[..bytes.min(frame.len())], true),
                Some(_) => {
                    while frames.next().is_some() {}
                    break;
                }
            };
            let mut asked = connection.asked();
            // The end of a client does not end the server's side: requests of it may still be on their way.
            let _ = (&connection.client).write_all(bytes);
            if !push {
                asked.pop_front();
            }
            if let Some(Act::Answer(error)) = verdict {
                asked.push_front(Asked::Here(error));
            }
            connection.answer_here(&mut asked);
            drop(asked);
            if end {
                return connection.cut();
            }
            self.count(|counts| if push { counts.pushes += 1 } else { counts.replies += 1 });
        }
        let _ = shutdown(&connection.client, Shutdown::Both);
    }

    /// The act for this frame, if it is not simply passed on. Waits as long as the frame is held.
    fn judge(&self, connection: &Connection, side: Side, words: &[Vec<u8>]) -> Option<Act> {
        // A fault of an unawaited answer would not be noticed.
        if side != Side::Request && connection.client_gone() {
            return None;
        }
        let mut inner = self.lock();
        let (number, act) = inner.rules.strike(side, words)?;
        connection.state().holds = side == Side::Request && matches!(act, Act::Hold);
        self.changed.notify_all();
        let lasts = |inner: &Inner| inner.rules.lasts(number) && !connection.state().cut;
        match act {
            Act::Hold => {
                let held = self.changed.wait_while(inner, |inner| lasts(inner));
                drop(held.unwrap_or_else(PoisonError::into_inner));
                connection.state().holds = false;
                None
            }
            Act::Delay(time) => {
                drop(inner);
                std::thread::sleep(time);
                None
            }
            act => Some(act),
        }
    }
}

impl Connection {
    fn asked(&self) -> MutexGuard<'_, VecDeque<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the proxy's own answers that are due.
    fn answer_here(&self, asked: &mut VecDeque<Asked>) {
        while let Some(Asked::Here(error)) = asked.front() {
            let _ = (&self.client).write_all(format!("-{error}\r\n").as_bytes());
            asked.pop_front();
        }
    }

    fn cut(&self) {
        self.state().cut = true;
        let _ = (shutdown(&self.client, Shutdown::Both), shutdown(&self.server, Shutdown::Both));
    }

    fn client_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.client, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().is_empty()
    }
}
