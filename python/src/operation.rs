//! A future of the library as Python runs it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park, park_timeout, sleep};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;

use crate::bell::Bell;
use crate::convert::duration;
use crate::errors::no_descriptor;

/// What Python gets, and what gives it back if it is a lease or a place.
pub(crate) type Brought = (Py<PyAny>, Option<Weak<dyn GiveBack>>);
/// Makes the Python object or the exception, when the GIL is held again.
type Outcome = Box<dyn FnOnce(Python<'_>) -> PyResult<Brought> + Send>;
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A signal that arrives between the question for signals and the sleep interrupts nothing, and neither does one that
/// the system gives to another thread. So the main thread asks again after this time.
const SIGNALS: Duration = Duration::from_millis(200);

/// The interpreter exits, and `atexit` closes the clients: threads that wait do not come back to it meanwhile.
static EXITING: AtomicBool = AtomicBool::new(false);
/// That is done. Handlers that were registered before this package was imported are called now.
static EXITED: AtomicBool = AtomicBool::new(false);
/// How long a thread that is told of the end leaves the interpreter to its end. In most programs it begins at once, and
/// then the thread has nothing to say.
const GRACE: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_millis(10);

/// Said by the thread that runs the handlers of `atexit`: in an embedded interpreter it may be any.
#[pyfunction]
pub(crate) fn exiting() {
    EXITS_HERE.set(true);
    EXITING.store(true, Ordering::Release);
}

/// Whether everything has been given back because the interpreter ends, or is about to be.
#[pyfunction]
pub(crate) fn exits() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// Whether that is over, so that no call has anything to wait for.
#[pyfunction]
pub(crate) fn has_exited() -> bool {
    EXITED.load(Ordering::Acquire)
}

#[pyfunction]
pub(crate) fn exited() {
    EXITED.store(true, Ordering::Release);
}

/// On other threads than that. CPython, too, lets a daemon thread go no further once the interpreter ends. Until then
/// somebody may join the thread.
fn stay_while_the_interpreter_ends() {
    while !has_exited() {
        sleep(AGAIN);
    }
    sleep(GRACE);
    while Python::try_attach(|_| ()).is_none() {
        sleep(AGAIN);
    }
}

/// What an operation has brought, as long as anybody has it.
pub(crate) trait GiveBack: Send + Sync {
    /// In the background. Nothing if it was given back before.
    fn give_back(&self);
}

/// Leases, and places in a queue.
impl<T: Send> GiveBack for Mutex<Option<T>> {
    fn give_back(&self) {
        let given = self.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(given);
    }
}

/// Something that can be given back, until that is done.
pub(crate) type Kept<T> = Arc<Mutex<Option<T>>>;

pub(crate) fn give_back<T: Send + 'static>(kept: &Kept<T>) -> Option<Weak<dyn GiveBack>> {
    let kept: Arc<dyn GiveBack> = kept.clone();
    Some(Arc::downgrade(&kept))
}

/// A call that waits. It begins when it is first waited for or polled, and is given up when it is dropped.
#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Operation {
    state: Mutex<State>,
}

enum State {
    Working(Work),
    Ended(Outcome),
    Over(Option<Weak<dyn GiveBack>>),
}

impl Operation {
    /// `make` turns the future's output into what Python gets.
    pub(crate) fn new<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
        make: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self::bringing(future, |py, output| Ok((make(py, output)?, None)))
    }

    /// The same of a lease or a place.
    pub(crate) fn bringing<T: Send + 'static>(
        future: impl Future<Output = T> + Send + 'static,
        make: impl FnOnce(Python<'_>, T) -> PyResult<Brought> + Send + 'static,
    ) -> Self {
        let work = Box::pin(async move {
            let output = future.await;
            Box::new(move |py: Python<'_>| make(py, output)) as Outcome
        });
        Self { state: Mutex::new(State::Working(work)) }
    }

    /// Begins it now: nothing that happens before it is waited for keeps it from its effect.
    pub(crate) fn begun(self) -> Self {
        self.step(&mut Context::from_waker(Waker::noop()));
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> PyResult<State> {
        match std::mem::replace(&mut *self.state(), State::Over(None)) {
            State::Over(_) => Err(PyRuntimeError::new_err("this operation was waited for already")),
            state => Ok(state),
        }
    }

    /// Whether it has ended.
    pub(crate) fn step(&self, context: &mut Context<'_>) -> bool {
        let mut state = self.state();
        let State::Working(work) = &mut *state else { return true };
        match work.as_mut().poll(context) {
            Poll::Ready(outcome) => {
                *state = State::Ended(outcome);
                true
            }
            Poll::Pending => false,
        }
    }

    /// The result, for a caller who may be interrupted before it has it.
    fn bring(&self, py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
        let (result, brought) = outcome(py)?;
        *self.state() = State::Over(brought);
        Ok(result)
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
            State::Ended(outcome) => return self.bring(py, outcome),
            State::Working(work) => work,
            State::Over(_) => unreachable!("begin has looked"),
        };
        let sleeper = Sleeper::of_this_thread(py, main_thread)?;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let longest = [left, main_thread.then_some(SIGNALS)].into_iter().flatten().min();
            let ended = py.detach(|| sleeper.step(&mut work, longest));
            if let Some(outcome) = ended {
                return self.bring(py, outcome);
            }
            let over = left.is_some_and(|left| left.is_zero()).then(|| PyTimeoutError::new_err("the time is over"));
            if let Err(interrupt) = py.check_signals().and_then(|()| over.map_or(Ok(()), Err)) {
                py.detach(|| drop(work));
                return Err(interrupt);
            }
        }
    }

    /// The result of one that has ended.
    fn take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.begin()? {
            State::Ended(outcome) => self.bring(py, outcome),
            _ => Err(PyRuntimeError::new_err("this operation has not ended")),
        }
    }

    /// Gives it up, with a result that nobody took, and with one that was taken: the lease is given back.
    pub(crate) fn cancel(&self) {
        let given_up = std::mem::replace(&mut *self.state(), State::Over(None));
        if let State::Over(Some(brought)) = &given_up
            && let Some(brought) = brought.upgrade()
        {
            brought.give_back();
        }
    }
}

/// Sleeps until its waker is called. On the main thread a signal wakes it, too, which takes two descriptors.
struct Sleeper {
    process: u32,
    thread: Thread,
    woken: AtomicBool,
    bell: Option<Bell>,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match &self.bell {
            Some(bell) => bell.ring(),
            None => {
                if !self.woken.swap(true, Ordering::AcqRel) {
                    self.thread.unpark();
                }
            }
        }
    }
}

thread_local! {
    static EXITS_HERE: Cell<bool> = const { Cell::new(false) };
    static OF_THREAD: RefCell<Option<Arc<Sleeper>>> = const { RefCell::new(None) };
}

impl Sleeper {
    /// Each thread keeps its own. One that was made before a fork is the parent's: they share the socket. (The thread that
    /// forks is the main thread of the child.)
    fn of_this_thread(py: Python<'_>, main_thread: bool) -> PyResult<Arc<Self>> {
        let process = std::process::id();
        // Taken, and not borrowed: a signal handler may wait within a wait.
        let kept = OF_THREAD.take().filter(|kept| kept.process == process && kept.bell.is_some() == main_thread);
        if let Some(kept) = kept {
            // A waker of an earlier wait may still ring it. Then a future is polled once more than needed.
            return Ok(kept);
        }
        let bell = main_thread.then(Bell::new).transpose().map_err(|error| no_descriptor(py, &error))?;
        Ok(Arc::new(Self { process, thread: current(), woken: AtomicBool::new(false), bell }))
    }

    /// It may end early, without a reason.
    fn sleep(&self, longest: Option<Duration>) {
        match (&self.bell, longest) {
            (Some(bell), _) => bell.sleep(longest),
            (None, _) if self.woken.swap(false, Ordering::AcqRel) => {}
            (None, Some(longest)) => park_timeout(longest),
            (None, None) => park(),
        }
    }

    /// Polls once. If the future is pending, sleeps until it is to be polled again.
    fn step(self: &Arc<Self>, work: &mut Work, longest: Option<Duration>) -> Option<Outcome> {
        let waker = self.clone().into();
        let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(outcome) = polled {
            if exits() && !EXITS_HERE.get() {
                stay_while_the_interpreter_ends();
            }
            OF_THREAD.replace(Some(self.clone()));
            return Some(outcome);
        }
        self.sleep(longest);
        None
    }
}
