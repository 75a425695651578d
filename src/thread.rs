//! The threads of the library. They block signals, so the handlers of the program run on the program's own threads. On
//! the keeper, a handler would hold up renewals (I12 of `docs/guarantees.md`). And a signal that the program has blocked
//! on its threads, to take it by `sigwait` or `signalfd`, would be delivered to a thread that does not block it.
//!
//! Whoever waits for the work of such a thread is told at once that it has panicked, and with what text ([`caught`]).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::Builder;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

/// The signals of a thread that made an error itself. If these are blocked, the kernel ends the process without a word
/// from the handler that reports such an error.
const ERRORS: [Signal; 6] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGILL, Signal::SIGFPE, Signal::SIGTRAP, Signal::SIGSYS];

/// Starts a thread.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A new thread inherits what its starter blocks. If it blocked signals itself, one could come before.
    let _blocked = Blocked::signals()?;
    Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Does this, or tells what the panic said that ended it.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a text").to_owned();
        // The payload may panic when it is dropped.
        std::mem::forget(payload);
        text
    })
}

/// While this exists, the current thread blocks signals. It has what the thread blocked before.
struct Blocked(SigSet);

impl Blocked {
    fn signals() -> io::Result<Self> {
        let mut signals = SigSet::all();
        ERRORS.into_iter().for_each(|error| signals.remove(error));
        Ok(Self(signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // It fails only for an unknown way to change a mask.
        let _ = self.0.thread_set_mask();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// What the current thread blocks.
    fn blocked() -> Vec<Signal> {
        SigSet::thread_get_mask().unwrap().iter().collect()
    }

    #[test]
    fn a_thread_blocks_signals_and_the_one_that_starts_it_goes_on_as_before() {
        let mut before = SigSet::empty();
        before.add(Signal::SIGUSR1);
        before.thread_set_mask().unwrap();
        let before = blocked();
        let (tell, told) = channel();
        spawn("blocks", move || tell.send(blocked()).unwrap()).unwrap();
        // Nobody can block the last two.
        let not_blocked = [&ERRORS[..], &[Signal::SIGKILL, Signal::SIGSTOP]].concat();
        let all = Signal::iterator().filter(|signal| !not_blocked.contains(signal));
        assert_eq!(told.recv().unwrap(), all.collect::<Vec<_>>());
        assert_eq!(blocked(), before);
        // No thread has such a name.
        std::panic::catch_unwind(|| spawn("a\0b", || ())).unwrap_err();
        assert_eq!(blocked(), before);
    }
}
