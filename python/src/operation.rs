//! A future of the library as Python runs it.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::convert::duration;
use crate::notifier::Notifier;

/// Makes the Python object or the exception, when the GIL is held again.
pub(crate) type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A signal that arrives between the question for signals and the sleep interrupts nothing, and neither does one that
/// the system gives to another thread. So the main thread asks again after this time.
const SIGNALS: Duration = Duration::from_millis(200);

/// The interpreter exits: threads that still wait do not come back to it.
static EXITING: AtomicBool = AtomicBool::new(false);

#[pyfunction]
pub(crate) fn exiting() {
    EXITING.store(true, Ordering::Release);
}

/// A call that waits. It begins when it is first waited for or polled, and is given up when it is dropped.
#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Operation {
    state: Mutex<State>,
}

enum State {
    Working(Work),
    Ended(Outcome),
    Over,
}

impl Operation {
    /// `make` turns the future's output into what Python gets.
    pub(crate) fn new<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
        make: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work = Box::pin(async move {
            let output = future.await;
            Box::new(move |py: Python<'_>| make(py, output)) as Outcome
        });
        Self { state: Mutex::new(State::Working(work)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> PyResult<State> {
        match std::mem::replace(&mut *self.state(), State::Over) {
            State::Over => Err(PyRuntimeError::new_err("this operation was waited for already")),
            state => Ok(state),
        }
    }
}

#[pymethods]
impl Operation {
    /// Waits on the spot, without the GIL. An exception of a signal handler, such as KeyboardInterrupt, gives the
    /// operation up, and so does the end of this time, with a TimeoutError.
    #[pyo3(signature = (main_thread, longest=None))]
    fn wait(&self, py: Python<'_>, main_thread: bool, longest: Option<f64>) -> PyResult<Py<PyAny>> {
        let until = match longest {
            Some(longest) => Instant::now().checked_add(duration("timeout", longest)?),
            None => None,
        };
        let mut work = match self.begin()? {
            State::Ended(outcome) => return outcome(py),
            State::Working(work) => work,
            State::Over => unreachable!("begin has looked"),
        };
        let sleeper = Sleeper::of_this_thread()?;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let longest = [left, main_thread.then_some(SIGNALS)].into_iter().flatten().min();
            let ended = py.detach(|| sleeper.step(&mut work, longest, main_thread));
            if let Some(outcome) = ended {
                return outcome(py);
            }
            let over = left.is_some_and(|left| left.is_zero()).then(|| PyTimeoutError::new_err("the time is over"));
            if let Err(interrupt) = py.check_signals().and_then(|()| over.map_or(Ok(()), Err)) {
                py.detach(|| drop(work));
                return Err(interrupt);
            }
        }
    }

    /// Whether it has ended. If not, the notifier names the key when it is to be polled again.
    fn poll(&self, notifier: &Notifier, key: u64) -> bool {
        let mut state = self.state();
        let State::Working(work) = &mut *state else { return true };
        match work.as_mut().poll(&mut Context::from_waker(&notifier.waker(key))) {
            Poll::Ready(outcome) => {
                *state = State::Ended(outcome);
                true
            }
            Poll::Pending => false,
        }
    }

    /// The result of one that has ended.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.begin()? {
            State::Ended(outcome) => outcome(py),
            _ => Err(PyRuntimeError::new_err("this operation has not ended")),
        }
    }

    /// Gives it up, with a result that nobody took.
    fn cancel(&self) {
        let given_up = std::mem::replace(&mut *self.state(), State::Over);
        drop(given_up);
    }
}

/// Sleeps until its waker is called, or a signal arrives.
struct Sleeper {
    process: u32,
    bell: Bell,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.bell.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bell.ring();
    }
}

thread_local! {
    static OF_THREAD: RefCell<Option<Arc<Sleeper>>> = const { RefCell::new(None) };
}

impl Sleeper {
    /// Each thread keeps its own. One that was made before a fork is the parent's: they share the socket.
    fn of_this_thread() -> io::Result<Arc<Self>> {
        let process = std::process::id();
        // Taken, and not borrowed: a signal handler may wait within a wait.
        let kept = OF_THREAD.take().filter(|kept| kept.process == process);
        match kept {
            // A waker of an earlier wait may still ring it. Then a future is polled once more than needed.
            Some(kept) => Ok(kept),
            None => Ok(Arc::new(Self { process, bell: Bell::new()? })),
        }
    }

    /// Polls once. If the future is pending, sleeps until it is to be polled again.
    fn step(self: &Arc<Self>, work: &mut Work, longest: Option<Duration>, main_thread: bool) -> Option<Outcome> {
        let waker = self.clone().into();
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(outcome) = polled {
            if EXITING.load(Ordering::Acquire) && !main_thread {
                // CPython, too, lets a daemon thread go no further. The process ends soon.
                loop {
                    std::thread::park();
                }
            }
            OF_THREAD.replace(Some(self.clone()));
            return Some(outcome);
        }
        self.bell.sleep(longest);
        None
    }
}
