//! One server: its address, and the login and the settings of connections to it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "redis-1")]
use crate::credentials::Credentials;
use crate::credentials::Login;
use crate::error::ConnectError;
use crate::fork::Lazy;
use crate::protocol::{RIGHTS, SCRIPTS, Source};

/// One of several servers, as the others name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// Empty: the host of the server that reported it.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Node {
    /// `host:port`, also with an IPv6 address, with or without its brackets.
    pub(crate) fn parse(address: &str) -> Option<Self> {
        let (host, port) = address.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()))?;
        Some(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Where a server listens.
#[derive(Clone)]
pub(super) enum Address {
    Node(Node),
    /// A socket in the file system.
    Path(PathBuf),
}

/// One server and its login.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) at: Address,
    pub(super) encrypted: bool,
    pub(super) login: Option<Login>,
    pub(super) database: i64,
    /// Without user and password, for messages.
    pub(super) address: String,
    /// Which authorities to trust and which certificate to show, if the connection is encrypted.
    #[cfg(feature = "tls")]
    pub(super) tls: crate::Tls,
}

impl Endpoint {
    /// The server of these settings of another client. Its certificates cannot be read from there.
    #[cfg(feature = "redis-1")]
    pub(super) fn of_settings(info: &redis::ConnectionInfo, has_certificates: bool) -> Result<Self, ConnectError> {
        use redis::ConnectionAddr;
        let node = |host: &String, port: &u16| Address::Node(Node { host: host.clone(), port: *port });
        let (at, encrypted) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (node(host, port), false),
            ConnectionAddr::TcpTls { insecure: true, .. } => return Err(insecure()),
            ConnectionAddr::TcpTls { tls_params: Some(_), .. } if !has_certificates => {
                return Err(bad(
                    "the other client's certificates cannot be read: give them to `ClientBuilder::tls`, too",
                ));
            }
            ConnectionAddr::TcpTls { host, port, .. } => (node(host, port), true),
            ConnectionAddr::Unix(path) => (Address::Path(path.clone()), false),
            _ => return Err(bad("its scheme is not known")),
        };
        if encrypted && !cfg!(feature = "tls") {
            return Err(bad("encrypted connections need a fairlock that was built with its feature `tls`"));
        }
        let settings = info.redis_settings();
        let (user, password) = (settings.username().unwrap_or_default(), settings.password());
        let login = (!user.is_empty() || password.is_some())
            .then(|| Login::Known(Credentials::new(user, password.unwrap_or_default())));
        Ok(Self { login, database: settings.db(), ..Self::of(at, encrypted) })
    }

    /// A server of this host and port, without a login.
    pub(super) fn of_node(node: Node, encrypted: bool) -> Self {
        Self::of(Address::Node(node), encrypted)
    }

    pub(super) fn of(at: Address, encrypted: bool) -> Self {
        let address = match &at {
            Address::Node(node) => node.to_string(),
            Address::Path(path) => path.display().to_string(),
        };
        Self {
            at,
            encrypted,
            address,
            login: None,
            database: 0,
            #[cfg(feature = "tls")]
            tls: crate::Tls::new(),
        }
    }

    /// The same user and settings at another address.
    pub(crate) fn at(&self, node: &Node) -> Self {
        Self { at: Address::Node(node.clone()), address: node.to_string(), ..self.clone() }
    }

    /// The address, if it has a host and a port.
    pub(crate) fn node(&self) -> Option<Node> {
        if let Address::Node(node) = &self.at { Some(node.clone()) } else { None }
    }

    /// The host, which a node leaves out when it names itself.
    pub(crate) fn host(&self) -> &str {
        if let Address::Node(node) = &self.at { &node.host } else { "127.0.0.1" }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// The digests of the verbs' scripts, then that of [`RIGHTS`]. Made once: the scripts are long, and some targets have
/// many servers.
pub(crate) fn digests() -> Arc<[String]> {
    static DIGESTS: Lazy<Arc<[String]>> = Lazy::new(|| SCRIPTS.iter().chain([&*RIGHTS]).map(digest).collect());
    DIGESTS.clone()
}

/// The digest by which servers know a script.
pub(crate) fn digest(script: &Source) -> String {
    sha1_smol::Sha1::from(script.text).digest().to_string()
}

pub(super) fn insecure() -> ConnectError {
    bad("fairlock checks every certificate: name the server's authority instead of #insecure")
}

/// A URL that names no server.
pub(super) fn bad(reason: &str) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}
