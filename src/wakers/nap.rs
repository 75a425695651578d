//! How the waker thread sleeps: until it is rung, or a socket that somebody watches can be read. All threads may use it
//! at the same time.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use epoll::Nap;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use rung::Nap;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::event::Timespec;
    use rustix::event::epoll::{self, Event, EventData, EventFlags};
    use rustix::io::Errno;

    use crate::bell::eventfd::Bell;

    /// The most sockets that are reported at once.
    const REPORTED: usize = 32;
    const BELL: u64 = 0;

    pub(in super::super) struct Nap {
        epoll: OwnedFd,
        bell: Bell,
    }

    impl Nap {
        pub(in super::super) const WATCHES: bool = true;

        pub(in super::super) fn new() -> io::Result<Self> {
            let (bell, epoll) = Bell::with_epoll(BELL)?;
            Ok(Self { epoll, bell })
        }

        pub(in super::super) fn ring(&self) {
            self.bell.ring();
        }

        /// Ends one sleep as soon as this socket can be read. The kernel forgets a socket that is closed.
        pub(in super::super) fn watch(&self, socket: &impl AsFd, name: u64) -> io::Result<()> {
            let (data, flags) = (EventData::new_u64(name), EventFlags::IN | EventFlags::ONESHOT);
            match epoll::modify(&self.epoll, socket, data, flags) {
                Err(Errno::NOENT) => Ok(epoll::add(&self.epoll, socket, data, flags)?),
                watched => Ok(watched?),
            }
        }

        /// Returns the names of sockets that can be read.
        pub(in super::super) fn sleep(&self) -> Vec<u64> {
            self.readable(None)
        }

        /// The same without sleeping.
        pub(in super::super) fn look(&self) -> Vec<u64> {
            self.readable(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
        }

        fn readable(&self, longest: Option<&Timespec>) -> Vec<u64> {
            let mut events = [MaybeUninit::<Event>::uninit(); REPORTED];
            // A signal may interrupt it.
            let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, longest) else { return Vec::new() };
            events.iter().map(|event| event.data.u64()).filter(|name| *name != BELL).collect()
        }
    }
}

/// Where there is no `epoll`, tasks ask their keepers.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod rung {
    use std::io;
    use std::os::fd::AsFd;

    use rustix::event::{PollFd, PollFlags, poll};

    use crate::bell::pipe::{Bell, Sound};

    pub(in super::super) struct Nap {
        bell: Bell,
        sound: Sound,
    }

    impl Nap {
        pub(in super::super) const WATCHES: bool = false;

        pub(in super::super) fn new() -> io::Result<Self> {
            let (bell, sound) = Bell::new()?;
            Ok(Self { bell, sound })
        }

        pub(in super::super) fn ring(&self) {
            self.bell.ring();
        }

        pub(in super::super) fn watch(&self, _socket: &impl AsFd, _name: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) fn look(&self) -> Vec<u64> {
            Vec::new()
        }

        pub(in super::super) fn sleep(&self) -> Vec<u64> {
            // A signal may interrupt it.
            if poll(&mut [PollFd::new(&self.sound, PollFlags::IN)], None).is_ok() {
                self.sound.silence();
            }
            Vec::new()
        }
    }
}
