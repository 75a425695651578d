//! The lock service of `fairlock::testing`: each scenario ends the same there and on a real server. Then come its own
//! means: a clock that is set, and its end.

mod scenarios;

use std::time::Duration;

use fairlock::{
    Client, Guard, Lock, LockOptions, Waiting,
    error::{LostReason, RenewError},
    state::BreakOutcome,
    testing::LockService,
};
use testkit::{Child, RedisServer, SOON, child, eventually_async, quiet, soon};

#[allow(clippy::large_enum_variant)] // There is one for each test.
enum Place {
    Service(LockService),
    Redis(RedisServer),
}

impl Place {
    fn service() -> Self {
        Place::Service(LockService::start().unwrap())
    }

    fn redis() -> Self {
        Place::Redis(RedisServer::start())
    }

    fn url(&self) -> String {
        match self {
            Place::Service(service) => service.url().to_owned(),
            Place::Redis(server) => server.url(),
        }
    }

    fn pause(&self) {
        match self {
            Place::Service(service) => service.pause(),
            Place::Redis(server) => server.stop(),
        }
    }

    fn resume(&self) {
        match self {
            Place::Service(service) => service.resume(),
            Place::Redis(server) => server.cont(),
        }
    }

    fn lose_data(&self) {
        match self {
            Place::Service(service) => service.lose_data(),
            Place::Redis(server) => server.flush(),
        }
    }

    /// Ends the lease of the lock that is called "lock".
    async fn break_lease(&self, token: u64) {
        match self {
            Place::Service(service) => assert!(service.break_lease("lock")),
            Place::Redis(_) => {
                let ended = self.lock().await.force_break_lease(token).await.unwrap();
                assert_eq!(ended, BreakOutcome::Ended);
            }
        }
    }

    /// The lock of another client.
    async fn lock(&self) -> Lock {
        self.lock_with(quiet()).await
    }

    async fn lock_with(&self, options: LockOptions) -> Lock {
        soon(Client::connect(&self.url())).await.unwrap().lock_with("lock", options).unwrap()
    }

    /// A holder, and waiters of other clients in this order.
    async fn queue<const N: usize>(&self, options: LockOptions) -> (Guard, [Waiting; N]) {
        let guard = self.lock_with(options.clone()).await.acquire().await.unwrap();
        let mut waiting = Vec::new();
        while waiting.len() < N {
            waiting.push(self.lock_with(options.clone()).await.enqueue().await.unwrap());
        }
        (guard, waiting.try_into().unwrap())
    }
}

/// They are granted the lock one after the other, by the release of the one before.
async fn in_order(mut guard: Guard, waiting: impl IntoIterator<Item = Waiting>) {
    for next in waiting {
        let (ticket, token) = (next.ticket(), guard.token());
        guard.release().await.unwrap();
        guard = soon(next).await.unwrap();
        assert_eq!(guard.ticket(), ticket);
        assert!(guard.token() > token);
    }
}

async fn becomes_free(lock: &Lock) {
    let is_free = async || {
        let state = lock.inspect().await.unwrap();
        state.holders.is_empty() && state.waiting == 0
    };
    eventually_async("the lock is free", SOON, is_free).await;
}

#[tokio::test]
async fn the_clock_ends_leases_and_keeps_the_places_of_clients_that_are_there() {
    let place = Place::service();
    let Place::Service(service) = &place else { unreachable!() };
    let (guard, [first, second]) = place.queue(quiet()).await;
    service.advance(guard.lease_length() / 2);
    assert_eq!(first.position().await.unwrap(), 1);
    // Longer than any waiter counts as alive without a sign of life.
    service.advance(guard.lease_length() * 10);
    let first = soon(first).await.unwrap();
    assert_eq!(second.position().await.unwrap(), 1);
    let lost = guard.renew().await.unwrap_err();
    assert!(matches!(&lost, RenewError::Lost(lost) if lost.reason == LostReason::Ended), "{lost:?}");
    in_order(first, [second]).await;
}

#[tokio::test]
async fn the_clock_ends_a_lease_for_which_nobody_waits() {
    let service = LockService::start().unwrap();
    let lock = service.client().await.unwrap().lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().await.unwrap();
    service.advance(guard.lease_length());
    assert_eq!(lock.inspect().await.unwrap().holders, []);
    // Also days later it is the same lock, and nothing was lost.
    service.advance(100 * guard.lease_length());
    drop(lock.try_acquire().await.unwrap());
    guard.renew().await.unwrap_err();
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Ended);
}

#[tokio::test]
async fn the_clock_stands_at_its_latest_time_when_it_is_set_beyond() {
    let service = LockService::start().unwrap();
    let lock = service.client().await.unwrap().lock_with("lock", quiet()).unwrap();
    let mut last = 0;
    for _ in 0..10 {
        service.advance(Duration::MAX);
        let guard = soon(lock.acquire()).await.unwrap();
        assert!(guard.token() > last);
        last = guard.token();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn the_clock_takes_the_places_of_processes_that_died() {
    let place = Place::service();
    let Place::Service(service) = &place else { unreachable!() };
    let _guard = place.lock().await.acquire().await.unwrap();
    let mut dies = Child::spawn("wait", &[service.url()]);
    dies.wait_line("queued", SOON);
    let waiting = place.lock().await.enqueue().await.unwrap();
    dies.kill();
    service.advance(200 * SOON);
    drop(soon(waiting).await.unwrap());
}

/// The helper process of this file.
#[test]
fn child() {
    child::main(|_, args| {
        let lock = Client::connect(&args[0]).blocking().unwrap().lock_with("lock", quiet()).unwrap();
        let _waiting = lock.enqueue().blocking().unwrap();
        child::say("queued");
        std::thread::park();
    });
}

#[tokio::test]
async fn a_service_that_is_dropped_is_gone_and_others_go_on() {
    let [one, other] = [LockService::start().unwrap(), LockService::start().unwrap()];
    let [of_one, of_other] = [one.client().await.unwrap(), other.client().await.unwrap()];
    let url = one.url().to_owned();
    drop(one);
    Client::connect(&url).await.unwrap_err();
    of_one.lock("lock").unwrap().acquire().timeout(Duration::from_millis(50)).await.unwrap_err();
    drop(of_other.lock("lock").unwrap().acquire().await.unwrap());
}
