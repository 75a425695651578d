//! The order of arrivals (I2) where a client is 100 ms away: what counts is when its first request reaches the server.

use std::time::Duration;

use fairlock::{Client, Guard, Lock, LockOptions, testing::digest};
use testkit::{Act, Proxy, RedisServer, SOON, Target, connect, eventually_async, is_direct, keys_left, quiet, soon};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// How the far caller waits.
#[derive(Clone, Copy)]
enum By {
    Task,
    Thread,
}

impl By {
    async fn acquire(self, lock: Lock) -> Guard {
        let acquire = lock.acquire().timeout(SOON);
        match self {
            By::Task => acquire.await,
            By::Thread => tokio::task::spawn_blocking(|| acquire.blocking()).await.unwrap(),
        }
        .unwrap()
    }
}

/// What a client does before it is far away.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// It has got its direct connection, by which its acquires try first.
    Direct,
    /// As many acquires, of leases that are too short for a direct connection.
    Short,
}

impl Before {
    fn options(self) -> LockOptions {
        if self == Before::Short { quiet().lease(Duration::from_secs(9)) } else { quiet() }
    }

    async fn prepare(self, client: &Client) {
        let lock = client.lock_with("another", self.options()).unwrap();
        let acquired = async || {
            let guard = soon(lock.acquire()).await.unwrap();
            let direct = is_direct(&guard);
            soon(guard.release()).await.unwrap();
            direct
        };
        match self {
            Before::Nothing => {}
            Before::Direct => eventually_async("it has a direct connection", SOON, acquired).await,
            Before::Short => {
                for _ in 0..20 {
                    assert!(!acquired().await);
                }
            }
        }
    }
}

/// Whose acquire comes second.
#[derive(Clone, Copy)]
enum Second {
    /// That of a client that is not far away.
    Near,
    /// That of a task of the same client.
    Own,
}

/// A lock is held. A far client acquires it. As soon as the server has answered it, somebody else does so.
async fn the_first_to_arrive_is_served_first(before: Before, by: By, second: Second) {
    let server = RedisServer::builder().alone().start();
    let proxy = Proxy::start(&server);
    let near = connect(&server).await;
    let near_lock = near.lock_with("queue", before.options()).unwrap();
    let holder = soon(near_lock.acquire()).await.unwrap();
    let far = soon(Client::connect(&proxy.url())).await.unwrap();
    before.prepare(&far).await;
    let answered = proxy.fault(Target::reply(digest("acquire")), Act::Delay(ROUND_TRIP / 2));
    proxy.far(ROUND_TRIP);

    let far_lock = far.lock_with("queue", before.options()).unwrap();
    let first = tokio::spawn(serve(by.acquire(far_lock.clone())));
    eventually_async("the server has answered the first request", SOON, async || answered.struck() > 0).await;
    let lock = match second {
        Second::Near => near_lock,
        Second::Own => far_lock,
    };
    let waiting = soon(lock.enqueue()).await.unwrap();
    let second = tokio::spawn(serve(async { waiting.await.unwrap() }));
    soon(holder.release()).await.unwrap();
    let (first, second) = (soon(first).await.unwrap(), soon(second).await.unwrap());
    assert!(first < second, "the second to arrive is served first: its token is {second}, that of the first {first}");
    drop((lock, near, far));
    keys_left(&server);
}

/// The token of a grant, which is given back.
async fn serve(granted: impl Future<Output = Guard>) -> u64 {
    let guard = granted.await;
    let token = guard.token();
    guard.release().await.unwrap();
    token
}

/// The tests of one way to acquire.
macro_rules! arrivals {
    ($($name:ident: $before:ident, $by:ident, $second:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                the_first_to_arrive_is_served_first(Before::$before, By::$by, Second::$second).await;
            }
        )*
    };
}

arrivals! {
    the_first_acquire_of_a_far_task_keeps_its_turn: Nothing, Task, Near;
    the_first_acquire_of_a_far_thread_keeps_its_turn: Nothing, Thread, Near;
    a_short_lease_of_a_far_task_keeps_its_turn: Short, Task, Near;
    a_short_lease_of_a_far_thread_keeps_its_turn: Short, Thread, Near;
    a_direct_acquire_of_a_far_task_keeps_its_turn: Direct, Task, Near;
    a_direct_acquire_of_a_far_thread_keeps_its_turn: Direct, Thread, Near;
    a_direct_acquire_of_a_far_task_comes_before_another_of_its_client: Direct, Task, Own;
    a_direct_acquire_of_a_far_thread_comes_before_a_task_of_its_client: Direct, Thread, Own;
}

/// All of them are on their way at the same time.
#[tokio::test]
async fn acquires_of_one_far_client_are_served_in_order() {
    let server = RedisServer::builder().alone().start();
    let proxy = Proxy::start(&server);
    let near = connect(&server).await;
    let holder = soon(near.lock_with("queue", quiet()).unwrap().acquire()).await.unwrap();
    let far = soon(Client::connect(&proxy.url())).await.unwrap();
    proxy.far(ROUND_TRIP);
    let lock = far.lock_with("queue", quiet()).unwrap();
    // On this runtime of one thread, tasks begin in the order in which they were spawned.
    let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(serve(By::Task.acquire(lock.clone())))).collect();
    eventually_async("all wait", SOON, async || lock.inspect().await.unwrap().waiting == 20).await;
    soon(holder.release()).await.unwrap();
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(soon(task).await.unwrap());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    drop((lock, near, far));
    keys_left(&server);
}
