//! An index that many search at once, and that a nightly job rewrites in place.
//!
//! When you would want it: reading takes long enough that readers must not wait for each other, and nobody may see what
//! is half written. Searches and rebuilds wait in one line: a rebuild waits for the searches before it, and the searches
//! after it wait for the rebuild, so a steady stream of searches does not keep it away.
//!
//! Nothing is for free: from the moment a rebuild waits, a new search waits for the slowest search that runs, too. So
//! searches have a timeout, and a rebuild that only looks at the index becomes a reader.
//!
//! `cargo run --example shared_index -- search` and `-- rebuild`, as often as you like at the same time.

use std::time::Duration;

use fairlock::{Client, RwLock};
use redis::{AsyncCommands as _, aio::MultiplexedConnection};

/// The index, four parts that belong together: files on a network drive, say.
const INDEX: &str = "shared_index:parts";
const PARTS: [&str; 4] = ["books", "films", "maps", "music"];
type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let lock = Client::connect(&url).await?.rw_lock("shared_index")?;
    let mut index = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    match std::env::args().nth(1).as_deref() {
        Some("search") => println!("{:?}", search(&lock, &mut index).await?),
        Some("rebuild") => {
            let version = rebuild(&lock, &mut index, async || println!("searches go on while this checks")).await?;
            println!("the index has version {version}");
        }
        _ => return Err("usage: shared_index search|rebuild".into()),
    }
    Ok(())
}

/// The versions of the parts: all the same, or none if there is no index.
pub(crate) async fn search(lock: &RwLock, index: &mut MultiplexedConnection) -> Result<Vec<u64>, Failure> {
    let _reads = lock.read().timeout(Duration::from_secs(30)).label("search").await?;
    let mut found = Vec::new();
    for part in PARTS {
        found.extend(index.hget::<_, _, Option<u64>>(INDEX, part).await?);
    }
    // What a rebuild has left that died on its way: as good as no index.
    if found.len() < PARTS.len() {
        found.clear();
    }
    Ok(found)
}

pub(crate) async fn rebuild(
    lock: &RwLock,
    index: &mut MultiplexedConnection,
    check: impl AsyncFnOnce(),
) -> Result<u64, Failure> {
    let guard = lock.write().timeout(Duration::from_secs(3600)).label("rebuild").await?;
    // It rises with each rebuild. A store that can compare would refuse a write with a lower one.
    let version = guard.token();
    let () = index.del(INDEX).await?;
    for part in PARTS {
        guard.check()?;
        let () = index.hset(INDEX, part, version).await?;
    }
    // From here on it reads. Searches are let in, and no other rebuild comes in between.
    guard.downgrade().await?;
    check().await;
    guard.release().await?;
    Ok(version)
}
