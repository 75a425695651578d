//! Many readers or one writer: what each waits for, and writers that become readers.

use std::time::Duration;

use fairlock::error::{InvalidOption, RenewError, TryAcquireError};
use fairlock::{Client, LockOptions, RwLock};
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use testkit::{
    Act, Proxy, RedisServer, SOON, Target, connect, eventually_async, keys_left_after, quiet, server_and_client, soon,
};

async fn rw_lock(server: &RedisServer) -> RwLock {
    connect(server).await.rw_lock_with("index", quiet()).unwrap()
}

#[tokio::test]
async fn readers_hold_it_together_and_a_writer_alone() {
    let (server, client) = server_and_client().await;
    let (index, other) = (client.rw_lock("index").unwrap(), rw_lock(&server).await);
    assert_eq!((index.name(), index.reader().name(), index.writer().name()), ("index", "index", "index"));
    let readers = [soon(index.read()).await.unwrap(), soon(other.read()).await.unwrap()];
    assert_eq!(readers.each_ref().map(|reader| reader.slot()), [0, 1]);
    assert!(matches!(soon(other.try_write()).await, Err(TryAcquireError::Busy { held: 2, .. })));
    readers.into_iter().for_each(drop);
    let writer = soon(index.write()).await.unwrap();
    let busy = soon(index.try_read()).await.unwrap_err();
    assert!(matches!(busy, TryAcquireError::Busy { held: 1, slots: 1000, .. }));
    assert!(busy.to_string().ends_with(", 0 waiting"), "that a writer is alone needs no explanation: {busy}");
    assert!(matches!(soon(other.try_write()).await, Err(TryAcquireError::Busy { .. })));
    soon(writer.release()).await.unwrap();
    drop(soon(other.try_write()).await.unwrap());
    keys_left_after(soon(index.read()).await.unwrap(), &server);
}

#[tokio::test]
async fn a_writer_waits_for_the_readers_before_it_and_those_after_it_wait_for_the_writer() {
    let server = RedisServer::start();
    let (index, other) = (rw_lock(&server).await, rw_lock(&server).await);
    let first = soon(index.read()).await.unwrap();
    let writer = soon(other.writer().enqueue()).await.unwrap();
    let readers = [soon(index.reader().enqueue()).await.unwrap(), soon(other.reader().enqueue()).await.unwrap()];
    assert!(matches!(soon(index.try_read()).await, Err(TryAcquireError::Busy { waiting: 3, .. })));
    let queue: Vec<u32> = index.reader().inspect().await.unwrap().queue.iter().map(|waiter| waiter.slots).collect();
    assert_eq!(queue, [1, 1000, 1000]);
    soon(first.release()).await.unwrap();
    let writer = soon(writer).await.unwrap();
    assert_eq!(index.reader().inspect().await.unwrap().waiting, 2);
    soon(writer.release()).await.unwrap();
    drop(soon(try_join_all(readers)).await.unwrap());
}

#[tokio::test]
async fn a_writer_becomes_a_reader_under_the_same_token_and_slot() {
    let server = RedisServer::start();
    let (index, other) = (rw_lock(&server).await, rw_lock(&server).await);
    let guard = soon(index.write()).await.unwrap();
    let (token, slot) = (guard.token(), guard.slot());
    assert_eq!((index.reader().slots(), index.writer().slots(), guard.slots()), (1000, 1, 1));
    let reader = soon(other.reader().enqueue()).await.unwrap();
    let writer = soon(other.writer().enqueue()).await.unwrap();
    soon(guard.downgrade()).await.unwrap();
    let reader = soon(reader).await.unwrap();
    guard.check().unwrap();
    assert_eq!((guard.token(), guard.slot(), reader.slot()), (token, slot, 1));
    let holders = index.writer().inspect().await.unwrap().holders;
    assert_eq!(holders.iter().map(|holder| holder.slots).collect::<Vec<_>>(), [1000, 1000]);
    assert_eq!((guard.slots(), guard.held().slots(), reader.slots()), (1000, 1000, 1000));
    // Doing it again changes nothing; and it goes on to be renewed as a reader.
    soon(guard.downgrade()).await.unwrap();
    soon(guard.renew()).await.unwrap();
    assert_eq!(soon(writer.position()).await.unwrap(), 1);
    soon(guard.release()).await.unwrap();
    assert_eq!(soon(writer.position()).await.unwrap(), 1);
    soon(reader.release()).await.unwrap();
    drop(soon(writer).await.unwrap());
}

#[test]
fn a_writer_becomes_a_reader_on_the_spot_too() {
    let server = RedisServer::start();
    let client = fairlock::Client::connect(&server.url()).blocking().unwrap();
    let index = client.rw_lock_with("index", quiet()).unwrap();
    let guard = index.write().blocking().unwrap();
    guard.downgrade().blocking().unwrap();
    index.read().blocking().unwrap().release().blocking().unwrap();
}

#[tokio::test]
async fn what_is_no_writer_cannot_become_a_reader() {
    let (_server, client) = server_and_client().await;
    let index = client.rw_lock_with("index", quiet()).unwrap();
    let reader = soon(index.read()).await.unwrap();
    let refused = soon(reader.downgrade()).await.unwrap_err();
    assert!(matches!(&refused, RenewError::Invalid(InvalidOption::NoWriter { slots: 1000, .. })), "{refused:?}");
    assert!(refused.to_string().contains("only a writer"), "{refused}");
    reader.check().unwrap();
    let gpu = soon(client.semaphore("gpu", 4).unwrap().acquire()).await.unwrap();
    assert!(matches!(soon(gpu.downgrade()).await, Err(RenewError::Invalid(InvalidOption::NoWriter { slots: 4, .. }))));

    // Whoever holds a lock alone is a writer.
    let alone = soon(client.lock_with("index", quiet()).unwrap().acquire());
    drop(reader);
    let alone = alone.await.unwrap();
    soon(alone.downgrade()).await.unwrap();
    drop(soon(index.try_read()).await.unwrap());
    client.lock_with("index", quiet()).unwrap().force_break_lease(alone.token()).await.unwrap();
    soon(alone.lost()).await;
    assert!(matches!(soon(alone.downgrade()).await, Err(RenewError::Lost(_))));
}

#[tokio::test]
async fn a_read_write_lock_has_no_slots_to_choose() {
    let (_server, client) = server_and_client().await;
    for slots in [1, 5] {
        let error = client.rw_lock_with("index", LockOptions::new().slots(slots)).unwrap_err();
        assert!(matches!(error, InvalidOption::FixedSlots { .. }), "{error:?}");
        assert!(
            error.to_string().contains("a read-write lock, which one writer holds or up to 1000 readers"),
            "{error}"
        );
    }
}

/// Whether or not the server has executed it.
#[tokio::test]
async fn a_downgrade_is_repeated_over_a_broken_connection() {
    for target in
        [Target::request(fairlock::__hooks::digest("renew")), Target::reply(fairlock::__hooks::digest("renew"))]
    {
        let (server, proxy) = Proxy::of_a_server();
        let far = Client::connect(&proxy.url()).await.unwrap();
        let (index, other) = (far.rw_lock_with("index", quiet()).unwrap(), rw_lock(&server).await);
        let guard = soon(index.write()).await.unwrap();
        let cut = proxy.fault_times(1, target, Act::Cut(0));
        soon(guard.downgrade()).await.unwrap();
        assert_eq!(cut.struck(), 1);
        drop(soon(other.try_read()).await.unwrap());
        guard.check().unwrap();
        keys_left_after(guard, &server);
    }
}

/// A dropped future may have downgraded the lease, and another call makes sure.
#[tokio::test]
async fn a_downgrade_whose_future_was_dropped_goes_on() {
    let server = RedisServer::start();
    let (index, other) = (rw_lock(&server).await, rw_lock(&server).await);
    let guard = soon(index.write()).await.unwrap();
    let reader = soon(other.reader().enqueue()).await.unwrap();
    drop(guard.downgrade());
    assert_eq!(soon(reader.position()).await.unwrap(), 1, "nothing happens before the first poll");
    assert_eq!(guard.slots(), 1);
    let _polled_once = guard.downgrade().now_or_never();
    let reader = soon(reader).await.unwrap();
    eventually_async("nobody asked for the answer, and it counts", SOON, async || guard.slots() == 1000).await;
    soon(guard.downgrade()).await.unwrap();
    guard.check().unwrap();
    drop(reader);
}

/// All come back: the writer as the reader that it has become, beside another.
#[tokio::test]
async fn readers_and_former_writers_come_back_after_a_loss_of_data() {
    let server = RedisServer::start();
    let options = || LockOptions::new().lease(Duration::from_secs(6)).renew_every(Duration::from_millis(100));
    let locks = [connect(&server).await, connect(&server).await];
    let [index, other] = locks.each_ref().map(|client| client.rw_lock_with("index", options()).unwrap());
    let guard = soon(index.write()).await.unwrap();
    soon(guard.downgrade()).await.unwrap();
    let reader = soon(other.read()).await.unwrap();
    server.flush();
    let are_back = async || index.reader().inspect().await.unwrap().holders.len() == 2;
    eventually_async("both are back", SOON, are_back).await;
    let waiting = soon(other.writer().enqueue()).await.unwrap();
    soon(guard.renewed()).await.unwrap();
    soon(reader.renewed()).await.unwrap();
    soon(guard.release()).await.unwrap();
    soon(reader.release()).await.unwrap();
    drop(soon(waiting).await.unwrap());
}

#[tokio::test]
async fn the_1001st_reader_waits_in_its_place() {
    let (server, client) = server_and_client().await;
    let index = client.rw_lock_with("index", quiet()).unwrap();
    let mut readers = soon(try_join_all((0..1000).map(|_| index.read()))).await.unwrap();
    let (next, writer) = (soon(index.reader().enqueue()).await.unwrap(), soon(index.writer().enqueue()).await.unwrap());
    assert_eq!(index.reader().inspect().await.unwrap().holders.len(), 1000);
    let gone = readers.swap_remove(7);
    let slot = gone.slot();
    soon(gone.release()).await.unwrap();
    let next = soon(next).await.unwrap();
    assert_eq!(next.slot(), slot);
    drop(readers);
    assert_eq!(soon(writer.position()).await.unwrap(), 1);
    soon(next.release()).await.unwrap();
    keys_left_after(soon(writer).await.unwrap(), &server);
}

/// No reader that came after a writer holds the lock before it, however many come and go.
#[tokio::test]
async fn a_writer_among_busy_readers_waits_for_those_before_it_alone() {
    const READERS: usize = 100;
    let server = RedisServer::start();
    let locks = [rw_lock(&server).await, rw_lock(&server).await, rw_lock(&server).await, rw_lock(&server).await];
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    let read = |number: usize| {
        let (index, granted) = (locks[number % 4].clone(), granted.clone());
        async move {
            while let Ok(reader) = soon(index.read()).await
                && granted.send((reader.ticket(), reader.token())).is_ok()
            {
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..3000))).await;
                soon(reader.release()).await.unwrap();
            }
        }
    };
    let readers: Vec<_> = (0..READERS).map(|number| tokio::spawn(read(number))).collect();
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for round in 0..10 {
        // All have come round since the last one.
        for _ in 0..READERS {
            reads.push(soon(grants.recv()).await.unwrap());
        }
        let writer = soon(locks[round % 4].write()).await.unwrap();
        writes.push((writer.ticket(), writer.token()));
        soon(writer.release()).await.unwrap();
    }
    drop(grants);
    for reader in readers {
        soon(reader).await.unwrap();
    }
    for (ticket, token) in writes {
        let overtook = reads.iter().find(|(its, granted)| (*its > ticket) != (*granted > token));
        assert_eq!(overtook, None, "a writer had the ticket {ticket} and the token {token}");
    }
}
