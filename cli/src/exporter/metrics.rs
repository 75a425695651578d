//! The metrics as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use fairlock::operator::Seen;

use crate::exit::say;
use crate::sharing::oldest;
use crate::survey::Survey;

pub(crate) struct Metrics {
    survey: Survey,
    /// Tell the holders' labels.
    holders: bool,
    /// The epoch of each lock, and how often it changed.
    recoveries: BTreeMap<String, (u64, u64)>,
    errors: u64,
    /// What was said last about a server that is away, or locks that cannot be read.
    trouble: Option<String>,
}

/// A metric of each lock: name, kind, meaning, and its value.
type Metric = (&'static str, &'static str, &'static str, fn(&Seen) -> f64);

const OF_EACH: [Metric; 10] = [
    ("held", "gauge", "How many hold the lock.", |seen| seen.state.holders.len() as f64),
    ("slots", "gauge", "How many may hold it, by the smallest number of its holders; 0 without one.", |seen| {
        seen.state.slots().unwrap_or_default().into()
    }),
    ("hold_seconds", "gauge", "For how long the oldest holder has held it; 0 without one.", |seen| {
        seconds(oldest(&seen.state.holders).map(|holder| holder.held_for))
    }),
    (
        "lease_remaining_seconds",
        "gauge",
        "What is left of the lease that ends first, unless it is renewed; 0 without one.",
        |seen| seconds(seen.state.holders.iter().map(|holder| holder.remaining).min()),
    ),
    ("breaking", "gauge", "Whether a lease was broken and runs out.", |seen| {
        yes(seen.state.holders.iter().any(|holder| holder.broken))
    }),
    ("waiting", "gauge", "The length of the queue.", |seen| seen.state.waiting as f64),
    ("wait_seconds", "gauge", "For how long the first waiter has waited; 0 without one.", |seen| {
        seconds(seen.state.queue.first().map(|waiter| waiter.waited))
    }),
    ("recovering", "gauge", "Whether nothing is granted because the server lost data.", |seen| {
        yes(seen.state.recovering_for.is_some())
    }),
    ("grants_total", "counter", "How often it was granted since the server knows it.", |seen| seen.grants as f64),
    // A token is the time of its grant in microseconds, unless the server's clock was set back since.
    ("last_grant_timestamp_seconds", "gauge", "When the lock was last granted; 0 if never.", |seen| {
        seen.token as f64 / 1e6
    }),
];

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn seconds(span: Option<Duration>) -> f64 {
    span.unwrap_or_default().as_secs_f64()
}

impl Metrics {
    pub(crate) fn new(survey: Survey, holders: bool) -> Self {
        Self { survey, holders, recoveries: BTreeMap::new(), errors: 0, trouble: None }
    }

    /// Asks the servers, and writes what they answer.
    pub(crate) fn scrape(&mut self) -> String {
        let began = Instant::now();
        // The queue's first waiter has waited longest.
        let looked = self.survey.look(1);
        let mut text = String::new();
        let mut all = |name: &str, kind: &str, help: &str, value: f64| {
            let _ =
                writeln!(text, "# HELP fairlock_{name} {help}\n# TYPE fairlock_{name} {kind}\nfairlock_{name} {value}");
        };
        all("up", "gauge", "Whether the locks could be read.", yes(looked.is_ok()));
        self.errors += u64::from(looked.is_err());
        all("scrape_errors_total", "counter", "How often they could not.", self.errors as f64);
        if let Ok(locks) = &looked {
            let longest = |of: fn(&Seen) -> f64| locks.seen.values().map(of).fold(0.0, f64::max);
            all("locks", "gauge", "The locks that were seen.", locks.seen.len() as f64);
            let what = "Locks of another version of fairlock, or with keys of another type.";
            all("unreadable_locks", "gauge", what, locks.unreadable.len() as f64);
            all("longest_hold_seconds", "gauge", "The longest hold of all.", longest(OF_EACH[2].3));
            all("longest_wait_seconds", "gauge", "The longest wait of all.", longest(OF_EACH[6].3));
        }
        all("scrape_seconds", "gauge", "How long this took.", began.elapsed().as_secs_f64());
        if let Ok(locks) = &looked {
            self.write_locks(&mut text, &locks.seen);
        }
        self.complain(looked.map_or_else(|error| Some(error.to_string()), |locks| locks.complaint()));
        text
    }

    fn write_locks(&mut self, text: &mut String, locks: &BTreeMap<String, Seen>) {
        for (name, kind, help, value) in OF_EACH {
            head(text, name, kind, help);
            for (lock, seen) in locks {
                let _ = writeln!(text, "fairlock_lock_{name}{{lock=\"{}\"}} {}", escape(lock), value(seen));
            }
        }
        head(
            text,
            "recoveries_total",
            "counter",
            "How often the server lost the lock's data, since this exporter began.",
        );
        for (lock, seen) in locks {
            let begun = u64::from(seen.state.recovering_for.is_some());
            let (epoch, count) = self.recoveries.entry(lock.clone()).or_insert((seen.epoch, begun));
            *count += u64::from(*epoch != seen.epoch && *epoch != 0);
            *epoch = seen.epoch;
            let _ = writeln!(text, "fairlock_lock_recoveries_total{{lock=\"{}\"}} {count}", escape(lock));
        }
        // Names that are gone must not be kept for ever.
        self.recoveries.retain(|lock, _| locks.contains_key(lock));
        if self.holders {
            head(text, "holder_info", "gauge", "Who holds it.");
            for (lock, holder) in
                locks.iter().flat_map(|(lock, seen)| seen.state.holders.iter().map(move |it| (lock, it)))
            {
                // Two holders may have one label. No two have one slot.
                let ([lock, label, owner], slot) =
                    ([lock, &holder.label, &holder.owner].map(|text| escape(text)), holder.slot);
                let _ = writeln!(
                    text,
                    "fairlock_lock_holder_info{{lock=\"{lock}\",slot=\"{slot}\",label=\"{label}\",owner=\"{owner}\"}} 1"
                );
            }
        }
    }

    /// Once when it begins, and once when it ends.
    fn complain(&mut self, trouble: Option<String>) {
        if trouble != self.trouble {
            say(trouble.as_deref().unwrap_or("the locks can be read again"));
            self.trouble = trouble;
        }
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP fairlock_lock_{name} {help}\n# TYPE fairlock_lock_{name} {kind}");
}

/// As the value of a label.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
