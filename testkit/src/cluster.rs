//! A Redis Cluster: three masters, on request each with a replica.
//!
//! ```ignore
//! let cluster = Cluster::start();
//! let slot = cluster.slot("fairlock:{lock}:lock");
//! let to = cluster.another_master(cluster.owner(slot));
//! let mut migration = cluster.migrate(slot, to);
//! while let Some(key) = migration.step() {
//!     // One key more has moved.
//! }
//! migration.finish();
//! ```

use std::{ops::Range, time::Duration};

use redis::{Value, cmd};

use super::{
    proxy::Proxy,
    run,
    server::{Builder as ServerBuilder, RedisServer},
    urls::before_host,
    waiting::{SOON, eventually},
};

/// The configuration line that makes a server a cluster node.
pub(super) const ENABLED: &str = "cluster-enabled yes";
const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// The nodes. All end with this handle.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

#[derive(Clone, Debug)]
pub struct Builder {
    replicas: bool,
    node_timeout: Duration,
    node: ServerBuilder,
}

impl Builder {
    /// Each master has a replica, which takes its place when it falls silent.
    pub fn replicas(mut self) -> Self {
        self.replicas = true;
        self
    }

    /// How long a node may be silent before the others count it as dead: a second unless this is called. Tests without
    /// failovers set much more, because a loaded machine is silent for longer.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = node_timeout;
        self
    }

    /// One more line in the configuration of each node.
    pub fn config(self, line: &str) -> Self {
        self.each(|node| node.config(line))
    }

    /// Further settings for each node.
    pub fn each(mut self, tell: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        self.node = tell(self.node);
        self
    }

    /// Starts all nodes, and waits until each of them sees a whole cluster and every replica is linked.
    #[track_caller]
    pub fn start(self) -> Cluster {
        let node = node(self.node, self.node_timeout).alone();
        let count = if self.replicas { 2 * MASTERS } else { MASTERS };
        let cluster = Cluster { nodes: (0..count).map(|_| node.clone().start()).collect() };
        make_one(&cluster.nodes.iter().collect::<Vec<_>>(), || cluster.assign());
        cluster
    }
}

impl Cluster {
    /// Three masters without replicas.
    #[track_caller]
    pub fn start() -> Cluster {
        Cluster::builder().start()
    }

    pub fn builder() -> Builder {
        Builder { replicas: false, node_timeout: Duration::from_secs(1), node: RedisServer::builder() }
    }

    /// The URL for clients: all nodes.
    pub fn url(&self) -> String {
        self.url_of(&self.nodes.iter().collect::<Vec<_>>())
    }

    /// The URL for clients that are told only some nodes.
    pub fn url_of(&self, nodes: &[&RedisServer]) -> String {
        let nodes: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}{}/", before_host(run::login()), nodes.join(","))
    }

    /// All nodes: first the initial masters, then their replicas in the same order.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        ask(self.up().next().expect("a node that is up"), &["KEYSLOT", key])
    }

    /// The master of a slot, once all running nodes agree and it runs itself.
    #[track_caller]
    pub fn owner(&self, slot: u16) -> &RedisServer {
        self.await_owner("all nodes agree on the owner of the slot", slot, |_| true)
    }

    /// A master that is up and is not `node`.
    #[track_caller]
    pub fn another_master(&self, node: &RedisServer) -> &RedisServer {
        let other = self.up().find(|other| other.port() != node.port() && is_master(other));
        other.expect("another master that is up")
    }

    /// The running replicas of a master, as they report themselves; the master hears of them a little later.
    pub fn replicas(&self, master: &RedisServer) -> Vec<&RedisServer> {
        let id: String = ask(master, &["MYID"]);
        let follows = |line: &str| line.contains("myself,slave") && line.contains(&id);
        self.up().filter(|node| ask::<String>(node, &["NODES"]).lines().any(follows)).collect()
    }

    /// Waits until all running nodes name another master of the slot than `old`, and that master runs.
    #[track_caller]
    pub fn await_promotion(&self, slot: u16, old: &RedisServer) -> &RedisServer {
        self.await_owner("a replica was promoted", slot, |owner| owner.port() != old.port())
    }

    /// Waits until `node` is a replica that is linked to its master: after a promotion, what an old master becomes when
    /// it is started again.
    #[track_caller]
    pub fn await_replica(&self, node: &RedisServer) {
        eventually("it is a replica", SOON, || !is_master(node) && is_ready(node));
    }

    /// Begins to move a slot. From now on its owner redirects requests for absent keys to the new one (ASK).
    #[track_caller]
    pub fn migrate<'a>(&'a self, slot: u16, to: &'a RedisServer) -> Migration<'a> {
        let from = self.owner(slot);
        let number = slot.to_string();
        let (from_id, to_id): (String, String) = (ask(from, &["MYID"]), ask(to, &["MYID"]));
        let () = ask(to, &["SETSLOT", &number, "IMPORTING", &from_id]);
        let () = ask(from, &["SETSLOT", &number, "MIGRATING", &to_id]);
        Migration { cluster: self, slot, from, to }
    }

    /// A proxy before a node: when this returns, all nodes send clients to it. Needs Redis 7: before that, a node names
    /// itself by the port of its start.
    #[track_caller]
    pub fn put_proxy_before(&self, node: &RedisServer) -> Proxy {
        let proxy = Proxy::start(node).tcp();
        let id: String = ask(node, &["MYID"]);
        let port = Value::Int(proxy.port().into());
        node.set("cluster-announce-port", proxy.port());
        eventually("all nodes name the proxy", SOON, || {
            self.up().all(|other| {
                let ranges: Vec<Vec<Value>> = ask(other, &["SLOTS"]);
                let mut masters = ranges.iter().flat_map(|range| &range[2..]);
                masters.any(|master| matches!(master, Value::Array(parts) if parts[1] == port && parts[2] == text(&id)))
            })
        });
        proxy
    }

    fn up(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().filter(|node| node.is_up())
    }

    #[track_caller]
    fn await_owner(&self, what: &str, slot: u16, accept: impl Fn(&RedisServer) -> bool) -> &RedisServer {
        let mut found = None;
        eventually(what, SOON, || {
            let mut owners: Vec<Option<String>> = self.up().map(|node| owner_seen_by(node, slot)).collect();
            owners.dedup();
            let [Some(id)] = &owners[..] else { return false };
            found = self.up().find(|node| ask::<String>(node, &["MYID"]) == *id && accept(node));
            found.is_some()
        });
        found.expect("the loop above ends with a node")
    }

    fn assign(&self) {
        let (masters, replicas) = self.nodes.split_at(MASTERS);
        let share = SLOTS.div_ceil(MASTERS as u16);
        for (master, first) in masters.iter().zip((0..).step_by(share.into())) {
            add_slots(master, first..SLOTS.min(first + share));
        }
        for (master, replica) in masters.iter().zip(replicas) {
            let () = ask(replica, &["REPLICATE", &ask::<String>(master, &["MYID"])]);
        }
    }
}

/// A slot that is moving from one master to another. Dropped before the end, it leaves the slot as it is then, like an
/// operator's tool that crashed.
#[derive(Debug)]
#[must_use]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a RedisServer,
    to: &'a RedisServer,
}

impl Migration<'_> {
    /// Moves one key and returns its name. None if there is none left.
    #[track_caller]
    pub fn step(&mut self) -> Option<String> {
        let keys: Vec<String> = ask(self.from, &["GETKEYSINSLOT", &self.slot.to_string(), "1"]);
        let key = keys.into_iter().next()?;
        self.take(&key);
        Some(key)
    }

    /// Moves this key, if the owner of the slot has it.
    #[track_caller]
    pub fn take(&mut self, key: &str) {
        let () = cmd("MIGRATE")
            .arg("127.0.0.1")
            .arg(self.to.port())
            .arg(key)
            .arg(0)
            .arg(SOON.as_millis())
            .query(&mut self.from.raw())
            .expect("MIGRATE");
    }

    /// Moves the remaining keys and hands the slot over. Returns when all nodes know it.
    #[track_caller]
    pub fn finish(mut self) {
        while self.step().is_some() {}
        let (slot, id) = (self.slot.to_string(), ask::<String>(self.to, &["MYID"]));
        // The new owner first: the old one then forgets where it redirected its clients. The rest as redis-cli does.
        let masters = self.cluster.up().filter(|node| is_master(node));
        for node in [self.to, self.from].into_iter().chain(masters) {
            let () = ask(node, &["SETSLOT", &slot, "NODE", &id]);
        }
        let to = self.to.port();
        self.cluster.await_owner("all nodes know the new owner", self.slot, |owner| owner.port() == to);
    }
}

/// How a node of a cluster is set up.
pub(super) fn node(server: ServerBuilder, node_timeout: Duration) -> ServerBuilder {
    server
        .tcp()
        .config(ENABLED)
        .config("cluster-config-file nodes.conf")
        .config(&format!("cluster-node-timeout {}", node_timeout.as_millis()))
        // The loss of one master is no reason for the others to refuse their slots.
        .config("cluster-require-full-coverage no")
        .config("cluster-replica-validity-factor 0")
        .config("repl-diskless-sync yes")
        .config("repl-diskless-sync-delay 0")
        .config("repl-timeout 5")
}

/// A cluster of two nodes, of which one has all slots and the other none.
#[track_caller]
pub(super) fn found(owner: &RedisServer, other: &RedisServer) {
    make_one(&[owner, other], || add_slots(owner, 0..SLOTS));
}

/// Makes a cluster of these nodes. Each of them sees the whole cluster when this returns.
#[track_caller]
fn make_one(nodes: &[&RedisServer], assign: impl FnOnce()) {
    // Two nodes that meet each other at the same moment can miss each other (Valkey's do), and wait for that long.
    const HASTE: Duration = Duration::from_secs(2);
    let set = |timeout: &str| nodes.iter().for_each(|node| node.set("cluster-node-timeout", timeout));
    let get = cmd("CONFIG").arg("GET").arg("cluster-node-timeout").to_owned();
    let (_, agreed): (String, String) = get.query(&mut nodes[0].raw()).expect("CONFIG GET");
    set(&HASTE.as_millis().to_string());
    introduce(nodes);
    assign();
    eventually("every node sees a whole cluster", SOON, || nodes.iter().all(|node| is_ready(node)));
    set(&agreed);
}

/// Makes every node known to every other one, rather than wait for gossip to spread.
#[track_caller]
fn introduce(nodes: &[&RedisServer]) {
    let knows_all = |node: &RedisServer| {
        let known: String = ask(node, &["NODES"]);
        let others = nodes.iter().filter(|other| other.port() != node.port());
        // Nodes that have just met have no name of their own yet. On a very slow machine this ends without success.
        let unknown: Vec<_> = others.filter(|other| !known.contains(&ask::<String>(other, &["MYID"]))).collect();
        for other in &unknown {
            let () = ask(node, &["MEET", "127.0.0.1", &other.port().to_string()]);
        }
        unknown.is_empty()
    };
    eventually("the nodes know each other", SOON, || {
        nodes.iter().filter(|node| knows_all(node)).count() == nodes.len()
    });
}

#[track_caller]
fn add_slots(node: &RedisServer, slots: Range<u16>) {
    let slots: Vec<u16> = slots.collect();
    let () = cmd("CLUSTER").arg("ADDSLOTS").arg(slots).query(&mut node.raw()).expect("CLUSTER ADDSLOTS");
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[track_caller]
fn ask<T: redis::FromRedisValue>(node: &RedisServer, words: &[&str]) -> T {
    cmd("CLUSTER").arg(words).query(&mut node.raw()).unwrap_or_else(|error| panic!("CLUSTER {words:?}: {error}"))
}

fn is_ready(node: &RedisServer) -> bool {
    let is = |field: &str, value: &str| node.info(field).as_deref() == Some(value);
    let linked = is("role", "master") || is("master_link_status", "up");
    let whole = |info: String| info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
    linked && whole(ask(node, &["INFO"]))
}

fn is_master(node: &RedisServer) -> bool {
    ask::<String>(node, &["NODES"]).lines().any(|line| line.contains("myself,master"))
}

/// The id of a slot's master, as this node sees it. (Its port may be that of a proxy.)
fn owner_seen_by(node: &RedisServer, slot: u16) -> Option<String> {
    // Each range: its first slot, its last one, its master, its replicas; each of these: address, port, id, …
    let ranges: Vec<Vec<Value>> = ask(node, &["SLOTS"]);
    let number = |value: &Value| redis::from_redis_value::<u16>(value.clone()).ok();
    let range = ranges.iter().find(|range| {
        matches!((number(&range[0]), number(&range[1])), (Some(first), Some(last)) if (first..=last).contains(&slot))
    })?;
    let Value::Array(master) = &range[2] else { return None };
    redis::from_redis_value(master[2].clone()).ok()
}
