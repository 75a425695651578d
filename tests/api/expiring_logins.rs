//! Passwords that are good for a short time: leases and places outlive them, on the connections that there are.

use std::{
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use fairlock::{
    Client, ClientBuilder, Credentials,
    error::{ConnectError, Fault},
};
use redis::cmd;
use testkit::{RedisServer, SOON, eventually, eventually_async, quiet, soon};

/// A server, and the number in the password that it takes.
struct Rotating {
    server: RedisServer,
    current: Arc<AtomicU32>,
}

impl Rotating {
    fn start() -> Self {
        let server = RedisServer::builder().plain().user("app", "on >password-0 ~* &* +@all").start();
        Self { server, current: Arc::default() }
    }

    /// A client that asks for the password, and again after this time.
    fn client(&self, lifetime: Duration) -> ClientBuilder {
        let current = self.current.clone();
        Client::builder().url(&self.server.admin_url()).login_with(move || {
            let password = format!("password-{}", current.load(Ordering::SeqCst));
            Ok::<_, Fault>(Credentials::new("app", password).expires_in(lifetime))
        })
    }

    fn rule(&self, rule: &str) {
        let () = cmd("ACL").arg(&["SETUSER", "app", rule]).query(&mut self.server.raw()).unwrap();
    }

    /// The server takes another password, too.
    fn next(&self) {
        let next = self.current.load(Ordering::SeqCst) + 1;
        self.rule(&format!(">password-{next}"));
        self.current.store(next, Ordering::SeqCst);
    }

    /// How many logins there were on connections that stay.
    fn logins(&self) -> u32 {
        let stats = self.server.info("cmdstat_auth");
        stats.map_or(0, |stats| stats.split(['=', ',']).nth(1).unwrap().parse().unwrap())
    }

    /// Whether the server has denied a login, or anything else.
    fn has_denied(&self) -> bool {
        let denials: Vec<redis::Value> = cmd("ACL").arg("LOG").query(&mut self.server.raw()).unwrap();
        !denials.is_empty()
    }
}

/// The server refuses each password as soon as all clients have the next.
#[tokio::test]
async fn leases_and_places_outlive_passwords() {
    let rotating = Rotating::start();
    let short = Duration::from_secs(2);
    let lock_of = async || {
        let client = soon(rotating.client(short).connect()).await.unwrap();
        client.lock_with("lock", quiet()).unwrap()
    };
    let (holder, waiter, last) = (lock_of().await, lock_of().await, lock_of().await);
    let guard = holder.acquire().await.unwrap();
    let waiting = waiter.enqueue().await.unwrap();
    let behind = last.enqueue().await.unwrap();
    let connections = rotating.server.connections();
    for _ in 0..2 {
        let old = rotating.current.load(Ordering::SeqCst);
        rotating.next();
        let before = rotating.logins();
        // A question that was under way may bring the old password once more.
        eventually("all log in with the next", SOON, || rotating.logins() >= before + 6);
        rotating.rule(&format!("<password-{old}"));
    }
    assert!(!rotating.has_denied());
    eventually("no connection was lost", SOON, || rotating.server.connections() == connections);
    guard.check().unwrap();
    soon(guard.release()).await.unwrap();
    let next = soon(waiting).await.unwrap();
    assert!(next.ticket() < behind.ticket());
    soon(next.release()).await.unwrap();
    soon(soon(behind).await.unwrap().release()).await.unwrap();
}

/// How one writes "for ever".
#[tokio::test]
async fn a_password_may_be_good_for_the_longest_time() {
    let rotating = Rotating::start();
    let client = soon(rotating.client(Duration::MAX).connect()).await.unwrap();
    soon(client.lock("first").unwrap().acquire()).await.unwrap().check().unwrap();

    let (asked, asks) = (Arc::new(AtomicU32::new(0)), rotating.server.admin_url());
    let count = asked.clone();
    let later = Client::builder().url(&asks).login_with(move || {
        let lifetime = if count.fetch_add(1, Ordering::SeqCst) == 0 { Duration::from_secs(1) } else { Duration::MAX };
        Ok::<_, Fault>(Credentials::new("app", "password-0").expires_in(lifetime))
    });
    let client = soon(later.connect()).await.unwrap();
    let guard = soon(client.lock("second").unwrap().acquire()).await.unwrap();
    eventually_async("it logs in anew", SOON, async || rotating.logins() > 0).await;
    soon(guard.renew()).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// As a service does with a login that was not renewed in time.
#[tokio::test]
async fn a_connection_that_is_cut_logs_in_with_the_current_password() {
    let rotating = Rotating::start();
    let client = soon(rotating.client(Duration::from_secs(3600)).connect()).await.unwrap();
    let lock = client.lock("lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    rotating.rule("resetpass");
    rotating.next();
    let _: u32 = cmd("CLIENT").arg(&["KILL", "USER", "app"]).query(&mut rotating.server.raw()).unwrap();
    soon(guard.renew()).await.unwrap();
    guard.check().unwrap();
}

/// A token that was signed by a clock that is ahead, or a password that the program has before the server: the login
/// that there is goes on meanwhile.
#[tokio::test]
async fn a_new_login_that_is_denied_costs_neither_the_connection_nor_a_lease() {
    let rotating = Rotating::start();
    let client = soon(rotating.client(Duration::from_secs(2)).connect()).await.unwrap();
    let guard = soon(client.lock("lock").unwrap().acquire()).await.unwrap();
    let another = client.lock("another").unwrap();
    let connections = rotating.server.connections();
    rotating.current.store(7, Ordering::SeqCst);
    let before = rotating.logins();
    eventually_async("it is denied again and again", SOON, async || {
        soon(soon(another.acquire()).await.unwrap().release()).await.unwrap();
        rotating.logins() >= before + 4
    })
    .await;
    assert!(rotating.has_denied());

    rotating.rule(">password-7");
    let () = cmd("ACL").arg(&["LOG", "RESET"]).query(&mut rotating.server.raw()).unwrap();
    let before = rotating.logins();
    eventually_async("it logs in anew", SOON, async || rotating.logins() >= before + 2).await;
    assert!(!rotating.has_denied());
    eventually("no connection was lost", SOON, || rotating.server.connections() == connections);
    guard.check().unwrap();
}

#[tokio::test]
async fn errors_of_the_program_are_told_and_pass() {
    let rotating = Rotating::start();
    let (fails, refusals) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
    let (failing, refused, current) = (fails.clone(), refusals.clone(), rotating.current.clone());
    let builder = Client::builder().url(&rotating.server.admin_url()).login_with(move || {
        let password = format!("password-{}", current.load(Ordering::SeqCst));
        let credentials = Credentials::new("app", password).expires_in(Duration::from_secs(2));
        if failing.load(Ordering::SeqCst) {
            refused.fetch_add(1, Ordering::SeqCst);
            return Err("the cloud signs nothing today");
        }
        Ok(credentials)
    });
    let error = soon(builder.clone().connect()).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, ConnectError::Authentication { .. }), "{error:?}");
    assert!(error.to_string().contains("the cloud signs nothing today"), "{error}");

    fails.store(false, Ordering::SeqCst);
    let client = soon(builder.connect()).await.unwrap();
    let lock = client.lock("lock").unwrap();
    let guard = soon(lock.acquire().into_future()).await.unwrap();
    // While the program gives nothing, the login that there is goes on.
    fails.store(true, Ordering::SeqCst);
    let before = refusals.load(Ordering::SeqCst);
    eventually_async("it is asked again and again", SOON, async || refusals.load(Ordering::SeqCst) >= before + 2).await;
    guard.renew().await.unwrap();
    fails.store(false, Ordering::SeqCst);
    eventually_async("it logs in anew", SOON, async || rotating.logins() > 0).await;
    guard.check().unwrap();
}
