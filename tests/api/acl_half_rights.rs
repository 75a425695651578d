//! A user that lacks one of the rights of docs/guide.md: what it does to everybody else at a lock, and whether it hears
//! which right it lacks.
//!
//! The table has each right of the guide. `acl_at_connect` has more of what a client hears.

use std::time::Duration;

use fairlock::{
    Client, Guard, Lock, LockOptions, Waiting,
    error::{Fault, TryAcquireError},
};
use testkit::{
    RedisServer, SOON, keys_left_after,
    run::{self, HISTORY_RIGHTS, Topology, lacks, least_rights},
    soon,
};

/// Longer than the TTL of a lock that nobody uses, so a key with that TTL would end before this lease. And nobody can
/// wait for the end of it.
const LEASE: Duration = Duration::from_secs(3 * 24 * 3600);

/// The tests of each right, in a module of its name.
macro_rules! rights {
    ($($tests:tt { $($name:ident = $right:literal;)* })*) => {
        const RIGHTS: &[&str] = &[$($($right,)*)*];
        $($(mod $name {
            tests! { $tests $right }
        })*)*
    };
}

macro_rules! tests {
    ([$($test:ident)*] $right:literal) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            super::$test($right).await;
        })*
    };
}

// A client works without a right that is not needed.
rights! {
    [others_go_on others_go_on_when_it_is_taken_away connect_or_the_first_acquire_names_it] {
        keys = "~fairlock:*";
        channels = "&fairlock:*";
        evalsha = "+evalsha";
        eval = "+eval";
        subscribe = "+subscribe";
        publish = "+publish";
        time = "+time";
        hget = "+hget";
        hset = "+hset";
        hdel = "+hdel";
        zadd = "+zadd";
        zrem = "+zrem";
        zcard = "+zcard";
        zscore = "+zscore";
        zrange = "+zrange";
        zrank = "+zrank";
        zrangebyscore = "+zrangebyscore";
        pexpire = "+pexpire";
        del = "+del";
        cluster_slots = "+cluster|slots";
        asking = "+asking";
        ssubscribe = "+ssubscribe";
        spublish = "+spublish";
    }
    [others_go_on others_go_on_when_it_is_taken_away locks_work_without_it] {
        hello = "+hello";
        client_id = "+client|id";
        client_kill = "+client|kill";
        client_setinfo = "+client|setinfo";
        info = "+info";
        script_load = "+script|load";
        script_exists = "+script|exists";
        wait = "+wait";
        exists = "+exists";
        xadd = "+xadd";
        xdel = "+xdel";
        xrevrange = "+xrevrange";
    }
}

/// Commands that a client itself sends while it connects.
const TRIED: [&str; 4] = ["+evalsha", "+eval", "+subscribe", "+cluster|slots"];

#[test]
fn the_table_has_each_right_of_the_guide() {
    let rules = least_rights("pw", true) + HISTORY_RIGHTS;
    let rights = rules.split_whitespace().filter(|rule| rule.starts_with(['~', '&', '+']));
    let missing: Vec<&str> = rights.filter(|right| !RIGHTS.contains(right)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The ACL rules of a user with all rights of the guide but this one. None: the servers of this run do not know the right,
/// or their scripts cannot ask for it before they write.
fn all_but(right: &str) -> Option<String> {
    if right.starts_with('&') && lacks("a right to a channel", (6, 2)) {
        return None;
    }
    if ["+zadd", "+zrem", "+pexpire"].contains(&right) && lacks("a script that asks for its rights", (7, 0)) {
        return None;
    }
    let rules = least_rights("pw", Topology::of_this_run() == Topology::Cluster) + HISTORY_RIGHTS;
    let (taken, rest): (Vec<&str>, Vec<&str>) = rules.split_whitespace().partition(|rule| *rule == right);
    if taken.is_empty() {
        println!("not tested: {right} is for other servers");
        return None;
    }
    Some(rest.join(" "))
}

/// A server where a user has these rules, and its URL for the user.
fn server(rules: &str) -> (RedisServer, String) {
    let server = RedisServer::builder().user("lacking", rules).start();
    let url = server.url_as("lacking", "pw");
    (server, url)
}

async fn connected(url: &str) -> Client {
    soon(Client::connect(url)).await.unwrap()
}

/// On a slow machine nobody is passed over, and a lost message costs some seconds.
fn options() -> LockOptions {
    LockOptions::new().lease(LEASE).liveness(Duration::from_secs(15))
}

/// The user never had the right.
async fn others_go_on(right: &str) {
    // There it is granted the lock, and cannot release it to a waiter.
    if right == "+zrange" && lacks("a server that can be asked for rights", (7, 0)) {
        return;
    }
    let Some(rules) = all_but(right) else { return };
    let (server, url) = server(&rules);
    match soon(Client::connect(&url)).await {
        Ok(lacking) => disturb(&server, &lacking, LEASE).await,
        Err(error) => println!("it cannot do anything: {error}"),
    }
}

/// It may cost the others its leases, as a process that dies does, and they are short.
async fn others_go_on_when_it_is_taken_away(right: &str) {
    let Some((server, lacking)) = taken_away(right).await else { return };
    disturb(&server, &lacking, Duration::from_millis(500)).await;
}

/// A client that has connected before its user lost the right.
async fn taken_away(right: &str) -> Option<(RedisServer, Client)> {
    let rules = all_but(right)?;
    let (server, url) = server(&format!("{rules} {right}"));
    let lacking = connected(&url).await;
    let rest: Vec<&str> = run::known_rules(&rules).collect();
    redis::cmd("ACL").arg("SETUSER").arg("lacking").arg("reset").arg(rest).exec(&mut server.raw()).unwrap();
    Some((server, lacking))
}

#[tokio::test]
async fn a_refused_break_leaves_the_lease_and_its_keys() {
    let (server, lacking) = taken_away("+hset").await.unwrap();
    let guard = soon(connected(&server.url()).await.lock_with("lock", options()).unwrap().acquire()).await.unwrap();
    soon(lacking.lock("lock").unwrap().force_break_lease(guard.token())).await.unwrap_err();
    every_key_expires(&server, guard.remaining());
}

/// Others hold the lock, wait for it and hand it over, while a client that lacks a right asks for it all the time.
async fn disturb(server: &RedisServer, lacking: &Client, its_lease: Duration) {
    let (here, there) = (connected(&server.url()).await, connected(&server.url()).await);
    let (one, other) = (here.lock_with("lock", options()).unwrap(), there.lock_with("lock", options()).unwrap());
    // It may be unable to leave the queue, where it counts as alive for so long.
    let lacking = lacking.lock_with("lock", options().lease(its_lease).liveness(Duration::from_secs(2))).unwrap();
    if run::version() >= (6, 2) {
        soon(one.record_history(true)).await.unwrap();
    }

    // It is the first to use the lock.
    ask_for_everything(&lacking).await;
    every_key_expires(server, Duration::ZERO);
    let mut holder = soon(one.acquire()).await.unwrap();
    for _ in 0..3 {
        ask_for_everything(&lacking).await;
        let next = soon(other.enqueue()).await.unwrap();
        ask_for_everything(&lacking).await;
        let last = soon(one.enqueue()).await.unwrap();
        ask_for_everything(&lacking).await;
        holder = hand_over(server, &one, holder, next).await;
        ask_for_everything(&lacking).await;
        holder = hand_over(server, &one, holder, last).await;
    }
    // It has a place before another, if it gets that far.
    let its_turn = briefly(lacking.enqueue()).await;
    let next = soon(other.enqueue()).await.unwrap();
    still_holds(server, &holder).await;
    soon(holder.release()).await.unwrap();
    if let Some(Ok(waiting)) = its_turn
        && let Some(Ok(guard)) = briefly(waiting).await
    {
        renew_and_release(guard).await;
    }
    let guard = its_turn_comes(&one, next).await;
    still_holds(server, &guard).await;
    soon(guard.release()).await.unwrap();
    every_key_expires(server, Duration::ZERO);
}

/// As far as the server lets it. Returns when the server has heard of all of it.
async fn ask_for_everything(lock: &Lock) {
    match briefly(lock.try_acquire()).await {
        Some(Ok(guard)) => renew_and_release(guard).await,
        // It cannot connect again.
        None | Some(Err(TryAcquireError::Fault(Fault::Connect(_)))) => return,
        Some(Err(_)) => {}
    }
    if let Some(Ok(waiting)) = briefly(lock.enqueue()).await {
        let _ = briefly(waiting.position()).await;
    }
    let _ = briefly(lock.break_lease(1)).await;
    let _ = briefly(lock.history(10)).await;
    // A place is given up in the background, before the second of these is asked.
    for _ in 0..2 {
        let _ = briefly(lock.inspect()).await;
    }
}

async fn renew_and_release(guard: Guard) {
    let _ = briefly(guard.renew()).await;
    // The client goes on to repeat what is refused.
    let _ = briefly(guard.release()).await;
}

/// What becomes of a call that may be refused for as long as it lasts.
async fn briefly<F: IntoFuture>(call: F) -> Option<F::Output> {
    tokio::time::timeout(Duration::from_secs(1), call.into_future()).await.ok()
}

/// The next holder is the waiter that came first.
async fn hand_over(server: &RedisServer, lock: &Lock, holder: Guard, first: Waiting) -> Guard {
    still_holds(server, &holder).await;
    let (token, ticket) = (holder.token(), first.ticket());
    soon(holder.release()).await.unwrap();
    let guard = its_turn_comes(lock, first).await;
    assert_eq!(guard.ticket(), ticket);
    assert!(guard.token() > token);
    guard
}

async fn its_turn_comes(lock: &Lock, waiting: Waiting) -> Guard {
    // Those that lack a right are granted claims, and each may last as long as a waiter without a sign of life.
    match tokio::time::timeout(4 * SOON, waiting).await {
        Ok(granted) => granted.unwrap(),
        Err(_) => panic!("the waiter does not get its turn: {:?}", lock.inspect().await),
    }
}

async fn still_holds(server: &RedisServer, guard: &Guard) {
    guard.check().unwrap();
    soon(guard.renew()).await.unwrap();
    every_key_expires(server, guard.remaining());
}

/// No key lives for ever, and none ends before the lease.
#[track_caller]
fn every_key_expires(server: &RedisServer, lease: Duration) {
    let mut raw = server.raw();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut raw).unwrap();
    for key in keys {
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut raw).unwrap();
        let lasts = u64::try_from(ttl).map(Duration::from_millis);
        // A history has a TTL of its own.
        assert!(lasts.is_ok_and(|lasts| lasts > lease || key.ends_with("history")), "{key} has a TTL of {ttl} ms");
    }
}

async fn connect_or_the_first_acquire_names_it(right: &str) {
    let Some(rules) = all_but(right) else { return };
    let is_refused_by_itself = right.starts_with(['~', '&']) || TRIED.contains(&right);
    if !is_refused_by_itself && lacks("a server that can be asked for rights", (7, 0)) {
        return;
    }
    if rules.contains("+ssubscribe") && ["+subscribe", "+publish"].contains(&right) {
        return println!("not tested: a cluster of this version has no use for {right}");
    }
    let (_server, url) = server(&rules);
    let error = match soon(Client::connect(&url)).await {
        Err(error) => error.to_string(),
        Ok(client) => match soon(client.lock("lock").unwrap().acquire()).await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it is granted the lock, and nothing is said"),
        },
    };
    let name = match right {
        "~fairlock:*" => "key",
        "&fairlock:*" => "channel",
        command => &command[1..],
    };
    let said = error.to_lowercase();
    assert!(said.contains(name) || said.contains(&name.replace('|', " ")), "{error}");
}

async fn locks_work_without_it(right: &str) {
    let Some(rules) = all_but(right) else { return };
    let (server, url) = server(&rules);
    let client = connected(&url).await;
    let lock = client.lock_with("lock", options()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let waiting = soon(lock.enqueue()).await.unwrap();
    assert_eq!(soon(waiting.position()).await.unwrap(), 1);
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
    soon(its_turn_comes(&lock, waiting).await.release()).await.unwrap();
    keys_left_after((lock, client), &server);
}
