//! One lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Acquire, Enqueue, Plan, TryAcquire};
use crate::error::Fault;
use crate::history::History;
use crate::inspect::{BreakOutcome, Holder, LockState};
use crate::keeper::Handle;
use crate::operation::Operation;
use crate::options::Spec;
use crate::protocol::{BreakRequest, HistoryRequest, InspectRequest, LockKeys, Reply, Request, Token, Verdict};

/// A lock with its name and options. Cheap to clone; it holds nothing until it is acquired.
///
/// # Examples
/// ```no_run
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = client.lock("reports:nightly")?;
/// let guard = lock.acquire().await?;
/// println!("granted with fencing token {}", guard.token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lock {
    pub(crate) handle: Arc<Handle>,
    pub(crate) spec: Arc<Spec>,
    pub(crate) label: Arc<str>,
    pub(crate) owner: Arc<str>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = &self.label;
        f.debug_struct("Lock").field("name", self.spec.name()).field("label", label).finish_non_exhaustive()
    }
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, spec: Arc<Spec>, label: Arc<str>, owner: Arc<str>) -> Self {
        Self { handle, spec, label, owner }
    }

    /// Waits for its turn, for ever unless a [`timeout`](Acquire::timeout) is set, and holds the lock. One round trip
    /// if the lock is free; otherwise one or two to join the queue, and one message when the turn comes. It also waits
    /// while the server is away or busy, see [`trouble`](Self::trouble).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let guard = lock.acquire().timeout(Duration::from_secs(30)).await?;
    /// println!("granted with fencing token {}", guard.token());
    /// guard.release().await?;
    ///
    /// // Without a runtime, and for a job:
    /// lock.acquire().run_blocking(|held| println!("token {}", held.token()))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire(&self) -> Acquire {
        Acquire::new(self.plan())
    }

    /// Takes the lock if it is free, or has a free [slot](crate::LockOptions::slots), and nobody waits. One round trip.
    pub fn try_acquire(&self) -> TryAcquire {
        TryAcquire::new(self.plan())
    }

    /// Joins the queue and returns with a ticket, before the lock is granted. One round trip. Like an acquire it waits
    /// while the server is away or busy: for ever unless a [`timeout`](Enqueue::timeout) is set.
    pub fn enqueue(&self) -> Enqueue {
        Enqueue::new(self.plan())
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// The owner of its acquires, unless they name another: [`LockOptions::owner`](crate::LockOptions::owner).
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The label of its acquires, unless they name another.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How many may hold the lock together while a lease of it lasts, see [`Held::slots`](crate::Held::slots). Those who hold
    /// it now may have said less: [`LockState::slots`].
    pub fn slots(&self) -> u32 {
        self.spec.most.into()
    }

    /// The length of a lease.
    pub fn lease_length(&self) -> Duration {
        self.spec.lease
    }

    /// The id of its client, a UUID in 32 hex digits. The ids of acquires begin with that of their client and a dot:
    /// [`Holder::id`](crate::state::Holder::id).
    pub fn client_id(&self) -> &str {
        self.handle.client_id().as_str()
    }

    fn plan(&self) -> Plan {
        Plan::new(self.handle.clone(), self.spec.clone(), self.label.clone(), self.owner.clone())
    }

    /// The holders and the waiters. One round trip for every 500 of them. It changes nothing.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if one of them has no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let state = lock.inspect().await?;
    /// for holder in &state.holders {
    ///     println!("{} holds it for another {:?} unless it renews", holder.label, holder.remaining);
    /// }
    /// for waiter in &state.queue {
    ///     println!("{} has waited for {:?}", waiter.label, waiter.waited);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn inspect(&self) -> Operation<Result<LockState, Fault>> {
        let lock = self.clone();
        let all = InspectRequest::first(&self.spec.keys, InspectRequest::PAGE);
        Operation::relayed(&self.handle.wakers, async move { read_pages(&lock.handle, all).await })
    }

    /// The latest grants of this lock, at most `count` of them, if [`record_history`](Self::record_history) has
    /// switched the recording on. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// lock.record_history(true).await?;
    /// // Later:
    /// for grant in lock.history(20).await?.grants {
    ///     println!("{} waited {:?} and held it {:?}", grant.label, grant.waited, grant.held);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn history(&self, count: u32) -> Operation<Result<History, Fault>> {
        self.operator(self.history_request(None, count), recorded)
    }

    /// Switches the history of this lock on or off, for all its clients. The server keeps the latest 1,000 grants, for
    /// a week after the lock was last used, and executes one command more for each grant. Switching the history off
    /// deletes it. One round trip.
    ///
    /// It needs Redis 6.2, and the rights to XADD, XDEL, XREVRANGE, EXISTS and DEL. Clients without the right to XADD
    /// use the lock as before, and leases that they end are not recorded.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may or may not have executed the request.
    pub fn record_history(&self, on: bool) -> Operation<Result<(), Fault>> {
        self.operator(self.history_request(Some(on), 0), |reply| recorded(reply).map(drop))
    }

    fn history_request(&self, switch: Option<bool>, count: u32) -> Request {
        Request::History(HistoryRequest { keys: self.spec.keys.clone(), switch, count })
    }

    /// What keeps this client from the lock's server now: the last error since the last answer. None if the server
    /// answers, and while a first answer is awaited. No round trip.
    ///
    /// It explains to people why an acquire still waits: an acquire waits for a server that is away or busy for as long
    /// as its timeout allows.
    ///
    /// # Errors
    /// [`Fault::Forked`] or [`Fault::KeeperPanicked`].
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub fn trouble(&self) -> Operation<Result<Option<Arc<str>>, Fault>> {
        let lock = self.clone();
        Operation::relayed(&self.handle.wakers, async move { lock.handle.trouble(lock.spec.name()).await })
    }

    /// Breaks the lease with this token, for an operator: its holder is told, and the lease is not renewed any more. It
    /// ends when the holder releases it, or when it expires. Another call tells the holder again. Of several holders the
    /// others go on. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lease may be broken all the same.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock::state::BreakOutcome;
    ///
    /// // The holder of slot 2; of a plain lock the only one has slot 0.
    /// if let Some(holder) = lock.inspect().await?.holders.iter().find(|holder| holder.slot == 2) {
    ///     match lock.break_lease(holder.token).await? {
    ///         BreakOutcome::Told { remaining, .. } => println!("it ends within {remaining:?}"),
    ///         _ => println!("it has ended"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn break_lease(&self, token: u64) -> Operation<Result<BreakOutcome, Fault>> {
        self.break_with(token, false)
    }

    /// Ends the lease with this token at once and grants the lock to the next waiter, **even if its holder does not
    /// know**: two processes may believe they hold the lock until the former holder is told. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lease may be ended all the same.
    pub fn force_break_lease(&self, token: u64) -> Operation<Result<BreakOutcome, Fault>> {
        self.break_with(token, true)
    }

    fn break_with(&self, token: u64, force: bool) -> Operation<Result<BreakOutcome, Fault>> {
        match Token::new(token) {
            Some(token) => self.operator(self.to_break(Some(token), force), outcome),
            // No lease has this token.
            None => Operation::relayed(&self.handle.wakers, async { Ok(BreakOutcome::Unknown) }),
        }
    }

    /// Ends a recovery ([`LockState::recovering_for`]), for an operator who knows that the holder from before the loss
    /// of data is gone: the server no longer waits for it, only for the waiters to return to their places. If that
    /// holder is alive, two processes may believe that they hold the lock until it is told. False: there is no recovery.
    /// One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the recovery may be ended all the same.
    pub fn end_recovery(&self) -> Operation<Result<bool, Fault>> {
        self.operator(self.to_break(None, true), |reply| Some(outcome(reply)? == BreakOutcome::Ended))
    }

    /// Without a token it is about a recovery.
    fn to_break(&self, token: Option<Token>, force: bool) -> Request {
        Request::Break(BreakRequest { keys: self.spec.keys.clone(), token, force })
    }

    /// One request of an operator. `read` finds in the reply what its verb tells.
    fn operator<T: 'static>(&self, request: Request, read: fn(Reply) -> Option<T>) -> Operation<Result<T, Fault>> {
        let handle = self.handle.clone();
        Operation::relayed(&self.handle.wakers, async move { handle.operator(request, read).await })
    }
}

fn outcome(reply: Reply) -> Option<BreakOutcome> {
    if let Verdict::Break(outcome) = reply.verdict { Some(outcome) } else { None }
}

/// All holders.
pub(crate) async fn holders(handle: &Handle, keys: &Arc<LockKeys>) -> Result<Vec<Holder>, Fault> {
    Ok(read_pages(handle, InspectRequest::first(keys, 0)).await?.holders)
}

/// One page.
pub(crate) async fn page(handle: &Handle, request: InspectRequest) -> Result<LockState, Fault> {
    let read = |Reply { common, verdict }| match verdict {
        Verdict::Inspect(seen) => Some(seen.state(&common)),
        _ => None,
    };
    handle.operator(Request::Inspect(request), read).await
}

/// This page, and the pages after it.
async fn read_pages(handle: &Handle, first: InspectRequest) -> Result<LockState, Fault> {
    let (mut state, mut next) = (LockState::default(), Some(first));
    while let Some(request) = next {
        let page = page(handle, request.clone()).await?;
        next = request.next(&page);
        state = state.then(page);
    }
    Ok(state)
}

fn recorded(reply: Reply) -> Option<History> {
    if let Verdict::History(history) = reply.verdict { Some(history) } else { None }
}
