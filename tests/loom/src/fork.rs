//! A process that is never forked.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Process;

pub(crate) struct UnlessForked<F>(Pin<Box<F>>);

impl<F: Future<Output = ()>> UnlessForked<F> {
    pub(crate) fn new(_process: &Process, future: F) -> Self {
        Self(Box::pin(future))
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

/// The value of the one process.
#[derive(Debug, Default)]
pub(crate) struct OfProcess<T>(T);

impl<T> OfProcess<T> {
    pub(crate) fn get(&self) -> &T {
        &self.0
    }
}
