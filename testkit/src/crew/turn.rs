//! One acquire of one waiter, from its call to its end, at random from a seed.

use std::{future::IntoFuture as _, time::Duration};

use fairlock::{Lock, error::RunError};
use fastrand::Rng;

use super::{
    member::READERS,
    notes::{ANSWER_TIMEOUT, Call, Holding},
    wake::Wake,
};

/// The payload of a deliberate panic.
pub struct Panic;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Acquire,
    Enqueue,
    Position,
    Try,
    Run,
    /// Acquires with `blocking()`, inside the runtime.
    Block,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Waits,
    /// Blocks its thread, and so perhaps its runtime.
    Blocks,
    /// Longer than a lease.
    Long,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Releases,
    Drops,
    Panics,
    /// Drops the future of the release after its first poll.
    Abandons,
}

/// What a waiter will do. All of it is drawn before it begins, so that a seed means the same whatever happens.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    way: Way,
    stay: Stay,
    end: End,
    hold: Duration,
    wake: Wake,
    pub timeout: Option<Duration>,
    /// When its task is aborted, whatever it is doing then.
    pub abort: Option<Duration>,
    /// The pause before it.
    pub rest: Duration,
    pub brief: Brief,
    /// How many may hold together with its lease.
    pub most: u32,
    /// Whether it lets in readers when it has held the lock for its time, and then holds it for as long again.
    pub downgrades: bool,
}

/// Which of its options have shorter durations than those of others in the same queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brief {
    pub lease: bool,
    pub liveness: bool,
    pub buffer: bool,
    /// Where in their whole ranges lease, liveness and buffer are, from 0 to 1, in a crew that draws them there.
    pub parts: [f64; 3],
}

impl Turn {
    /// Of 200, `long_of` hold the lock for longer than a lease.
    pub fn draw(rng: &mut Rng, lease: Duration, long_of: u32) -> Turn {
        let ways = [Way::Acquire, Way::Acquire, Way::Enqueue, Way::Position, Way::Run, Way::Try, Way::Block];
        let way = ways[rng.usize(..ways.len())];
        let ends = [End::Releases, End::Releases, End::Drops, End::Drops, End::Panics, End::Abandons];
        let (stay, hold) = match rng.u32(..200) {
            drawn if drawn < long_of => (Stay::Long, lease.mul_f64(1.1 + 0.4 * rng.f64())),
            drawn if drawn < long_of + 10 => (Stay::Blocks, up_to(rng, Duration::from_millis(300))),
            _ => (Stay::Waits, up_to(rng, Duration::from_millis(20))),
        };
        let wake = match rng.u32(..30) {
            // Long enough for leases and places to be lost and acquires to return late, if that were possible.
            0 => Wake::Blocks(2 * lease),
            1 => Wake::Panics,
            _ => Wake::Wakes,
        };
        let timeout = (rng.u32(..10) < 4).then(|| up_to(rng, Duration::from_millis(2500)));
        Turn {
            way,
            stay,
            end: ends[rng.usize(..ends.len())],
            hold,
            // `blocking()` calls no waker of a caller, and in `run` the job's timers have the same waker.
            wake: if matches!(way, Way::Block | Way::Run) { Wake::Wakes } else { wake },
            // A waiter that blocks the runtime of the holder would wait for itself, if it had no timeout.
            timeout: match way {
                Way::Block => Some(up_to(rng, Duration::from_millis(150))),
                Way::Try => None,
                _ => timeout,
            },
            abort: (rng.u32(..10) < 2).then(|| up_to(rng, Duration::from_millis(1500))),
            // So that the lock is free at times, and wanted by many at others.
            rest: up_to(rng, Duration::from_millis(1000)),
            brief: Brief { lease: rng.bool(), liveness: rng.bool(), buffer: rng.bool(), parts: [0.0; 3] },
            most: 1,
            downgrades: false,
        }
    }

    /// The same of one of hundreds in a process, who hold the lock together: for long, and without what would block all.
    pub fn in_crowd(self, rng: &mut Rng, lease: Duration) -> Turn {
        let way = if self.way == Way::Block { Way::Acquire } else { self.way };
        let (hold, rest) = (lease.mul_f64(1.1 + 0.4 * rng.f64()), self.rest / 10);
        Turn { way, stay: Stay::Long, hold, rest, wake: Wake::Wakes, timeout: None, abort: None, ..self }
    }

    /// The same for a thread, which cannot be aborted and has no use for futures.
    pub fn on_thread(self) -> Turn {
        let way = if self.way == Way::Run { Way::Acquire } else { self.way };
        let end = if self.end == End::Abandons { End::Drops } else { self.end };
        Turn { way, end, wake: Wake::Wakes, abort: None, ..self }
    }

    /// The latest moment after its call at which it returns. A try has no timeout of its own.
    pub fn due(&self) -> Option<Duration> {
        if self.way == Way::Try { Some(ANSWER_TIMEOUT) } else { self.timeout }
    }

    /// Whether the waiter of this name will hold the lock for longer than a lease.
    pub fn is_long(waiter: &str) -> bool {
        let has = |wanted| waiter.split('-').any(|whim| whim == wanted);
        has("long") && !has("aborted")
    }

    /// What it is called within the name of its waiter.
    pub fn name(&self) -> String {
        let words = format!("{:?}-{:?}-{:?}", self.way, self.stay, self.end).to_lowercase();
        let timeout = if self.timeout.is_some() { "-timeout" } else { "" };
        let abort = if self.abort.is_some() { "-aborted" } else { "" };
        let wake = match self.wake {
            Wake::Wakes => "",
            Wake::Blocks(_) => "-wakerblocks",
            Wake::Panics => "-wakerpanics",
        };
        let most = if self.most > 1 { format!("-of{}", self.most) } else { String::new() };
        let downgrades = if self.downgrades { "-downgrades" } else { "" };
        format!("{words}{timeout}{abort}{wake}{most}{downgrades}")
    }

    pub async fn take(self, lock: &Lock, call: Call) {
        let mut acquire = lock.acquire();
        let mut enqueue = lock.enqueue();
        if let Some(timeout) = self.timeout {
            (acquire, enqueue) = (acquire.timeout(timeout), enqueue.timeout(timeout));
        }
        let granted = match self.way {
            Way::Acquire => call.attend(self.wake.around(acquire.into_future())).await,
            Way::Block => acquire.blocking(),
            Way::Enqueue | Way::Position => {
                let place = self.wake.around(async {
                    let mut waiting = enqueue.await?;
                    call.queued(waiting.ticket());
                    if self.way == Way::Position {
                        // Without an answer it still waits, and no longer than its timeout.
                        tokio::select! {
                            _ = waiting.position() => {}
                            granted = &mut waiting => return granted,
                        }
                    }
                    waiting.await
                });
                call.attend(place).await
            }
            Way::Try => match call.attend(self.wake.around(lock.try_acquire().into_future())).await {
                Ok(guard) => Ok(guard),
                Err(error) => return call.try_failed(&error),
            },
            Way::Run => return self.run(acquire, &call).await,
        };
        match granted {
            Ok(guard) => self.hold(call.granted(guard)).await,
            Err(error) => call.failed(&error),
        }
    }

    async fn run(self, acquire: fairlock::Acquire, call: &Call) {
        let job = |held: fairlock::Held| {
            let releases = call.held(&held);
            async move {
                let _releases = releases;
                self.stay().await;
                if self.end == End::Panics {
                    std::panic::resume_unwind(Box::new(Panic));
                }
            }
        };
        if let Err(RunError::Acquire(error)) = call.attend(acquire.run(job)).await {
            call.failed(&error);
        }
    }

    async fn stay(&self) {
        match self.stay {
            Stay::Blocks => std::thread::sleep(self.hold),
            Stay::Waits | Stay::Long => tokio::time::sleep(self.hold).await,
        }
    }

    async fn hold(self, holding: Holding) {
        self.stay().await;
        if self.downgrades {
            holding.downgraded(&holding.downgrades(READERS).downgrade().await);
            self.stay().await;
        }
        match self.end {
            // The witness and the judges see by themselves that a lease was lost or its end is unknown.
            End::Releases => drop(holding.into_guard().release().await),
            End::Drops => drop(holding),
            End::Panics => std::panic::resume_unwind(Box::new(Panic)),
            End::Abandons => {
                let release = holding.into_guard().release();
                let _ = tokio::time::timeout(Duration::ZERO, release).await;
            }
        }
    }

    /// Without a runtime.
    pub fn take_on_thread(self, lock: &Lock, call: &Call) {
        let mut acquire = lock.acquire();
        let mut enqueue = lock.enqueue();
        if let Some(timeout) = self.timeout {
            (acquire, enqueue) = (acquire.timeout(timeout), enqueue.timeout(timeout));
        }
        let granted = match self.way {
            Way::Acquire | Way::Block | Way::Run => acquire.blocking(),
            Way::Enqueue | Way::Position => enqueue.blocking().and_then(|waiting| {
                call.queued(waiting.ticket());
                waiting.blocking()
            }),
            Way::Try => match lock.try_acquire().blocking() {
                Ok(guard) => Ok(guard),
                Err(error) => return call.try_failed(&error),
            },
        };
        match granted {
            Ok(guard) => {
                let holding = call.granted(guard);
                std::thread::sleep(self.hold);
                if self.downgrades {
                    holding.downgraded(&holding.downgrades(READERS).downgrade().blocking());
                    std::thread::sleep(self.hold);
                }
                if self.end == End::Panics {
                    std::panic::resume_unwind(Box::new(Panic));
                }
                drop(holding);
            }
            Err(error) => call.failed(&error),
        }
    }
}

/// Short durations more often than long ones, and never zero.
pub(super) fn up_to(rng: &mut Rng, longest: Duration) -> Duration {
    longest.mul_f64(rng.f64().powi(2)).max(Duration::from_millis(1))
}
