//! A login that expires, in a cluster.

use std::future::IntoFuture as _;
use std::time::Duration;

use fairlock::{Client, Credentials};
use testkit::{Cluster, SOON, eventually, soon, watch::Counter};

/// A login that lives for two seconds: each connection to a node gets the next one.
#[tokio::test]
async fn a_login_that_expires_is_renewed_at_each_node() {
    let cluster = Cluster::builder().each(|node| node.user("app", "on >token ~* &* +@all")).start();
    let mut logins: Vec<_> = cluster.nodes().iter().map(Counter::start).collect();
    let lifetime = Duration::from_secs(2);
    let ask = move || Ok::<_, String>(Credentials::new("app", "token").expires_in(lifetime));
    let client = soon(Client::builder().url(&cluster.url()).login_with(ask).connect()).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..12 {
        guards.push(soon(client.lock(&number.to_string()).unwrap().acquire().into_future()).await.unwrap());
    }
    for logins in &mut logins {
        eventually("it is logged in anew", SOON, || logins.so_far().get("auth").is_some_and(|&calls| calls >= 2));
    }
    guards.iter().for_each(|guard| guard.check().unwrap());
}
