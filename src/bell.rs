//! What wakes a thread that sleeps until sockets are ready: another thread rings its bell. Ringing waits for nobody.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use eventfd::Bell;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use pipe::Bell;

/// For a thread that sleeps in `epoll`. The bell is edge-triggered: each ring wakes once without being read, which
/// saves a system call for each message.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) mod eventfd {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};

    #[derive(Debug)]
    pub(crate) struct Bell(OwnedFd);

    impl Bell {
        /// With an `epoll` that reports each ring under this name.
        pub(crate) fn with_epoll(name: u64) -> io::Result<(Self, OwnedFd)> {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&epoll, &bell, EventData::new_u64(name), EventFlags::IN | EventFlags::ET)?;
            Ok((Self(bell), epoll))
        }

        pub(crate) fn ring(&self) {
            // It fails only after 2^64 rings.
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

    /// It keeps the pipe open at both ends: a thread may ring when the one that slept has ended, and a write to a pipe
    /// without a reader raises SIGPIPE.
    #[derive(Debug)]
    pub(crate) struct Bell(PipeWriter, #[allow(dead_code)] Arc<PipeReader>);

    /// Is readable from a ring on, until it is silenced.
    #[derive(Debug)]
    pub(crate) struct Sound(Arc<PipeReader>);

    impl Bell {
        pub(crate) fn new() -> io::Result<(Self, Sound)> {
            let (sound, bell) = io::pipe()?;
            let sound = Arc::new(sound);
            Ok((Self(bell, sound.clone()), Sound(sound)))
        }

        pub(crate) fn ring(&self) {
            // It is rung once for each sleep and silenced after it, so the pipe is never full.
            let _ = (&self.0).write(&[1]);
        }
    }

    impl Sound {
        pub(crate) fn silence(&self) {
            let _ = (&*self.0).read(&mut [0; 64]);
        }
    }

    impl AsFd for Sound {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    mod tests {
        use super::*;

        #[test]
        fn a_bell_that_nobody_hears_any_more_can_be_rung() {
            let (bell, sound) = Bell::new().unwrap();
            drop(sound);
            // An error would be EPIPE, together with a signal.
            assert_eq!((&bell.0).write(&[1]).unwrap(), 1);
        }
    }
}
