//! A private redis-server: on a unix socket, on request on a loopback port too, in a folder of its own.

use std::{
    env,
    ffi::OsString,
    fmt, fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::ErrorKind;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{
    SOON, cluster, eventually,
    process::Process,
    root,
    run::{self, Topology},
    say,
};

/// A running server. Every method takes `&self`, so that one thread can restart it while others use it.
///
/// ```ignore
/// let server = RedisServer::start();
/// let server = RedisServer::builder().tcp().appendonly().config("maxmemory 10mb").start();
/// ```
pub struct RedisServer {
    setup: Builder,
    port: Option<u16>,
    dir: TempDir,
    process: Mutex<Option<Process>>,
    pub(super) topology: Topology,
    /// The login of clients, if they need one.
    pub(super) login: Option<(String, String)>,
    /// Where clients start to look for this server.
    pub(super) beside: Option<Box<RedisServer>>,
}

#[derive(Clone, Debug, Default)]
pub struct Builder {
    binary: Option<PathBuf>,
    tcp: bool,
    encrypted: bool,
    appendonly: bool,
    password: Option<String>,
    config: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, OsString)>,
    alone: bool,
    plain: bool,
    folder: Option<&'static str>,
}

impl Builder {
    /// Also listens on a free port of 127.0.0.1, which it keeps over restarts.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Its loopback port accepts only encrypted connections and demands certificates from clients, replicas, sentinels
    /// and the other nodes of its cluster. It shows the certificate in these files itself, wherever it connects to.
    pub fn encrypted(mut self, authority: &Path, certificate: &Path, key: &Path) -> Self {
        self.encrypted = true;
        self.tcp()
            .config(&format!("tls-ca-cert-file {}", authority.display()))
            .config(&format!("tls-cert-file {}", certificate.display()))
            .config(&format!("tls-key-file {}", key.display()))
            .config("tls-auth-clients yes")
            .config("tls-replication yes")
            .config("tls-cluster yes")
    }

    /// Writes every command to disk before it answers, so that `kill` and `restart` lose nothing.
    pub fn appendonly(mut self) -> Self {
        self.appendonly = true;
        self
    }

    /// `requirepass`. The URLs of the server carry it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// One more ACL user, e.g. `user("worker", "on >secret ~fairlock:* +@all")`; log in with `url_as`.
    pub fn user(self, name: &str, rules: &str) -> Self {
        let of_channels = |rule: &&str| rule.starts_with('&') || rule.ends_with("channels");
        // Redis 6.0 has no channel permissions.
        let rules = rules.split_whitespace().filter(|rule| run::version() >= (6, 2) || !of_channels(rule));
        self.config(&format!("user {name} {}", rules.collect::<Vec<_>>().join(" ")))
    }

    /// One more line for redis.conf.
    pub fn config(mut self, line: &str) -> Self {
        self.config.push(line.to_owned());
        self
    }

    /// Another server than the usual one: any executable that takes redis-server's arguments.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// One more argument after the configuration file.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// One more variable in its environment.
    pub fn environment(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Its replicas are linked as soon as they ask, and their lag is checked often.
    pub fn master(self) -> Self {
        self.alone().tcp().config("repl-diskless-sync-delay 0").config("repl-ping-replica-period 1")
    }

    /// Whatever the environment says about the run (`testkit::run`), this server has no other beside it.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Whatever the environment says about the run, it has only its own users.
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self.alone()
    }

    /// The beginning of the name of its folder.
    pub fn folder(mut self, prefix: &'static str) -> Self {
        self.folder = Some(prefix);
        self
    }

    /// Starts the server and waits until it answers.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        let topology = if self.alone { Topology::Standalone } else { Topology::of_this_run() };
        let server = topology.prepare(self);
        match run::login().filter(|_| !server.plain && server.password.is_none()) {
            Some((user, password)) => {
                let in_cluster = server.config.iter().any(|line| line == cluster::ENABLED);
                let rights = run::least_rights(password, in_cluster);
                server.user(user, &rights).start_in(topology, Some((user, password)))
            }
            None => server.start_in(topology, None),
        }
    }

    #[track_caller]
    fn start_in(self, topology: Topology, user: Option<(&str, &str)>) -> RedisServer {
        let prefix = self.folder.unwrap_or("fairlock-");
        let dir = tempfile::Builder::new().prefix(prefix).tempdir().expect("a folder for redis-server");
        let owned = |(user, password): (&str, &str)| (user.to_owned(), password.to_owned());
        let login = user.or(self.password.as_deref().map(|password| ("default", password))).map(owned);
        let process = Mutex::new(None);
        let mut server = RedisServer { setup: self, port: None, dir, process, topology, login, beside: None };
        // A port that was free a moment ago can be in use by now. Each attempt draws another one.
        let mut attempts = if server.setup.tcp { 5 } else { 1 };
        loop {
            server.port = server.setup.tcp.then(free_port);
            attempts -= 1;
            match server.configure().and_then(|()| server.launch()) {
                Ok(()) => break,
                Err(error) if attempts == 0 => panic!("{error}"),
                Err(_) => {}
            }
        }
        server.beside = topology.accompany(&server, server.setup.clone()).map(Box::new);
        server
    }
}

impl RedisServer {
    /// A plain server on a unix socket.
    #[track_caller]
    pub fn start() -> RedisServer {
        RedisServer::builder().start()
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A Redis 5.0, which lacks RESP3 and other things that fairlock needs. None, after a message, if `make test` could
    /// not fetch it.
    #[track_caller]
    pub fn too_old() -> Option<RedisServer> {
        let servers = env::var_os("FAIRLOCK_SERVERS").map(PathBuf::from);
        let servers = servers.unwrap_or_else(|| root().join("target/servers"));
        let binary = servers.join("redis-5.0/redis-server");
        if !binary.exists() {
            say(format_args!("SKIPPED: no Redis 5.0 to be refused, as {} is not there", binary.display()));
            return None;
        }
        Some(RedisServer::builder().plain().binary(binary).start())
    }

    /// Another server that replicates this one and is linked to it. This one must listen on a port.
    #[track_caller]
    pub fn replica(&self) -> RedisServer {
        let replicates = format!("replicaof 127.0.0.1 {}", self.port());
        let replica = Builder { config: [self.setup.config.clone(), vec![replicates]].concat(), ..self.setup.clone() };
        // Other settings of this run were made for this server, and are copied.
        let replica = replica.plain().start();
        eventually("the replica is linked", SOON, || {
            let info: String = redis::cmd("INFO").arg("replication").query(&mut replica.raw()).expect("INFO");
            info.contains("master_link_status:up")
        });
        replica
    }

    #[track_caller]
    pub fn port(&self) -> u16 {
        self.port.expect("this server was started without `tcp()`")
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    pub fn password(&self) -> Option<&str> {
        self.setup.password.as_deref()
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("the server is not running").pid()
    }

    /// The server's log, over all restarts.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("redis.log")).unwrap_or_default()
    }

    /// A separate connection for assertions. Its calls fail after a while instead of hanging with a stopped server.
    #[track_caller]
    pub fn raw(&self) -> redis::Connection {
        self.try_raw().expect("a connection to the private redis-server")
    }

    /// All data is lost (FLUSHALL).
    #[track_caller]
    pub fn flush(&self) {
        redis::cmd("FLUSHALL").exec(&mut self.raw()).expect("FLUSHALL by the administrator");
    }

    /// [`Self::raw`] for a moment at which the connection may be ended while it is made.
    pub fn try_raw(&self) -> redis::RedisResult<redis::Connection> {
        self.connect(SOON)
    }

    /// Freezes the server (SIGSTOP): connections stay open and nothing is answered until `cont`.
    #[track_caller]
    pub fn stop(&self) {
        self.process().as_mut().expect("the server is not running").stop();
    }

    #[track_caller]
    pub fn cont(&self) {
        self.process().as_mut().expect("the server is not running").cont();
    }

    /// SIGKILL. Writes that are not in the append-only file are lost.
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// An orderly end (SIGTERM), as by an operator; it also works for a stopped server.
    #[track_caller]
    pub fn shutdown(&self) {
        if let Some(mut process) = self.process().take() {
            process.signal(Signal::TERM);
            process.signal(Signal::CONT);
            process.wait(SOON);
        }
    }

    /// Starts it again in the same folder, at the same socket and port, with the current content of its configuration
    /// file (servers under Sentinel rewrite theirs). Kills it first if it runs.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        // Another process can take the port for a moment while the server does not listen.
        let start = Instant::now();
        while let Err(error) = self.launch() {
            assert!(self.port.is_some() && start.elapsed() < SOON, "{error}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that panicked within one of these methods must still be able to end its server.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it runs and is not frozen, as far as this handle did it.
    pub fn is_up(&self) -> bool {
        self.process().as_mut().is_some_and(|process| process.is_running())
    }

    fn connect(&self, timeout: Duration) -> redis::RedisResult<redis::Connection> {
        let connection = redis::Client::open(self.admin_url())?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(connection)
    }

    fn configuration(&self) -> PathBuf {
        self.dir.path().join("redis.conf")
    }

    fn configure(&self) -> Result<(), String> {
        fs::write(self.configuration(), self.config()).map_err(|error| format!("writing redis.conf: {error}"))
    }

    fn launch(&self) -> Result<(), String> {
        let binary = self.setup.binary.clone().unwrap_or_else(redis_server);
        let mut command = Command::new(&binary);
        command.arg(self.configuration()).args(&self.setup.arguments).envs(self.setup.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::spawn(&mut command, Some(self.dir.path()))
            .map_err(|error| format!("starting {}: {error}; `make setup` installs a redis-server", binary.display()))?;

        let start = Instant::now();
        while !self.answers() {
            if let Some(status) = process.exited() {
                return Err(format!("redis-server ended at its start ({status}):\n{}{}", self.config(), self.log()));
            }
            if start.elapsed() > SOON {
                return Err(format!("redis-server does not answer:\n{}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        *self.process() = Some(process);
        Ok(())
    }

    /// Whether it is up: it answers PING, or refuses the login itself.
    fn answers(&self) -> bool {
        let answer =
            self.connect(Duration::from_secs(1)).and_then(|mut raw| redis::cmd("PING").query::<String>(&mut raw));
        match answer {
            Ok(_) => true,
            Err(error) => {
                !error.is_io_error() && error.kind() != ErrorKind::Server(redis::ServerErrorKind::BusyLoading)
            }
        }
    }

    fn config(&self) -> String {
        let dir = self.dir.path().display();
        let port = self.port.unwrap_or(0);
        let (plain, encrypted) = if self.setup.encrypted { (0, Some(port)) } else { (port, None) };
        let mut lines = vec![
            format!("dir \"{dir}\""),
            format!("logfile \"{dir}/redis.log\""),
            format!("unixsocket \"{dir}/redis.sock\""),
            "unixsocketperm 700".to_owned(),
            "bind 127.0.0.1".to_owned(),
            format!("port {plain}"),
            "save \"\"".to_owned(),
        ];
        lines.extend(encrypted.map(|port| format!("tls-port {port}")));
        if self.setup.appendonly {
            lines.extend(["appendonly yes".to_owned(), "appendfsync always".to_owned()]);
        }
        if let Some(password) = &self.setup.password {
            lines.push(format!("requirepass \"{password}\""));
        }
        lines.extend(self.setup.config.iter().cloned());
        lines.join("\n") + "\n"
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("dir", &self.dir.path()).field("port", &self.port).finish_non_exhaustive()
    }
}

/// The binary: the one that the environment names, else the one in PATH, else the one that `make setup` linked.
pub fn redis_server() -> PathBuf {
    let named = env::var_os("FAIRLOCK_REDIS_SERVER").filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let linked = root().join("target/redis/redis-server");
    named
        .or_else(|| env::split_paths(&path).map(|dir| dir.join("redis-server")).find(|file| file.is_file()))
        .unwrap_or(linked)
}

/// The difference between the port of a cluster node and that of its cluster bus. (Only Redis 7 lets one choose it.)
const BUS: u16 = 10_000;

/// A port that is free and whose bus port is free as well. Both are below the range for outgoing connections: otherwise
/// a client could take the port of a server that is down for a moment, or even connect to itself there.
fn free_port() -> u16 {
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let ports = std::iter::repeat_with(|| fastrand::u16(12_000..22_000));
    ports.take(1000).find(|port| is_free(*port) && is_free(port + BUS)).expect("a free loopback port")
}
