//! How a server is set up before it starts.

use std::{
    ffi::OsString,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::RedisServer;
use crate::{
    cluster,
    run::{self, Topology},
};

#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(super) binary: Option<PathBuf>,
    pub(super) tcp: bool,
    pub(super) encrypted: bool,
    pub(super) appendonly: bool,
    pub(super) password: Option<String>,
    pub(super) config: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, OsString)>,
    pub(super) alone: bool,
    pub(super) plain: bool,
    pub(super) more_rights: &'static str,
    pub(super) folder: Option<&'static str>,
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
        self.config(&format!("user {name} {}", run::known_rules(rules).collect::<Vec<_>>().join(" ")))
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

    /// Whatever the environment says about the run (`testkit::run`), this server is alone.
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Whatever the environment says about the run, it has only its own users.
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self.alone()
    }

    /// Where clients have the least rights, they have these in addition.
    pub fn more_rights(mut self, rights: &'static str) -> Self {
        self.more_rights = rights;
        self
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
                let rights =
                    [&run::least_rights(password, in_cluster), run::HISTORY_RIGHTS, server.more_rights].join(" ");
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
        let mut server = RedisServer { setup: self, port: None, dir, process, topology, login, companion: None };
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
        server.companion = topology.accompany(&server, server.setup.clone()).map(Box::new);
        server
    }
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
