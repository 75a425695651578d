//! The history of grants: what it tells, how long it is, and that a lock needs no history.

use std::time::{Duration, Instant, SystemTime};

use fairlock::{
    Client, Lock, LockOptions,
    error::Fault,
    state::{EndedAs, PastGrant},
};
use testkit::{
    Proxy, RedisServer, SOON, eventually_async, keys_left_after,
    run::{HISTORY_RIGHTS, least_rights, version},
    soon,
};

const KEY: &str = "fairlock:{lock}:history";

async fn lock(server: &RedisServer) -> Lock {
    Client::connect(&server.url()).await.unwrap().lock("lock").unwrap()
}

/// A lock whose grants are recorded. None: the server is too old.
async fn recorded(server: &RedisServer) -> Option<Lock> {
    let lock = lock(server).await;
    match lock.record_history(true).await {
        Ok(()) => Some(lock),
        Err(fault) => {
            assert!(version() < (6, 2), "{fault}");
            assert!(fault.to_string().contains("a history needs Redis 6.2"), "{fault}");
            None
        }
    }
}

async fn cycle(lock: &Lock) {
    lock.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_history_tells_the_wait_the_hold_and_the_end_of_each_grant() {
    let server = RedisServer::start();
    let Some(lock) = recorded(&server).await else { return };
    let before = SystemTime::now();
    let guard = lock.acquire().label("first").owner("ops").await.unwrap();
    let second = lock.enqueue().label("second").await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await; // The first holds the lock at least so long, and the second waits as long.
    assert!(lock.history(10).await.unwrap().grants.is_empty(), "the holder is not in the past");
    let first = guard.token();
    guard.release().await.unwrap();
    let guard = soon(second).await.unwrap();
    lock.force_break_lease(guard.token()).await.unwrap();

    let history = lock.history(10).await.unwrap();
    assert!(history.recorded);
    let [broken, released] = &history.grants[..] else { panic!("{history:?}") };
    let PastGrant { token, label, owner, waited, held, ended, .. } = released;
    assert_eq!((*token, &**label, &**owner, *ended), (first, "first", "ops", EndedAs::Released));
    let short = Duration::from_millis(20);
    assert!(*waited < *held && *held >= short, "{released:?}");
    assert!(released.granted_at().duration_since(before).is_ok_and(|after| after < SOON), "{released:?}");
    assert_eq!((broken.token, &*broken.label, broken.ended), (guard.token(), "second", EndedAs::Broken));
    assert!(broken.waited >= short, "{broken:?}");

    let latest = lock.history(1).await.unwrap().grants;
    assert_eq!(&latest[..], std::slice::from_ref(broken));
    lock.record_history(false).await.unwrap();
    keys_left_after((guard, lock), &server);
}

#[tokio::test]
async fn a_dead_holder_is_in_the_history_once_its_lease_is_over() {
    let server = RedisServer::start();
    let Some(lock) = recorded(&server).await else { return };
    let proxy = Proxy::start(&server);
    let options = LockOptions::new().lease(Duration::from_secs(2));
    let dying = Client::connect(&proxy.url()).await.unwrap().lock_with("lock", options).unwrap();
    let guard = dying.acquire().await.unwrap();
    // A holder that is cut off cannot give its lease back.
    proxy.refuse();
    proxy.cut();
    drop((guard, dying));
    eventually_async("the lease is over", SOON, async || {
        lock.try_acquire().await.is_ok() && !lock.history(9).await.unwrap().grants.is_empty()
    })
    .await;
    let grants = lock.history(9).await.unwrap().grants;
    assert_eq!(grants.last().map(|grant| grant.ended), Some(EndedAs::Expired), "{grants:?}");
}

#[tokio::test]
async fn a_history_begins_when_it_is_switched_on_and_is_deleted_when_it_is_switched_off() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    cycle(&lock).await;
    assert_eq!(lock.history(10).await.unwrap(), Default::default());
    let Some(lock) = recorded(&server).await else { return };
    assert!(redis::cmd("PTTL").arg(KEY).query::<i64>(&mut server.raw()).unwrap() > 0, "an unused one goes, too");
    cycle(&lock).await;
    assert_eq!(lock.history(10).await.unwrap().grants.len(), 1);
    // Switching it on once more keeps what is recorded.
    lock.record_history(true).await.unwrap();
    assert_eq!(lock.history(10).await.unwrap().grants.len(), 1);
    lock.record_history(false).await.unwrap();
    assert_eq!(lock.history(10).await.unwrap(), Default::default());
    cycle(&lock).await;
    assert_eq!(redis::cmd("EXISTS").arg(KEY).query::<u64>(&mut server.raw()).unwrap(), 0);
}

/// An idle lock is forgotten after an hour or a day, its history after a week.
#[tokio::test]
async fn a_history_outlives_the_state_of_its_lock() {
    let server = RedisServer::start();
    let Some(lock) = recorded(&server).await else { return };
    cycle(&lock).await;
    let _: u64 = redis::cmd("DEL").arg("fairlock:{lock}:lock").query(&mut server.raw()).unwrap();
    cycle(&lock).await;
    let history = lock.history(10).await.unwrap();
    assert!(history.recorded && history.grants.len() == 2, "{history:?}");
    // A history that was deleted by hand does not come back as a key without a TTL.
    let _: u64 = redis::cmd("DEL").arg(KEY).query(&mut server.raw()).unwrap();
    cycle(&lock).await;
    assert_eq!(lock.history(10).await.unwrap(), Default::default());
    assert_eq!(redis::cmd("EXISTS").arg(KEY).query::<u64>(&mut server.raw()).unwrap(), 0);
}

#[tokio::test]
async fn a_history_keeps_the_latest_thousand_grants_for_a_week() {
    let server = RedisServer::start();
    let (began, week) = (Instant::now(), Duration::from_secs(7 * 86_400));
    let Some(lock) = recorded(&server).await else { return };
    for _ in 0..1250 {
        cycle(&lock).await;
    }
    let grants = lock.history(5000).await.unwrap().grants;
    // The server drops the oldest grants in blocks of a hundred.
    assert!((1000..1200).contains(&grants.len()), "{}", grants.len());
    assert!(grants.is_sorted_by(|later, earlier| later.token > earlier.token));
    let ttl: Duration = redis::cmd("PTTL").arg(KEY).query(&mut server.raw()).map(Duration::from_millis).unwrap();
    assert!(ttl <= week && ttl > week - SOON - began.elapsed(), "{ttl:?}");
}

#[tokio::test]
async fn clients_without_rights_to_the_history_use_the_lock_as_before() {
    let least = least_rights("pw", false);
    let server = RedisServer::builder()
        .plain()
        .user("locker", &least)
        .user("reader", &format!("{least} +xrevrange"))
        .user("switcher", &format!("{least}{HISTORY_RIGHTS}"))
        .start();
    let lock = async |user: &str| {
        let client = Client::connect(&server.url_as(user, "pw")).await.unwrap();
        client.lock("lock").unwrap()
    };
    let (locker, reader, switcher) = (lock("locker").await, lock("reader").await, lock("switcher").await);
    match switcher.record_history(true).await {
        Err(_) if version() < (6, 2) => return,
        switched => switched.unwrap(),
    }
    cycle(&locker).await;
    cycle(&switcher).await;
    assert_eq!(reader.history(9).await.unwrap().grants.len(), 1, "{:?}", reader.history(9).await);
    assert!(matches!(locker.history(9).await, Err(Fault::Refused { .. })), "{:?}", locker.history(9).await);
    assert!(matches!(reader.record_history(true).await, Err(Fault::Refused { .. })));
    switcher.record_history(false).await.unwrap();
    keys_left_after((locker, reader, switcher), &server);
}
