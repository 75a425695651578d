//! The keeper's messages. The keeper sleeps in `poll`, so a message alone does not wake it: a sender also rings a bell,
//! a file descriptor that `poll` watches, but only while the keeper sleeps. A message to a keeper that is awake costs
//! no system call.
//!
//! The sender queues its message, then checks whether the keeper sleeps. The keeper announces that it sleeps, then
//! checks the queue once more. The fences between these steps make sure that at least one of them sees the other.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// The keeper's end.
pub(super) struct Inbox<T> {
    shared: Arc<Shared<T>>,
    /// Messages that were taken out of the queue, oldest first.
    taken: VecDeque<T>,
}

/// The senders' end.
pub(crate) struct Outbox<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// None when the keeper has ended. The keeper never waits for this lock: a sender may lose its processor while it holds
    /// the lock, for seconds if its priority is low, and renewals must go out meanwhile (I12).
    queue: Mutex<Option<VecDeque<T>>>,
    bell: Bell,
}

impl<T> std::fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Bell {
    sleeps: AtomicBool,
    sound: sound::Sound,
}

pub(super) fn inbox<T>() -> io::Result<(Outbox<T>, Inbox<T>)> {
    let bell = Bell { sleeps: AtomicBool::new(false), sound: sound::Sound::new()? };
    let shared = Arc::new(Shared { queue: Mutex::new(Some(VecDeque::new())), bell });
    Ok((Outbox(shared.clone()), Inbox { shared, taken: VecDeque::new() }))
}

impl<T> Outbox<T> {
    /// Fails if the keeper has ended, which drops the message.
    pub(crate) fn send(&self, message: T) -> Result<(), ()> {
        let Shared { queue, bell } = &*self.0;
        match &mut *queue.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(queue) => queue.push_back(message),
            None => return Err(()),
        }
        fence(Ordering::SeqCst);
        if bell.sleeps.load(Ordering::Relaxed) && bell.sleeps.swap(false, Ordering::Relaxed) {
            bell.sound.ring();
        }
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// None if there is no message, or while a sender holds the lock. That sender rings the bell if the keeper has gone to
    /// sleep by then.
    pub(super) fn next(&mut self) -> Option<T> {
        if self.taken.is_empty() {
            let mut queue = match self.shared.queue.try_lock() {
                Ok(queue) => Some(queue),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(queue) = queue.as_deref_mut().and_then(Option::as_mut) {
                std::mem::swap(queue, &mut self.taken);
            }
        }
        self.taken.pop_front()
    }

    /// From now on senders ring the bell. False if there is a message already.
    pub(super) fn fall_asleep(&mut self) -> bool {
        let Bell { sleeps, .. } = &self.shared.bell;
        sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let Some(message) = self.next() else { return true };
        self.taken.push_front(message);
        self.shared.bell.sleeps.store(false, Ordering::Relaxed);
        false
    }

    /// `rung`: the bell has rung and can be read.
    pub(super) fn wake_up(&self, rung: bool) {
        self.shared.bell.sleeps.store(false, Ordering::Relaxed);
        if rung {
            self.shared.bell.sound.silence();
        }
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        // Messages are dropped after the lock is given back: those that carry a lease send another one.
        let _rest = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.sound.as_fd()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod sound {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use rustix::event::{EventfdFlags, eventfd};

    #[derive(Debug)]
    pub(super) struct Sound(OwnedFd);

    impl Sound {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        }

        pub(super) fn ring(&self) {
            // It fails only if the bell was rung 2^64 times.
            let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
        }

        pub(super) fn silence(&self) {
            let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod sound {
    use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
    use std::os::fd::{AsFd, BorrowedFd};

    /// It rings once for each sleep, so the pipe is never full, and it is read only when it has rung.
    #[derive(Debug)]
    pub(super) struct Sound(PipeReader, PipeWriter);

    impl Sound {
        pub(super) fn new() -> io::Result<Self> {
            let (reader, writer) = io::pipe()?;
            Ok(Self(reader, writer))
        }

        pub(super) fn ring(&self) {
            let _ = (&self.1).write(&[1]);
        }

        pub(super) fn silence(&self) {
            let _ = (&self.0).read(&mut [0; 64]);
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::{Duration, Instant};

    use std::sync::mpsc::channel;

    use super::*;

    /// Sleeps until the bell rings. False if it did not ring in time.
    fn sleep<T>(inbox: &mut Inbox<T>, longest: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if !inbox.fall_asleep() {
            return true;
        }
        let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        let rung = poll(&mut [PollFd::new(inbox, PollFlags::IN)], Some(&longest)).unwrap() > 0;
        inbox.wake_up(rung);
        rung
    }

    #[test]
    fn no_message_leaves_the_keeper_asleep() {
        const ROUNDS: u64 = 30_000;
        let (outbox, mut inbox) = inbox();
        let (answer, answers) = channel();
        let sender = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                // At every moment on the way to sleep.
                (0..round % 200).for_each(|_| std::hint::spin_loop());
                outbox.send(round).unwrap();
                answers.recv_timeout(Duration::from_secs(60)).unwrap();
            }
        });
        let mut next = 0;
        while next < ROUNDS {
            match inbox.next() {
                Some(round) => {
                    assert_eq!(round, next);
                    next += 1;
                    answer.send(()).unwrap();
                }
                None => assert!(sleep(&mut inbox, Duration::from_secs(20)), "round {next} was not heard of"),
            }
        }
        sender.join().unwrap();

        fn inbox() -> (Outbox<u64>, Inbox<u64>) {
            super::inbox().unwrap()
        }
    }

    #[test]
    fn keeper_never_waits_for_a_sender() {
        let (outbox, mut inbox) = inbox().unwrap();
        outbox.send(1).unwrap();
        // A sender that lost its processor with the lock in its hand.
        let held = outbox.0.queue.lock().unwrap();
        assert_eq!(inbox.next(), None);
        assert!(inbox.fall_asleep());
        drop(held);
        outbox.send(2).unwrap();
        inbox.wake_up(true);
        assert_eq!([inbox.next(), inbox.next(), inbox.next()], [Some(1), Some(2), None]);
    }

    #[test]
    fn bell_rings_once_for_each_sleep_and_not_while_the_keeper_is_awake() {
        let (outbox, mut inbox) = inbox().unwrap();
        let soon = Duration::from_millis(20);
        outbox.send(1).unwrap();
        assert!(!inbox.fall_asleep(), "there is a message");
        assert_eq!(inbox.next(), Some(1));
        assert!(!sleep(&mut inbox, soon), "it was sent to a keeper that was awake");
        assert!(inbox.fall_asleep());
        (2..5).for_each(|number| outbox.send(number).unwrap());
        inbox.wake_up(true);
        assert_eq!(std::iter::from_fn(|| inbox.next()).collect::<Vec<_>>(), [2, 3, 4]);
        let start = Instant::now();
        assert!(!sleep(&mut inbox, soon) && start.elapsed() >= soon, "the bell rings on");
    }

    #[test]
    fn keeper_that_has_ended_drops_messages() {
        let (outbox, keeper) = inbox().unwrap();
        let message = Arc::new(());
        outbox.send(message.clone()).unwrap();
        drop(keeper);
        assert_eq!((outbox.send(message.clone()), Arc::strong_count(&message)), (Err(()), 1));
    }
}
