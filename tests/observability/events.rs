//! Events and spans of `tracing`: at which level, with which fields, and how often.

use std::time::Duration;

use fairlock::{Client, Held, LockOptions, compat::KeyedMutex};
use testkit::{Proxy, RedisServer, SOON, alone, eventually, keys_left_after, quiet, server_and_client, soon};
use tracing::{Level, level_filters::LevelFilter};

use crate::collector::{Collector, mark};

alone! {
    a_wait_and_a_hold_are_told_from_the_call_to_the_release: wait_and_hold;
    a_job_runs_in_a_span_with_lock_and_token: run_a_job;
    a_job_under_several_locks_runs_in_the_spans_of_all_of_them: run_a_job_under_several;
    the_release_of_a_dropped_guard_is_told: drop_guards;
    a_loss_is_told_once_whether_or_not_anybody_watches: lose_leases;
    many_losses_at_once_are_all_told: lose_many;
    why_an_acquire_was_not_granted_is_told: fail_to_acquire;
    locks_that_work_log_nothing_at_level_info: collect_info;
    a_client_that_was_closed_does_not_care_for_its_server: lose_the_server;
}

#[tokio::main]
async fn wait_and_hold() {
    let server = RedisServer::start();
    let [one, other] = [Client::connect(&server.url()).await.unwrap(), Client::connect(&server.url()).await.unwrap()];
    let first = one.lock("jobs").unwrap().acquire().await.unwrap();
    let events = Collector::start(LevelFilter::TRACE);

    let waiting = other.lock("jobs").unwrap().enqueue().label("job 7").owner("anna").await.unwrap();
    let told = events.one_at(Level::DEBUG, "waiting");
    told.has("lock", "jobs");
    told.has("ticket", waiting.ticket());
    told.has("position", 1);
    // The hold is so long that it shows in milliseconds.
    eventually("time passes", SOON, || first.granted_at().elapsed().unwrap() > Duration::from_millis(20));
    first.release().await.unwrap();
    let guard = waiting.await.unwrap();

    let told = events.one_at(Level::DEBUG, "granted");
    told.has("lock", "jobs");
    told.has("ticket", guard.ticket());
    told.has("token", guard.token());
    told.has("waited_ms", guard.waited().as_millis());
    let span = told.span.expect("a span");
    assert_eq!(span.name, "acquire");
    assert_eq!(span.fields["lock"], "jobs");
    assert_eq!((&*span.fields["label"], &*span.fields["owner"]), ("job 7", "anna"));

    events.forget();
    guard.renew().await.unwrap();
    eventually("the renewal is told", SOON, || !events.of("renewed").is_empty());
    let told = events.of("renewed").remove(0);
    assert_eq!(told.level, Level::TRACE);
    told.has("token", guard.token());
    assert!(told.number("remaining_ms") > 20_000 && told.number("lag_ms") < 10_000, "{told:?}");

    events.forget();
    let token = guard.token();
    guard.release().await.unwrap();
    let told = events.one_at(Level::DEBUG, "released");
    told.has("lock", "jobs");
    told.has("token", token);
    keys_left_after((one, other), &server);
}

#[tokio::main]
async fn run_a_job() {
    let (server, client) = server_and_client().await;
    let events = Collector::start(LevelFilter::DEBUG);
    let lock = client.lock("jobs").unwrap();
    let in_span_of = |name: &str, token: u64| {
        let span = events.one("in the job").span.expect("a span");
        assert_eq!((span.name, &*span.fields["lock"]), ("hold", name));
        assert_eq!(span.fields["token"], token.to_string());
        // A subscriber would keep an acquire open until its children are closed.
        assert!(events.parent(&span).is_none(), "{span:?}");
        events.forget();
    };
    let in_span = |token: u64| in_span_of("jobs", token);
    let job = async |held: fairlock::Held| {
        mark("in the job");
        held.token()
    };
    in_span(lock.acquire().run(job).await.unwrap());
    in_span(lock.try_acquire().run(job).await.unwrap());
    in_span_of("users:anna", KeyedMutex::new(&client, "users").unwrap().run("anna", job).await.unwrap());
    let job = |held: fairlock::Held| {
        mark("in the job");
        held.token()
    };
    in_span(tokio::task::block_in_place(|| lock.acquire().run_blocking(job)).unwrap());
    let users = KeyedMutex::new(&client, "users").unwrap();
    in_span_of("users:anna", tokio::task::block_in_place(|| users.run_blocking("anna", job)).unwrap());
    drop(users);
    keys_left_after(client, &server);
}

#[tokio::main]
async fn run_a_job_under_several() {
    let (server, client) = server_and_client().await;
    let events = Collector::start(LevelFilter::DEBUG);
    let job = async |held: Vec<Held>| {
        mark("in the job");
        held
    };
    let in_spans = |held: Vec<Held>| {
        let mut span = events.one("in the job").span;
        for (name, held) in ["a", "b", "c"].into_iter().zip(held).rev() {
            let inner = span.expect("a span");
            let token = held.token().to_string();
            assert_eq!((inner.name, &*inner.fields["lock"], &*inner.fields["token"]), ("hold", name, &*token));
            span = events.parent(&inner);
        }
        assert!(span.is_none(), "{span:?}");
        events.forget();
    };
    let locks = || client.lock_all(["b", "a", "c"]).unwrap();
    in_spans(locks().run(job).await.unwrap());
    let job = |held: Vec<Held>| {
        mark("in the job");
        held
    };
    in_spans(tokio::task::block_in_place(|| locks().run_blocking(job)).unwrap());
    keys_left_after(client, &server);
}

#[tokio::main]
async fn drop_guards() {
    let server = RedisServer::builder().alone().start();
    let client = Client::connect(&server.url()).await.unwrap();
    let events = Collector::start(LevelFilter::DEBUG);
    let lock = client.lock_with("jobs", LockOptions::new().lease(Duration::from_secs(6))).unwrap();
    let guard = lock.acquire().await.unwrap();
    let token = guard.token();
    drop(guard);
    events.one("released").has("token", token);

    // Nobody else hears that this one may not have reached the server.
    let guard = lock.acquire().await.unwrap();
    let token = guard.token();
    server.stop();
    drop(guard);
    let told = events.one_at(Level::WARN, "release not answered");
    told.has("token", token);
    server.cont();
    keys_left_after((lock, client), &server);
}

#[tokio::main]
async fn lose_leases() {
    let (server, client) = server_and_client().await;
    let events = Collector::start(LevelFilter::TRACE);
    for watches in [false, true] {
        events.forget();
        let lock = client.lock("jobs").unwrap();
        let guard = lock.acquire().await.unwrap();
        let lost = watches.then(|| [tokio::spawn(guard.held().ended()), tokio::spawn(guard.held().ended())]);
        lock.break_lease(guard.token()).await.unwrap();
        let told = events.one_at(Level::WARN, "lease lost");
        told.has("lock", "jobs");
        told.has("token", guard.token());
        told.has("reason", "an operator broke it");
        assert!(told.number("held_ms") < 60_000);
        for lost in lost.into_iter().flatten() {
            soon(lost).await.unwrap().unwrap();
        }
        guard.release().await.unwrap_err();
        events.one("lease lost");
    }
    keys_left_after(client, &server);
}

#[tokio::main]
async fn lose_many() {
    const MANY: usize = 1500;
    let server = RedisServer::builder().alone().start();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = |number: usize| client.lock_with(&format!("lock {number}"), quiet()).unwrap();
    let guards = futures_util::future::join_all((0..MANY).map(|number| lock(number).acquire())).await;
    let guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let events = Collector::start(LevelFilter::WARN);
    client.panic_keeper();
    eventually("every loss is told", SOON, || events.of("lease lost").len() == MANY);
    let told = events.all().into_iter().find(|told| told.level == Level::ERROR).expect("why all were lost");
    assert!(told.message.starts_with("the client's thread has panicked (") && told.message.len() > 40, "{told:?}");
    drop(guards);
}

#[tokio::main]
async fn fail_to_acquire() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("jobs").unwrap();
    let guard = lock.acquire().await.unwrap();
    let events = Collector::start(LevelFilter::DEBUG);
    let why = |expected: &str| {
        let told = events.one_at(Level::DEBUG, "not granted");
        told.has("lock", "jobs");
        told.has("why", expected);
        assert_eq!(told.span.expect("a span").name, "acquire");
        events.forget();
    };
    lock.acquire().timeout(Duration::from_millis(20)).await.unwrap_err();
    why("timeout");
    lock.try_acquire().await.unwrap_err();
    why("busy");
    drop(lock.enqueue().await.unwrap());
    why("abandoned");
    drop(lock.acquire());
    assert!(events.of("not granted").is_empty(), "it was never polled");
    client.close().await;
    lock.acquire().await.unwrap_err();
    why("fault");
    keys_left_after((guard, client, lock), &server);
}

/// An operator who reads `info` hears of servers that went and came back, and of losses; not of the traffic.
#[tokio::main]
async fn collect_info() {
    let (server, proxy) = Proxy::of_a_server();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let events = Collector::start(LevelFilter::INFO);
    let lock = client.lock("jobs").unwrap();
    for _ in 0..3 {
        let guard = lock.acquire().await.unwrap();
        let waiting = lock.enqueue().await.unwrap();
        lock.try_acquire().await.unwrap_err();
        lock.acquire().timeout(Duration::from_millis(10)).await.unwrap_err();
        guard.renew().await.unwrap();
        guard.release().await.unwrap();
        drop(waiting.await.unwrap());
    }
    lock.acquire().run(|_| async {}).await.unwrap();
    assert!(events.all().is_empty() && events.spans().is_empty(), "{:?}", events.all());

    proxy.cut();
    let told = events.one_at(Level::INFO, "connected again");
    let lost = events.all().remove(0);
    assert!(lost.message.starts_with("the connection was lost"), "{lost:?}");
    assert_eq!((lost.level, events.all().len()), (Level::WARN, 2));
    lost.has("client", &told.fields["client"]);
    keys_left_after((lock, client), &server);
}

/// Many closed ones, so that one that cares is heard before the one that is not closed.
#[tokio::main]
async fn lose_the_server() {
    let (server, client) = server_and_client().await;
    let mut closed = Vec::new();
    for _ in 0..20 {
        closed.push(Client::connect(&server.url()).await.unwrap());
        closed.last().unwrap().lock("jobs").unwrap().acquire().await.unwrap().release().await.unwrap();
    }
    for client in &closed {
        client.close().await;
    }
    let events = Collector::start(LevelFilter::TRACE);
    server.kill();
    let told = || events.of("the connection was lost, connecting again (the server closed the connection)");
    eventually("a loss is told", SOON, || !told().is_empty());
    assert_eq!(told().len(), 1);
    drop((closed, client));
}
