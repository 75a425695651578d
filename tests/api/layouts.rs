//! Locks that another version of fairlock keeps, and keys that no version wrote: every call fails at once with an error
//! that says what to do, nothing is written, and nobody waits for ever.

use std::{future::IntoFuture as _, time::Duration};

use fairlock::{
    Lock, LockOptions,
    error::{AcquireError, Fault, TryAcquireError},
    state::EndedAs,
};
use redis::{Commands as _, Connection};
use testkit::{RedisServer, connect, keys_left, layout_2, server_and_client, soon};

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
    let found = layout_2::dump(&mut raw, "fairlock", "x");
    for fault in faults(&lock).await {
        let Fault::OtherLayout { name, keys, .. } = &fault else { panic!("{fault:?}") };
        assert_eq!((&**name, keys.each_ref().map(|key| &**key)), ("x", KEYS));
        let told = fault.to_string();
        let ways = [says, "upgrade together", "another name or prefix", "delete the keys", KEYS[0], KEYS[1]];
        assert!(ways.iter().all(|part| told.contains(part)), "{told}");
    }
    assert_eq!(layout_2::dump(&mut raw, "fairlock", "x"), found, "it was written over");
    let () = raw.del(&KEYS).unwrap();
    soon(lock.acquire().into_future()).await.unwrap().release().await.unwrap();
    let () = raw.del(&KEYS).unwrap();
}

#[tokio::test]
async fn a_lock_of_layout_2_is_refused_with_both_layouts_and_every_way_out() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    for state in layout_2::STATES {
        layout_2::write(&mut raw, "fairlock", "x", state);
        is_refused(&server, "is kept in layout 2, this client knows layout 4").await;
    }
    keys_left(&server);
}

#[tokio::test]
async fn a_state_that_no_script_wrote_is_refused_as_well() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    let a_later_mark = [&[4, 2][..], &[0; 180]].concat();
    for (state, says) in [
        (&b"\x05 the state of a later version"[..], "layout 5, this client knows layout 4"),
        (b"", "layout 0, this client knows layout 4"),
        (b"\x04", "a form of layout 4 that this client does not know"),
        (b"\x04\0 too short for its numbers", "a form of layout 4 that this client does not know"),
        (b"\x04\x01 too short for its numbers", "a form of layout 4 that this client does not know"),
        (&a_later_mark, "a form of layout 4 that this client does not know"),
    ] {
        let () = raw.hset(KEYS[0], "", state).unwrap();
        is_refused(&server, says).await;
    }
    keys_left(&server);
}

#[tokio::test]
async fn a_script_of_layout_2_refuses_a_lock_of_this_layout() {
    const BEFORE: &str = include_str!("inspect_of_layout_2.lua");
    let (server, client) = server_and_client().await;
    let guard = soon(client.lock("x").unwrap().acquire().into_future()).await.unwrap();
    let mut raw = server.raw();
    let inspect = |raw: &mut Connection| {
        redis::cmd("EVAL").arg(BEFORE).arg(2).arg(&KEYS).arg(0).arg(1).query::<redis::Value>(raw)
    };
    let refused = inspect(&mut raw).unwrap_err().to_string();
    assert!(refused.contains("OTHERLAYOUT") && refused.contains("layout 4"), "{refused}");
    soon(guard.release()).await.unwrap();
    let () = raw.del(&KEYS).unwrap();
    layout_2::write(&mut raw, "fairlock", "x", "waiting");
    inspect(&mut raw).unwrap();
}

/// The history outlives the state by a week, so it is read across layouts.
#[tokio::test]
async fn grants_that_layout_2_recorded_are_told() {
    let (server, client) = server_and_client().await;
    let (lock, mut raw) = (client.lock("x").unwrap(), server.raw());
    layout_2::write(&mut raw, "fairlock", "x", "past");
    let history = soon(lock.history(9)).await.unwrap();
    let [grant] = &history.grants[..] else { panic!("{history:?}") };
    assert_eq!((history.recorded, &*grant.label, grant.ended), (true, "a job", EndedAs::Released));
}

/// Somebody deletes the keys of a lock in use, and clients of layout 2 are the first that come.
#[tokio::test]
async fn a_holder_and_a_waiter_whose_lock_went_to_layout_2_are_told() {
    let (server, client) = server_and_client().await;
    let options = LockOptions::new().lease(Duration::from_secs(2)).liveness(Duration::from_secs(2));
    let guard = soon(client.lock_with("x", options.clone()).unwrap().acquire().into_future()).await.unwrap();
    let other = connect(&server).await;
    let waiting = soon(other.lock_with("x", options).unwrap().enqueue().into_future()).await.unwrap();
    let mut raw = server.raw();
    // In one step, so that neither can return in between.
    let mut step = redis::pipe();
    step.atomic().del(&KEYS).ignore().hset(KEYS[0], "", b"\x02 in layout 2").ignore();
    let () = step.query(&mut raw).unwrap();
    let found = layout_2::dump(&mut raw, "fairlock", "x");
    let lost = soon(guard.lost()).await;
    assert!(lost.to_string().contains("layout 2, this client knows layout 4"), "{lost}");
    match soon(waiting.into_future()).await {
        Err(AcquireError::Fault(Fault::OtherLayout { .. })) => {}
        other => panic!("{other:?}"),
    }
    drop((guard, client, other));
    assert_eq!(layout_2::dump(&mut raw, "fairlock", "x"), found, "it was written over");
}
