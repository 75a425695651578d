//! Why a client cannot use its server, and whether waiting mends that.

use super::words::{encryption, login};
use super::{Cause, InvalidOption};

/// Connecting failed. Nothing was left on the server.
///
/// `docs/errors.md` says for each of these whether an acquire waits for it to pass or fails at once.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), fairlock::error::ConnectError> {
/// let client = loop {
///     match fairlock::Client::connect("redis://127.0.0.1/").await {
///         Ok(client) => break client,
///         Err(error) if error.is_transient() => eprintln!("{error}; trying again"),
///         Err(error) => return Err(error),
///     }
///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// };
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be understood, or has a part that has no use.
    #[error(
        "the URL is not understood ({reason}): use redis://[user:password@]host[:port][/db], unix:///path/to/socket, \
         redis+sentinel://host[:port],…/MASTER or redis+cluster://host[:port],…"
    )]
    #[non_exhaustive]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// An address that was given to [`ClientBuilder::sentinel`](crate::ClientBuilder::sentinel) or
    /// [`ClientBuilder::cluster`](crate::ClientBuilder::cluster) cannot be understood.
    #[error("the address {address:?} is not understood ({reason}): use host or host:port, an IPv6 address in brackets")]
    #[non_exhaustive]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// `ClientBuilder::tls` was called, and the URL asks for connections that are not encrypted.
    #[error(
        "the URL scheme is `{scheme}`, but certificates were given: use a scheme that begins with `rediss`, or give none"
    )]
    #[non_exhaustive]
    NotEncrypted {
        /// The scheme of the URL.
        scheme: String,
    },
    /// An option cannot work.
    #[error(transparent)]
    Invalid(#[from] InvalidOption),
    /// No server answers: the name does not resolve, nothing listens, or the connection ends without a reason.
    #[error("no Redis server answers at {address} ({cause}): check that it runs and that the address is right")]
    #[non_exhaustive]
    Unreachable {
        /// The address.
        address: String,
        /// The system's error.
        #[source]
        cause: Cause,
    },
    /// The server answers but refuses to work for the moment: it loads its data, runs a long script, has too many
    /// clients, or is a replica.
    #[error("the server at {address} cannot serve locks now ({cause}): wait, or correct that at the server")]
    #[non_exhaustive]
    NotReady {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// A certificate is missing, invalid or not trusted, on either side.
    #[error("{}", encryption(.address, .cause))]
    #[non_exhaustive]
    Certificate {
        /// The address.
        address: String,
        /// What is wrong.
        #[source]
        cause: Cause,
    },
    /// The server denies the login: a user or a password is missing or wrong. Or there is none to show: the file with the
    /// password cannot be read, or the program that is asked for it fails.
    #[error("{}", login(.address, .cause))]
    #[non_exhaustive]
    Authentication {
        /// The address.
        address: String,
        /// The server's error, or this machine's.
        #[source]
        cause: Cause,
    },
    /// The user lacks a right that locks need. From Redis 7 on, each new connection finds out which commands are missing,
    /// and the cause has the rule that allows them.
    #[error(
        "the user lacks a right at {address} ({cause}): docs/guide.md lists the commands, keys and channels that are needed"
    )]
    #[non_exhaustive]
    MissingRight {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// The sentinels answer but know no master of this name.
    #[error("the sentinel at {address} knows no master {name:?}: check the name, or let the sentinel monitor it")]
    #[non_exhaustive]
    UnknownMaster {
        /// The sentinel.
        address: String,
        /// The name of the master.
        name: String,
    },
    /// The server has no database of this number.
    #[error(
        "the server at {address} refuses the database ({cause}): use another number at the end of the URL, or none"
    )]
    #[non_exhaustive]
    Database {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// The URL names a cluster, and the server is not one of its nodes.
    #[error("the server at {address} is not a node of a cluster ({cause}): leave +cluster out of the URL")]
    #[non_exhaustive]
    NotCluster {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// The URL names sentinels, and the server is not one.
    #[error(
        "the server at {address} is not a sentinel ({cause}): write redis://HOST:PORT without the name of a master, or use a sentinel's port"
    )]
    #[non_exhaustive]
    NotSentinel {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// Only one side encrypts its connections.
    #[error(
        "the server at {address} {} encrypted connections: let the URL begin with {}",
        if *.expected { "takes only" } else { "takes no" }, if *.expected { "rediss" } else { "redis" }
    )]
    #[non_exhaustive]
    Encryption {
        /// The address.
        address: String,
        /// Whether the server requires it.
        expected: bool,
    },
    /// Another program than Redis answers.
    #[error("the program at {address} is not a Redis server ({cause}): check the host and the port")]
    #[non_exhaustive]
    NotRedis {
        /// The address.
        address: String,
        /// What is wrong with the answer.
        #[source]
        cause: Cause,
    },
    /// The server does not speak the protocol that locks need: it is older than Redis 6.0, or a service without RESP3.
    #[error(
        "the server at {address} is too old or does not speak RESP3 ({version}): Redis 6.0 or Valkey is needed, and a \
         service must allow HELLO"
    )]
    #[non_exhaustive]
    TooOld {
        /// The address.
        address: String,
        /// The version that it reports.
        version: String,
    },
    /// The server does not run scripts.
    #[error(
        "the server at {address} does not run Lua scripts ({cause}), which fairlock needs: allow EVAL and EVALSHA, or use another server"
    )]
    #[non_exhaustive]
    NoScripting {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// The server refuses a request that every client makes.
    #[error(
        "the server at {address} refuses a request that fairlock needs ({cause}): allow it at the server, or use another one"
    )]
    #[non_exhaustive]
    Refused {
        /// The address.
        address: String,
        /// The server's error.
        #[source]
        cause: Cause,
    },
    /// A thread of the client has panicked, which is a bug.
    #[error("a thread of the client has panicked ({cause}): report this as a bug")]
    #[non_exhaustive]
    Panicked {
        /// Which thread, and what it said.
        #[source]
        cause: Cause,
    },
    /// The thread of the client could not be started.
    #[error("the client's thread could not be started: {cause}")]
    #[non_exhaustive]
    Thread {
        /// The system's error.
        #[source]
        cause: Cause,
    },
}

impl ConnectError {
    /// The text does not contain the time, so that a report of each new error has this one once.
    pub(crate) fn silent(address: String) -> Self {
        Self::Unreachable { address, cause: "no answer in time".into() }
    }

    /// Whether this may pass without a change to the URL, the rights or the server's settings. An acquire of a client
    /// that [connects lazily](crate::Client::connect_lazy) waits until it does, and fails at once with any other error.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NotReady { .. })
    }

    /// Of the errors of several servers the lowest explains most: permanent before transient, and an answer before
    /// silence.
    pub(crate) fn rank(&self) -> (bool, bool) {
        (self.is_transient(), matches!(self, Self::Unreachable { .. }))
    }

    /// Whether an operator mends this at the server without a change to this client: a user that is disabled and
    /// enabled again, a certificate that is renewed. A waiter keeps its place meanwhile.
    pub(crate) fn keeps_places(&self) -> bool {
        self.is_transient()
            || matches!(
                self,
                Self::Authentication { .. }
                    | Self::MissingRight { .. }
                    | Self::Certificate { .. }
                    | Self::UnknownMaster { .. }
                    | Self::Panicked { .. }
            )
    }

    /// Whether this may come from another program that has a node's former address, and not from the cluster.
    pub(crate) fn is_of_a_stranger(&self) -> bool {
        matches!(self, Self::NotRedis { .. } | Self::Encryption { .. } | Self::NotCluster { .. } | Self::TooOld { .. })
    }
}
