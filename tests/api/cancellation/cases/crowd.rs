//! Runs many cases at a time: most of them wait, and the machine is small.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use fairlock::Client;

use super::drive::insist;
use super::{Case, Moment, Queue, Report, Wire};
use testkit::{RedisServer, keys_left};

/// How many run at a time on each core, in all tests of this process together: so few that their clients have a few
/// answers each within the time that a client waits for one, on a machine that is busy with other things as well.
const CROWD: usize = 24;
/// How many failures are enough to stop.
const ENOUGH: usize = 5;
/// No future here is polled more often.
const MOST_POLLS: u32 = 20;

/// The places of cases that run.
struct Places {
    taken: Mutex<usize>,
    changed: Condvar,
}

static PLACES: Places = Places { taken: Mutex::new(0), changed: Condvar::new() };

struct Place;

impl Places {
    fn most() -> usize {
        CROWD * std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn take(&self) -> Place {
        let taken = self.taken.lock().unwrap();
        *self.changed.wait_while(taken, |taken| *taken >= Places::most()).unwrap() += 1;
        Place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *PLACES.taken.lock().unwrap() -= 1;
        PLACES.changed.notify_one();
    }
}

/// A server, and a client for the holders and waiters whose futures are not dropped.
pub struct Crowd {
    pub server: RedisServer,
    pub others: Client,
}

impl Crowd {
    pub fn start() -> Crowd {
        let server = RedisServer::start();
        let url = server.url();
        let others = insist(|| Client::connect(&url));
        Crowd { server, others }
    }

    pub fn once(&self, case: Case) -> Report {
        case.run(&self.server, &self.others)
    }

    /// The case, dropped after each number of polls until it completes.
    pub fn after_each_poll(&self, case: Case) -> Report {
        let mut all = Report::default();
        let mut run = |polls, turn| {
            let report = Case { moment: Moment::Polls(polls), turn, ..case }.run(&self.server, &self.others);
            all.completed |= report.completed;
            all.struck += report.struck;
            all.runs += 1;
            all.completed
        };
        let turn = case.what.waits() && case.queue == Queue::Contended;
        let first = if turn || case.what.is_endless() { 2 } else { MOST_POLLS };
        let completes =
            (0..first).any(|polls| run(polls, false)) || turn && (0..MOST_POLLS).any(|polls| run(polls, true));
        assert!(completes || case.what.is_endless(), "{case}: not complete after {MOST_POLLS} polls");
        assert!(case.wire == Wire::Nowhere || all.struck > 0, "{case}: nothing struck");
        all
    }
}

/// Runs all of them, and judges only when the last is over, so that one failure does not hide others.
pub fn run_all(cases: Vec<Case>, run: impl Fn(&Crowd, Case) -> Report + Sync) {
    let (start, total) = (Instant::now(), cases.len());
    let crowd = Crowd::start();
    let left = Mutex::new(cases.into_iter());
    let failed = Mutex::new(Vec::new());
    let runs = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..Places::most().min(total) {
            scope.spawn(|| {
                // Each failure waits long, and more of them would tell no more.
                while failed.lock().unwrap().len() < ENOUGH {
                    let _place = PLACES.take();
                    let Some(case) = left.lock().unwrap().next() else { return };
                    match catch_unwind(AssertUnwindSafe(|| run(&crowd, case))) {
                        Ok(report) => *runs.lock().unwrap() += report.runs,
                        Err(_) => failed.lock().unwrap().push(case.to_string()),
                    }
                }
            });
        }
    });
    let (failed, runs) = (failed.into_inner().unwrap(), runs.into_inner().unwrap());
    println!("{total} cases, {runs} futures dropped, {:?}", start.elapsed());
    assert!(failed.is_empty(), "{} of {total} cases failed:\n{}", failed.len(), failed.join("\n"));
    drop(crowd.others);
    keys_left(&crowd.server);
}
