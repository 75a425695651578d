//! Servers that cannot be used, names and options that make no sense, keys of another type: each is refused with a
//! typed error that says what to change, and leaves nothing behind.

use std::{
    future::IntoFuture as _,
    net::TcpListener,
    time::{Duration, Instant},
};

use fairlock::{
    Client, Lock, LockOptions,
    error::{AcquireError, ConnectError, Fault, InvalidOption, TryAcquireError},
};
use redis::cmd;
use testkit::{RedisServer, SOON, impostor, keys_left, keys_left_after, server_and_client, soon};

async fn refused(url: &str) -> ConnectError {
    let start = Instant::now();
    let error = Client::connect(url).await.expect_err("it was accepted");
    assert!(start.elapsed() < SOON, "{:?} for {error}", start.elapsed());
    error
}

#[tokio::test]
async fn an_absent_server_is_an_error_that_hides_the_password() {
    // A port on which nothing listens any more.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for url in [format!("redis://user:sesame@127.0.0.1:{port}/"), "unix:///no/such/socket?pass=sesame".into()] {
        let error = refused(&url).await;
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("check that it runs"), "{error}");
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_an_error() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("redis://{}/", silent.local_addr().unwrap());
    let stopped = RedisServer::start();
    stopped.stop();
    let stopped_url = stopped.url();
    let (silent_error, stopped_error) = tokio::join!(refused(&silent_url), refused(&stopped_url));
    for error in [silent_error, stopped_error] {
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("no answer in time"), "{error}");
    }
    stopped.cont();
    keys_left(&stopped);
}

#[tokio::test]
async fn an_invalid_url_is_an_error_that_hides_the_password() {
    for url in [
        "",
        "http://127.0.0.1/",
        "redis://:sesame@",
        "sesame",
        "redis://u:sesame@host:port/",
        // Characters that are not written as in URLs.
        "redis://u:1#sesame@127.0.0.1/",
        "redis://u:1?sesame@127.0.0.1/",
        "redis://u:1/sesame@127.0.0.1/",
        "redis://sesame:1#word@127.0.0.1/",
        // What has no use here.
        "redis://127.0.0.1/?password=sesame",
        "redis://127.0.0.1/#sesame",
    ] {
        let error = refused(url).await;
        assert!(matches!(error, ConnectError::Url { .. }), "{url:?} {error:?}");
        let said = format!("{error} {error:?}");
        assert!(said.contains("redis://[user:password@]host") && !said.contains("sesame"), "{said}");
        assert!(Client::connect_lazy(url).is_err());
    }
}

#[tokio::test]
async fn a_wrong_password_is_not_repeated() {
    let server = RedisServer::builder().tcp().password("open sesame").user("worker", "on >sesame ~* &* +@all").start();
    let wrong = [
        format!("redis://:wrong%20word@127.0.0.1:{}/", server.port()),
        format!("redis://127.0.0.1:{}/", server.port()),
        server.url_as("worker", "wrong word"),
        server.url_as("nobody", "wrong word"),
    ];
    for url in wrong {
        let error = refused(&url).await;
        assert!(matches!(error, ConnectError::Authentication { .. }), "{error:?}");
        let said = format!("{error} {error:?}");
        let is_none = url.starts_with("redis://127.0.0.1");
        assert!(
            said.contains(if is_none { "needs a password" } else { "check the user and the password" })
                && !said.contains("wrong word")
                && !said.contains("wrong%20word"),
            "{said}"
        );
    }

    for url in [server.tcp_url(), server.url_as("worker", "sesame")] {
        let client = Client::connect(&url).await.unwrap();
        let lock = client.lock("lock").unwrap();
        let acquire = lock.acquire();
        let debug = format!("{client:?} {lock:?} {acquire:?}");
        let guard = acquire.await.unwrap();
        let debug = format!("{debug} {guard:?} {:?} {:?}", guard.held(), Client::builder().url(&url));
        assert!(!debug.contains("sesame"), "{debug}");
    }
    keys_left(&server);
}

#[tokio::test]
async fn a_server_or_user_without_scripts_is_refused() {
    let without = |command: &str| RedisServer::builder().config(&format!("rename-command {command} \"\"")).start();
    for server in ["EVAL", "EVALSHA"].map(without) {
        let error = refused(&server.url()).await;
        assert!(matches!(error, ConnectError::NoScripting { .. }), "{error:?}");
        assert!(error.to_string().contains("Lua"), "{error}");
        keys_left(&server);
    }
    for right in ["-@scripting", "-eval", "-evalsha"] {
        let server = RedisServer::builder().user("worker", &format!("on >secret ~* &* +@all {right}")).start();
        let error = refused(&server.url_as("worker", "secret")).await;
        assert!(matches!(error, ConnectError::MissingRight { .. }), "{error:?}");
        assert!(error.to_string().contains("commands, keys and channels"), "{error}");
        keys_left(&server);
    }
}

/// The right to load scripts saves round trips. Nothing else depends on it.
#[tokio::test]
async fn scripts_are_sent_whole_where_they_cannot_be_loaded() {
    let server = RedisServer::builder().config("rename-command SCRIPT \"\"").start();
    let lock = Client::connect(&server.url()).await.unwrap().lock("lock").unwrap();
    let guard = soon(lock.acquire().into_future()).await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// Answers like Redis 5, or like a Redis 6 that was told to know no HELLO.
fn old_server(version: &'static str, knows_hello: bool) -> String {
    let address = impostor::answering(move |words| match words[0].to_uppercase().as_str() {
        "HELLO" if knows_hello => "%1\r\n$6\r\nserver\r\n$5\r\nredis\r\n".into(),
        "INFO" => {
            let info = format!("# Server\r\nredis_version:{version}\r\nrun_id:abc\r\n");
            format!("${}\r\n{info}\r\n", info.len())
        }
        "CLIENT" if words[1].eq_ignore_ascii_case("ID") => ":1\r\n".into(),
        other => format!("-ERR unknown command `{other}`, with args beginning with: \r\n"),
    });
    format!("redis://{address}/")
}

#[tokio::test]
async fn a_server_that_says_it_is_too_old_is_refused() {
    for (version, knows_hello) in [("5.0.10", false), ("5.0.10", true), ("6.2.0", false)] {
        let error = refused(&old_server(version, knows_hello)).await;
        assert!(matches!(error, ConnectError::TooOld { .. }), "{version} {error:?}");
        assert!(error.to_string().contains("Redis 6.0 or Valkey is needed"), "{error}");
    }
}

#[tokio::test]
async fn a_real_server_that_is_too_old_is_refused() {
    let Some(server) = RedisServer::too_old() else { return };
    let error = refused(&server.url()).await;
    assert!(matches!(error, ConnectError::TooOld { .. }), "{error:?}");
    assert!(error.to_string().contains("Redis 6.0 or Valkey is needed"), "{error}");
    keys_left(&server);
}

#[tokio::test]
async fn durations_that_cannot_work_are_refused() {
    let (server, client) = server_and_client().await;
    let second = Duration::from_secs(1);
    let refused = |options: LockOptions| {
        let error = client.lock_with("lock", options).map(|_| ()).unwrap_err();
        (error.to_string(), error)
    };
    for absurd in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX, 400 * 24 * 3600 * second] {
        let with = LockOptions::new;
        for (option, options) in [
            ("the lease", with().lease(absurd)),
            ("the liveness", with().liveness(absurd)),
            ("the notice", with().notice(absurd)),
            ("the renewal interval", with().renew_every(absurd)),
            ("the longest hold", with().max_hold(absurd)),
        ] {
            let (said, error) = refused(options);
            assert!(matches!(error, InvalidOption::Duration { .. }), "{option} {absurd:?}: {error:?}");
            assert!(said.starts_with(option) && said.contains("must be between"), "{said}");
        }
    }
    let (said, _) = refused(LockOptions::new().buffer(Duration::MAX));
    assert!(said.starts_with("the buffer"), "{said}");
    // Only the buffer may be zero.
    client.lock_with("lock", LockOptions::new().buffer(Duration::ZERO)).unwrap();

    let lease = || LockOptions::new().lease(3 * second);
    for options in [
        lease().renew_every(2 * second).notice(second),
        lease().renew_every(3 * second),
        lease().notice(2 * second),
        lease().manual_renewal().notice(3 * second),
    ] {
        let (said, error) = refused(options);
        assert!(matches!(error, InvalidOption::RenewalTooLate { .. }), "{error:?}");
        assert!(said.contains("lengthen the lease"), "{said}");
    }
    client.lock_with("lock", lease().renew_every(2 * second).notice(second * 9 / 10)).unwrap();

    let lock = client.lock("lock").unwrap();
    let long = "l".repeat(4097);
    for refused in [lock.try_acquire().label(long.clone()).await, lock.try_acquire().owner(long).await] {
        let refused = refused.map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, TryAcquireError::Invalid(InvalidOption::TooLong { length: 4097, .. })),
            "{refused:?}"
        );
    }
    keys_left(&server);
}

/// With what each way to ask for the lock fails.
async fn faults(lock: &Lock) -> [Fault; 3] {
    let (acquired, tried) = (soon(lock.acquire()).await, soon(lock.try_acquire()).await);
    match (acquired, tried, soon(lock.enqueue()).await) {
        (Err(AcquireError::Fault(one)), Err(TryAcquireError::Fault(two)), Err(AcquireError::Fault(three))) => {
            [one, two, three]
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_that_names_the_lock() {
    let (server, client) = server_and_client().await;
    let mut raw = server.raw();
    for part in ["lock", "waiters"] {
        let name = format!("lock whose {part} is taken");
        let key = format!("fairlock:{{{name}}}:{part}");
        let () = cmd("SET").arg(&key).arg("somebody's").query(&mut raw).unwrap();
        let said = |fault: Fault| {
            assert!(matches!(&fault, Fault::WrongType { name: its, .. } if **its == *name), "{part}: {fault:?}");
            assert!(fault.to_string().contains("remove that key, or use another name"), "{fault}");
        };
        let lock = client.lock(&name).unwrap();
        faults(&lock).await.into_iter().for_each(said);
        let keys: Vec<String> = cmd("KEYS").arg(format!("fairlock:{{{name}}}:*")).query(&mut raw).unwrap();
        assert_eq!(keys, std::slice::from_ref(&key), "something was written before the error");
        assert_eq!(cmd("GET").arg(&key).query::<String>(&mut raw).unwrap(), "somebody's");
        let () = cmd("DEL").arg(&key).query(&mut raw).unwrap();
        // Now the same client can acquire the lock.
        soon(lock.acquire().into_future()).await.unwrap().release().await.unwrap();
    }
    keys_left(&server);
}

/// The writes remain valid even if a client could not be told: heartbeats make up for the message.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_may_not_publish_hands_the_lock_on() {
    let server = RedisServer::builder().user("silent", "on >pw ~* &* +@all").start();
    let silent = Client::connect(&server.url_as("silent", "pw")).await.unwrap();
    let () = cmd("ACL").arg(&["SETUSER", "silent", "-publish"]).query(&mut server.raw()).unwrap();
    let options = || LockOptions::new().lease(Duration::from_secs(600)).liveness(Duration::from_secs(3));
    let guard = soon(silent.lock_with("x", options()).unwrap().acquire().into_future()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let waiting = soon(other.lock_with("x", options()).unwrap().enqueue().into_future()).await.unwrap();
    soon(guard.release()).await.unwrap();
    soon(waiting.into_future()).await.unwrap().release().await.unwrap();
    keys_left_after((silent, other), &server);
}
