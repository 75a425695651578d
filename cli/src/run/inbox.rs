//! What the main thread of `run` and `hold` hears. A thread for each source puts it here (`mod.rs` names them).

use nix::sys::signal::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::process::signals;
use crate::progress;
use crate::shim::protocol::Report;

/// The main thread's end.
pub(crate) type Inbox = UnboundedReceiver<RunEvent>;
/// The other threads' end.
pub(crate) type Outbox = UnboundedSender<RunEvent>;

/// An event from outside, while fairlock waits and while it holds the lock.
pub(crate) enum RunEvent {
    Signal(Signal),
    Shim(Report),
    ShimGone,
    /// `hold`: its stdin has ended, or the script has closed the descriptor.
    Closed,
    /// `hold`: something was written to its stdin.
    Data,
}

/// Resolves at a signal that ends the wait. Ctrl-Z stops fairlock, which keeps its place if it is continued in time.
pub(crate) async fn interruption(inbox: &mut Inbox) -> Signal {
    loop {
        match inbox.recv().await {
            Some(RunEvent::Signal(signal)) if signals::ends(signal) => return signal,
            Some(RunEvent::Signal(Signal::SIGTSTP)) => {
                progress::erase();
                signals::stop_here(false);
            }
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}
