//! What a whole run of the tests does otherwise, by its environment: how the servers are set up, and who goes there.
//!
//! | variable | value | then |
//! |---|---|---|
//! | `FAIRLOCK_REDIS_SERVER` | a path | the servers are this one |
//! | `FAIRLOCK_TEST_USER` | `least` | [`RedisServer::url`] logs in as a user with the rights that the README names, and no more |
//! | `FAIRLOCK_TOPOLOGY` | `sentinel`, `cluster` | it goes by way of sentinels, or of the nodes of a cluster |
//!
//! The tests know nothing of it. They judge by the server that they started, to which [`RedisServer::raw`] leads as
//! administrator in each case: where there are more, these hold no locks.

use std::env;

use super::{
    SOON, cluster,
    sentinel::MASTER,
    server::{Builder, RedisServer},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topology {
    /// One server, and nobody beside it.
    #[default]
    Standalone,
    /// A sentinel beside it knows it as the master.
    Sentinel,
    /// It is one of two masters of a cluster and has all slots. Clients are told of the other one.
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

    /// Done to a server before it starts.
    pub(super) fn prepare(self, server: Builder) -> Builder {
        match self {
            Topology::Standalone => server,
            Topology::Sentinel => server.tcp(),
            // Nobody is taken for dead while the tests run.
            Topology::Cluster => cluster::node(server, SOON * 100),
        }
    }

    /// Started after a server: what clients are told of in its stead. `like_it` is how it was prepared itself.
    #[track_caller]
    pub(super) fn accompany(self, server: &RedisServer, like_it: Builder) -> Option<RedisServer> {
        match self {
            Topology::Standalone => None,
            Topology::Sentinel => {
                // The only one, and without a replica to promote: it names this master for ever.
                let sentinel = RedisServer::builder().alone().tcp().argument("--sentinel");
                Some(sentinel.config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", server.port())).start())
            }
            Topology::Cluster => {
                let other = like_it.alone().start();
                cluster::found(server, &other);
                Some(other)
            }
        }
    }
}

/// As whom tests go to their servers: a name and a password, unless they need none.
pub fn login() -> Option<(&'static str, &'static str)> {
    match variable("FAIRLOCK_TEST_USER").as_deref() {
        None => None,
        Some("least") => Some(LEAST),
        Some(other) => panic!("FAIRLOCK_TEST_USER={other}: there is only `least`"),
    }
}

const LEAST: (&str, &str) = ("least", "of-all");

/// A server that knows them.
pub(super) fn with_user(server: Builder) -> Builder {
    match login() {
        Some((user, password)) => server.user(user, &least_rights(password)),
        None => server,
    }
}

/// What ACL SETUSER takes for a user with this password, and the rights that the README names.
pub fn least_rights(password: &str) -> String {
    let readme = include_str!("../../README.md");
    let rights = &readme[readme.find("~fairlock:*").expect("the README names the least rights")..];
    let rights: Vec<&str> = rights.split("```").next().unwrap_or_default().split_whitespace().collect();
    format!("on >{password} resetkeys resetchannels -@all {}", rights.join(" "))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
