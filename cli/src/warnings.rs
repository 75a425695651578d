//! The library's warnings on stderr: each once, on one line.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::{exit, progress, refusal};

/// Shows all warnings from now on.
pub(crate) fn show() {
    // An error means that there is a subscriber already, but this program makes no other.
    let _ = tracing::subscriber::set_global_default(Warnings::default());
}

static HUSHED: AtomicBool = AtomicBool::new(false);

/// Shows none from now on: for what draws on the whole screen.
pub(crate) fn hush() {
    HUSHED.store(true, Ordering::Relaxed);
}

#[derive(Default)]
struct Warnings {
    said: Mutex<BTreeSet<String>>,
}

impl Subscriber for Warnings {
    /// Events about a lock are left out, because the command line reports them in its own words.
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        let of_ours = about.target().starts_with("fairlock") && about.fields().field("lock").is_none();
        of_ours && *about.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        if HUSHED.load(Ordering::Relaxed) {
            return;
        }
        let mut message = Message::default();
        event.record(&mut message);
        // A server that refuses is no lost connection, though the client makes a new one. Whoever waits is told what it
        // means.
        if refusal::meaning(&message.0).is_some() {
            return;
        }
        let is_new = self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(message.0.clone());
        if is_new {
            progress::erase();
            exit::say(message.0);
        }
    }

    // The spans of the library are below the level of warnings.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
