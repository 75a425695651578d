//! A subscriber that keeps every event of the library, with its level, its fields and the span that it is in.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
    thread,
};

use testkit::{SOON, eventually};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

pub(crate) type Fields = BTreeMap<String, String>;

#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) fields: Fields,
    parent: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) fields: Fields,
    pub(crate) span: Option<Span>,
}

impl Seen {
    pub(crate) fn number(&self, field: &str) -> u64 {
        let value = self.fields.get(field).unwrap_or_else(|| panic!("no {field} in {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("{field} is no number in {self:?}"))
    }

    pub(crate) fn has(&self, field: &str, value: impl ToString) {
        assert_eq!(self.fields.get(field), Some(&value.to_string()), "{field} in {self:?}");
    }
}

/// Clones share what they keep.
#[derive(Clone)]
pub(crate) struct Collector {
    most: LevelFilter,
    spans: Arc<Mutex<Vec<Span>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Collector {
    /// Collects the events of all threads of this process from now on, up to this level.
    pub(crate) fn start(most: LevelFilter) -> Self {
        let collector = Self { most, spans: Arc::default(), seen: Arc::default() };
        tracing::subscriber::set_global_default(collector.clone()).expect("nobody else collects");
        collector
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    /// The events of this message so far.
    pub(crate) fn of(&self, message: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|seen| seen.message == message).collect()
    }

    /// The next event of this message, which must be the only one.
    pub(crate) fn one(&self, message: &str) -> Seen {
        eventually(message, SOON, || !self.of(message).is_empty());
        let [one] = self.of(message).try_into().unwrap_or_else(|all| panic!("not one {message:?}: {all:?}"));
        one
    }

    /// The same, which is of this level.
    #[track_caller]
    pub(crate) fn one_at(&self, level: Level, message: &str) -> Seen {
        let one = self.one(message);
        assert_eq!(one.level, level, "{one:?}");
        one
    }

    pub(crate) fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }

    fn span(&self, id: u64) -> Span {
        self.spans.lock().unwrap()[id as usize - 1].clone()
    }

    /// The span in which the parent of this one is.
    pub(crate) fn parent(&self, span: &Span) -> Option<Span> {
        span.parent.map(|id| self.span(id))
    }
}

fn entered() -> Option<u64> {
    ENTERED.with_borrow(|entered| entered.last().copied())
}

/// Whatever happens, no code of a caller may run on a keeper (I12).
pub(crate) fn assert_no_keeper() {
    assert_ne!(thread::current().name(), Some("fairlock-keeper"), "a caller's code runs on a keeper");
}

impl Subscriber for Collector {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        assert_no_keeper();
        *about.level() <= self.most && (about.target() == "fairlock" || about.target() == module_path!())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        assert_no_keeper();
        let mut visit = Collected::default();
        attributes.record(&mut visit);
        let parent =
            attributes.parent().map(span::Id::into_u64).or_else(|| entered().filter(|_| attributes.is_contextual()));
        let mut spans = self.spans.lock().unwrap();
        spans.push(Span { name: attributes.metadata().name(), fields: visit.fields, parent });
        span::Id::from_u64(spans.len() as u64)
    }

    fn event(&self, event: &Event<'_>) {
        assert_no_keeper();
        let mut visit = Collected::default();
        event.record(&mut visit);
        let span = event.parent().map(span::Id::into_u64).or_else(|| entered().filter(|_| event.is_contextual()));
        let (level, span) = (*event.metadata().level(), span.map(|id| self.span(id)));
        let seen = Seen { level, message: visit.message, fields: visit.fields, span };
        self.seen.lock().unwrap().push(seen);
    }

    fn enter(&self, id: &span::Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    fn exit(&self, _: &span::Id) {
        ENTERED.with_borrow_mut(|entered| entered.pop());
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
}

#[derive(Default)]
struct Collected {
    message: String,
    fields: Fields,
}

impl Visit for Collected {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message = value,
            name => drop(self.fields.insert(name.into(), value)),
        }
    }
}

/// An event of the test itself.
pub(crate) fn mark(message: &'static str) {
    tracing::info!("{message}");
}
