//! How a crew is set up before it starts.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use fastrand::Rng;

use super::{
    Crew, Kind, PATIENCE,
    clock::{self, ClockMarks},
    member::{LONGEST, Orders, READERS},
    onlooker::Onlooker,
};
use crate::{
    history::{Recorder, Terms, now_ns},
    place::tmp,
    run::variable,
};

/// How long after its timeout an acquire may return. Only the machine can be the reason for a delay; a process that
/// stands still for as long as a missed heartbeat takes is excused as if it had been stopped.
const LATENESS: Duration = Duration::from_secs(2);

/// The make-up of a crew. The defaults are short enough for waiters behind dead processes to be served within a test,
/// and long compared to the delays of a busy machine.
pub struct Setup {
    orders: Orders,
    processes: usize,
    /// How many waiters one of them has that hold the lock for most of the time; 0: there is no such process.
    crowd: usize,
    slack: Duration,
    patience: Duration,
    clock: Option<Box<dyn FnMut() -> Option<u64> + Send>>,
    drivers: Vec<String>,
}

impl Setup {
    pub(super) fn at(url: &str) -> Setup {
        let orders = Orders {
            url: url.to_owned(),
            lock: "crew".to_owned(),
            history: PathBuf::new(),
            number: 0,
            seed: 0,
            waiters: 8,
            lease: Duration::from_secs(2),
            liveness: Duration::from_millis(1500),
            buffer: Duration::from_millis(1500),
            long_of: 1,
            replicas: 0,
            any_times: false,
            mosts: vec![1],
            is_crowd: false,
        };
        let setup = Setup {
            orders,
            processes: 4,
            crowd: 0,
            slack: Duration::from_secs(3),
            patience: PATIENCE,
            clock: None,
            drivers: Vec::new(),
        };
        setup.of_this_run()
    }

    pub fn seed(mut self, seed: u64) -> Setup {
        self.orders.seed = seed;
        self
    }

    pub fn processes(mut self, processes: usize) -> Setup {
        self.processes = processes;
        self
    }

    /// Per process.
    pub fn waiters(mut self, waiters: usize) -> Setup {
        self.orders.waiters = waiters;
        self
    }

    /// One of the processes has so many waiters, most of which hold the lock at any time: there must be slots for them.
    pub fn crowd(mut self, waiters: usize) -> Setup {
        self.crowd = waiters;
        self
    }

    pub fn lease(mut self, lease: Duration) -> Setup {
        self.orders.lease = lease;
        self
    }

    pub fn liveness(mut self, liveness: Duration, buffer: Duration) -> Setup {
        (self.orders.liveness, self.orders.buffer) = (liveness, buffer);
        self
    }

    /// Each acquire has a lease, liveness and buffer of its own: from the crew's, which a busy machine can keep, up to the
    /// longest that options allow. Nothing may strike such a crew that takes as long as they do to get over.
    pub fn any_times(mut self) -> Setup {
        self.orders.any_times = true;
        self
    }

    /// Each acquire takes one of these at random: how many may hold the lock together. Writers let readers in at times.
    pub fn takes(mut self, mosts: &[u32]) -> Setup {
        self.orders.mosts = mosts.to_vec();
        self
    }

    /// A semaphore with so many slots.
    pub fn slots(self, slots: u32) -> Setup {
        self.takes(&[slots])
    }

    /// Nine readers for each writer.
    pub fn readers_and_writers(self) -> Setup {
        let mut mosts = [READERS; 10];
        mosts[0] = 1;
        self.takes(&mosts)
    }

    /// Locks, semaphores of two sizes, readers and writers of one name.
    pub fn of_all_kinds(self) -> Setup {
        self.takes(&[1, 1, 3, 3, 5, READERS, READERS])
    }

    fn of_this_run(self) -> Setup {
        match variable("FAIRLOCK_CREW").as_deref() {
            None | Some("lock") => self,
            Some("semaphore") => self.slots(3),
            Some("readers") => self.readers_and_writers(),
            Some("mixture") => self.of_all_kinds(),
            Some(other) => panic!("FAIRLOCK_CREW={other}: it is lock, semaphore, readers or mixture"),
        }
    }

    /// How many of 200 hold the lock for longer than a lease.
    pub fn long_of(mut self, long_of: u32) -> Setup {
        self.orders.long_of = long_of;
        self
    }

    /// How many replicas must have a grant before it counts; none unless this is called.
    pub fn replicas(mut self, replicas: u32) -> Setup {
        self.orders.replicas = replicas;
        self
    }

    /// What the judges add to every bound in time.
    pub fn slack(mut self, slack: Duration) -> Setup {
        self.slack = slack;
        self
    }

    /// How long a fault may go on missing.
    pub fn patience(mut self, patience: Duration) -> Setup {
        self.patience = patience;
        self
    }

    /// The URL of its clients, if it differs: that of a proxy in front of the same server.
    pub fn by_way_of(mut self, url: &str) -> Setup {
        url.clone_into(&mut self.orders.url);
        self
    }

    /// Every other process is one of these commands, in turn: drivers of other clients (docs/conformance.md).
    pub fn every_other_is(mut self, drivers: &[String]) -> Setup {
        self.drivers = drivers.to_vec();
        self
    }

    /// Where to ask for the time of the server that grants, in µs. Needed if the URL is not that of one server whose
    /// time its user may ask for.
    pub fn clock(mut self, ask: impl FnMut() -> Option<u64> + Send + 'static) -> Setup {
        self.clock = Some(Box::new(ask));
        self
    }

    #[track_caller]
    pub fn start(self) -> Crew {
        let Setup { mut orders, processes, crowd, slack, patience, clock, drivers } = self;
        // Next to the build artifacts, where it is easy to find after a failure. The process id and a counter keep runs
        // apart.
        let file = format!("crew-{}-{}-{}.history", orders.seed, std::process::id(), now_ns());
        orders.history = tmp().join(file);
        let record = Recorder::open(&orders.history, "conductor").expect("a file for the history");
        let longest = |span| if orders.any_times { LONGEST } else { span };
        let terms = Terms {
            lease: longest(orders.lease),
            liveness: longest(orders.liveness),
            buffer: longest(orders.buffer),
            shortest: orders.shortest(),
            slack,
            lateness: LATENESS,
            admitted: Vec::new(),
        };
        record.remark(format_args!("{orders:?} {terms:?}"));
        let clock = ClockMarks::start(&orders.history, clock.unwrap_or_else(|| clock::of_url(&orders.url)));
        let onlooker = (orders.mosts != [1]).then(|| Onlooker::start(&orders));
        let rng = Rng::with_seed(orders.seed);
        let (members, struck) = (Vec::new(), BTreeMap::new());
        let mut crew = Crew { orders, terms, patience, record, clock, onlooker, rng, members, struck, drivers, crowd };
        (0..processes).for_each(|number| {
            crew.hire(match number {
                0 if crowd > 0 => Kind::Crowd,
                _ if !crew.drivers.is_empty() && number % 2 == 1 => Kind::Driver,
                _ => Kind::Usual,
            });
        });
        crew
    }
}
