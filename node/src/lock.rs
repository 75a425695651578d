//! Locks, and places in their queues.

use std::cell::RefCell;
use std::future::{Future as _, IntoFuture as _, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use fairlock::LockAll;
use fairlock::error::{AcquireError, InvalidOption, TryAcquireError};
use napi::Either;
use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;

use crate::client::or;
use crate::convert::{BrokenAs, Given as _, HistoryOf, StateOf, duration, ms};
use crate::errors::Failure;
use crate::guard::{AllGuard, Guard};
use crate::operation::Operation;

#[napi]
pub struct Lock {
    lock: fairlock::Lock,
}

/// What a caller gives to an acquire.
#[napi(object, object_to_js = false)]
pub struct Request {
    pub timeout: Option<f64>,
    pub label: Option<String>,
    pub owner: Option<String>,
}

/// An acquire with what its caller gave.
macro_rules! with {
    ($acquire:expr, $request:ident) => {{
        let Request { timeout, label, owner } = $request;
        let timeout = timeout.map(|timeout| duration("timeout", timeout)).transpose();
        timeout.map(|timeout| {
            $acquire
                .given(label, |acquire, label| acquire.label(label))
                .given(owner, |acquire, owner| acquire.owner(owner))
                .given(timeout, |acquire, timeout| acquire.timeout(timeout))
        })
    }};
}

impl Lock {
    pub(crate) fn new(lock: fairlock::Lock) -> Self {
        Self { lock }
    }
}

object! { LockFacts of lock: &fairlock::Lock,
    name: String = lock.name().to_owned(),
    label: String = lock.label().to_owned(),
    owner: String = lock.owner().to_owned(),
    lease: f64 = ms(lock.lease_length()),
    slots: u32 = lock.slots(),
}

#[napi]
impl Lock {
    #[napi]
    pub fn facts(&self) -> LockFacts {
        LockFacts::from(&self.lock)
    }

    #[napi]
    pub fn acquire(&self, request: Request) -> Either<Operation, Failure> {
        or(with!(self.lock.acquire(), request).map(|acquire| Operation::new(acquire, Guard::new)))
    }

    /// Ends with null if it is busy.
    #[napi]
    pub fn try_acquire(&self, request: Request) -> Either<Operation, Failure> {
        or(with!(self.lock.try_acquire(), request).map(|attempt| {
            let attempt = async move {
                match attempt.await {
                    Err(TryAcquireError::Busy { .. }) => Ok(None),
                    outcome => outcome.map(Some),
                }
            };
            Operation::new(attempt, |guard: Option<fairlock::Guard>| guard.map(Guard::new))
        }))
    }

    #[napi]
    pub fn enqueue(&self, request: Request) -> Either<Operation, Failure> {
        or(with!(self.lock.enqueue(), request).map(|enqueue| Operation::new(enqueue, Waiting::new)))
    }

    #[napi]
    pub fn inspect(&self) -> Operation {
        Operation::new(self.lock.inspect(), StateOf::from)
    }

    #[napi]
    pub fn break_lease(&self, token: f64, force: bool) -> Operation {
        let token = token as u64;
        let broken = if force { self.lock.force_break_lease(token) } else { self.lock.break_lease(token) };
        Operation::new(broken, BrokenAs::from)
    }

    #[napi]
    pub fn end_recovery(&self) -> Operation {
        Operation::new(self.lock.end_recovery(), |ended| ended)
    }

    #[napi]
    pub fn history(&self, count: u32) -> Operation {
        Operation::new(self.lock.history(count), HistoryOf::from)
    }

    #[napi]
    pub fn record_history(&self, on: bool) -> Operation {
        Operation::new(self.lock.record_history(on), |()| ())
    }

    #[napi]
    pub fn trouble(&self) -> Operation {
        Operation::new(self.lock.trouble(), |trouble| trouble.map(|text| text.to_string()))
    }
}

/// Acquires locks of one client together.
#[napi]
pub fn lock_all(locks: Vec<ClassInstance<'_, Lock>>, request: Request) -> Either<Operation, Failure> {
    let Some((first, others)) = locks.split_first() else { return Either::B(InvalidOption::NoNames.into()) };
    let all = others.iter().fold(LockAll::from(&first.lock), |all, other| all.and(&other.lock));
    or(with!(all, request).map(|all| Operation::new(all.into_future(), AllGuard::new)))
}

/// A place in the queue. Its position can be asked while its grant is awaited.
#[napi]
pub struct Waiting {
    place: Place,
    ticket: f64,
}

type Place = Rc<RefCell<Option<fairlock::Waiting>>>;

/// The wait for the grant. The place is left when this is dropped.
struct Grant(Place);

impl Drop for Grant {
    fn drop(&mut self) {
        self.0.borrow_mut().take();
    }
}

impl Waiting {
    fn new(waiting: fairlock::Waiting) -> Self {
        Self { ticket: waiting.ticket() as f64, place: Rc::new(RefCell::new(Some(waiting))) }
    }
}

#[napi]
impl Waiting {
    #[napi(getter)]
    pub fn ticket(&self) -> f64 {
        self.ticket
    }

    /// Ends with 0 if it waits no longer.
    #[napi]
    pub fn position(&self) -> Operation {
        let position = self.place.borrow().as_ref().map(fairlock::Waiting::position);
        let asked = async move {
            match position {
                Some(position) => position.await,
                None => Ok(0),
            }
        };
        Operation::new(asked, |position| position as f64)
    }

    /// Once: this has the place from now on.
    #[napi]
    pub fn grant(&self) -> Operation {
        let grant = Grant(self.place.clone());
        let granted = poll_fn(move |context| {
            let mut place = grant.0.borrow_mut();
            let waiting = place.as_mut().expect("only the end of this takes it");
            let polled: Poll<Result<fairlock::Guard, AcquireError>> = Pin::new(waiting).poll(context);
            if polled.is_ready() {
                *place = None;
            }
            polled
        });
        Operation::new(granted, Guard::new)
    }
}
