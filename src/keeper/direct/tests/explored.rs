//! Every order in which threads can do what they do at the slot and at the lease, on the real code.

use loom::thread::spawn;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(super) use loom::sync::{Arc, Mutex, MutexGuard};

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock().ok()
    }
}

#[path = "../presence.rs"]
#[allow(clippy::duplicate_mod, dead_code)]
mod presence;
#[path = "../slot.rs"]
#[allow(clippy::duplicate_mod, dead_code)]
mod slot;

use self::presence::Seats;
use self::slot::{Claim, Slot};
use self::sync::{Arc, AtomicU64, Ordering::SeqCst};

/// One of a line. It panics if two threads use one at the same time.
struct Wire(u64, loom::cell::UnsafeCell<()>);

impl Wire {
    fn of(line: u64) -> Self {
        Self(line, loom::cell::UnsafeCell::new(()))
    }

    fn used(&self, line: u64) {
        assert_eq!(self.0, line);
        self.1.with_mut(|_| {});
    }
}

/// A caller takes the connection and puts it back.
fn uses(slot: &Slot<Wire>) -> bool {
    let Some((line, wire)) = slot.take() else { return false };
    wire.used(line);
    slot.put(line, wire);
    true
}

#[test]
fn one_caller_at_a_time_has_the_connection() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        assert!(slot.offer(1, Wire::of(1)));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let slot = slot.clone();
                spawn(move || uses(&slot))
            })
            .collect();
        let used: Vec<bool> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        assert!(used.contains(&true));
        assert!(uses(&slot), "it is lost");
    });
}

/// Neither stays in the slot for ever when it was withdrawn, nor does it take the place of the next one.
#[test]
fn a_connection_that_was_withdrawn_does_not_come_back() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        assert!(slot.offer(1, Wire::of(1)));
        let caller = spawn({
            let slot = slot.clone();
            move || uses(&slot)
        });
        slot.withdraw(1);
        let offered = slot.offer(2, Wire::of(2));
        caller.join().unwrap();
        assert_eq!(uses(&slot), offered);
        slot.withdraw(2);
        assert!(slot.is_cleared());
    });
}

#[test]
fn a_connection_is_closed_or_used() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        assert!(slot.offer(1, Wire::of(1)));
        (0..10).for_each(|_| assert_eq!(slot.look(), None));
        let caller = spawn({
            let slot = slot.clone();
            move || uses(&slot)
        });
        let closed = slot.look();
        let used = caller.join().unwrap();
        assert!(used || closed == Some(1));
        assert_eq!(uses(&slot), closed.is_none());
    });
}

/// Its caller, who releases it, and the keeper, which looks for one of another kind first.
#[test]
fn one_thread_gets_the_lease() {
    loom::model(|| {
        let claim = Arc::new(Claim::new());
        claim.put(7, ());
        let caller = spawn({
            let claim = claim.clone();
            move || claim.take(7).is_some()
        });
        assert!(claim.take_if(|_| false).is_none());
        let taken_over = claim.take_if(|_| true).is_some();
        let got = [caller.join().unwrap(), taken_over, claim.take(7).is_some()];
        assert_eq!(got.into_iter().filter(|got| *got).count(), 1);
        assert!(claim.is_free());
    });
}

/// The keeper is told once that the lease was dropped. A caller that releases another one must not hide it.
#[test]
fn the_keeper_finds_a_lease_whatever_other_callers_do() {
    loom::model(|| {
        let claim = Arc::new(Claim::new());
        claim.put(7, ());
        let another = spawn({
            let claim = claim.clone();
            move || claim.take(6).is_some()
        });
        assert!(claim.take_if(|_| true).is_some());
        assert!(!another.join().unwrap());
    });
}

/// The keeper takes the lease over for an acquire of the same client, or the caller of the lease sees that acquire.
#[test]
fn a_lease_and_an_acquire_do_not_miss_each_other() {
    loom::model(|| {
        let (claim, seats) = (Arc::new(Claim::new()), Arc::new(Seats::new()));
        let first = seats.enter("x");
        let another = spawn({
            let (claim, seats) = (claim.clone(), seats.clone());
            move || {
                let _second = seats.enter("x");
                let taken_over = claim.take_if(|_| true).is_some();
                std::mem::forget(_second);
                taken_over
            }
        });
        claim.put(7, ());
        let disturbed = !first.is_alone();
        assert!(another.join().unwrap() || disturbed);
    });
}

/// The same for a keeper that closes the client, or looks for the last time: it writes, then looks for a lease.
#[test]
fn a_lease_and_the_end_of_its_connection_do_not_miss_each_other() {
    loom::model(|| {
        let (claim, slot) = (Arc::new(Claim::new()), Arc::new(Slot::new()));
        assert!(slot.offer(1, Wire::of(1)));
        let keeper = spawn({
            let (claim, slot) = (claim.clone(), slot.clone());
            move || {
                slot.withdraw(1);
                !claim.is_free()
            }
        });
        claim.put(7, ());
        let disturbed = slot.line() == 0;
        assert!(keeper.join().unwrap() || disturbed);
    });
}

/// Two acquires of one client at the same lock are not both the only one.
#[test]
fn one_of_two_acquires_sees_the_other() {
    loom::model(|| {
        let (seats, alone) = (Arc::new(Seats::new()), Arc::new(AtomicU64::new(0)));
        let enter = |seats: &Seats, alone: &AtomicU64| {
            let presence = seats.enter("x");
            alone.fetch_add(u64::from(presence.is_alone()), SeqCst);
            std::mem::forget(presence);
        };
        let other = spawn({
            let (seats, alone) = (seats.clone(), alone.clone());
            move || enter(&seats, &alone)
        });
        enter(&seats, &alone);
        other.join().unwrap();
        assert!(alone.load(SeqCst) <= 1);
    });
}
