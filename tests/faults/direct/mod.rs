//! The direct connection, over which callers acquire and release locks themselves: what the keeper takes over, and what
//! becomes of requests whose answers do not come.

mod broken;
mod calls;
mod tasks;

use fairlock::{
    Acquire, Client, Guard, Lock,
    error::{LostReason, ReleaseError},
};
use testkit::{RedisServer, SOON, eventually, is_direct, poll_once, proxy::Fault, quiet, soon};

/// There is no direct connection in a cluster.
pub(super) fn server() -> RedisServer {
    RedisServer::builder().alone().start()
}

/// A client that blocks, and a lock whose lease does not end while a test runs.
pub(super) fn client_of(url: &str) -> (Client, Lock) {
    let client = Client::connect(url).blocking().unwrap();
    let lock = client.lock_with("x", quiet()).unwrap();
    (client, lock)
}

/// How a caller waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// It reads its answers itself.
    Blocking,
    /// The keeper reads them.
    Task,
}

impl By {
    pub(super) fn each(test: impl Fn(By)) {
        for by in [By::Blocking, By::Task] {
            println!("by {by:?}");
            test(by);
        }
    }

    /// It fails instead of waiting for ever.
    pub(super) fn acquire(self, lock: &Lock) -> Guard {
        let acquire = lock.acquire().timeout(SOON);
        match self {
            By::Blocking => acquire.blocking(),
            By::Task => in_time(acquire),
        }
        .unwrap()
    }

    pub(super) fn release(self, guard: Guard) -> Result<(), ReleaseError> {
        match self {
            By::Blocking => guard.release().blocking(),
            By::Task => in_time(guard.release()),
        }
    }

    /// A lease that was granted over the direct connection, which is made after a few acquires.
    #[track_caller]
    pub(super) fn directly(self, lock: &Lock) -> Guard {
        let mut direct = None;
        eventually("the client has a direct connection", SOON, || {
            let guard = self.acquire(lock);
            if is_direct(&guard) {
                direct = Some(guard);
            } else {
                self.release(guard).unwrap();
            }
            direct.is_some()
        });
        direct.unwrap()
    }

    /// From now on the client has a direct connection, which nobody uses.
    #[track_caller]
    pub(super) fn open(self, lock: &Lock) {
        self.release(self.directly(lock)).unwrap();
    }

    /// Makes twice as many acquires as would open the connection, and asserts that none of them uses it.
    #[track_caller]
    pub(super) fn never_directly(self, server: &RedisServer, lock: &Lock) {
        for _ in 0..20 {
            let guard = self.acquire(lock);
            assert!(!is_direct(&guard));
            self.release(guard).unwrap();
        }
        assert_eq!(server.connections().len(), 1);
    }
}

/// The acquire of a task, whose request or answer this fault has struck.
pub(super) fn under_way(lock: &Lock, struck: &Fault) -> Acquire {
    let mut acquire = lock.acquire();
    assert!(poll_once(&mut acquire).is_pending());
    struck.await_struck();
    acquire
}

/// Awaits a future on a runtime without I/O.
pub(super) fn in_time<F: IntoFuture>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(soon(future))
}

/// Why a lease is lost, which it is soon.
#[track_caller]
pub(super) fn lost(guard: &Guard) -> LostReason {
    eventually("the lease is lost", SOON, || guard.check().is_err());
    guard.check().unwrap_err().reason
}
