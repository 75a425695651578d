//! What wakes a thread that sleeps until sockets are ready: another thread notifies it, and waits for nobody.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use eventfd::Notifier;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use pipe::Notifier;

/// For a thread that sleeps in `epoll`. The notifier is edge-triggered: each call wakes once without being read, which
/// saves a system call for each message.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod eventfd {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};

    pub(crate) struct Notifier(OwnedFd);

    impl Notifier {
        /// With an `epoll` that reports each call under this name.
        pub(crate) fn with_epoll(name: u64) -> io::Result<(Self, OwnedFd)> {
            let notifier = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&epoll, &notifier, EventData::new_u64(name), EventFlags::IN | EventFlags::ET)?;
            Ok((Self(notifier), epoll))
        }

        pub(crate) fn notify(&self) {
            // It fails only after 2^64 calls.
            let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
        }
    }
}

/// For a thread that sleeps in `poll`, on every unix. The tests use it on Linux, too.
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) mod pipe {
    use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Arc;

    /// Both ends of a pipe, kept open: a thread may notify when the one that slept has ended, and a write to a pipe
    /// without a reader raises SIGPIPE.
    pub(crate) struct Notifier(PipeWriter, #[allow(dead_code)] Arc<PipeReader>);

    /// Is readable from a call on, until it is drained.
    pub(crate) struct Notified(Arc<PipeReader>);

    impl Notifier {
        pub(crate) fn new() -> io::Result<(Self, Notified)> {
            let (notified, notifier) = io::pipe()?;
            let notified = Arc::new(notified);
            Ok((Self(notifier, notified.clone()), Notified(notified)))
        }

        pub(crate) fn notify(&self) {
            // It is called once for each sleep and drained after it, so the pipe is never full.
            let _ = (&self.0).write(&[1]);
        }
    }

    impl Notified {
        pub(crate) fn drain(&self) {
            let _ = (&*self.0).read(&mut [0; 64]);
        }
    }

    impl AsFd for Notified {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    mod tests {
        use super::*;

        #[test]
        fn a_notifier_that_nobody_hears_any_more_can_be_called() {
            let (notifier, notified) = Notifier::new().unwrap();
            drop(notified);
            // An error would be EPIPE, together with a signal.
            assert_eq!((&notifier.0).write(&[1]).unwrap(), 1);
        }
    }
}
