//! Writes to stderr without waiting for its reader. Otherwise a pipe that nobody reads, or a terminal that was stopped
//! with Ctrl-S, would delay the end of a command whose lease is lost.
//!
//! A separate thread writes. To ask first whether a write would block is not enough, since the command writes to the
//! same file; to make the file non-blocking would make it so for the command too. Only where no thread can be started,
//! that has to do.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::system_log;

/// How long the end of the process waits for its last messages.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long to wait for a line that should appear before something else happens.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(500);

/// The most bytes that are kept for a reader that does not read.
const BACKLOG: usize = 64 * 1024;

/// The bytes for which a pipe has room if it has room at all.
const PIPE_BUF: usize = 512;

static PENDING: Mutex<Pending> = Mutex::new(Pending { text: String::new(), writer: Writer::None });
static CHANGED: Condvar = Condvar::new();
static ELSEWHERE: OnceLock<Open> = OnceLock::new();

type Open = Box<dyn Fn() -> Option<OwnedFd> + Send + Sync>;

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

/// Queues this text for the writer.
pub(crate) fn write(text: &str) {
    let mut pending = pending();
    if pending.text.len() < BACKLOG {
        pending.text.push_str(text);
    }
    if pending.writer == Writer::None {
        pending.writer = Writer::Idle;
        if start_writer().is_err() {
            pending.writer = Writer::None;
            deliver(&std::mem::take(&mut pending.text), write_what_fits);
        }
    }
    CHANGED.notify_all();
}

/// From now on each text goes to the file that this opens for it, and to the log of the system if it opens none.
pub(crate) fn redirect(open: impl Fn() -> Option<OwnedFd> + Send + Sync + 'static) {
    // A process has one script for which it speaks.
    let _ = ELSEWHERE.set(Box::new(open));
}

/// Queues this text only if all earlier text is written: for a line that a newer one soon replaces.
pub(crate) fn write_if_free(text: &str) {
    if pending().is_written() {
        write(text);
    }
}

/// Waits until all text is written, or until the limit is over.
pub(crate) fn flush(limit: Duration) {
    let waited = CHANGED.wait_timeout_while(pending(), limit, |pending| !pending.is_written());
    let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
    // On an overloaded machine the writer may not have begun.
    if pending.writer == Writer::Idle && !pending.text.is_empty() {
        deliver(&std::mem::take(&mut pending.text), write_what_fits);
    }
}

/// The thread inherits a mask that blocks all signals, so that it receives none that other threads wait for.
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
            deliver(&text, write_all);
            guard = pending();
        }
    }
}

fn deliver(text: &str, write: impl Fn(BorrowedFd<'_>, &[u8])) {
    match ELSEWHERE.get().map(|open| open()) {
        // Not through `std::io::Stderr`: a panic in another thread would then wait for its lock.
        None => write(std::io::stderr().as_fd(), text.as_bytes()),
        Some(Some(file)) => write(file.as_fd(), text.as_bytes()),
        Some(None) => system_log::write(text),
    }
}

fn write_all(file: BorrowedFd<'_>, mut text: &[u8]) {
    while !text.is_empty() {
        match rustix::io::write(file, text) {
            Ok(written @ 1..) => text = &text[written..],
            Err(Errno::INTR) => {}
            // Another process made the file non-blocking.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], None);
            }
            // stderr is gone, as after a hang-up. The command matters more than the message.
            _ => return,
        }
    }
}

/// What a reader takes at once. The rest is lost: that is better than to wait for a reader.
fn write_what_fits(file: BorrowedFd<'_>, text: &[u8]) {
    for part in text.chunks(PIPE_BUF) {
        let is_free = poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&Timespec::default()));
        if !is_free.is_ok_and(|ready| ready > 0) || rustix::io::write(file, part) != Ok(part.len()) {
            return;
        }
    }
}

fn pending() -> MutexGuard<'static, Pending> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}
