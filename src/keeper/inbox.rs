//! The keeper's messages. A message alone does not wake a keeper that sleeps (`poller/`): its sender also notifies it,
//! but only while the keeper sleeps. A message to a keeper that is awake costs no system call.
//!
//! The sender queues its message, then checks whether the keeper sleeps. The keeper announces that it sleeps, then
//! checks the queue once more. The fences between these steps make sure that at least one of them sees the other.
//!
//! The keeper never waits for the lock of the queue: a sender may lose its processor while it holds the lock, for
//! seconds if its priority is low, and renewals must go out meanwhile (I12 of `docs/guarantees.md`). So what the keeper
//! sends to itself has a queue of its own.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::KEPT;
use crate::mutex::{lock, try_lock};
use crate::notifier::Notifier;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, thread_local};

/// The keeper's end.
pub(super) struct Inbox<T> {
    shared: Arc<Channel<T>>,
    /// Messages that were taken out of the queue, oldest first.
    taken: VecDeque<T>,
}

/// The senders' end.
pub(crate) struct Outbox<T>(Arc<Channel<T>>);

thread_local! {
    /// On a keeper, the number of its inbox. Without a destructor, so it is there until a thread has ended.
    static INBOX: Cell<u64> = const { Cell::new(0) };
}

struct Channel<T> {
    /// Counted from 1.
    number: u64,
    /// None when the keeper has ended.
    queue: Mutex<Option<VecDeque<T>>>,
    /// The keeper's messages to itself, which come first. No other thread locks it.
    own: Mutex<Option<VecDeque<T>>>,
    /// The keeper sleeps, or is about to, and nobody has notified it yet.
    sleeps: AtomicBool,
    notifier: Notifier,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub(super) fn inbox<T>(notifier: Notifier) -> (Outbox<T>, Inbox<T>) {
    let [queue, own] = [(); 2].map(|()| Mutex::new(Some(VecDeque::new())));
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let shared = Arc::new(Channel { number, queue, own, sleeps: AtomicBool::new(false), notifier });
    (Outbox(shared.clone()), Inbox { shared, taken: VecDeque::new() })
}

impl<T> Outbox<T> {
    /// Whether this thread is the keeper.
    pub(super) fn is_of_this_thread(&self) -> bool {
        INBOX.with(Cell::get) == self.0.number
    }

    /// Fails if the keeper has ended, which drops the message.
    pub(crate) fn send(&self, message: T) -> Result<(), ()> {
        let Channel { queue, own, sleeps, notifier, .. } = &*self.0;
        let by_keeper = self.is_of_this_thread();
        match &mut *lock(if by_keeper { own } else { queue }) {
            Some(queue) => queue.push_back(message),
            None => return Err(()),
        }
        if by_keeper {
            return Ok(());
        }
        fence(Ordering::SeqCst);
        if sleeps.load(Ordering::Relaxed) && sleeps.swap(false, Ordering::Relaxed) {
            notifier.notify();
        }
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// From now on this thread is the keeper.
    pub(super) fn belongs_here(&self) {
        INBOX.with(|inbox| inbox.set(self.shared.number));
    }

    /// None if there is no message, or while a sender holds the lock. That sender notifies the keeper if it has gone
    /// to sleep by then.
    pub(super) fn next(&mut self) -> Option<T> {
        if let Some(own) = lock(&self.shared.own).as_mut().and_then(VecDeque::pop_front) {
            return Some(own);
        }
        if self.taken.is_empty() {
            // The memory of a burst of messages is given back: a hundred thousand acquires take many megabytes.
            if self.taken.capacity() > KEPT {
                self.taken = VecDeque::new();
            }
            let mut queue = try_lock(&self.shared.queue);
            if let Some(queue) = queue.as_deref_mut().and_then(Option::as_mut) {
                std::mem::swap(queue, &mut self.taken);
            }
        }
        self.taken.pop_front()
    }

    /// From now on senders notify the keeper. False if there is a message already.
    pub(super) fn fall_asleep(&mut self) -> bool {
        self.shared.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let Some(message) = self.next() else { return true };
        // To the front: if this is a message of another thread, the keeper has none of its own.
        if let Some(own) = &mut *lock(&self.shared.own) {
            own.push_front(message);
        }
        self.shared.sleeps.store(false, Ordering::Relaxed);
        false
    }

    pub(super) fn wake_up(&self) {
        self.shared.sleeps.store(false, Ordering::Relaxed);
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        // Messages are dropped after the locks are given back: those that carry a lease send another one.
        let _rest = (lock(&self.shared.own).take(), lock(&self.shared.queue).take());
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::super::poller::{Poller, Watched, poller};
    use super::*;

    /// Sleeps until it is notified. False if that did not happen in time.
    fn sleep<T>(inbox: &mut Inbox<T>, poller: &mut Poller, longest: Duration) -> bool {
        if !inbox.fall_asleep() {
            return true;
        }
        let start = Instant::now();
        poller.sleep(std::iter::empty::<Watched<UnixStream>>(), longest).unwrap();
        inbox.wake_up();
        start.elapsed() < longest
    }

    fn pair<T>() -> (Outbox<T>, Inbox<T>, Poller) {
        let (notifier, poller) = poller().unwrap();
        let (outbox, inbox) = inbox(notifier);
        (outbox, inbox, poller)
    }

    #[test]
    fn no_message_leaves_the_keeper_asleep() {
        const ROUNDS: u64 = 30_000;
        let (outbox, mut inbox, mut poller) = pair::<u64>();
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
                None => {
                    assert!(sleep(&mut inbox, &mut poller, Duration::from_secs(20)), "round {next} was not heard of")
                }
            }
        }
        sender.join().unwrap();
    }

    #[test]
    fn keeper_never_waits_for_a_sender() {
        let (outbox, mut inbox, _poller) = pair();
        outbox.send(1).unwrap();
        std::thread::scope(|threads| {
            // A sender that lost its processor with the lock in its hand.
            let _held = outbox.0.queue.lock().unwrap();
            let (say, said) = channel();
            let inbox = &mut inbox;
            threads.spawn(move || say.send((inbox.next(), inbox.fall_asleep())));
            assert_eq!(said.recv_timeout(Duration::from_secs(20)).unwrap(), (None, true));
        });
        outbox.send(2).unwrap();
        inbox.wake_up();
        assert_eq!([inbox.next(), inbox.next(), inbox.next()], [Some(1), Some(2), None]);
    }

    #[test]
    fn keeper_that_sends_to_itself_waits_for_no_sender() {
        let (outbox, mut inbox, _poller) = pair();
        outbox.send(2).unwrap();
        std::thread::scope(|threads| {
            let held = outbox.0.queue.lock().unwrap();
            let (say, said) = channel();
            let (inbox, own) = (&mut inbox, outbox.clone());
            threads.spawn(move || {
                inbox.belongs_here();
                own.send(1).unwrap();
                say.send(()).unwrap();
                let awake = !inbox.fall_asleep();
                let first = inbox.next();
                say.send(()).unwrap();
                (awake, first)
            });
            said.recv_timeout(Duration::from_secs(20)).unwrap();
            said.recv_timeout(Duration::from_secs(20)).unwrap();
            drop(held);
        });
        assert_eq!([inbox.next(), inbox.next()], [Some(2), None]);
    }

    #[test]
    fn keeper_is_notified_once_for_each_sleep_and_not_while_it_is_awake() {
        let (outbox, mut inbox, mut poller) = pair();
        let soon = Duration::from_millis(20);
        outbox.send(1).unwrap();
        assert!(!inbox.fall_asleep(), "there is a message");
        assert_eq!(inbox.next(), Some(1));
        assert!(!sleep(&mut inbox, &mut poller, soon), "it was sent to a keeper that was awake");
        assert!(inbox.fall_asleep());
        (2..5).for_each(|number| outbox.send(number).unwrap());
        poller.sleep(std::iter::empty::<Watched<UnixStream>>(), Duration::from_secs(20)).unwrap();
        inbox.wake_up();
        assert_eq!(std::iter::from_fn(|| inbox.next()).collect::<Vec<_>>(), [2, 3, 4]);
        assert!(!sleep(&mut inbox, &mut poller, soon), "it is notified again");
    }

    #[test]
    fn memory_of_a_burst_is_given_back() {
        let (outbox, mut inbox, _poller) = pair();
        for _ in 0..2 {
            (0..100 * KEPT).for_each(|number| outbox.send(number).unwrap());
            assert_eq!(std::iter::from_fn(|| inbox.next()).count(), 100 * KEPT);
        }
        let queue = outbox.0.queue.lock().unwrap().as_ref().unwrap().capacity();
        assert!(queue <= KEPT && inbox.taken.capacity() <= KEPT, "{queue} and {}", inbox.taken.capacity());
    }

    #[test]
    fn keeper_that_has_ended_drops_messages() {
        let (outbox, keeper, _poller) = pair();
        let message = Arc::new(());
        outbox.send(message.clone()).unwrap();
        drop(keeper);
        assert_eq!((outbox.send(message.clone()), Arc::strong_count(&message)), (Err(()), 1));
    }
}
