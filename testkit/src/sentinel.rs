//! A master with replicas, and three sentinels that replace it when it falls silent.
//!
//! ```ignore
//! let set_up = Sentinels::start();
//! let old = set_up.master();
//! old.kill();
//! let new = set_up.await_failover(old);
//! old.restart(); // As the master that it was, until the sentinels make a replica of it.
//! set_up.await_replica(old);
//! ```

use std::time::Duration;

use redis::cmd;

use super::{
    run,
    server::{Builder as ServerBuilder, RedisServer},
    urls::before_host,
    waiting::{SOON, eventually},
};

/// The sentinels' name of their master.
pub const MASTER: &str = "mymaster";
/// The quorum of the three sentinels.
const QUORUM: usize = 2;
/// Longer than `SOON`: an election in which the sentinels vote for themselves is repeated only after six seconds.
const PATIENCE: Duration = SOON.saturating_mul(4);

/// Servers and sentinels. All end with this handle.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

#[derive(Clone, Debug)]
pub struct Builder {
    replicas: usize,
    down_after: Duration,
    alert: bool,
    password: Option<String>,
    server: ServerBuilder,
}

impl Builder {
    /// How many replicas the master has; two unless this is called.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// How long a server may be silent before a sentinel counts it as dead: 1.2 s unless this is called. Tests without
    /// failovers set much more, because a loaded machine is silent for longer. Less than a second would often bring a
    /// second failover at once: a sentinel tries once a second to reach a lost server, and contacts a new master at the
    /// same interval.
    pub fn down_after(mut self, down_after: Duration) -> Self {
        self.down_after = down_after;
        self
    }

    /// The sentinels check ten times as often as usual, so that an old master that is started again is a replica after
    /// one or two seconds instead of ten, in which it takes writes. Sentinels before Redis 7 ignore this.
    pub fn alert(mut self) -> Self {
        self.alert = true;
        self
    }

    /// The password of the master and of its replicas. The sentinels need none.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.server = self.server.password(password).config(&format!("masterauth \"{password}\""));
        self
    }

    /// One more line in the configuration of the master and of each replica.
    pub fn config(mut self, line: &str) -> Self {
        self.server = self.server.config(line);
        self
    }

    /// Starts all, and waits until every sentinel knows the replicas and the other sentinels. From then on a failover
    /// can succeed.
    #[track_caller]
    pub fn start(self) -> Sentinels {
        let server = self
            .server
            .alone()
            .tcp()
            .config("repl-diskless-sync yes")
            .config("repl-diskless-sync-delay 0")
            .config("repl-ping-replica-period 1")
            .config("repl-timeout 5")
            .config("replica-announce-ip 127.0.0.1");
        let mut servers = vec![server.clone().start()];
        let replica = server.config(&format!("replicaof 127.0.0.1 {}", servers[0].port()));
        servers.extend((0..self.replicas).map(|_| replica.clone().start()));
        // A sentinel asks the master for its replicas when it starts, and then only every ten seconds.
        eventually("the replicas are linked", SOON, || {
            info(&servers[0], "replication").contains(&format!("connected_slaves:{}", self.replicas))
        });

        let mut sentinel = RedisServer::builder()
            .plain()
            .tcp()
            .argument("--sentinel")
            .config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} {QUORUM}", servers[0].port()))
            // Until all of them know each other, a master that is slow is no dead one.
            .config(&format!("sentinel down-after-milliseconds {MASTER} {}", SOON.as_millis()))
            .config(&format!("sentinel failover-timeout {MASTER} 3000"))
            .config(&format!("sentinel parallel-syncs {MASTER} {}", self.replicas.max(1)));
        if let Some(password) = self.password {
            sentinel = sentinel.config(&format!("sentinel auth-pass {MASTER} \"{password}\""));
        }
        let sentinels: Vec<RedisServer> = (0..3).map(|_| sentinel.clone().start()).collect();
        // A sentinel that could not run for two seconds, as on a loaded machine, does nothing for another 30.
        let mut settings = vec!["SENTINEL", "DEBUG", "TILT-PERIOD", "1000"];
        if self.alert {
            settings.extend(["INFO-PERIOD", "1000", "PUBLISH-PERIOD", "200"]);
        }
        for sentinel in &sentinels {
            let outcome = ask::<()>(sentinel, &settings);
            assert!(outcome.is_ok() || !knows_debug(sentinel), "{outcome:?}");
        }
        let ready = format!("status=ok,address=127.0.0.1:{},slaves={},sentinels=3", servers[0].port(), self.replicas);
        for sentinel in &sentinels {
            eventually("the sentinels know everybody", SOON, || info(sentinel, "sentinel").contains(&ready));
        }
        let after = self.down_after.as_millis().to_string();
        for sentinel in &sentinels {
            ask::<()>(sentinel, &["SENTINEL", "SET", MASTER, "down-after-milliseconds", &after]).expect("SENTINEL SET");
        }
        Sentinels { servers, sentinels }
    }
}

impl Sentinels {
    /// A master, two replicas, three sentinels.
    #[track_caller]
    pub fn start() -> Sentinels {
        Sentinels::builder().start()
    }

    pub fn builder() -> Builder {
        Builder {
            replicas: 2,
            down_after: Duration::from_millis(1200),
            alert: false,
            password: None,
            server: RedisServer::builder(),
        }
    }

    /// The URL for clients: all sentinels, and their name of the master.
    pub fn url(&self) -> String {
        let sentinels: Vec<String> = self.sentinels.iter().map(address).collect();
        format!("redis-sentinel://{}{}/{MASTER}", before_host(run::login()), sentinels.join(","))
    }

    /// The master and the replicas, in the order in which they were started.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels as servers, to be stopped and killed.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The server that enough sentinels name as the master, running or not. None while they disagree.
    pub fn named_master(&self) -> Option<&RedisServer> {
        let up = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
        let named: Vec<Option<u16>> = up.map(master_named_by).collect();
        let votes = |server: &RedisServer| named.iter().filter(|port| **port == Some(server.port())).count();
        self.servers.iter().find(|server| votes(server) >= QUORUM)
    }

    /// The master as the sentinels see it.
    #[track_caller]
    pub fn master(&self) -> &RedisServer {
        let mut master = None;
        eventually("the sentinels agree", SOON, || {
            master = self.named_master();
            master.is_some()
        });
        master.expect("the loop above ends with a master")
    }

    /// Waits until all running sentinels name another master than `old`, and it takes writes.
    #[track_caller]
    pub fn await_failover(&self, old: &RedisServer) -> &RedisServer {
        let mut new = None;
        eventually("there is another master", PATIENCE, || {
            let mut up = self.sentinels.iter().filter(|sentinel| sentinel.is_up());
            new = self.named_master().filter(|server| server.port() != old.port() && server.is_up());
            new.is_some_and(|new| {
                up.all(|sentinel| master_named_by(sentinel) == Some(new.port()))
                    && role(new).as_deref() == Some("master")
            })
        });
        new.expect("the loop above ends with a master")
    }

    /// Waits until `server` is a replica that is linked to the master: after a failover, what an old master becomes
    /// when it is started again.
    #[track_caller]
    pub fn await_replica(&self, server: &RedisServer) {
        eventually("it is a replica of the master", PATIENCE, || {
            let info = info(server, "replication");
            let follows = |master: &RedisServer| info.contains(&format!("master_port:{}\r\n", master.port()));
            info.contains("master_link_status:up") && self.named_master().is_some_and(follows)
        });
    }

    /// A failover without a fault, as an operator starts it. Refused while another is under way.
    #[track_caller]
    pub fn fail_over(&self) -> &RedisServer {
        let old = self.master();
        eventually("the sentinels accept the failover", PATIENCE, || {
            let up = self.sentinels.iter().find(|sentinel| sentinel.is_up()).expect("a sentinel that is up");
            ask::<()>(up, &["SENTINEL", "FAILOVER", MASTER]).is_ok()
        });
        self.await_failover(old)
    }
}

fn address(server: &RedisServer) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// The functions below repeat their question until the answer is as wanted. A sentinel that makes a master a replica,
/// or the other way round, ends all connections to it, also those of a test. So an error is an answer like others.
fn ask<T: redis::FromRedisValue>(server: &RedisServer, words: &[&str]) -> redis::RedisResult<T> {
    cmd(words[0]).arg(&words[1..]).query(&mut server.try_raw()?)
}

fn master_named_by(sentinel: &RedisServer) -> Option<u16> {
    let (_, port): (String, String) = ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]).ok()?;
    port.parse().ok()
}

fn role(server: &RedisServer) -> Option<String> {
    let role: Vec<redis::Value> = ask(server, &["ROLE"]).ok()?;
    redis::from_redis_value(role.first()?.clone()).ok()
}

/// Whether SENTINEL DEBUG takes settings: from Redis 7 on.
fn knows_debug(sentinel: &RedisServer) -> bool {
    !info(sentinel, "server").contains("redis_version:6.")
}

fn info(server: &RedisServer, section: &str) -> String {
    ask(server, &["INFO", section]).unwrap_or_default()
}
