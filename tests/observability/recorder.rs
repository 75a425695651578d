//! A recorder of `metrics` that keeps every number, and what they mean.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering},
};

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use testkit::{SOON, eventually};

use crate::collector::assert_no_keeper;

/// By name and labels, as in `fairlock_grants_total{lock=jobs}`.
type By<T> = Arc<Mutex<BTreeMap<String, Arc<T>>>>;

#[derive(Clone, Default)]
pub(crate) struct Recorded {
    counters: By<Count>,
    gauges: By<Level>,
    histograms: By<Values>,
    described: Arc<Mutex<BTreeSet<String>>>,
}

#[derive(Default)]
struct Count(AtomicU64);
#[derive(Default)]
struct Level(Mutex<f64>);
#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl Recorded {
    /// Records the numbers of all threads of this process from now on.
    pub(crate) fn start() -> Self {
        let recorded = Self::default();
        metrics::set_global_recorder(recorded.clone()).map_err(|_| "there is a recorder").unwrap();
        recorded
    }

    pub(crate) fn count(&self, key: &str) -> u64 {
        self.counters.lock().unwrap().get(key).map_or(0, |count| count.0.load(Ordering::Relaxed))
    }

    /// Waits until it has counted so many, and no more.
    pub(crate) fn counts(&self, key: &str, expected: u64) {
        eventually(&format!("{key} is {expected}: {:?}", self.keys()), SOON, || self.count(key) >= expected);
        assert_eq!(self.count(key), expected, "{key}");
    }

    pub(crate) fn level(&self, key: &str) -> f64 {
        *self
            .gauges
            .lock()
            .unwrap()
            .get(key)
            .unwrap_or_else(|| panic!("no {key} in {:?}", self.keys()))
            .0
            .lock()
            .unwrap()
    }

    pub(crate) fn values(&self, key: &str) -> Vec<f64> {
        self.histograms.lock().unwrap().get(key).map_or_else(Vec::new, |values| values.0.lock().unwrap().clone())
    }

    /// Waits until so many were recorded.
    pub(crate) fn values_of(&self, key: &str, expected: usize) -> Vec<f64> {
        eventually(&format!("{key} has {expected}: {:?}", self.keys()), SOON, || self.values(key).len() >= expected);
        self.values(key)
    }

    /// Everything that was ever counted, set or recorded.
    pub(crate) fn keys(&self) -> BTreeSet<String> {
        let of = |keys: Vec<String>| keys.into_iter();
        let counters = of(self.counters.lock().unwrap().keys().cloned().collect());
        let gauges = of(self.gauges.lock().unwrap().keys().cloned().collect());
        let histograms = of(self.histograms.lock().unwrap().keys().cloned().collect());
        counters.chain(gauges).chain(histograms).collect()
    }

    pub(crate) fn described(&self) -> BTreeSet<String> {
        self.described.lock().unwrap().clone()
    }
}

fn at<T: Default>(map: &By<T>, key: &Key) -> Arc<T> {
    assert_no_keeper();
    let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    map.lock().unwrap().entry(format!("{}{labels}", key.name())).or_default().clone()
}

impl metrics::Recorder for Recorded {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().insert(format!("{} counter", key.as_str()));
    }
    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().insert(format!("{} gauge", key.as_str()));
    }
    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().insert(format!("{} histogram", key.as_str()));
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(at(&self.counters, key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(at(&self.gauges, key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(at(&self.histograms, key))
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        assert_no_keeper();
        self.0.fetch_add(value, Ordering::Relaxed);
    }
    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        assert_no_keeper();
        *self.0.lock().unwrap() += value;
    }
    fn decrement(&self, value: f64) {
        assert_no_keeper();
        *self.0.lock().unwrap() -= value;
    }
    fn set(&self, value: f64) {
        *self.0.lock().unwrap() = value;
    }
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        assert_no_keeper();
        self.0.lock().unwrap().push(value);
    }
}
