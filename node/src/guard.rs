//! Leases that are held.

use std::convert::Infallible;

use fairlock::Held;
use fairlock::compat::verify;
use fairlock::error::LostReason;
use napi::Either;
use napi_derive::napi;

use crate::client::or;
use crate::convert::{duration, ms, since_epoch};
use crate::errors::{Failure, bare};
use crate::operation::Operation;

/// A lease. It is given back when this is dropped.
#[napi]
pub struct Guard {
    held: Held,
    /// None when it was released.
    guard: Option<fairlock::Guard>,
}

impl Guard {
    pub(crate) fn new(guard: fairlock::Guard) -> Self {
        Self { held: guard.held(), guard: Some(guard) }
    }

    /// An operation of the guard. If it was released, the lease says so.
    fn ask(
        &self,
        operation: impl FnOnce(&fairlock::Guard) -> Result<Operation, Failure>,
    ) -> Either<Operation, Failure> {
        match &self.guard {
            Some(guard) => or(operation(guard)),
            None => Either::B(match self.held.check() {
                Err(lost) => lost.into(),
                Ok(()) => bare("InvalidOption", "the lock is being released"),
            }),
        }
    }
}

// What does not change, read once.
object! { Facts of held: &Held,
    name: String = held.name().to_owned(),
    token: f64 = held.token() as f64,
    ticket: f64 = held.ticket() as f64,
    slot: u32 = held.slot(),
    id: String = held.id(),
    owner: String = held.owner().to_owned(),
    label: String = held.label().to_owned(),
    lease: f64 = ms(held.lease_length()),
    granted_at: f64 = since_epoch(held.granted_at()),
    waited: f64 = ms(held.waited()),
}

#[napi]
impl Guard {
    #[napi]
    pub fn facts(&self) -> Facts {
        Facts::from(&self.held)
    }

    #[napi(getter)]
    pub fn slots(&self) -> u32 {
        self.held.slots()
    }

    #[napi(getter)]
    pub fn remaining(&self) -> f64 {
        ms(self.held.remaining())
    }

    /// The loss, or null.
    #[napi]
    pub fn check(&self) -> Option<Failure> {
        self.held.check().err().map(Into::into)
    }

    /// Ends when the lease is over, with the loss, or null if it was released.
    #[napi]
    pub fn ended(&self) -> Operation {
        let ended = self.held.ended();
        Operation::new(async move { Ok::<_, Infallible>(ended.await) }, |lost| lost.map(Failure::from))
    }

    /// Ends at the next renewal, with what is left of the lease.
    #[napi]
    pub fn renewed(&self) -> Operation {
        Operation::new(self.held.renewed(), ms)
    }

    #[napi]
    pub fn renew(&self) -> Either<Operation, Failure> {
        self.ask(|guard| Ok(Operation::new(guard.renew(), |()| ())))
    }

    #[napi]
    pub fn extend(&self, additional: f64) -> Either<Operation, Failure> {
        self.ask(|guard| Ok(Operation::new(guard.extend(duration("the extension", additional)?), |()| ())))
    }

    /// After it has ended without an error, the lease is a reader's.
    #[napi]
    pub fn downgrade(&self) -> Either<Operation, Failure> {
        self.ask(|guard| Ok(Operation::new(guard.downgrade(), |()| ())))
    }

    #[napi]
    pub fn verify(&self) -> Either<Operation, Failure> {
        self.ask(|guard| Ok(Operation::new(verify(guard), |held| held)))
    }

    /// None if it was released before.
    #[napi]
    pub fn release(&mut self) -> Option<Operation> {
        Some(Operation::new(self.guard.take()?.release(), |()| ()))
    }

    /// Releases it in the background.
    #[napi]
    pub fn drop(&mut self) {
        self.guard = None;
    }
}

/// The leases of several locks.
#[napi]
pub struct AllGuard {
    /// Views, which outlive the release.
    held: Vec<Held>,
    guard: Option<fairlock::AllGuard>,
}

impl AllGuard {
    pub(crate) fn new(guard: fairlock::AllGuard) -> Self {
        Self { held: guard.guards().iter().map(|guard| guard.held()).collect(), guard: Some(guard) }
    }
}

#[napi]
impl AllGuard {
    #[napi]
    pub fn facts(&self) -> Vec<Facts> {
        self.held.iter().map(Facts::from).collect()
    }

    #[napi(getter)]
    pub fn remaining(&self) -> f64 {
        ms(self.held.iter().map(Held::remaining).min().unwrap_or_default())
    }

    #[napi]
    pub fn check(&self) -> Option<Failure> {
        self.held.iter().find_map(|held| held.check().err()).map(Into::into)
    }

    /// As for one guard. None if they were released.
    #[napi]
    pub fn ended(&self) -> Option<Operation> {
        let lost = self.guard.as_ref()?.lost();
        Some(Operation::new(async move { Ok::<_, Infallible>(lost.await) }, |lost| match lost.reason {
            LostReason::Released => None,
            _ => Some(Failure::from(lost)),
        }))
    }

    #[napi]
    pub fn release(&mut self) -> Option<Operation> {
        Some(Operation::new(self.guard.take()?.release(), |()| ()))
    }

    #[napi]
    pub fn drop(&mut self) {
        self.guard = None;
    }
}
