//! The variables that change a whole run of the tests: how the servers are set up, and as which user clients log in.
//!
//! | variable | value | then |
//! |---|---|---|
//! | `FAIRLOCK_REDIS_SERVER` | a path | this is the binary of all servers |
//! | `FAIRLOCK_TEST_USER` | `least` | [`RedisServer::url`] logs in as a user with exactly the rights that docs/guide.md lists |
//! | `FAIRLOCK_TOPOLOGY` | `sentinel`, `cluster` | it names sentinels, or the nodes of a cluster |
//! | `FAIRLOCK_CREW` | `semaphore`, `readers`, `mixture` | this is what crews use: 3 slots, 9 readers for each writer, or all kinds on one name |
//!
//! `make test-matrix` sets these and others in turn. Some tests are not affected: `model` talks to its servers without
//! a client; the servers of `cli::local` are started by fairlock itself; `api::refusals` and `api::acl_least_rights`
//! have users of their own; `topologies`, `histories::sentinels_and_clusters` and `tls` start servers of their own
//! (where clients mostly have the least rights, too); and some tests of `hostile::names` use names and prefixes for
//! which that user has no rights.
//!
//! A client that connects through a proxy uses the one server behind it in any case: in some tests of
//! `histories::single_server`, `api::cancellation`, `api::cleanup`, `cli::lease`, `faults::old_connections` and
//! `faults::reconnects`. Proxies before a node of a cluster, or before the master that a sentinel names, are in
//! `histories::sentinels_and_clusters` and `topologies::discovery`.
//!
//! The tests do not depend on these variables. They check the server that they started, to which [`RedisServer::raw`]
//! always connects as administrator; its companions hold no locks.

use std::{env, process::Command, sync::OnceLock};

use super::{
    cluster,
    sentinel::MASTER,
    server::{Builder, RedisServer, redis_server},
    waiting::SOON,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// One server and no other.
    #[default]
    Standalone,
    /// A sentinel, its companion, knows it as a master.
    Sentinel,
    /// It is one of two masters of a cluster, and has all slots. Clients are told the other one.
    Cluster,
}

impl Topology {
    pub fn of_this_run() -> Topology {
        match variable("FAIRLOCK_TOPOLOGY").as_deref() {
            None | Some("standalone") => Topology::Standalone,
            Some("sentinel") => Topology::Sentinel,
            Some("cluster") => Topology::Cluster,
            Some(other) => panic!("FAIRLOCK_TOPOLOGY={other}: it is standalone, sentinel or cluster"),
        }
    }

    /// Prepares a server before it starts.
    pub(super) fn prepare(self, server: Builder) -> Builder {
        match self {
            Topology::Standalone => server,
            Topology::Sentinel => server.tcp(),
            // No node is counted as dead while the tests run.
            Topology::Cluster => cluster::node(server, SOON * 100),
        }
    }

    /// The companion of a server, which clients are told instead. `like_it` prepares it like the other one.
    #[track_caller]
    pub(super) fn accompany(self, server: &RedisServer, like_it: Builder) -> Option<RedisServer> {
        match self {
            Topology::Standalone => None,
            Topology::Sentinel => {
                // The only sentinel, and no replica to promote: it always names this master.
                let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel");
                Some(sentinel.config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", server.port())).start())
            }
            Topology::Cluster => {
                let other = like_it.plain().start();
                cluster::found(server, &other);
                Some(other)
            }
        }
    }
}

/// The login of tests at their servers, if they need one.
pub fn login() -> Option<(&'static str, &'static str)> {
    match variable("FAIRLOCK_TEST_USER").as_deref() {
        None => None,
        Some("least") => Some(LEAST),
        Some(other) => panic!("FAIRLOCK_TEST_USER={other}: there is only `least`"),
    }
}

const LEAST: (&str, &str) = ("least", "of-all");

/// What a user needs in addition, to record and read a history of grants.
pub const HISTORY_RIGHTS: &str = " +xadd +xdel +xrevrange";

/// The ACL SETUSER rules for a user with this password and exactly the rights that docs/guide.md lists, but for those
/// that a history needs.
pub fn least_rights(password: &str, in_cluster: bool) -> String {
    let guide = include_str!("../../docs/guide.md");
    let start = guide.find("~fairlock:*").expect("the guide names the least rights");
    let section = guide[start..].split("\n## ").next().unwrap_or_default();
    let everywhere = section.split("```").next().unwrap_or_default();
    let elsewhere = section.split('`').filter(|words| words.starts_with('+'));
    let elsewhere = elsewhere.flat_map(str::split_whitespace).filter(|right| match *right {
        "+wait" => true,
        "+client|setinfo" => takes_setinfo(),
        // This right is for sentinels.
        "+sentinel|get-master-addr-by-name" => false,
        right if HISTORY_RIGHTS.split(' ').any(|of_history| right == of_history) => false,
        "+ssubscribe" | "+spublish" => in_cluster && version() >= (7, 0),
        _ => in_cluster,
    });
    let rights: Vec<&str> = everywhere.split_whitespace().chain(elsewhere).collect();
    format!("on >{password} resetkeys resetchannels -@all {}", rights.join(" "))
}

/// The rules of a user that the servers of this run know: Redis 6.0 has no channel permissions.
pub fn known_rules(rules: &str) -> impl Iterator<Item = &str> {
    let of_channels = |rule: &&str| rule.starts_with('&') || rule.ends_with("channels");
    rules.split_whitespace().filter(move |rule| version() >= (6, 2) || !of_channels(rule))
}

/// Redis 7.0 refuses rights to commands that it does not know; older servers accept them.
pub fn takes_setinfo() -> bool {
    version().0 != 7 || version() >= (7, 2)
}

/// Whether the servers of this run are too old for a test, which is said then.
pub fn lacks(what: &str, since: (u32, u32)) -> bool {
    let lacks = version() < since;
    if lacks {
        println!("not tested: {what}, which is new in {}.{}", since.0, since.1);
    }
    lacks
}

/// The version of the servers of this run, as far as it matters.
pub fn version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = Command::new(redis_server()).arg("--version").output().expect("running redis-server");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (_, version) = said.split_once("v=").expect("redis-server says its version");
        let mut numbers = version.split('.').map_while(|number| number.parse().ok());
        (numbers.next().expect("a number"), numbers.next().expect("two numbers"))
    })
}

pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
