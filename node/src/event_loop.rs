//! What wakes an event loop, and keeps it from ending.

use std::sync::Arc;
use std::task::{Wake, Waker};

use napi::bindgen_prelude::{Env, Function, Result, Status};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;

/// It holds up no event loop: what is under way does so by [`EventLoop::hold`].
type Call = ThreadsafeFunction<u32, (), u32, Status, false, true>;

/// One environment's way to be called from other threads.
#[napi]
pub struct EventLoop {
    call: Arc<Call>,
    /// Is never called: the event loop goes on while this has a reference.
    hold: Call,
}

struct Numbered {
    call: Arc<Call>,
    number: u32,
}

impl Wake for Numbered {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // An environment that ends takes no calls, and nobody waits there any more.
        let _ = self.call.call(self.number, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

#[napi]
impl EventLoop {
    /// `poll` is told the number of an operation that is to be polled again.
    #[napi(constructor)]
    pub fn new(poll: Function<'_, u32, ()>) -> Result<Self> {
        let call = || poll.build_threadsafe_function().weak::<true>().build();
        Ok(Self { call: Arc::new(call()?), hold: call()? })
    }

    /// While `held`, the event loop goes on though it has nothing else to do.
    #[napi]
    // The references of N-API, and not those that a clone counts.
    #[allow(deprecated)]
    pub fn hold(&mut self, env: &Env, held: bool) -> Result<()> {
        if held { self.hold.refer(env) } else { self.hold.unref(env) }
    }
}

impl EventLoop {
    pub(crate) fn waker(&self, number: u32) -> Waker {
        Arc::new(Numbered { call: self.call.clone(), number }).into()
    }
}
