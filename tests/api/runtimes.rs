//! The lock makes no demands on its callers' threads and runtimes.

use std::thread;

use fairlock::Client;
use testkit::{RedisServer, SOON, keys_left, soon};

const CYCLES: u64 = 1000;

fn connect(server: &RedisServer) -> Client {
    pollster::block_on(Client::connect(&server.url())).unwrap()
}

#[test]
fn tasks_of_smol_may_acquire() {
    let server = RedisServer::start();
    smol::block_on(async {
        let client = Client::connect(&server.url()).await.unwrap();
        let lock = client.lock("lock").unwrap();
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let lock = lock.clone();
                smol::spawn(async move {
                    let guard = lock.acquire().timeout(SOON).await.unwrap();
                    guard.check().unwrap();
                    let token = guard.token();
                    guard.release().await.unwrap();
                    token
                })
            })
            .collect();
        let mut tokens = Vec::new();
        for task in tasks {
            tokens.push(task.await);
        }
        tokens.sort_unstable();
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        let later = lock.acquire().run(async |held| held.token()).await.unwrap();
        assert!(later > *tokens.last().unwrap());
        client.close().await;
    });
    keys_left(&server);
}

/// Tokio gives each turn of a task a budget, which only tokio refills. Waiting on the spot within one turn must not
/// depend on it.
#[test]
fn a_task_may_block_a_thousand_times_in_one_turn() {
    let server = RedisServer::start();
    let lock = connect(&server).lock("lock").unwrap();
    let (done, all_done) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // Nothing in here is awaited, so all of it is one turn.
        runtime.block_on(async {
            let mut last = 0;
            for _ in 0..CYCLES {
                let guard = lock.acquire().blocking().unwrap();
                assert!(guard.token() > last);
                last = guard.token();
                pollster::block_on(guard.release()).unwrap();
                drop(lock.try_acquire().blocking().unwrap());
                drop(lock.enqueue().blocking().unwrap().blocking().unwrap());
            }
        });
        drop(lock);
        done.send(()).unwrap();
    });
    all_done.recv_timeout(4 * SOON).expect("the task stands still");
    keys_left(&server);
}

/// As the guide says: the task that awaits the closure would drop its guard, and the closure would work on without it.
#[tokio::test]
async fn a_guard_that_a_blocking_closure_has_outlives_its_cancelled_task() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).await.unwrap().lock("lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let (begun, works) = tokio::sync::oneshot::channel();
    let (finish, last_step) = std::sync::mpsc::channel();
    let (ended, held) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let work = move || {
            begun.send(()).unwrap();
            last_step.recv().unwrap();
            ended.send(guard.check()).unwrap();
            guard
        };
        tokio::task::spawn_blocking(work).await.unwrap().release().await
    });
    soon(works).await.unwrap();
    task.abort();
    assert!(soon(task).await.unwrap_err().is_cancelled());
    lock.try_acquire().await.unwrap_err();
    finish.send(()).unwrap();
    soon(held).await.unwrap().unwrap();
    // What the closure returns to nobody is dropped.
    soon(lock.acquire()).await.unwrap().release().await.unwrap();
}
