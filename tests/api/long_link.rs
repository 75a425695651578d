//! The order of arrivals (I2) where a client is 100 ms away: what counts is when its first request reaches the server.

use std::time::Duration;

use fairlock::{__hooks::digest, Client, Guard, Lock};
use testkit::{Act, Proxy, SOON, Target, connect, eventually_async, keys_left_after, quiet, soon};

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

/// Whose acquire comes second.
#[derive(Clone, Copy)]
enum Second {
    /// That of a client that is not far away.
    Near,
    /// That of a task of the same client.
    Own,
}

/// A lock is held. A far client acquires it. As soon as the server has answered it, somebody else does so.
async fn the_first_to_arrive_is_served_first(by: By, second: Second) {
    let (server, proxy) = Proxy::of_a_server();
    let near = connect(&server).await;
    let near_lock = near.lock_with("queue", quiet()).unwrap();
    let holder = soon(near_lock.acquire()).await.unwrap();
    let far = soon(Client::connect(&proxy.url())).await.unwrap();
    let answered = proxy.fault(Target::reply(digest("acquire")), Act::Delay(ROUND_TRIP / 2));
    proxy.far(ROUND_TRIP);

    let far_lock = far.lock_with("queue", quiet()).unwrap();
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
    keys_left_after((lock, near, far), &server);
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
    ($($name:ident: $by:ident, $second:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                the_first_to_arrive_is_served_first(By::$by, Second::$second).await;
            }
        )*
    };
}

arrivals! {
    an_acquire_of_a_far_task_keeps_its_turn: Task, Near;
    an_acquire_of_a_far_thread_keeps_its_turn: Thread, Near;
    an_acquire_of_a_far_task_comes_before_another_of_its_client: Task, Own;
    an_acquire_of_a_far_thread_comes_before_a_task_of_its_client: Thread, Own;
}

/// All of them are on their way at the same time.
#[tokio::test]
async fn acquires_of_one_far_client_are_served_in_order() {
    let (server, proxy) = Proxy::of_a_server();
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
    keys_left_after((lock, near, far), &server);
}
