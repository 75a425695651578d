//! The other locks: how each is started, and the server that it needs.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{RedisServer, eventually, process::Process};

use crate::kit::roles::Helper;

pub struct Peer {
    pub name: &'static str,
    server: Server,
    program: Program,
    pub forms: &'static [Form],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Lock,
    Semaphore,
    ReadWrite,
}

enum Server {
    Redis,
    Etcd,
    ZooKeeper,
    Throttle,
}

/// How a process of this lock is started; all but this one are told their lock's name.
enum Program {
    This,
    Rslock,
    Go,
    Python,
    Java,
    /// Semaphores and read-write locks of Java.
    JavaShared,
    Node,
    DistributedLock,
    Throttle,
}

const fn lock_on(server: Server, name: &'static str, program: Program) -> Peer {
    Peer { name, server, program, forms: &[Form::Lock] }
}

const fn on_redis(name: &'static str, program: Program) -> Peer {
    lock_on(Server::Redis, name, program)
}

const fn semaphore(server: Server, name: &'static str, program: Program) -> Peer {
    Peer { name, server, program, forms: &[Form::Semaphore] }
}

const fn read_write(server: Server, name: &'static str, program: Program) -> Peer {
    Peer { name, server, program, forms: &[Form::ReadWrite] }
}

/// Those that promise an order come first.
pub const PEERS: &[Peer] = &[
    on_redis("redis-fifo-lock", Program::Python),
    on_redis("redisson-fair", Program::Java),
    lock_on(Server::ZooKeeper, "curator", Program::Java),
    lock_on(Server::Etcd, "etcd", Program::Go),
    on_redis("redisson", Program::Java),
    on_redis("python-redis-lock", Program::Python),
    on_redis("redislock", Program::Go),
    on_redis("redsync", Program::Go),
    on_redis("redis-py", Program::Python),
    on_redis("rslock", Program::Rslock),
];

/// Semaphores and read-write locks, this project's first.
pub const SHARED: &[Peer] = &[
    Peer {
        name: "fairlock",
        server: Server::Redis,
        program: Program::This,
        forms: &[Form::Semaphore, Form::ReadWrite],
    },
    semaphore(Server::ZooKeeper, "curator-semaphore", Program::JavaShared),
    read_write(Server::ZooKeeper, "curator-rw", Program::JavaShared),
    semaphore(Server::Throttle, "throttle", Program::Throttle),
    semaphore(Server::Redis, "redisson-semaphore", Program::JavaShared),
    semaphore(Server::Redis, "redisson-permits", Program::JavaShared),
    read_write(Server::Redis, "redisson-rw", Program::JavaShared),
    semaphore(Server::Redis, "npm redis-semaphore", Program::Node),
    Peer {
        name: "distributed-lock-redis",
        server: Server::Redis,
        program: Program::DistributedLock,
        forms: &[Form::Semaphore, Form::ReadWrite],
    },
];

pub fn this() -> Peer {
    on_redis("fairlock", Program::This)
}

pub fn named(name: &str) -> &'static Peer {
    PEERS.iter().find(|peer| peer.name == name).expect("one of the list")
}

/// Where `run.sh` puts what it sets up.
fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

fn text(path: PathBuf) -> String {
    path.to_str().expect("a path of letters").to_owned()
}

/// A private server, which ends with this.
pub struct Service {
    port: u16,
    pid: u32,
    _redis: Option<RedisServer>,
    _process: Option<(Process, tempfile::TempDir)>,
}

impl Service {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn redis() -> Self {
        let server = RedisServer::builder().tcp().plain().start();
        Self { port: server.port(), pid: server.pid(), _redis: Some(server), _process: None }
    }

    fn of(mut command: Command, port: u16, folder: tempfile::TempDir) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command, Some(folder.path())).expect("a server that starts");
        eventually("the server listens", Duration::from_secs(60), || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, pid: process.pid(), _redis: None, _process: Some((process, folder)) }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

impl Peer {
    /// The server that this lock needs, if the lock was set up; else why not.
    pub fn service(&self) -> Result<Service, String> {
        let missing = self.made_of().filter(|file| !file.exists());
        if let Some(missing) = missing {
            return Err(format!("it was not set up: there is no {}", missing.display()));
        }
        let folder = tempfile::tempdir().expect("a folder");
        match self.server {
            Server::Redis => Ok(Service::redis()),
            Server::Etcd => {
                let etcd = peers().join("etcd");
                if !etcd.exists() {
                    return Err("there is no server of etcd".into());
                }
                let (port, other) = (free_port(), format!("http://127.0.0.1:{}", free_port()));
                let address = format!("http://127.0.0.1:{port}");
                let mut command = Command::new(etcd);
                command.arg("--data-dir").arg(folder.path());
                for (option, value) in [
                    ("--listen-client-urls", &address),
                    ("--advertise-client-urls", &address),
                    ("--listen-peer-urls", &other),
                    ("--initial-advertise-peer-urls", &other),
                    ("--initial-cluster", &format!("default={other}")),
                ] {
                    command.args([option, value]);
                }
                Ok(Service::of(command, port, folder))
            }
            Server::ZooKeeper => {
                let port = free_port();
                let mut command = Command::new("java");
                command.arg("-cp").arg(peers().join("java/*")).arg("-Dzookeeper.admin.enableServer=false");
                command.arg("org.apache.zookeeper.server.ZooKeeperServerMain").arg(port.to_string()).arg(folder.path());
                Ok(Service::of(command, port, folder))
            }
            Server::Throttle => {
                let (port, semaphores) = (free_port(), folder.path().join("throttle.toml"));
                std::fs::write(&semaphores, "[semaphores]\nof3 = 3\nof16 = 16\n").expect("a file");
                let mut command = Command::new(peers().join("throttle-server/bin/throttle"));
                command.arg("--port").arg(port.to_string()).arg("--configuration").arg(semaphores);
                Ok(Service::of(command, port, folder))
            }
        }
    }

    /// What `run.sh` makes of this lock.
    fn made_of(&self) -> Option<PathBuf> {
        let file = match self.program {
            Program::This => return None,
            Program::Rslock => "rslock",
            Program::Go => "peer-go",
            Program::Python => "venv/bin/python",
            Program::Java => "java/classes/Peer.class",
            Program::JavaShared => "java/classes/Shared.class",
            Program::Node => "node/peer.js",
            Program::DistributedLock => "distributed-lock",
            Program::Throttle => "throttle",
        };
        Some(peers().join(file))
    }

    pub fn start(&self, service: &Service) -> Helper {
        let port = service.port.to_string();
        if let Program::This = self.program {
            return Helper::start("this", &[&port]);
        }
        let mut words = self.words();
        words.push(port);
        Helper::of_program(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The program and its arguments, but the port.
    fn words(&self) -> Vec<String> {
        let own = |path: PathBuf| vec![text(path), self.name.to_owned()];
        match self.program {
            Program::This => Vec::new(),
            Program::Rslock => vec![text(peers().join("rslock"))],
            Program::Go => own(peers().join("peer-go")),
            Program::Python => {
                let mut words = vec![text(peers().join("venv/bin/python"))];
                words.extend(own(sources().join("python/peer.py")));
                words
            }
            Program::Node => vec!["node".to_owned(), text(peers().join("node/peer.js"))],
            Program::DistributedLock => vec![text(peers().join("distributed-lock"))],
            Program::Throttle => vec![text(peers().join("throttle"))],
            Program::Java | Program::JavaShared => {
                let main = if matches!(self.program, Program::Java) { "Peer" } else { "Shared" };
                let classes = text(peers().join("java/classes"));
                let path = format!("{classes}:{}", text(peers().join("java/*")));
                ["java", "-cp", &path, main, self.name].map(str::to_owned).into()
            }
        }
    }
}
