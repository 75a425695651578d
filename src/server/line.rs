//! A connection for operators' tools: it sends any command, and gives each answer as it came.

use std::collections::BTreeSet;
use std::time::Duration;

use super::endpoint::{Endpoint, Node};
use super::resp::Value;
use super::stream::{Broken, Stream};
use super::target::Target;
use crate::clock::Time;
use crate::error::ConnectError;

/// What a server answered, or sent by itself.
pub type Answer = Value<'static>;

impl Value<'_> {
    /// The number, if it is one or a text of digits.
    pub fn number(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { self.text()?.parse().ok() }
    }

    /// The parts, or none if it has no parts.
    pub fn items(&self) -> &[Self] {
        if let Value::List(items) | Value::Push(items) = self { items } else { &[] }
    }
}

/// A server and how to log in there.
#[derive(Clone)]
pub struct Place(Endpoint);

impl std::fmt::Display for Place {
    /// The address, without user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Place {
    /// Another server with the same login. An empty host is the host of this one.
    pub fn at(&self, host: &str, port: u16) -> Place {
        let host = if host.is_empty() { self.0.host() } else { host };
        Place(self.0.at(&Node { host: host.to_owned(), port }))
    }

    /// Whether connections to it are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.0.encrypted
    }

    /// Whether a user logs in there.
    pub fn has_login(&self) -> bool {
        self.0.login.is_some()
    }

    /// Connects and logs in. Two round trips at the most; it blocks at most for this time.
    ///
    /// # Errors
    /// [`ConnectError`] if the server cannot be reached, or refuses the login.
    pub fn connect(&self, within: Duration) -> Result<Line, ConnectError> {
        let stream = self.0.log_in(&[], Time::now() + within)?.stream;
        Ok(Line { stream, place: self.clone() })
    }
}

/// Where the locks are.
pub enum Places {
    /// One server.
    One(Place),
    /// The master that these sentinels know by this name, with its login.
    Sentinels {
        /// All sentinels that are named.
        sentinels: Vec<Place>,
        /// The name of the master.
        master: String,
        /// The login at the master and its replicas; the address is none.
        login: Place,
    },
    /// A cluster of which these are some nodes.
    Cluster(Vec<Place>),
}

impl std::fmt::Debug for Places {
    /// The addresses, without users and passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |places: &[Place]| places.iter().map(Place::to_string).collect::<Vec<_>>().join(",");
        match self {
            Places::One(place) => write!(f, "{place}"),
            Places::Sentinels { sentinels, master, .. } => write!(f, "{master} by the sentinels {}", list(sentinels)),
            Places::Cluster(seeds) => write!(f, "cluster {}", list(seeds)),
        }
    }
}

impl From<Target> for Places {
    fn from(target: Target) -> Self {
        match target {
            Target::Server(server) => Places::One(Place(server)),
            Target::Sentinel(known) => Places::Sentinels {
                sentinels: known.sentinels.into_iter().map(Place).collect(),
                master: known.name,
                login: Place(known.master),
            },
            Target::Cluster(seeds) => Places::Cluster(seeds.into_iter().map(Place).collect()),
        }
    }
}

impl Places {
    /// The servers that have locks now: one, or the masters of a cluster. Each server that is asked may take this long.
    ///
    /// # Errors
    /// [`ConnectError`] of the last server that was asked, if none of them knows.
    pub fn masters(&self, within: Duration) -> Result<Vec<Place>, ConnectError> {
        match self {
            Places::One(place) => Ok(vec![place.clone()]),
            Places::Sentinels { sentinels, master, login } => first(sentinels, |Place(sentinel)| {
                let node = sentinel.master(master, Time::now() + within)?;
                Ok(vec![Place(login.0.at(&node))])
            }),
            Places::Cluster(seeds) => first(seeds, |Place(seed)| {
                let slots = seed.slots(Time::now() + within)?;
                let masters: BTreeSet<&Node> = slots.nodes().collect();
                Ok(masters.into_iter().map(|node| Place(seed.at(node))).collect())
            }),
        }
    }
}

/// The first success, or the last error.
fn first<T>(places: &[Place], ask: impl Fn(&Place) -> Result<T, ConnectError>) -> Result<T, ConnectError> {
    let mut last = ConnectError::Url { reason: "it names no server".into() };
    for place in places {
        match ask(place) {
            Ok(found) => return Ok(found),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A connection that is logged in.
pub struct Line {
    stream: Stream,
    place: Place,
}

impl Line {
    /// Where it leads to.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Sends these commands together, and waits at most this long for all answers, in their order. One round trip. A
    /// subscription is answered by nil.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection broke. It is of no use then.
    pub fn ask(&mut self, commands: &[Vec<&str>], within: Duration) -> Result<Vec<Answer>, ConnectError> {
        let answers = self.stream.ask(commands, |_, _| false, Time::now() + within);
        answers.map_err(|broken| self.place.0.explain_broken(&broken))
    }

    /// The next message of a subscription. None if there was none within this time.
    ///
    /// # Errors
    /// [`ConnectError`] if the connection broke. It is of no use then.
    pub fn message(&mut self, within: Duration) -> Result<Option<Answer>, ConnectError> {
        let mut heard = None;
        let conversed = self.stream.converse(Time::now() + within, |stream| {
            heard = stream.frames.next()?.map(Value::into_owned);
            Ok(heard.is_some())
        });
        match conversed {
            Ok(()) => Ok(heard),
            Err(Broken::Socket(error)) if error.kind() == std::io::ErrorKind::TimedOut => Ok(None),
            Err(broken) => Err(self.place.0.explain_broken(&broken)),
        }
    }
}
