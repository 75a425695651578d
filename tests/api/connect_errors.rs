//! Errors of connecting are true: a server that answers is not reported as absent, every caller hears within 5 seconds,
//! and an acquire waits only for errors that may pass.

use std::{
    future::IntoFuture as _,
    net::TcpListener,
    time::{Duration, Instant},
};

use fairlock::{
    Client, ClientBuilder,
    error::{AcquireError, ConnectError, Fault, TryAcquireError},
};
use redis::{RedisConnectionInfo, cmd};
use testkit::{RedisServer, SOON, eventually, eventually_async, impostor, run::known_rules, soon};

async fn refusal(url: &str) -> ConnectError {
    soon(Client::connect(url)).await.map(|_| ()).unwrap_err()
}

/// The same error ends an acquire of a client that connects when it is used. It has no timeout.
async fn error_of_acquire(url: &str) -> ConnectError {
    let lock = Client::connect_lazy(url).unwrap().lock("lock").unwrap();
    match soon(lock.acquire().into_future()).await {
        Err(AcquireError::Fault(Fault::Connect(error))) => error,
        other => panic!("{url}: {other:?}"),
    }
}

fn plain() -> RedisServer {
    RedisServer::builder().plain().tcp().start()
}

macro_rules! assert_error {
    ($error:expr, $kind:ident, $($words:expr),+) => {{
        let error = $error;
        assert!(matches!(error, ConnectError::$kind { .. }), "{error:?}");
        $(assert!(error.to_string().contains($words), "{error}");)+
        error
    }};
}

macro_rules! assert_fails_at_once {
    ($url:expr, $kind:ident, $($words:expr),+) => {{
        let url = $url;
        let error = assert_error!(refusal(&url).await, $kind, $($words),+);
        assert!(!error.is_transient(), "{error:?}");
        assert_error!(error_of_acquire(&url).await, $kind, $($words),+);
    }};
}

#[tokio::test]
async fn a_database_that_the_server_does_not_have_is_refused() {
    let server = plain();
    assert_fails_at_once!(format!("{}99", server.tcp_url()), Database, "DB index is out of range", "another number");
}

#[tokio::test]
async fn a_server_that_is_no_cluster_or_no_sentinel_is_refused() {
    let server = plain();
    let url = |kind: &str, rest: &str| server.tcp_url().replace("redis:", kind).trim_end_matches('/').to_owned() + rest;
    assert_fails_at_once!(url("redis+cluster:", ""), NotCluster, "cluster support disabled", "leave +cluster out");
    assert_fails_at_once!(url("redis+sentinel:", "/main"), NotSentinel, "unknown command", "write redis://HOST:PORT");
    let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel").start();
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    assert_fails_at_once!(url, UnknownMaster, "knows no master \"main\"");
}

/// No system has such a socket, however long a client waits for it.
#[tokio::test]
async fn a_socket_whose_path_is_too_long_is_refused() {
    let url = format!("unix:///{}", "long/".repeat(50));
    assert_fails_at_once!(url, Url, "path must be shorter");
}

#[tokio::test]
async fn a_server_that_is_not_redis_is_refused() {
    let url = format!("redis://{}/", impostor::web_server());
    assert_fails_at_once!(url, NotRedis, "is not a Redis server", "check the host and the port");
}

#[tokio::test]
async fn a_server_whose_commands_are_renamed_is_refused() {
    let without =
        |command: &str| RedisServer::builder().plain().config(&format!("rename-command {command} \"\"")).start();
    let servers = ["HELLO", "SUBSCRIBE"].map(without);
    assert_fails_at_once!(servers[0].admin_url(), TooOld, "HELLO");
    assert_fails_at_once!(servers[1].admin_url(), Refused, "unknown command", "SUBSCRIBE");
}

#[tokio::test]
async fn a_server_that_is_busy_or_loading_is_reported_as_such() {
    let server = plain();
    let mut raw = server.raw();
    let busy = std::thread::spawn(move || cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut raw));
    let () = eventually_busy(&server);
    let error = assert_error!(refusal(&server.tcp_url()).await, NotReady, "BUSY", "cannot serve locks now");
    assert!(error.is_transient());
    let () = cmd("SCRIPT").arg("KILL").query(&mut server.raw()).unwrap();
    assert!(busy.join().unwrap().is_err());

    let loading = impostor::answering(|_| "-LOADING Redis is loading the dataset in memory\r\n".into());
    let error = assert_error!(refusal(&format!("redis://{loading}/")).await, NotReady, "LOADING");
    assert!(error.is_transient());
}

/// The set-up of a connection of the library itself would be refused.
fn eventually_busy(server: &RedisServer) {
    let mut raw = server.raw();
    cmd("CONFIG").arg("SET").arg("lua-time-limit").arg(1).query::<()>(&mut raw).unwrap_or(());
    let says_so = || {
        cmd("PING")
            .query::<String>(&mut raw)
            .is_err_and(|error| error.to_string().contains("BUSY") || error.to_string().contains("busy"))
    };
    eventually("the server is busy", SOON, says_so);
}

#[tokio::test]
async fn a_replica_is_refused_at_once() {
    let master = RedisServer::builder().master().plain().start();
    let replica = master.replica();
    let error = assert_error!(refusal(&replica.admin_url()).await, NotReady, "read-only replica");
    assert!(error.is_transient(), "it may become the master");

    // It becomes the master, and an acquire has waited for that.
    let lock = Client::connect_lazy(&replica.admin_url()).unwrap().lock("lock").unwrap();
    let acquiring = tokio::spawn(lock.acquire().into_future());
    eventually_async("it says what it waits for", SOON, async || {
        lock.trouble().await.unwrap().is_some_and(|trouble| trouble.contains("read-only replica"))
    })
    .await;
    let () = cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut replica.raw()).unwrap();
    soon(acquiring).await.unwrap().unwrap().release().await.unwrap();
}

/// A client listens for the reason for half a second: it is asked again if the server stood still meanwhile.
async fn reason(url: &str) -> ConnectError {
    for _ in 0..4 {
        match refusal(url).await {
            ConnectError::Unreachable { .. } => {}
            told => return told,
        }
    }
    refusal(url).await
}

/// Its reason is lost if a request is under way, so the client reads it over another connection.
#[tokio::test]
async fn the_reason_of_a_server_that_hangs_up_is_told() {
    let url = format!("redis://{}/", impostor::too_busy());
    assert_error!(reason(&url).await, NotReady, "max number of clients reached");
}

#[tokio::test]
async fn a_server_that_has_too_many_clients_is_waited_for() {
    let server = RedisServer::builder().plain().tcp().config("maxclients 3").start();
    // The connection that saw the server start may still be there.
    let mut others = Vec::new();
    eventually("all places are taken", SOON, || {
        others.extend(server.try_raw().ok());
        others.len() == 3
    });
    for url in [server.tcp_url(), server.admin_url()] {
        let error = assert_error!(reason(&url).await, NotReady, "max number of clients reached");
        assert!(error.is_transient());
    }
    let lock = Client::connect_lazy(&server.tcp_url()).unwrap().lock("lock").unwrap();
    let acquiring = tokio::spawn(lock.acquire().into_future());
    eventually_async("it waits", SOON, async || lock.trouble().await.unwrap().is_some()).await;
    drop(others);
    soon(acquiring).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_user_without_the_rights_is_told_where_they_are_listed() {
    let server = RedisServer::builder().plain().user("worker", "on >pw ~* &* +@all").start();
    let lock = soon(Client::connect(&server.url_as("worker", "pw"))).await.unwrap().lock("lock").unwrap();
    let () = cmd("ACL").arg(&["SETUSER", "worker", "-hset"]).query(&mut server.raw()).unwrap();
    match soon(lock.acquire().into_future()).await {
        Err(AcquireError::Fault(fault @ Fault::Refused { .. })) => {
            assert!(fault.to_string().contains("docs/guide.md lists the rights"), "{fault}");
        }
        other => panic!("{other:?}"),
    }
}

/// The timeouts of silent nodes do not add up.
#[tokio::test]
async fn a_cluster_of_silent_nodes_takes_one_timeout() {
    // If the nodes were tried one after another, the last would be tried after 30 s and have 5 s of its own.
    let silent: Vec<TcpListener> = (0..120).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<u16> = silent.iter().map(|node| node.local_addr().unwrap().port()).collect();
    let url = naming(&ports);
    let start = Instant::now();
    assert_error!(refusal(&url).await, Unreachable, "no answer in time");
    assert!(start.elapsed() < Duration::from_secs(4 * 5), "{:?}", start.elapsed());

    // Silent nodes do not delay the answer of another node.
    let answering = impostor::answering(|_| "-LOADING Redis is loading the dataset in memory\r\n".into());
    assert_error!(refusal(&naming(&[&ports[..4], &[answering.port()]].concat())).await, NotReady, "LOADING");
}

/// A node that knows HELLO, and a cluster of these nodes.
fn naming(ports: &[u16]) -> String {
    let ranges: Vec<String> = ports
        .iter()
        .enumerate()
        .map(|(index, port)| format!("*3\r\n:{index}\r\n:{index}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n"))
        .collect();
    let slots = format!("*{}\r\n{}", ranges.len(), ranges.concat());
    let node = impostor::answering(move |words| match words[0].to_uppercase().as_str() {
        "HELLO" => "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n".into(),
        "CLUSTER" => slots.clone(),
        _ => "+OK\r\n".into(),
    });
    format!("redis+cluster://{node}")
}

/// The silence of one seed does not hide the wrong answer of another.
#[tokio::test]
async fn the_one_sentinel_that_answers_is_enough() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel").start();
    let url = format!("redis+sentinel://{},127.0.0.1:{}/main", silent.local_addr().unwrap(), sentinel.port());
    assert_error!(refusal(&url).await, UnknownMaster, "main");
}

/// A program that has a client of the crate redis names its server once.
#[tokio::test]
async fn the_settings_of_a_client_of_the_redis_crate_are_enough() {
    let server = RedisServer::builder().alone().start(); // a cluster has one database
    let admin = redis::Client::open(server.admin_url()).unwrap();
    let mut raw = admin.get_connection().unwrap();
    let rights: Vec<&str> = known_rules("on >pass@word ~* &* +@all").collect();
    let () = cmd("ACL").arg("SETUSER").arg("us:er").arg(rights).query(&mut raw).unwrap();
    let settings = |db: i64, password: &str| {
        let info = admin.get_connection_info().clone();
        let login = info.redis_settings().clone().set_username("us:er").set_password(password).set_db(db);
        redis::Client::open(info.set_redis_settings(login)).unwrap()
    };
    let from = |redis: redis::Client| ClientBuilder::from_redis(redis.get_connection_info()).connect();
    let guard = soon(from(settings(2, "pass@word"))).await.unwrap().lock("x").unwrap().acquire().await.unwrap();
    let keys = |db| cmd("DBSIZE").query::<u64>(&mut settings(db, "pass@word").get_connection().unwrap()).unwrap();
    assert!(keys(2) > 0 && keys(0) == 0);
    guard.release().await.unwrap();
    let refused = soon(from(settings(2, "another"))).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Authentication { .. }), "{refused}");
    // A user that needs no password.
    let rights: Vec<&str> = known_rules("on nopass ~* &* +@all").collect();
    let () = cmd("ACL").arg("SETUSER").arg("free").arg(rights).query(&mut raw).unwrap();
    let free = RedisConnectionInfo::default().set_username("free");
    let info = admin.get_connection_info().clone().set_redis_settings(free);
    let client = soon(from(redis::Client::open(info).unwrap())).await;
    let list: String = cmd("CLIENT").arg("LIST").query(&mut raw).unwrap();
    assert!(client.is_ok() && list.contains("user=free"), "{client:?} {list}");
    let path = redis::Client::open(format!("unix://{}?pass={}", server.socket().display(), "x")).unwrap();
    let shown = format!("{:?}", ClientBuilder::from_redis(path.get_connection_info()));
    assert!(shown.contains(&server.socket().display().to_string()) && !shown.contains("pass"), "{shown}");
}

/// Programs in which other libraries read the URL know the parameter.
#[tokio::test]
async fn database_in_a_parameter_of_the_url_is_that_of_the_path() {
    let server = plain();
    let at = |end: &str| format!("redis://127.0.0.1:{}{end}", server.port());
    let held = soon(Client::connect(&at("/2"))).await.unwrap().lock("x").unwrap().acquire().await.unwrap();
    for end in ["/?db=2", "?db=2", "/2?db=2"] {
        let lock = soon(Client::connect(&at(end))).await.unwrap().lock("x").unwrap();
        assert!(matches!(lock.try_acquire().await, Err(TryAcquireError::Busy { .. })), "{end} is another database");
    }
    assert_error!(refusal(&at("/1?db=2")).await, Url, "two databases");
    held.release().await.unwrap();
}

/// An operator changes the password at the server and in the file. Nobody loses a place or a lease.
#[tokio::test]
async fn a_password_in_a_file_is_read_again_at_each_connection() {
    let server = RedisServer::builder().plain().user("worker", "on >first ~* &* +@all").start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let builder = || Client::builder().url(&server.admin_url()).login_from_file("worker", &file);
    let error = soon(builder().connect()).await.map(|_| ()).unwrap_err();
    assert_error!(error, Authentication, "no login for the server", file.to_str().unwrap(), "cannot be read: No such");

    std::fs::write(&file, "first\n").unwrap();
    let client = soon(builder().connect()).await.unwrap();
    let lock = client.lock("lock").unwrap();
    let guard = soon(lock.acquire().into_future()).await.unwrap();
    let mut raw = server.raw();
    let () = cmd("ACL").arg(&["SETUSER", "worker", "resetpass", ">second"]).query(&mut raw).unwrap();
    let _: u32 = cmd("CLIENT").arg(&["KILL", "USER", "worker"]).query(&mut raw).unwrap();
    eventually_async("the old password is refused", SOON, async || {
        lock.trouble().await.unwrap().is_some_and(|trouble| trouble.contains("WRONGPASS"))
    })
    .await;
    std::fs::write(&file, "second").unwrap();
    soon(guard.release()).await.unwrap();
    soon(lock.acquire().into_future()).await.unwrap().release().await.unwrap();
}
