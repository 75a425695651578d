//! The examples that need only Redis, each run on a private server. Those that need more are tested in
//! `examples/more/`.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

// The examples themselves. Their `main` is for people.
#[allow(dead_code)]
#[path = "../../examples/blocking.rs"]
mod blocking;
#[allow(dead_code)]
#[path = "../../examples/crawlers.rs"]
mod crawlers;
#[allow(dead_code)]
#[path = "../../examples/extend_on_conflict.rs"]
mod extend_on_conflict;
#[allow(dead_code)]
#[path = "../../examples/graceful_shutdown.rs"]
mod graceful_shutdown;
#[allow(dead_code)]
#[path = "../../examples/keyed_mutex.rs"]
mod keyed_mutex;
#[allow(dead_code)]
#[path = "../../examples/leader_election.rs"]
mod leader_election;
#[allow(dead_code)]
#[path = "../../examples/live_position.rs"]
mod live_position;
#[allow(dead_code)]
#[path = "../../examples/nightly.rs"]
mod nightly;
#[allow(dead_code)]
#[path = "../../examples/shared_index.rs"]
mod shared_index;
#[allow(dead_code)]
#[path = "../../examples/worker_pool.rs"]
mod worker_pool;

mod several_holders;

use std::{fs, path::Path, sync::Mutex, time::Duration};

use fairlock::{CancellationToken, Client, compat::KeyedMutex};
use testkit::{RedisServer, SOON, keys_left, keys_left_after, server_and_client, soon};
use tokio::sync::{mpsc, oneshot};

async fn connect(server: &RedisServer) -> Client {
    Client::connect(&server.url()).await.unwrap()
}

/// `own`: the key that the example itself writes.
fn no_lock_is_left(server: &RedisServer, own: &str) {
    let _: () = redis::cmd("DEL").arg(own).query(&mut server.raw()).unwrap();
    keys_left(server);
}

#[tokio::test]
async fn workers_share_the_jobs() {
    let server = RedisServer::builder().plain().start();
    let url = server.url();
    let work = async |worker: &str| worker_pool::work_through(&url, worker).await.unwrap();
    let (one, two, three) = soon(async { tokio::join!(work("one"), work("two"), work("three")) }).await;
    assert!([&one, &two, &three].iter().all(|did| did.len() < 4), "one did everything: {one:?} {two:?} {three:?}");
    let mut all = [one, two, three].concat();
    all.sort_unstable();
    assert_eq!(all, ["index:books", "index:films", "index:maps", "index:music"], "each once");
    no_lock_is_left(&server, "worker_pool:done");
}

#[test]
fn a_nightly_job_runs_on_one_of_three_hosts() {
    use nightly::Night;
    let server = RedisServer::builder().plain().start();
    let url = server.url();
    let stop = CancellationToken::new();
    let host = |date: &str, patience| nightly::run(&url, date, patience, &stop).unwrap();
    for date in ["2026-11-22", "2026-11-23"] {
        let hosts = std::thread::scope(|scope| {
            let host = || scope.spawn(|| host(date, SOON));
            [host(), host(), host()].map(|host| host.join().unwrap())
        });
        assert_eq!(hosts.iter().filter(|host| **host == Night::Ran).count(), 1, "{hosts:?}");
        assert_eq!(hosts.iter().filter(|host| **host == Night::WasDone).count(), 2, "{hosts:?}");
    }
    let client = Client::connect(&url).blocking().unwrap();
    let busy = client.lock("nightly").unwrap().acquire().blocking().unwrap();
    assert_eq!(host("2026-11-24", Duration::from_millis(20)), Night::StillRunning);
    stop.cancel();
    assert_eq!(host("2026-11-24", SOON), Night::Stopped);
    drop((busy, client));
    no_lock_is_left(&server, "nightly:last_run");
}

#[tokio::test]
async fn the_next_in_line_takes_over_from_a_leader_that_resigns_or_loses_its_lease() {
    let server = RedisServer::start();
    let (elected, mut elections) = mpsc::unbounded_channel();
    let (tell, mut news) = mpsc::unbounded_channel();
    let mut nodes = Vec::new();
    for node in 0..3 {
        let (elected, tell, (stop, stopped)) = (elected.clone(), tell.clone(), oneshot::channel::<()>());
        let client = Client::builder().url(&server.url()).label(&format!("node {node}")).connect().await.unwrap();
        let stands = tokio::spawn(async move {
            let lead = |held: fairlock::Held| {
                elected.send((node, held.token())).unwrap();
                std::future::pending::<()>()
            };
            let stop = async { drop(stopped.await) };
            leader_election::stand(&client, stop, lead, |said| tell.send((node, said)).unwrap()).await
        });
        let observer = connect(&server).await.lock("leader").unwrap();
        let line = async || {
            let state = observer.inspect().await.unwrap();
            state.holders.len() + state.queue.len()
        };
        while line().await < node + 1 {
            tokio::task::yield_now().await;
        }
        nodes.push((stop, stands));
    }
    let (first, _) = soon(elections.recv()).await.unwrap();
    assert_eq!(first, 0);
    // Each standby knows its place, and who leads.
    let mut told = async |node: usize, wanted: &str| {
        soon(async { while news.recv().await.is_some_and(|(from, said)| from != node || said != wanted) {} }).await;
    };
    told(2, "standby 2; node 0 leads").await;
    // This leader is told to stop, and resigns.
    let (stop, stands) = nodes.remove(0);
    stop.send(()).unwrap();
    soon(stands).await.unwrap().unwrap();
    let (second, token) = soon(elections.recv()).await.unwrap();
    assert_eq!(second, 1);
    told(2, "standby 1; node 1 leads").await;
    // An operator ends the term of this leader, which then stands again, behind the others.
    connect(&server).await.lock("leader").unwrap().break_lease(token).await.unwrap();
    let (third, later) = soon(elections.recv()).await.unwrap();
    assert!(third == 2 && later > token, "{third} with {later} after {token}");
    told(1, "standby 1; node 2 leads").await;
    // A standby that is told to stop leaves the line, and the last node leads until it is told, too.
    for (stop, stands) in nodes {
        stop.send(()).unwrap();
        soon(stands).await.unwrap().unwrap();
    }
    assert!(elections.try_recv().is_err(), "nobody else has led");
    keys_left(&server);
}

#[test]
fn threads_take_turns_in_the_order_of_their_arrival() {
    let server = RedisServer::start();
    assert_eq!(blocking::take_turns(&server.url()).unwrap(), [0, 1, 2]);
    keys_left(&server);
}

#[tokio::test]
async fn a_waiter_sees_its_position_go_down() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("live_position").unwrap();
    let holder = lock.acquire().await.unwrap();
    let others = [lock.enqueue().await.unwrap(), lock.enqueue().await.unwrap()];
    let (show, mut shown) = mpsc::unbounded_channel();
    let (own, every) = (connect(&server).await.lock("live_position").unwrap(), Duration::from_millis(20));
    let waits = tokio::spawn(async move {
        let guard = live_position::wait(&own, every, |position| show.send(position).unwrap()).await;
        guard.map_err(|error| error.to_string())
    });
    let mut before = holder;
    for (place, other) in others.into_iter().enumerate() {
        assert_eq!(soon(shown.recv()).await, Some(3 - place as u64));
        before.release().await.unwrap();
        before = soon(other).await.unwrap();
    }
    assert_eq!(soon(shown.recv()).await, Some(1));
    before.release().await.unwrap();
    soon(waits).await.unwrap().unwrap().release().await.unwrap();
    keys_left_after((lock, client), &server);
}

#[tokio::test]
async fn a_service_that_is_told_to_stop_ends_its_job_and_leaves_the_queue() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("graceful_shutdown").unwrap();
    // Within a job: told when the first one is done, it stops before the second.
    let (stop, stopped) = oneshot::channel();
    let stop = Mutex::new(Some(stop));
    let told = async { stopped.await.unwrap() };
    let tell = || stop.lock().unwrap().take().unwrap().send(()).unwrap();
    assert_eq!(soon(graceful_shutdown::serve(&lock, told, tell)).await.unwrap(), 1);

    // While it waits.
    let guard = lock.acquire().await.unwrap();
    let told = async {
        while lock.inspect().await.unwrap().waiting == 0 {
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(soon(graceful_shutdown::serve(&lock, told, || panic!("it has no turn"))).await.unwrap(), 0);
    while lock.inspect().await.unwrap().waiting > 0 {
        tokio::task::yield_now().await;
    }
    keys_left_after((guard, lock, client), &server);
}

#[tokio::test]
async fn a_lease_is_extended_for_each_conflict_and_lost_by_work_that_hangs() {
    use extend_on_conflict::{Conflict, update};
    let (server, client) = server_and_client().await;
    let attempt = Mutex::new(0);
    let start = std::time::Instant::now();
    let written = update(&client, async |_| {
        // Three of these together take longer than one lease.
        tokio::time::sleep(Duration::from_millis(1800)).await;
        let mut attempt = attempt.lock().unwrap();
        *attempt += 1;
        if *attempt == 3 { Ok(()) } else { Err(Conflict) }
    });
    assert_eq!(soon(written).await.unwrap(), 3);
    assert!(start.elapsed() > Duration::from_secs(5));
    let stuck = soon(update(&client, async |_| std::future::pending().await)).await.unwrap_err();
    assert!(stuck.to_string().contains("not renewed in time"), "{stuck}");
    keys_left_after(client, &server);
}

#[tokio::test]
async fn a_key_is_held_from_one_request_to_another_and_others_are_free() {
    let (server, client) = server_and_client().await;
    let customers = KeyedMutex::new(&client, "customers").unwrap();
    keyed_mutex::open(&customers, "alice").await.unwrap();
    let mut order = std::pin::pin!(keyed_mutex::handle(customers.clone(), "alice", 1));
    // An order of another customer is done while the first one waits.
    tokio::select! {
        biased;
        done = &mut order => panic!("{done:?} while another holds the lock"),
        done = keyed_mutex::handle(customers.clone(), "bob", 2) => assert_eq!(done.unwrap(), 2),
    }
    assert!(keyed_mutex::close(&customers, "alice").await.unwrap());
    assert_eq!(soon(order).await.unwrap(), 1);
    assert!(!keyed_mutex::close(&customers, "alice").await.unwrap());
    keys_left_after((customers, client), &server);
}

/// Also those in `examples/more/`.
#[test]
fn each_example_says_when_to_use_it_and_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let list = fs::read_to_string(folder.join("README.md")).unwrap();
    let mut files = Vec::new();
    for folder in [folder.clone(), folder.join("more/src/bin")] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    assert!(files.len() > 6, "{files:?}");
    for path in files {
        let name = path.strip_prefix(&folder).unwrap().display();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("//! When you would want it:"), "{name}");
        assert!(list.contains(&format!("]({name})")), "examples/README.md does not list {name}");
    }
}

/// The lines of README and of the crate's page, but for the address of the server.
#[tokio::test]
async fn the_programs_of_the_readme_run() {
    let server = RedisServer::start();
    let program = async || -> Result<(), Box<dyn std::error::Error>> {
        let client = fairlock::Client::connect(&server.url()).await?;
        let lock = client.lock("reports:nightly")?;

        // Waits its turn, for 30 seconds at most.
        let guard = lock.acquire().timeout(Duration::from_secs(30)).label("job 7").await?;
        println!("granted with fencing token {}", guard.token());
        guard.check()?; // is the lease still ours? Ask before each write that matters.
        guard.release().await?; // or drop it

        // Runs a job while holding the lock; the job is cancelled if the lease is lost.
        lock.acquire()
            .run(|held| async move {
                println!("write to the store with token {}", held.token());
            })
            .await?;
        Ok(())
    };
    soon(program()).await.unwrap();
    let several = async |client: &Client| -> Result<(), Box<dyn std::error::Error>> {
        let gpus = client.semaphore("gpu", 4)?;
        let guard = gpus.acquire().await?;
        println!("GPU {}", guard.slot()); // 0, 1, 2 or 3, and nobody else's meanwhile
        guard.release().await?;

        let index = client.rw_lock("index")?;
        let reader = index.read().await?; // with other readers
        reader.release().await?;
        let writer = index.write().await?; // alone
        writer.downgrade().await?; // a reader from here on: others read what it has written
        Ok(())
    };
    let client = connect(&server).await;
    soon(several(&client)).await.unwrap();
    keys_left_after(client, &server);

    let here = include_str!("main.rs").split("fn the_programs_of_the_readme_run").nth(1).unwrap();
    for page in [include_str!("../../README.md"), include_str!("../../docs/crate.md")] {
        // `main` returns no error: Rust would show a newcomer without a server its fields, and not its text.
        let (main, rest) = page.split_once("async fn reports()").unwrap();
        assert!(
            main.contains(
                "async fn main() {\n    if let Err(error) = reports().await {\n        eprintln!(\"{error}\")"
            )
        );
        let (_, several) = rest.split_once("async fn several(").expect("the second program");
        for body in [rest, several].map(|rest| rest.split("```").next().unwrap()) {
            let missing =
                body.lines().skip(1).find(|line| !line.contains("Client::connect(") && !here.contains(line.trim()));
            assert_eq!(missing, None, "a page has another program");
        }
    }
}
