//! Two classes as people have them in their programs, ported by the tables of `docs/coming-from.md`: one on redis-py's
//! `Lock`, one on Redisson.

use std::{cell::RefCell, error::Error, time::Duration};

use fairlock::{
    Client, Lock, LockOptions,
    compat::{is_locked_by_anyone, verify},
    error::{AcquireError, Fault, RenewError},
};
use testkit::{RedisServer, SOON, connect, eventually_async, keys_left_after, soon};

/// ```python
/// class Reports:
///     def __init__(self, client, wait):
///         self.lock, self.wait = client.lock("reports", timeout=60), wait
///
///     def write(self, parts):
///         if not self.lock.acquire(blocking_timeout=self.wait):
///             return "busy"
///         try:
///             for part in parts:
///                 part()
///                 self.lock.extend(60, replace_ttl=True)
///             return "written"
///         except LockNotOwnedError:
///             return "lost"
///         finally:
///             self.lock.release()
/// ```
struct Reports {
    lock: Lock,
    wait: Duration,
}

impl Reports {
    fn new(client: &Client, wait: Duration) -> Result<Self, Box<dyn Error>> {
        let options = LockOptions::new().lease(Duration::from_secs(60)).manual_renewal();
        Ok(Self { lock: client.lock_with("reports", options)?, wait })
    }

    fn write(&self, parts: &[&dyn Fn()]) -> Result<&'static str, Box<dyn Error>> {
        let guard = match self.lock.acquire().timeout(self.wait).blocking() {
            Ok(guard) => guard,
            Err(AcquireError::Timeout { .. }) => return Ok("busy"),
            Err(error) => return Err(error.into()),
        };
        for part in parts {
            part();
            match guard.renew().blocking() {
                Ok(()) => {}
                Err(RenewError::Lost(_)) => return Ok("lost"),
                Err(error) => return Err(error.into()),
            }
        }
        guard.release().blocking()?;
        Ok("written")
    }
}

#[test]
fn a_class_on_redis_py_is_ported() -> Result<(), Box<dyn Error>> {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking()?;
    let reports = Reports::new(&client, SOON)?;
    let written = RefCell::new(Vec::new());
    let part = || written.borrow_mut().push(1);
    assert_eq!(reports.write(&[&part, &part])?, "written");
    assert_eq!(written.borrow().len(), 2);

    let impatient = Reports::new(&client, Duration::from_millis(10))?;
    let nested = || assert_eq!(impatient.write(&[&part]).unwrap(), "busy");
    assert_eq!(reports.write(&[&nested])?, "written");

    let ended = || {
        impatient.lock.force_break_lease(0).blocking().unwrap();
    };
    let stolen = || {
        let token = impatient.lock.inspect().blocking().unwrap().holders[0].token;
        impatient.lock.force_break_lease(token).blocking().unwrap();
    };
    assert_eq!(reports.write(&[&ended, &part])?, "written", "a lease is ended by its token alone");
    assert_eq!(reports.write(&[&part, &stolen, &part])?, "lost");
    assert_eq!(written.borrow().len(), 4, "nothing is written after the loss");
    keys_left_after((reports, client), &server);
    Ok(())
}

/// ```java
/// class Accounts {
///     Accounts(RedissonClient redisson) { this.redisson = redisson; }
///
///     boolean post(String account, Runnable entry) throws InterruptedException {
///         RLock lock = redisson.getFairLock("account:" + account);
///         if (!lock.tryLock(5, SECONDS)) return false;
///         try { entry.run(); } finally { lock.unlock(); }
///         return true;
///     }
///
///     void transfer(String from, String to, Runnable entry) {
///         RLock both = redisson.getMultiLock(getFairLock("account:" + from), getFairLock("account:" + to));
///         both.lock();
///         try { entry.run(); } finally { both.unlock(); }
///     }
///
///     boolean isPosting(String account) { return getFairLock("account:" + account).isLocked(); }
///
///     void unblock(String account) { getFairLock("account:" + account).forceUnlock(); }
/// }
/// ```
struct Accounts {
    client: Client,
}

impl Accounts {
    async fn post(&self, account: &str, entry: impl Future<Output = ()>) -> Result<bool, Box<dyn Error>> {
        match self.of(account).acquire().timeout(Duration::from_secs(5)).await {
            Ok(guard) => {
                entry.await;
                guard.release().await?;
                Ok(true)
            }
            Err(AcquireError::Timeout { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn transfer(&self, from: &str, to: &str, entry: impl Future<Output = ()>) -> Result<(), Box<dyn Error>> {
        let names = [from, to].map(|account| format!("account:{account}"));
        let both = self.client.lock_all(names)?.await?;
        entry.await;
        both.release().await?;
        Ok(())
    }

    async fn is_posting(&self, account: &str) -> Result<bool, Fault> {
        is_locked_by_anyone(&self.of(account)).await
    }

    /// Names the lease that it ends, where `forceUnlock` ends whichever there is by then.
    async fn unblock(&self, account: &str) -> Result<(), Fault> {
        let lock = self.of(account);
        for holder in lock.inspect().await?.holders {
            lock.force_break_lease(holder.token).await?;
        }
        Ok(())
    }

    fn of(&self, account: &str) -> Lock {
        self.client.lock(&format!("account:{account}")).unwrap()
    }
}

#[tokio::test]
async fn a_class_on_redisson_is_ported() {
    let server = RedisServer::start();
    let (ours, theirs) = (Accounts { client: connect(&server).await }, Accounts { client: connect(&server).await });
    let posts = ours.post("7", async { assert!(theirs.is_posting("7").await.unwrap()) });
    assert!(soon(posts).await.unwrap());
    assert!(!ours.is_posting("7").await.unwrap());

    // Two transfers in opposite directions do not wait for each other for ever.
    let pause = || tokio::task::yield_now();
    let (one, other) = tokio::join!(ours.transfer("3", "7", pause()), theirs.transfer("7", "3", pause()));
    one.and(other).unwrap();

    // Somebody blocks an account, and is removed.
    let blocking = ours.of("7").acquire().await.unwrap();
    let unblocks = async {
        eventually_async("it waits", SOON, async || ours.of("7").inspect().await.unwrap().waiting == 1).await;
        ours.unblock("7").await.unwrap();
    };
    let (posted, ()) = soon(async { tokio::join!(theirs.post("7", async {}), unblocks) }).await;
    assert!(posted.unwrap());
    assert!(!verify(&blocking).await.unwrap_or(false));
    keys_left_after((blocking, ours, theirs), &server);
}
