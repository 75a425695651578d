//! Lock names that are made to do harm, in logs. Alone in its process, because what is logged is decided once for all threads.

#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "hostile/texts.rs"]
mod texts;

mod support;

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use fairlock::{Client, LockOptions};
use support::{RedisServer, keys_left, soon};
use texts::HOSTILE;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Collects what is logged, as a subscriber would write it that knows nothing of its own about texts.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0.lock().unwrap(), "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.target().starts_with("fairlock")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// A name with line ends could write lines of its own.
#[tokio::test]
async fn names_are_quoted_in_logs() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let log = Log::default();
    let logging = tracing::subscriber::set_default(log.clone());
    for name in HOSTILE {
        let lock = client.lock_with(name, LockOptions::new()).unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let guard = lock.acquire().await.unwrap();
        lock.force_break_lease(guard.token()).await.unwrap();
        soon(guard.lost()).await;
    }
    drop(logging);
    let log = log.0.lock().unwrap();
    for event in ["granted", "released", "lease lost"] {
        assert!(log.matches(event).count() >= HOSTILE.len(), "{event}: {log}");
    }
    let bad = log.chars().find(|c| c.is_control());
    assert!(bad.is_none(), "{bad:?} in {log:?}");
    drop(client);
    keys_left(&server);
}
