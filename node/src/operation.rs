//! A future of the library as JavaScript runs it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use napi::bindgen_prelude::{Env, Error, Result, ToNapiValue, Unknown};
use napi_derive::napi;

use crate::errors::Failure;
use crate::event_loop::EventLoop;

type Value = Box<dyn for<'env> FnOnce(&'env Env) -> Result<Unknown<'env>>>;
type Work = Pin<Box<dyn Future<Output = Value>>>;

/// A call that waits. It begins when it is first polled, and is given up when it is dropped.
#[napi]
pub struct Operation {
    state: State,
    waker: Option<Waker>,
}

enum State {
    Working(Work),
    Ended(Value),
    Over,
}

impl Operation {
    /// `convert` makes what JavaScript gets of the future's output.
    pub(crate) fn new<T: 'static, V: ToNapiValue + 'static, E: Into<Failure>>(
        future: impl Future<Output = std::result::Result<T, E>> + 'static,
        convert: impl FnOnce(T) -> V + 'static,
    ) -> Self {
        let work = Box::pin(async move {
            let value: Value = match future.await {
                Ok(output) => {
                    let value = convert(output);
                    Box::new(move |env: &Env| value.into_unknown(env))
                }
                Err(error) => {
                    let failure: Failure = error.into();
                    Box::new(move |env: &Env| failure.into_unknown(env))
                }
            };
            value
        });
        Self { state: State::Working(work), waker: None }
    }
}

#[napi]
impl Operation {
    /// Whether it has ended. If not, the event loop is told this number when it is to be polled again.
    #[napi]
    pub fn poll(&mut self, event_loop: &EventLoop, number: u32) -> bool {
        let State::Working(work) = &mut self.state else { return true };
        let waker = self.waker.get_or_insert_with(|| event_loop.waker(number));
        let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(waker)) else { return false };
        self.state = State::Ended(value);
        true
    }

    /// The value or the failure of one that has ended.
    #[napi]
    pub fn take<'env>(&mut self, env: &'env Env) -> Result<Unknown<'env>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Ended(value) => value(env),
            _ => Err(Error::from_reason("this operation has not ended, or was taken already")),
        }
    }

    /// Gives it up, with a result that nobody took: a place is left, a lease released.
    #[napi]
    pub fn cancel(&mut self) {
        self.state = State::Over;
    }
}
