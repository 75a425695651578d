//! Why a client cannot use its server, and whether waiting mends that.

use super::InvalidOption;

/// Connecting failed. Nothing was left on the server.
///
/// `docs/errors.md` says for each of these who waits for it to pass, and who is told at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL cannot be understood.
    #[error(
        "the URL is not understood ({reason}): use redis://[user:password@]host[:port][/db], unix:///path/to/socket, \
         redis+sentinel://host[:port],…/MASTER or redis+cluster://host[:port],…"
    )]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// An address that was given to [`ClientBuilder::sentinel`](crate::ClientBuilder::sentinel) or
    /// [`ClientBuilder::cluster`](crate::ClientBuilder::cluster) cannot be understood.
    #[error("the address {address:?} is not understood ({reason}): use host or host:port, an IPv6 address in brackets")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// [`ClientBuilder::tls`](crate::ClientBuilder::tls) was called, and the URL asks for connections that are not
    /// encrypted.
    #[error(
        "the URL scheme is `{scheme}`, but certificates were given: use a scheme that begins with `rediss`, or give none"
    )]
    NotEncrypted {
        /// The scheme of the URL.
        scheme: String,
    },
    /// An option cannot work.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// No server answers: the name does not resolve, nobody listens, or the connection ends without a word.
    #[error("no Redis server answers at {address} ({cause}): check that it runs and that the address is right")]
    Unreachable {
        /// Where it was tried.
        address: String,
        /// What the system said.
        cause: String,
    },
    /// The server answers, and refuses to work for the moment: it loads its data, runs a long script, has too many
    /// clients, or is a replica.
    #[error("the server at {address} cannot serve locks now ({cause}): wait, or mend that at the server")]
    NotReady {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// A certificate is missing, not valid or not believed, on our side or at the server.
    #[error("no encrypted connection to {address} ({cause}): check the certificates on both sides")]
    Certificate {
        /// Where it was tried.
        address: String,
        /// What is wrong.
        cause: String,
    },
    /// The server refuses the user or the password.
    #[error("the server at {address} refuses the user or the password ({cause}): check them in the URL")]
    Authentication {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// The user may not do what the lock needs.
    #[error(
        "the user lacks a right at {address} ({cause}): the README lists the commands, keys and channels that are needed"
    )]
    MissingRight {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// The sentinels answer, and do not know a master of this name.
    #[error("the sentinel at {address} knows no master {name:?}: check the name in the URL, or let it monitor one")]
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
    Database {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// The URL names a cluster, and the server is not one of its nodes.
    #[error("the server at {address} is not a node of a cluster ({cause}): write redis:// for redis+cluster://")]
    NotCluster {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// The URL names sentinels, and the server is not one.
    #[error(
        "the server at {address} is not a sentinel ({cause}): write redis:// for redis+sentinel://, or a sentinel's port"
    )]
    NotSentinel {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// Only one side encrypts its connections.
    #[error(
        "the server at {address} {} encrypted connections: let the URL begin with {}",
        if *.expected { "takes only" } else { "takes no" }, if *.expected { "rediss" } else { "redis" }
    )]
    Encryption {
        /// Where it was tried.
        address: String,
        /// Whether the server expects it.
        expected: bool,
    },
    /// Something answers, and it is not Redis.
    #[error("what answers at {address} is not a Redis server ({cause}): check the host and the port")]
    NotRedis {
        /// Where it was tried.
        address: String,
        /// What is wrong with the answer.
        cause: String,
    },
    /// The server does not speak the protocol that the lock needs.
    #[error(
        "the server at {address} is too old ({version}): Redis 6.0 or Valkey is needed, for RESP3 and for scripts with effects"
    )]
    TooOld {
        /// Where it was tried.
        address: String,
        /// What it says of itself.
        version: String,
    },
    /// The server does not run scripts.
    #[error("the server at {address} does not run Lua scripts ({cause}): the lock is made of them")]
    NoScripting {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// The server refuses a request that every client makes.
    #[error(
        "the server at {address} refuses a request that fairlock needs ({cause}): give the command back, or use another server"
    )]
    Refused {
        /// Where it was tried.
        address: String,
        /// What the server said.
        cause: String,
    },
    /// The thread of the client could not be started.
    #[error("the client's thread could not be started: {cause}")]
    Thread {
        /// What the system said.
        cause: String,
    },
}

impl ConnectError {
    /// The words are the same however long it was, so that whoever tells of each new error tells of this once.
    pub(crate) fn silent(address: String) -> Self {
        Self::Unreachable { address, cause: "no answer in time".into() }
    }

    /// Whether this may pass without a change to the URL, the rights or the server's settings. An acquire of a client
    /// that [connects lazily](crate::Client::connect_lazy) waits until it does, and fails at once with any other error.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::NotReady { .. })
    }

    /// Of the errors of several servers the lowest tells most: what will not pass before what may, and the words of a server
    /// that answers before the silence of another.
    pub(crate) fn rank(&self) -> (bool, bool) {
        (self.is_transient(), matches!(self, Self::Unreachable { .. }))
    }

    /// Whether an operator mends this at the server, and this client need not change: a user that is disabled and enabled
    /// again, a certificate that is renewed. A waiter that has a place in the queue keeps it meanwhile.
    pub(crate) fn keeps_places(&self) -> bool {
        self.is_transient()
            || matches!(
                self,
                Self::Authentication { .. }
                    | Self::MissingRight { .. }
                    | Self::Certificate { .. }
                    | Self::UnknownMaster { .. }
            )
    }

    /// Whether this tells of whatever has a node's address now, rather than of the cluster: nodes come and go.
    pub(crate) fn is_of_a_stranger(&self) -> bool {
        matches!(self, Self::NotRedis { .. } | Self::Encryption { .. } | Self::NotCluster { .. } | Self::TooOld { .. })
    }
}
