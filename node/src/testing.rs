//! The lock service in the process, for tests of programs that use locks.

use fairlock::testing;
use napi::Either;
use napi_derive::napi;

use crate::client::closed;
use crate::convert::duration;
use crate::errors::Failure;

#[napi]
pub struct LockService {
    url: String,
    /// None when it has ended.
    service: Option<testing::LockService>,
}

impl LockService {
    fn ask<T>(&self, act: impl FnOnce(&testing::LockService) -> T) -> Either<T, Failure> {
        match &self.service {
            Some(service) => Either::A(act(service)),
            None => Either::B(closed("the lock service has ended: start another one")),
        }
    }
}

#[napi]
impl LockService {
    #[napi(constructor)]
    pub fn new() -> napi::Result<Self> {
        let service = testing::LockService::start().map_err(|error| napi::Error::from_reason(error.to_string()))?;
        Ok(Self { url: service.url().to_owned(), service: Some(service) })
    }

    #[napi(getter)]
    pub fn url(&self) -> &str {
        &self.url
    }

    #[napi]
    pub fn pause(&self) -> Either<(), Failure> {
        self.ask(testing::LockService::pause)
    }

    #[napi]
    pub fn resume(&self) -> Either<(), Failure> {
        self.ask(testing::LockService::resume)
    }

    #[napi]
    pub fn lose_data(&self) -> Either<(), Failure> {
        self.ask(testing::LockService::lose_data)
    }

    #[napi]
    pub fn break_lease(&self, name: String) -> Either<bool, Failure> {
        self.ask(|service| service.break_lease(&name))
    }

    #[napi]
    pub fn advance(&self, ms: f64) -> Either<(), Failure> {
        match duration("the time to advance by", ms) {
            Ok(by) => self.ask(|service| service.advance(by)),
            Err(failure) => Either::B(failure),
        }
    }

    #[napi]
    pub fn end(&mut self) {
        self.service = None;
    }
}
