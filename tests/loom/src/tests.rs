//! Each test is run in every order of its threads' operations.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::blocking::block_on;
use crate::cancel::CancellationToken;
use crate::change::Change;
use crate::clock::Time;
use crate::course::Course;
use crate::error::LostReason;
use crate::fork::Process;
use crate::inbox::{Inbox, inbox};
use crate::notifier::{Notifier, Poller};

/// Two switches of threads at places where a thread need not wait find what these tests are for, and end in seconds.
fn in_every_order(preemptions: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(test);
}

/// The keeper's loop: what has come, else sleep.
fn take(inbox: &mut Inbox<usize>, poller: &Poller) -> usize {
    loop {
        if let Some(message) = inbox.next() {
            return message;
        }
        if inbox.fall_asleep() {
            poller.sleep();
            inbox.wake_up();
        }
    }
}

fn messages_reach_a_keeper_that_sleeps(senders: usize, preemptions: Option<usize>) {
    in_every_order(preemptions, move || {
        let notifier = Notifier::default();
        let poller = notifier.poller();
        let (outbox, mut inbox) = inbox(notifier);
        inbox.belongs_here();
        let sender = |number| {
            let outbox = outbox.clone();
            thread::spawn(move || outbox.send(number).unwrap())
        };
        let senders: Vec<_> = (0..senders).map(sender).collect();
        let mut taken: Vec<usize> = senders.iter().map(|_| take(&mut inbox, &poller)).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..senders.len()).collect::<Vec<_>>());
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn message_of_one_sender_reaches_a_keeper_that_sleeps() {
    messages_reach_a_keeper_that_sleeps(1, None);
}

#[test]
fn messages_of_two_senders_reach_a_keeper_that_sleeps() {
    messages_reach_a_keeper_that_sleeps(2, Some(3));
}

/// What a thread does when it changes a lease, as in `Shared::tell`; without a thread for wakers.
fn tell(change: &Change) {
    if change.is_awaited() {
        change.notify();
    }
}

#[test]
fn every_future_hears_of_a_change() {
    for futures in [1, 2] {
        in_every_order((futures > 1).then_some(3), move || {
            let shared = Arc::new((Change::default(), Course::new(Time(0), Time(10))));
            let waiting = (0..futures).map(|_| {
                let shared = shared.clone();
                thread::spawn(move || block_on(shared.0.until(&Process, || shared.1.lost().cloned())))
            });
            let waiting: Vec<_> = waiting.collect();
            assert!(shared.1.end(Time(10), LostReason::Ended));
            tell(&shared.0);
            waiting.into_iter().for_each(|waiting| assert_eq!(waiting.join().unwrap(), LostReason::Ended));
        });
    }
}

#[test]
fn who_sees_a_renewal_or_an_end_sees_its_deadline() {
    in_every_order(None, || {
        let course = Arc::new(Course::new(Time(0), Time(10)));
        let keeper = thread::spawn({
            let course = course.clone();
            move || {
                course.prolong(Time(5), Time(20));
                course.end(Time(7), LostReason::Ended);
            }
        });
        let renewed = course.renewals() > 0;
        let deadline = course.deadline();
        assert!(!renewed || deadline == Time(20) || deadline == Time(7), "{deadline:?}");
        if course.lost().is_some() {
            assert_eq!(course.deadline(), Time(7));
        }
        keeper.join().unwrap();
    });
}

#[test]
fn lease_ends_once_and_one_side_takes_it() {
    in_every_order(None, || {
        let course = Arc::new(Course::new(Time(0), Time(10)));
        let keeper = thread::spawn({
            let course = course.clone();
            move || (course.end(Time(8), LostReason::Ended), course.reclaim())
        });
        let (ended, taken) = (course.end(Time(9), LostReason::Released), course.take());
        let (ended_by_keeper, reclaimed) = keeper.join().unwrap();
        assert!(ended != ended_by_keeper && taken != reclaimed);
        assert_eq!(course.deadline(), Time(8));
        assert_eq!(course.lost(), Some(if ended { &LostReason::Released } else { &LostReason::Ended }));
    });
}

#[test]
fn blocked_thread_sees_what_was_done_before_it_was_woken() {
    in_every_order(None, || {
        let done = Arc::new(AtomicUsize::new(0));
        let mut workers = 0;
        // Nobody joins the workers: loom takes an unpark that comes late for the end of a thread.
        block_on(poll_fn(|context| {
            while workers < 2 {
                workers += 1;
                let (waker, done) = (context.waker().clone(), done.clone());
                thread::spawn(move || {
                    done.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                });
            }
            if done.load(Ordering::Relaxed) == workers { Poll::Ready(()) } else { Poll::Pending }
        }));
    });
}

#[test]
fn cancelled_acquire_hears_of_it_and_sees_what_was_done_before() {
    in_every_order(None, || {
        let (token, done) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let canceller = thread::spawn({
            let (token, done) = (token.clone(), done.clone());
            move || {
                done.store(1, Ordering::Relaxed);
                token.cancel();
            }
        });
        if token.is_cancelled() {
            assert_eq!(done.load(Ordering::Relaxed), 1);
        }
        let mut cancelled = token.watch(&Process);
        block_on(poll_fn(|context| cancelled.poll(context)));
        canceller.join().unwrap();
    });
}
