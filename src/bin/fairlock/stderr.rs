//! stderr, of which nothing here ever waits: a pipe that nobody reads, or a terminal that was stopped with Ctrl-S, would
//! else hold up the end of a command whose lease is lost.
//!
//! A thread of its own writes. Whether a write would block cannot be asked beforehand, since the command writes to the
//! same file, and making the file non-blocking would make it so for the command too.

use std::os::fd::AsFd as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The wait for the last words before the end of the process.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);
/// The wait for a line that has to be there before something else happens.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);

/// More than this is not kept for a reader that does not read.
const BACKLOG: usize = 64 * 1024;

static PENDING: Mutex<Pending> = Mutex::new(Pending { text: String::new(), writer: Writer::None });
static CHANGED: Condvar = Condvar::new();

struct Pending {
    text: String,
    writer: Writer,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    None,
    Idle,
    Writing,
}

impl Pending {
    fn is_written(&self) -> bool {
        self.text.is_empty() && self.writer != Writer::Writing
    }
}

/// Writes this as soon as somebody reads.
pub(crate) fn write(text: &str) {
    let mut pending = pending();
    if pending.text.len() < BACKLOG {
        pending.text.push_str(text);
    }
    if pending.writer == Writer::None {
        pending.writer = Writer::Idle;
        if start_writer().is_err() {
            // Rather silent than stuck.
            pending.writer = Writer::None;
            pending.text.clear();
        }
    }
    CHANGED.notify_all();
}

/// Writes this if all before it was written: for what is soon replaced by something newer.
pub(crate) fn write_if_free(text: &str) {
    if pending().is_written() {
        write(text);
    }
}

/// Waits until all is written, but no longer than this.
pub(crate) fn flush(limit: Duration) {
    // Written or not: whoever calls has to go on.
    let _ = CHANGED.wait_timeout_while(pending(), limit, |pending| !pending.is_written());
}

/// The thread inherits a mask that blocks all signals, so that none is delivered to it that others wait for.
fn start_writer() -> std::io::Result<()> {
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = std::thread::Builder::new().name("stderr".to_owned()).spawn(write_for_ever);
    before.thread_set_mask()?;
    started.map(drop)
}

fn write_for_ever() {
    let mut guard = pending();
    loop {
        let text = std::mem::take(&mut guard.text);
        if text.is_empty() {
            guard.writer = Writer::Idle;
            CHANGED.notify_all();
            guard = CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner);
        } else {
            guard.writer = Writer::Writing;
            drop(guard);
            write_all(text.as_bytes());
            guard = pending();
        }
    }
}

/// Not by way of `std::io::Stderr`, whose lock a panic of another thread would then wait for.
fn write_all(mut text: &[u8]) {
    let stderr = std::io::stderr();
    while !text.is_empty() {
        match rustix::io::write(stderr.as_fd(), text) {
            Ok(written @ 1..) => text = &text[written..],
            Err(Errno::INTR) => {}
            // Somebody else made it non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None);
            }
            // It is gone, as it is after a hang-up. What has to be done for the command matters more than the words.
            _ => return,
        }
    }
}

fn pending() -> MutexGuard<'static, Pending> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}
