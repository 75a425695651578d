//! A private redis-server: on a unix socket, on request on a loopback port too, in a folder of its own.

mod builder;

use std::{
    collections::BTreeSet,
    env, fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use redis::ErrorKind;
use rustix::process::Signal;
use tempfile::TempDir;

pub use self::builder::Builder;
use super::{
    place::{root, say},
    process::Process,
    run::Topology,
    waiting::{SOON, eventually},
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
    pub(super) companion: Option<Box<RedisServer>>,
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
        eventually("the replica is linked", SOON, || replica.info("master_link_status").as_deref() == Some("up"));
        replica
    }

    #[track_caller]
    pub fn port(&self) -> u16 {
        self.port.expect("this server was started without `tcp()`")
    }

    pub(super) fn has_port(&self) -> bool {
        self.port.is_some()
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

    /// A field of INFO, if it is there.
    #[track_caller]
    pub fn info(&self, field: &str) -> Option<String> {
        let told: String = redis::cmd("INFO").arg("all").query(&mut self.raw()).expect("INFO");
        told.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned()))
    }

    /// CONFIG SET.
    #[track_caller]
    pub fn set(&self, name: &str, value: impl redis::ToRedisArgs) {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut self.raw()).expect("CONFIG SET");
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

    /// The ids of all connections to the server but the asking one. One that this program has closed may be among them for
    /// a moment: a process that another test forks has a copy of it until it executes its program.
    pub fn connections(&self) -> BTreeSet<u64> {
        let mut raw = self.raw();
        let (me, list): (u64, String) =
            redis::pipe().cmd("CLIENT").arg("ID").cmd("CLIENT").arg("LIST").query(&mut raw).expect("the connections");
        let ids = list.lines().filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok());
        ids.filter(|id| *id != me).collect()
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
