//! How a client finds the next master, by sentinels or behind the address of the one before it, which serves no more.

use std::time::Duration;

use fairlock::{Client, Lock, LockOptions};
use redis::cmd;
use testkit::{Proxy, RedisServer, SOON, connect, eventually, eventually_async, quiet, run, sentinel::MASTER, soon};

use super::discovery::listeners;

/// The answers of a sentinel, without an election: the test tells it the master.
struct Named(RedisServer);

impl Named {
    fn sentinel() -> Named {
        Named(RedisServer::builder().plain().tcp().argument("--sentinel").start())
    }

    fn names(&self, master: &RedisServer) {
        let mut raw = self.0.raw();
        let _ = cmd("SENTINEL").arg("REMOVE").arg(MASTER).query::<()>(&mut raw);
        let mut monitor = cmd("SENTINEL").arg("MONITOR").arg(MASTER).to_owned();
        let () = monitor.arg("127.0.0.1").arg(master.port()).arg(1).query(&mut raw).unwrap();
        // No server is counted as dead.
        let mut set = cmd("SENTINEL").arg("SET").arg(MASTER).to_owned();
        let () = set.arg("down-after-milliseconds").arg((100 * SOON).as_millis()).query(&mut raw).unwrap();
    }

    /// How often a client connected to it: once for each question.
    fn asked(raw: &mut redis::Connection) -> u64 {
        let info: String = cmd("INFO").arg("stats").query(raw).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().parse().unwrap()
    }
}

async fn lock_by(sentinels: &[String]) -> Lock {
    let mut builder = Client::builder().sentinel(sentinels, MASTER);
    if let Some((user, password)) = run::login() {
        builder = builder.login(user, password);
    }
    soon(builder.connect()).await.unwrap().lock_with("x", quiet()).unwrap()
}

/// This master refuses with other words than one that only takes no writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_refuses_all_commands_is_left_for_the_one_that_sentinels_name() {
    let [old, new] =
        [(); 2].map(|()| RedisServer::builder().alone().tcp().config("replica-serve-stale-data no").start());
    let sentinel = Named::sentinel();
    sentinel.names(&old);
    let guard = soon(lock_by(&[format!("127.0.0.1:{}", sentinel.0.port())]).await.acquire()).await.unwrap();
    // It is told to follow a server that does not exist.
    let () = cmd("REPLICAOF").arg("127.0.0.1").arg(1).query(&mut old.raw()).unwrap();
    sentinel.names(&new);
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_refuses_writes_is_left_for_the_one_that_sentinels_name() {
    let [old, new] = [(); 2].map(|()| RedisServer::builder().alone().tcp().start());
    let (silent, sentinel) = (RedisServer::builder().plain().tcp().start(), Named::sentinel());
    sentinel.names(&old);
    // A sentinel that hangs does not hold up the other.
    silent.stop();
    let sentinels = [&silent, &sentinel.0].map(|one| format!("127.0.0.1:{}", one.port()));
    let guard = soon(lock_by(&sentinels).await.acquire()).await.unwrap();

    let demote = |server: &RedisServer, master: &RedisServer| {
        let () = cmd("REPLICAOF").arg("127.0.0.1").arg(master.port()).query(&mut server.raw()).unwrap();
    };
    demote(&old, &new);
    sentinel.names(&new);
    // On a slow machine the search takes longer than a call waits.
    eventually_async("the new master renews it", SOON, async || guard.renew().await.is_ok()).await;
    soon(guard.release()).await.unwrap();
    eventually("its client has gone with it", SOON, || listeners(&new).is_empty());

    // A replica is not asked, even if a sentinel names it: its data may be old. It would answer a reading client.
    let lock = lock_by(&sentinels).await;
    sentinel.names(&old);
    let mut raw = sentinel.0.raw();
    let asked = Named::asked(&mut raw);
    let there = listeners(&new);
    assert_eq!(there.len(), 1);
    let () = cmd("CLIENT").arg("KILL").arg("ID").arg(there.first()).query(&mut new.raw()).unwrap();
    let inspect = async move {
        loop {
            if let Ok(state) = lock.inspect().await {
                return state;
            }
        }
    };
    let mut inspecting = tokio::spawn(inspect);
    eventually_async("it asks the sentinel again and again", SOON, async || Named::asked(&mut raw) >= asked + 3).await;
    let early = tokio::time::timeout(Duration::ZERO, &mut inspecting).await;
    assert!(early.is_err(), "{early:?} from a replica");
    sentinel.names(&new);
    soon(inspecting).await.unwrap();
}

/// A virtual address, a name, or a service that fails over: nobody ends the connections to the old master.
#[tokio::test(flavor = "multi_thread")]
async fn demoted_master_is_left_for_the_one_behind_the_same_address() {
    let old = RedisServer::builder().master().tcp().start();
    let new = old.replica();
    let proxy = Proxy::start(&old);
    let options = || LockOptions::new().lease(Duration::from_secs(6)).liveness(Duration::from_secs(3));
    let lock = async || Client::connect(&proxy.url()).await.unwrap().lock_with("x", options()).unwrap();
    let guard = soon(lock().await.acquire()).await.unwrap();
    let waiter = soon(lock().await.enqueue()).await.unwrap();
    let (token, ticket) = (guard.token(), waiter.ticket());
    // With the data of the old one, so that nobody waits for a recovery.
    eventually("the replica has it", SOON, || {
        let sent = old.info("master_repl_offset");
        sent.is_some() && sent == new.info("slave_repl_offset")
    });

    let () = cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut new.raw()).unwrap();
    proxy.lead_to(&new);
    let () = cmd("REPLICAOF").arg("127.0.0.1").arg(new.port()).query(&mut old.raw()).unwrap();
    eventually("all clients have left the old master", SOON, || listeners(&old).is_empty());
    let there = connect(&new).await.lock_with("x", options()).unwrap();
    eventually_async("both are known to the new master", SOON, async || {
        let state = there.inspect().await.unwrap();
        state.holders.first().is_some_and(|holder| holder.token == token) && state.queue.len() == 1
    })
    .await;
    guard.check().unwrap();
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
    let next = soon(waiter).await.unwrap();
    assert_eq!(next.ticket(), ticket);
    soon(next.release()).await.unwrap();
}
