//! Locks that another version of fairlock keeps, and keys that no version wrote: every call fails at once with an error
//! that says what to do, nothing is written, and nobody waits for ever.

use std::{future::IntoFuture as _, time::Duration};

use fairlock::{
    Lock, LockOptions,
    error::{AcquireError, Fault, TryAcquireError},
};
use redis::Commands as _;
use testkit::another_layout::{self, STATE};
use testkit::{RedisServer, connect, keys_left, server_and_client, soon};

const KEYS: [&str; 2] = ["fairlock:{x}:lock", "fairlock:{x}:waiters"];

/// What each call says about the lock.
async fn faults(lock: &Lock) -> Vec<Fault> {
    let (acquired, tried) = (soon(lock.acquire()).await, soon(lock.try_acquire()).await);
    let mut faults = match (acquired, tried, soon(lock.enqueue()).await) {
        (Err(AcquireError::Fault(one)), Err(TryAcquireError::Fault(two)), Err(AcquireError::Fault(three))) => {
            vec![one, two, three]
        }
        other => panic!("{other:?}"),
    };
    faults.push(soon(lock.inspect()).await.unwrap_err());
    faults.push(soon(lock.history(1)).await.unwrap_err());
    faults.push(soon(lock.record_history(true)).await.unwrap_err());
    faults.push(soon(lock.break_lease(1)).await.unwrap_err());
    faults.push(soon(lock.force_break_lease(1)).await.unwrap_err());
    faults.push(soon(lock.end_recovery()).await.unwrap_err());
    faults
}

/// Each call names the keys and the ways out, and leaves the keys as they are. Without them the lock begins anew.
async fn is_refused(server: &RedisServer, says: &str) {
    // A client that has used the lock would take the loss of its keys for a loss of data.
    let (lock, mut raw) = (connect(server).await.lock("x").unwrap(), server.raw());
    let found = another_layout::dump(&mut raw, "x");
    for fault in faults(&lock).await {
        let Fault::OtherLayout { name, keys, .. } = &fault else { panic!("{fault:?}") };
        assert_eq!((&**name, keys.each_ref().map(|key| &**key)), ("x", KEYS));
        let told = fault.to_string();
        let ways = [says, "upgrade together", "another name or prefix", "delete the keys", KEYS[0], KEYS[1]];
        assert!(ways.iter().all(|part| told.contains(part)), "{told}");
    }
    assert_eq!(another_layout::dump(&mut raw, "x"), found, "it was written over");
    another_layout::delete(&mut raw, "x");
    soon(lock.acquire().into_future()).await.unwrap().release().await.unwrap();
    another_layout::delete(&mut raw, "x");
}

#[tokio::test]
async fn a_state_that_no_script_of_this_layout_wrote_is_refused_with_every_way_out() {
    let (server, client) = server_and_client().await;
    let mut raw = server.raw();
    soon(client.lock("own").unwrap().acquire().into_future()).await.unwrap().release().await.unwrap();
    let of_own: Vec<u8> = raw.hget("fairlock:{own}:lock", "").unwrap();
    let own = of_own[0];
    let a_later_mark = [&[own, 2][..], &[0; 180]].concat();
    let known = format!("this client knows layout {own}");
    let unknown = format!("a form of layout {own} that this client does not know");
    for (state, says) in [
        (STATE, format!("is kept in layout 99, {known}")),
        (b"", format!("is kept in layout 0, {known}")),
        (&[own], unknown.clone()),
        (&[&[own, 0][..], b" too short for its numbers"].concat(), unknown.clone()),
        (&[&[own, 1][..], b" too short for its numbers"].concat(), unknown.clone()),
        (&a_later_mark, unknown),
    ] {
        another_layout::write(&mut raw, "x", state);
        is_refused(&server, &says).await;
    }
    keys_left(&server);
}

/// Somebody deletes the keys of a lock in use, and clients of another layout are the first that come.
#[tokio::test]
async fn a_holder_and_a_waiter_whose_lock_went_to_another_layout_are_told() {
    let (server, client) = server_and_client().await;
    let options = LockOptions::new().lease(Duration::from_secs(2)).liveness(Duration::from_secs(2));
    let guard = soon(client.lock_with("x", options.clone()).unwrap().acquire().into_future()).await.unwrap();
    let other = connect(&server).await;
    let waiting = soon(other.lock_with("x", options).unwrap().enqueue().into_future()).await.unwrap();
    let mut raw = server.raw();
    // In one step, so that neither can return in between.
    let mut step = redis::pipe();
    step.atomic().del(&KEYS).ignore().hset(KEYS[0], "", STATE).ignore();
    let () = step.query(&mut raw).unwrap();
    let found = another_layout::dump(&mut raw, "x");
    let lost = soon(guard.lost()).await;
    assert!(lost.to_string().contains(another_layout::FOUND), "{lost}");
    match soon(waiting.into_future()).await {
        Err(AcquireError::Fault(Fault::OtherLayout { .. })) => {}
        other => panic!("{other:?}"),
    }
    drop((guard, client, other));
    assert_eq!(another_layout::dump(&mut raw, "x"), found, "it was written over");
}
