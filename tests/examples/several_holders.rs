//! The examples whose locks have several holders.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use fairlock::error::TryAcquireError;
use testkit::{RedisServer, connect, eventually_async, server_and_client, soon};
use tokio::sync::Semaphore;

use crate::crawlers::{self, Page};
use crate::{no_lock_is_left, shared_index};

#[tokio::test]
async fn two_crawlers_load_at_most_eight_pages_of_a_site_and_a_slow_site_delays_no_other() {
    let (server, client) = server_and_client().await;
    let other = connect(&server).await;
    let (now, gate, fast) = (RefCell::new(BTreeMap::new()), Semaphore::new(0), Cell::new(0));
    let load = async |page: &Page| {
        *now.borrow_mut().entry(page.site).or_insert(0) += 1;
        assert!(now.borrow()[page.site] <= 8, "{:?}", now.borrow());
        if page.site == "slow" {
            gate.acquire().await.unwrap().forget();
        } else {
            tokio::task::yield_now().await;
            fast.set(fast.get() + 1);
        }
        *now.borrow_mut().get_mut(page.site).unwrap() -= 1;
    };
    let pages = |count| (0..count).flat_map(|number| ["slow", "fast"].map(|site| Page { site, number })).collect();
    let crawl = async |client, count| crawlers::crawl(client, pages(count), load).await.unwrap();
    let both = async { tokio::join!(crawl(&client, 15), crawl(&other, 12)) };
    let open = async {
        let are_loading = async || now.borrow().get("slow") == Some(&8) && fast.get() == 27;
        eventually_async("eight pages of the slow site, and all of the other", testkit::SOON, are_loading).await;
        gate.add_permits(27);
    };
    let (loaded, ()) = soon(async { tokio::join!(both, open) }).await;
    assert_eq!(loaded, (30, 24));
    drop((client, other));
    no_lock_is_left(&server, "none");
}

#[tokio::test]
async fn searches_see_a_whole_index_and_go_on_while_a_rebuild_checks_it() {
    let server = RedisServer::builder().plain().start();
    let locks = [connect(&server).await, connect(&server).await].map(|client| client.rw_lock("shared_index").unwrap());
    let index = async || {
        let client = redis::Client::open(server.url()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    };
    let (mut first, mut second, mut third) = (index().await, index().await, index().await);
    assert!(shared_index::search(&locks[0], &mut first).await.unwrap().is_empty(), "there is no index");

    let is_rebuilding = Cell::new(true);
    let rebuilds = async {
        let mut versions = Vec::new();
        for _night in 0..10 {
            let check = async || {
                // A search comes in, and no other rebuild.
                assert_eq!(soon(shared_index::search(&locks[0], &mut third)).await.unwrap().len(), 4);
                assert!(matches!(locks[0].try_write().await, Err(TryAcquireError::Busy { .. })));
            };
            versions.push(shared_index::rebuild(&locks[1], &mut second, check).await.unwrap());
        }
        is_rebuilding.set(false);
        versions
    };
    let searches = async {
        let mut seen = Vec::new();
        while is_rebuilding.get() {
            let mut found = shared_index::search(&locks[0], &mut first).await.unwrap();
            found.dedup();
            assert!(found.len() == 1 || seen.is_empty(), "half an index, or parts of two: {found:?}");
            seen.extend(found);
        }
        seen
    };
    let (versions, seen) = soon(async { tokio::join!(rebuilds, searches) }).await;
    assert!(versions.is_sorted() && seen.is_sorted(), "{versions:?} {seen:?}");
    assert!(seen.iter().all(|version| versions.contains(version)), "{versions:?} {seen:?}");
    drop(locks);
    no_lock_is_left(&server, "shared_index:parts");
}
