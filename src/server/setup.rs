//! Connecting: everything before the first request. It blocks, on a thread of its own, and ends by a deadline.
//!
//! A connection takes two round trips after the socket. The first logs in, identifies the server, and asks which scripts
//! it has. The second ends the previous connection, so that none of its requests is executed late (I10 of
//! `docs/guarantees.md`), loads the scripts that are missing, asks which rights this user lacks, and subscribes.

use std::io;

use super::endpoint::{Address, Endpoint, digests};
use super::refusals::{Meaning, meaning};
use super::resp::Value;
use super::rights;
use super::stream::{Broken, Stream};
use super::wire::Wire;
use crate::clock::Time;
use crate::error::{Cause, ConnectError};
use crate::protocol::SCRIPTS;

/// A previous connection: its requests must not be executed after anything is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Previous {
    pub(super) run_id: String,
    pub(super) id: u64,
}

impl Previous {
    /// From the replies to CLIENT ID and INFO, if the user may ask both.
    fn of(id: &Value<'_>, info: &str) -> Option<Self> {
        match (id, field(info, "run_id")) {
            (Value::Int(id), Some(run_id)) => Some(Self { run_id: run_id.to_owned(), id: id.unsigned_abs() }),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn in_test(run_id: &str, id: u64) -> Self {
        Self { run_id: run_id.into(), id }
    }

    /// Which run of which server it belonged to.
    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }
}

/// What the set-up of a connection tells about its server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) address: String,
    /// Which connection of which run of the server this is.
    pub(crate) run: Option<Previous>,
    /// Whether late requests of an old connection are ruled out.
    pub(crate) can_kill: bool,
    pub(crate) is_replica: bool,
    /// A replica may be told to take writes.
    pub(crate) read_only: bool,
    /// Whether the server knows sharded channels.
    pub(crate) shards: bool,
    /// A warning for the operator.
    pub(crate) warning: Option<String>,
}

/// A connection on which a user has logged in.
pub(super) struct LoggedIn {
    pub(super) stream: Stream,
    /// To the questions.
    pub(super) answers: Vec<Value<'static>>,
    user: String,
    /// When the login has to be renewed.
    renewed_at: Option<Time>,
}

impl Endpoint {
    /// Connects and sets up: the previous connection is ended, `channel` subscribed (a cluster has none yet), the scripts
    /// loaded. Blocks at most until the deadline.
    pub(crate) fn set_up(
        &self,
        prefix: &str,
        channel: Option<&str>,
        previous: Option<&Previous>,
        deadline: Time,
    ) -> Result<(Wire, Facts), ConnectError> {
        let digests = digests();
        let exist = ["SCRIPT", "EXISTS"].into_iter().chain(digests.iter().map(String::as_str));
        let questions = [
            vec!["CLIENT", "ID"],
            vec!["INFO", "server"],
            vec!["INFO", "memory"],
            vec!["INFO", "replication"],
            exist.collect(),
        ];
        let LoggedIn { mut stream, answers: replies, user, renewed_at } = self.log_in(&questions, deadline)?;
        // Without its id the next connection could not end this one, and would believe that there is nothing to end.
        replies[..2].iter().try_for_each(|reply| self.settled(reply))?;
        let [server, memory, replication] = [1, 2, 3].map(|reply| replies[reply].text().unwrap_or_default());
        let version = self.check_major_version(&server)?;
        // Without the right to ask, all scripts are sent.
        let has = |index: usize| match &replies[4] {
            Value::List(known) => known.get(index) == Some(&Value::Int(1)),
            _ => false,
        };
        let this = Previous::of(&replies[0], &server);

        // A restarted server counts ids from the start: the old connection is gone there, and its id may be that of
        // another client. While a server runs no id is given twice, so nothing else need be compared.
        let is_here = |old: &&Previous| this.as_ref().is_some_and(|this| this.run_id == old.run_id);
        // The id of nobody shows whether this user may end connections.
        let old = previous.filter(is_here).map_or(i64::MAX as u64, |old| old.id).to_string();
        let mut commands = vec![vec!["CLIENT", "KILL", "ID", &old]];
        // If SCRIPT is forbidden or renamed, the first EVAL of each script loads it.
        let missing = SCRIPTS.iter().enumerate().filter(|(index, _)| !has(*index));
        commands.extend(missing.map(|(_, script)| vec!["SCRIPT", "LOAD", script.text]));
        let known_rights = digests.last().filter(|_| has(SCRIPTS.len()));
        let of_rights = rights::questions(prefix, channel, known_rights.map(String::as_str));
        let tries = commands.len();
        commands.extend(of_rights.iter().map(|question| question.iter().map(String::as_str).collect()));
        commands.extend(channel.map(|channel| vec!["SUBSCRIBE", channel]));
        let replies = stream.ask(&commands, |_, _| false, deadline).map_err(|broken| self.explain_broken(&broken))?;
        self.settled(&replies[0])?;
        if let Some(refused) = replies.get(tries + 2).and_then(Value::error) {
            return Err(self.explain_line(&refused));
        }
        for tried in &replies[tries..tries + 2] {
            match tried.error() {
                // No script has this digest: the command itself works.
                Some(error) if !error.starts_with("NOSCRIPT") => return Err(self.no_scripts(&error)),
                _ => {}
            }
        }
        replies[tries..tries + 2].iter().try_for_each(|reply| self.has_rights(&user, reply))?;
        let facts = Facts {
            address: self.to_string(),
            can_kill: replies[0].error().is_none() && this.is_some(),
            run: this,
            is_replica: field(&replication, "role").is_some_and(|role| role != "master"),
            read_only: field(&replication, "slave_read_only") == Some("1"),
            shards: version >= 7,
            warning: eviction(&memory),
        };
        Ok((Wire::new(stream, digests, renewed_at), facts))
    }

    /// A second connection to the same server, for WAIT, and the run of the server that it leads to. It
    /// loads no scripts: they are loaded already. Blocks at most until the deadline.
    pub(crate) fn set_up_second(&self, deadline: Time) -> Result<(Wire, Facts), ConnectError> {
        let logged_in = self.log_in(&[vec!["CLIENT", "ID"], vec!["INFO", "server"]], deadline)?;
        let run = Previous::of(&logged_in.answers[0], &logged_in.answers[1].text().unwrap_or_default());
        let facts = Facts { address: self.to_string(), run, ..Facts::default() };
        Ok((Wire::new(logged_in.stream, digests(), logged_in.renewed_at), facts))
    }

    /// A connection that is logged in, and the answers to these questions. Every reply is there, even if it is an
    /// error.
    pub(super) fn log_in(&self, questions: &[Vec<&str>], deadline: Time) -> Result<LoggedIn, ConnectError> {
        let mut hello = vec!["HELLO", "3"];
        let credentials = self.login.as_ref().map(|login| login.credentials(deadline)).transpose();
        let credentials = credentials.map_err(|cause| ConnectError::Authentication {
            address: self.address.clone(),
            cause: Cause::of_here(cause),
        })?;
        let renewed_at = credentials.as_ref().and_then(|credentials| credentials.renewed_at(Time::now()));
        if let Some(credentials) = &credentials {
            hello.extend(["AUTH", &credentials.user, &credentials.password]);
        }
        let database = self.database.to_string();
        let mut commands = vec![hello];
        if self.database != 0 {
            commands.push(vec!["SELECT", &database]);
        }
        let needed = commands.len();
        commands.push(vec!["CLIENT", "SETINFO", "LIB-NAME", "fairlock"]);
        commands.push(vec!["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]);
        let asked = commands.len();
        commands.extend_from_slice(questions);

        let socket = self.at.dial(deadline).map_err(|error| self.unreachable(&error))?;
        let mut stream = self.encrypt(Stream::new(socket))?;
        self.shake_hands(&mut stream, deadline)?;
        // After the first refusal the server may not answer the others.
        let refused = |index, reply: &Value<'_>| index < needed && reply.error().is_some();
        let asked_all = stream.ask(&commands, refused, deadline);
        let mut replies = asked_all.map_err(|broken| self.why_broken(&broken, deadline))?;
        if let Some(refused) = replies.last().filter(|_| replies.len() <= needed).and_then(Value::error) {
            return Err(self.explain_line(&refused));
        }
        let user = credentials.map_or_else(|| "default".to_owned(), |credentials| credentials.user);
        Ok(LoggedIn { stream, answers: replies.split_off(asked), user, renewed_at })
    }

    /// A temporary refusal (BUSY, LOADING) is an error, after which connecting is tried again. A permanent one (NOPERM)
    /// is an answer.
    fn settled(&self, reply: &Value<'_>) -> Result<(), ConnectError> {
        match reply.error() {
            Some(error) if matches!(meaning(&error), Meaning::Temporary | Meaning::NotServing) => {
                Err(self.explain_line(&error))
            }
            _ => Ok(()),
        }
    }

    fn check_major_version(&self, server: &str) -> Result<u32, ConnectError> {
        // Valkey reports Redis 7.2, and knows the commands of that version.
        let Some(version) = field(server, "valkey_version").or(field(server, "redis_version")) else { return Ok(0) };
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(u32::MAX);
        if major < 6 {
            return Err(ConnectError::TooOld { address: self.address.clone(), version: version.to_owned() });
        }
        Ok(major)
    }

    fn no_scripts(&self, error: &str) -> ConnectError {
        match self.explain_line(error) {
            ConnectError::Refused { address, cause } => ConnectError::NoScripting { address, cause },
            other => other,
        }
    }

    /// The server's error, with its meaning.
    pub(super) fn explain_line(&self, error: &str) -> ConnectError {
        self.explain_as(meaning(error), error.to_owned())
    }

    pub(super) fn explain_as(&self, meaning: Meaning, cause: String) -> ConnectError {
        let (address, cause) = (self.address.clone(), cause.into());
        match meaning {
            Meaning::Temporary | Meaning::NotServing => ConnectError::NotReady { address, cause },
            Meaning::Login => ConnectError::Authentication { address, cause },
            Meaning::Denied => ConnectError::MissingRight { address, cause },
            Meaning::Database => ConnectError::Database { address, cause },
            Meaning::NotCluster => ConnectError::NotCluster { address, cause },
            Meaning::Hello => {
                let version = "it does not know the command HELLO, or has it renamed".into();
                ConnectError::TooOld { address, version }
            }
            Meaning::Permanent | Meaning::WrongType | Meaning::OtherLayout => ConnectError::Refused { address, cause },
        }
    }

    /// The error of the socket or of the TLS library.
    pub(super) fn explain_broken(&self, broken: &Broken) -> ConnectError {
        let (address, cause) = (self.address.clone(), broken.to_string().into());
        match broken {
            Broken::Garbage(_) | Broken::OutOfStep(_) => ConnectError::NotRedis { address, cause },
            Broken::Socket(error) => self.explain_encryption(broken).unwrap_or_else(|| self.unreachable(error)),
        }
    }

    fn unreachable(&self, error: &io::Error) -> ConnectError {
        let address = self.address.clone();
        match error.kind() {
            io::ErrorKind::TimedOut => ConnectError::silent(address),
            // Neither passes by waiting: the path of a socket is too long, or its permissions keep this user out.
            io::ErrorKind::InvalidInput => ConnectError::Url { reason: error.to_string() },
            io::ErrorKind::PermissionDenied if matches!(self.at, Address::Path(_)) => {
                let cause = Cause::of_here(format!("this user may not open the socket ({error})"));
                ConnectError::Authentication { address, cause }
            }
            _ => ConnectError::Unreachable { address, cause: Cause::of_io(error) },
        }
    }
}

pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Every key of a lock has a TTL, so every policy but `noeviction` may drop one in use.
fn eviction(memory: &str) -> Option<String> {
    let (policy, limit) = (field(memory, "maxmemory_policy")?, field(memory, "maxmemory")?);
    (policy != "noeviction" && limit != "0").then(|| {
        format!("the server may evict keys of locks when memory is short (maxmemory-policy {policy}): set it to noeviction, or use a server of its own for locks")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Node;

    #[test]
    fn a_socket_that_this_user_may_not_open_is_no_absent_server() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let socket = Endpoint::of(Address::Path("/run/redis.sock".into()), false).unreachable(&denied);
        assert!(matches!(socket, ConnectError::Authentication { .. }) && !socket.is_transient(), "{socket:?}");
        assert!(socket.to_string().contains("/run/redis.sock: this user may not open the socket"), "{socket}");
        // A packet filter may answer so.
        let node = Node { host: "host".into(), port: 1 };
        assert!(Endpoint::of_node(node, false).unreachable(&denied).is_transient());
    }
}
