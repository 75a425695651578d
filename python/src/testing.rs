//! The lock service in the process, for tests of programs that use locks.

use std::sync::{Mutex, PoisonError};

use fairlock::testing;
use pyo3::prelude::*;

use crate::convert::duration;
use crate::errors::bare;

#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct LockService {
    /// The service's thread is in this process only.
    process: u32,
    #[pyo3(get)]
    url: String,
    /// None when it has ended.
    service: Mutex<Option<testing::LockService>>,
}

impl LockService {
    fn ask<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&testing::LockService) -> T + Send) -> PyResult<T> {
        if self.process != std::process::id() {
            return Err(bare(py, "Forked", "the lock service belongs to the parent of this process: ask it there"));
        }
        let answer = py.detach(|| self.service.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(act));
        answer.ok_or_else(|| bare(py, "Closed", "the lock service has ended: start another one"))
    }
}

#[pymethods]
impl LockService {
    #[new]
    fn start() -> PyResult<Self> {
        let service = testing::LockService::start()?;
        Ok(Self { process: std::process::id(), url: service.url().to_owned(), service: Mutex::new(Some(service)) })
    }

    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, testing::LockService::pause)
    }

    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, testing::LockService::resume)
    }

    fn lose_data(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, testing::LockService::lose_data)
    }

    fn break_lease(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.ask(py, |service| service.break_lease(name))
    }

    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let by = duration("the time to advance by", seconds)?;
        self.ask(py, |service| service.advance(by))
    }

    /// Ends it. Nothing if it has ended, or belongs to the parent.
    fn end(&self, py: Python<'_>) {
        if self.process == std::process::id() {
            py.detach(|| drop(self.service.lock().unwrap_or_else(PoisonError::into_inner).take()));
        }
    }
}

impl Drop for LockService {
    /// The copy of a forked process waits for no thread: the child has none.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.service.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
