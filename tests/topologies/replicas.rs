//! Locks whose grants count only once replicas have them.
use std::future::IntoFuture;
use std::time::{Duration, Instant};

use fairlock::{
    Client, Lock, LockOptions,
    error::{AcquireError, LostReason},
};
use futures_util::future::try_join_all;
use testkit::{Act, Cluster, Proxy, RedisServer, SOON, Target, eventually, keys_left, quiet, soon, state::State};

/// A master and its replica, linked.
fn pair() -> (RedisServer, RedisServer) {
    let master = RedisServer::builder().master().start();
    let replica = master.replica();
    (master, replica)
}

fn is_held(raw: &mut redis::Connection) -> bool {
    State::read(raw, "x").is_some_and(|state| state.holder().is_some())
}

async fn lock(server: &RedisServer, replicas: u32) -> Lock {
    let options = LockOptions::new().lease(Duration::from_secs(6)).liveness(Duration::from_secs(6)).replicas(replicas);
    Client::connect(&server.url()).await.unwrap().lock_with("x", options).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_handed_out_once_the_replica_has_it() {
    let (master, replica) = pair();
    let lock = lock(&master, 1).await;
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(is_held(&mut replica.raw()), "the replica does not have it");
    let second = soon(lock.enqueue()).await.unwrap();
    soon(guard.release()).await.unwrap();
    let guard = soon(second).await.unwrap();
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
    drop(lock);
    keys_left(&master);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_place_while_too_few_replicas_answer() {
    let (master, replica) = pair();
    let (strict, lax) = (lock(&master, 1).await, lock(&master, 0).await);
    replica.stop();
    let error = strict.acquire().timeout(Duration::from_secs(1)).await.unwrap_err();
    let AcquireError::Timeout { .. } = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("only 0 of the 1 replicas"), "{error}");

    // A waiter keeps the first place, for longer than a lease.
    let first = soon(strict.enqueue()).await.unwrap();
    let (ticket, mut first) = (first.ticket(), std::pin::pin!(first.into_future()));
    let second = soon(lax.enqueue()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_secs(8), &mut first).await;
    assert!(early.is_err(), "{early:?} without a replica");
    assert_eq!(soon(second.position()).await.unwrap(), 1, "the first is the holder at the server");
    replica.cont();
    let guard = soon(first).await.unwrap();
    assert_eq!(guard.ticket(), ticket);
    soon(guard.release()).await.unwrap();
    drop(soon(second).await.unwrap());
}

/// The address that the client knows leads to another master while the connection to the old one lives. The old
/// master's grant has no replica, however many the other has.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_another_server_at_the_same_address_do_not_count() {
    let old = RedisServer::builder().master().start();
    let (new, replica) = pair();
    let proxy = Proxy::start(&old);
    // The new server grants nothing for as long as a lease that it does not know of may last.
    let options = LockOptions::new().lease(Duration::from_secs(3)).replicas(1);
    let lock = Client::connect(&proxy.url()).await.unwrap().lock_with("x", options).unwrap();
    proxy.lead_to(&new);
    let guard = soon(lock.acquire()).await.unwrap();
    for server in [&new, &replica] {
        assert!(is_held(&mut server.raw()), "who granted it is asked nothing any more");
    }
    soon(guard.release()).await.unwrap();
    keys_left(&new);
}

/// The connection to the server breaks while replicas are asked.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_asked_again_after_their_connection_broke() {
    let (master, replica) = pair();
    let lock = lock(&master, 1).await;
    replica.stop();
    let waiting = soon(lock.enqueue()).await.unwrap();
    let mut raw = master.raw();
    eventually("replicas are asked", SOON, || master.info("blocked_clients").as_deref() == Some("1"));
    // The connection for commands and messages. The question itself is on another one, which is given up with it.
    let killed: u64 = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").query(&mut raw).unwrap();
    assert_eq!(killed, 1);
    eventually("the client is back", SOON, || {
        let list: String = redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub").query(&mut raw).unwrap();
        list.lines().count() == 1
    });
    replica.cont();
    soon(soon(waiting).await.unwrap().release()).await.unwrap();
}

/// While a question is unanswered, all later ones are asked in the next. A proxy keeps the answer to the first until
/// every grant needs one, so that no machine is quick enough to answer them one by one. One that takes too long for
/// that gives the question up, and is given another chance.
#[tokio::test(flavor = "multi_thread")]
async fn grants_at_the_same_time_wait_for_replicas_together() {
    const LOCKS: usize = 20;
    // A client waits somewhat longer for the answer.
    let longest = Duration::from_secs(1);
    let (master, _replica) = pair();
    let proxy = Proxy::start(&master);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let asked_together = async || {
        let began = Instant::now();
        let first = proxy.fault_times(1, Target::reply("wait").command(), Act::Hold);
        let enqueue = |number: usize| client.lock_with(&number.to_string(), quiet().replicas(1)).unwrap().enqueue();
        let waiting = soon(try_join_all((0..LOCKS).map(enqueue))).await.unwrap();
        first.await_struck();
        let mut counter = testkit::watch::Counter::start(&master);
        first.lift();
        let guards = soon(try_join_all(waiting.into_iter().map(IntoFuture::into_future))).await.unwrap();
        // Only now the client is known to have both answers.
        let in_time = began.elapsed() < longest;
        for guard in guards {
            soon(guard.release()).await.unwrap();
        }
        let asked = counter.so_far().get("wait").copied().unwrap_or(0);
        // A replica that acknowledges too late is asked once more.
        assert!(!in_time || asked <= LOCKS as u64 / 5, "{asked} more questions for {LOCKS} locks");
        in_time
    };
    for _ in 0..20 {
        if asked_together().await {
            return;
        }
    }
    panic!("never within {longest:?}");
}

/// The waiters share each question, but not its answer.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_one_that_wants_more_replicas_than_there_are() {
    let (master, _replica) = pair();
    let client = Client::connect(&master.url()).await.unwrap();
    let lock = |name: &str, replicas| client.lock_with(name, quiet().replicas(replicas)).unwrap();
    let mut strict = std::pin::pin!(soon(lock("strict", 2).enqueue()).await.unwrap().into_future());
    for number in 0..10 {
        let guard = soon(lock(&number.to_string(), 1).acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
        assert!(!testkit::poll_once(&mut strict).is_ready(), "granted with one replica of two");
    }
}

/// A grant that only the old master knows is not handed out, while the promoted replica goes on without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_a_failover_forgets_was_not_handed_out() {
    for (replicas, overlap) in [(1, false), (0, true)] {
        let (master, replica) = pair();
        let (holder, waiter) = (lock(&master, replicas).await, lock(&master, replicas).await);
        let guard = soon(holder.acquire()).await.unwrap();
        let mut waiting = std::pin::pin!(soon(waiter.enqueue()).await.unwrap().into_future());
        redis::cmd("WAIT").arg(1).arg(0).query::<u64>(&mut master.raw()).unwrap();

        // The replica is promoted without the last writes.
        let _: () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut replica.raw()).unwrap();
        soon(guard.release()).await.unwrap();
        let granted = tokio::time::timeout(Duration::from_secs(2), &mut waiting).await;
        assert_eq!(granted.is_ok(), overlap, "{granted:?} with {replicas} replicas");
    }
}

/// The same in a cluster: the replica that is asked belongs to the master of the lock's slot, and is promoted.
#[tokio::test(flavor = "multi_thread")]
async fn the_replica_that_a_cluster_promotes_knows_of_every_grant_that_was_handed_out() {
    // An operator promotes the replica, so there is no election to wait for, and no node is counted as dead by mistake.
    let cluster = Cluster::builder().replicas().node_timeout(100 * SOON).start();
    let options = quiet().replicas(1);
    let lock = async || Client::connect(&cluster.url()).await.unwrap().lock_with("x", options.clone()).unwrap();
    let slot = cluster.slot("x");
    let mut token = 0;
    // Each of the two is the master once.
    for _ in 0..2 {
        let old = cluster.owner(slot);
        let [replica] = cluster.replicas(old)[..] else { panic!("one replica") };
        replica.stop();
        let _: u64 = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica").query(&mut old.raw()).unwrap();
        let mut first = std::pin::pin!(soon(lock().await.enqueue()).await.unwrap().into_future());
        let early = tokio::time::timeout(Duration::from_secs(1), &mut first).await;
        assert!(early.is_err(), "{early:?} without a replica");
        replica.cont();
        let guard = soon(first).await.unwrap();
        old.kill();

        // Before its client is back, which would report the loss.
        let mut ask = replica.raw();
        let () = redis::cmd("READONLY").query(&mut ask).unwrap();
        assert!(is_held(&mut ask), "the replica does not have it");
        let () = redis::cmd("CLUSTER").arg("FAILOVER").arg("TAKEOVER").query(&mut replica.raw()).unwrap();
        assert_eq!(cluster.await_promotion(slot, old).port(), replica.port());
        let second = soon(lock().await.enqueue()).await.unwrap();
        assert_eq!(soon(second.position()).await.unwrap(), 1, "the first is the holder at the promoted replica");
        // The other client holds the lock now.
        old.restart();
        cluster.await_replica(old);
        soon(guard.renew()).await.unwrap();
        assert!(guard.token() > token, "{guard:?} after {token}");
        soon(guard.release()).await.unwrap();
        let guard = soon(second).await.unwrap();
        token = guard.token();
        soon(guard.release()).await.unwrap();
    }
    keys_left(cluster.owner(slot));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_replicas_do_not_follow_is_lost_at_its_local_deadline() {
    let (master, replica) = pair();
    let lock = lock(&master, 1).await;
    let guard = soon(lock.acquire()).await.unwrap();
    replica.stop();
    // That the replica has earlier writes does not count for this renewal.
    let early = tokio::time::timeout(Duration::from_secs(1), guard.renew()).await;
    assert!(early.is_err(), "{early:?} without a replica");
    let lost = soon(guard.lost()).await;
    assert!(
        matches!(&lost.reason, LostReason::NotRenewed { cause: Some(cause), .. } if cause.to_string().contains("replicas")),
        "{lost}"
    );
    replica.cont();
}
