//! What the server and the way to it cost without any lock: bare connections.

use std::time::{Duration, Instant};

use fairlock::operator::{Answer, Line, Place};

use super::stopped::Stopped;
use crate::connect;
use crate::exit::Failure;

const PATIENCE: Duration = Duration::from_secs(5);

/// Two connections to the server that has the locks.
pub(crate) struct Floor {
    line: Line,
    listener: Line,
    key: String,
    channel: String,
    /// This user may set a key.
    may_set: bool,
}

impl Floor {
    /// At the first of these servers that has this lock.
    pub(crate) fn new(masters: &[Place], server: &connect::Args, name: &str) -> Result<Self, Failure> {
        let prefix = &server.prefix;
        let (key, channel) = (format!("{prefix}:{{{name}}}:floor"), format!("{prefix}:client:{name}"));
        let own = |error: fairlock::ConnectError| server.failed(error);
        for master in masters {
            let mut line = master.connect(PATIENCE).map_err(own)?;
            // A key that is not there can be deleted; another node of a cluster names the one that has it.
            let answers = line.ask(&[vec!["DEL", &key]], PATIENCE).map_err(own)?;
            if answers[0].error().is_some_and(|error| error.starts_with("MOVED ")) {
                continue;
            }
            let mut listener = master.connect(PATIENCE).map_err(own)?;
            let subscribed = listener.ask(&[vec!["SUBSCRIBE", &channel]], PATIENCE).map_err(own)?;
            if let Some(error) = subscribed[0].error() {
                return Err(Failure::own(format!("the server refuses ({error}): `fairlock doctor` says more")));
            }
            let mut floor = Self { line, listener, key, channel, may_set: true };
            floor.may_set = floor.set().map_err(own)?;
            return Ok(floor);
        }
        Err(Failure::own("no node of the cluster has the slot of this lock: `fairlock doctor` says more"))
    }

    pub(crate) fn of_a_cycle(&self) -> &'static str {
        if self.may_set { "SET NX PX and DEL" } else { "two round trips" }
    }

    fn set(&mut self) -> Result<bool, fairlock::ConnectError> {
        let set = vec!["SET", &self.key, "1", "NX", "PX", "30000"];
        let answers = self.line.ask(&[set], PATIENCE)?;
        let is_set = answers[0].error().is_none();
        self.line.ask(&[vec!["DEL", &self.key]], PATIENCE)?;
        Ok(is_set)
    }

    /// The least that any lock takes: to set a key and to delete it.
    pub(crate) fn cycle(&mut self) -> Result<Duration, Stopped> {
        let began = Instant::now();
        let set = if self.may_set { vec!["SET", &self.key, "1", "NX", "PX", "30000"] } else { vec!["TIME"] };
        self.line.ask(&[set], PATIENCE).map_err(Stopped::because)?;
        self.line.ask(&[vec!["DEL", &self.key]], PATIENCE).map_err(Stopped::because)?;
        Ok(began.elapsed())
    }

    /// The least that any hand-off takes: a message from one client to another.
    pub(crate) fn message(&mut self) -> Result<Duration, Stopped> {
        let began = Instant::now();
        let sent = self.line.ask(&[vec!["PUBLISH", &self.channel, "x"]], PATIENCE).map_err(Stopped::because)?;
        if let Some(error) = sent[0].error() {
            return Err(Stopped::because(error));
        }
        match self.listener.message(PATIENCE).map_err(Stopped::because)? {
            Some(Answer::List(_)) => Ok(began.elapsed()),
            _ => Err(Stopped::because("a message did not arrive")),
        }
    }

    /// The keys of this lock and of the floor go.
    pub(crate) fn remove(&mut self, prefix: &str, names: &[&str]) {
        for name in names {
            let keys = ["lock", "waiters", "floor"].map(|what| format!("{prefix}:{{{name}}}:{what}"));
            // If this is refused, they go by themselves within the hour.
            let _ = self.line.ask(&[vec!["DEL", &keys[0], &keys[1], &keys[2]]], PATIENCE);
        }
    }
}
