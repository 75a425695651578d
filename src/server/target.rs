//! The target of a client: one server, a master that sentinels know, or a cluster.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;
use redis::{ConnectionAddr, ErrorKind, IntoConnectionInfo as _};

use crate::error::ConnectError;
use crate::protocol::{SCRIPTS, Source};

const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

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
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// Servers as a caller names them: `host` or `host:port`, with an IPv6 address in brackets.
fn endpoints(addresses: &[String], default_port: u16, encrypted: bool) -> Result<Vec<Endpoint>, ConnectError> {
    if addresses.is_empty() {
        return Err(ConnectError::Address { address: String::new(), reason: "no address is given" });
    }
    let endpoint = |address: &String| {
        let bad = |reason| ConnectError::Address { address: address.clone(), reason };
        let is_whole = address.ends_with(']') || !address.contains(':');
        let node = if is_whole { Node::parse(&format!("{address}:{default_port}")) } else { Node::parse(address) };
        let node = node.ok_or_else(|| bad("its port is not a number"))?;
        match node.host.as_str() {
            "" => Err(bad("its host is missing")),
            host if host.contains(['/', '@', ',', ' ', '[', ']']) => {
                Err(bad("its host has a character that no host has"))
            }
            host if host.contains(':') && !address.starts_with('[') => Err(bad("its IPv6 address has no brackets")),
            _ => Ok(Endpoint::of_node(node, encrypted)),
        }
    };
    addresses.iter().map(endpoint).collect()
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
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// The file of the password, which is read at each connection and replaces that of the URL.
    pub(super) password_file: Option<PathBuf>,
    pub(super) database: i64,
    /// Without user and password, for messages.
    pub(super) address: String,
    /// The digests of the scripts.
    pub(super) digests: Arc<[String]>,
    /// Which authorities to trust and which certificate to show, if the connection is encrypted.
    #[cfg(feature = "tls")]
    pub(super) tls: crate::Tls,
}

/// Where the locks are kept.
#[derive(Clone)]
pub(crate) enum Target {
    Server(Endpoint),
    Sentinel(Sentinels),
    Cluster(Vec<Endpoint>),
}

#[derive(Clone)]
pub(crate) struct Sentinels {
    pub(super) sentinels: Vec<Endpoint>,
    pub(super) name: String,
    /// The login at the master; its address is what the sentinels report.
    pub(super) master: Endpoint,
}

impl Target {
    /// Reads a URL. Beyond those of one server, it may name several hosts: `redis+sentinel://HOSTS/MASTER[/DB]`,
    /// `redis+cluster://HOSTS`.
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let Some((scheme, rest)) = url.split_once("://") else { return Endpoint::parse(url).map(Target::Server) };
        let Some((plain, kind)) = scheme.split_once(['+', '-']).filter(|(_, kind)| *kind != "unix") else {
            return Endpoint::parse(url).map(Target::Server);
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
        let endpoint = |login: &str, host: &str, path: &str| match host {
            "" => Err(bad("a host is missing")),
            host => Endpoint::parse(&format!("{plain}://{login}@{host}/{path}")),
        };
        match kind {
            "cluster" => {
                if !path.is_empty() || !query.is_empty() {
                    return Err(bad("a cluster has no databases, and this form takes no parameters"));
                }
                hosts.split(',').map(|host| endpoint(login, host, "")).collect::<Result<_, _>>().map(Target::Cluster)
            }
            "sentinel" => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                let (mut user, mut password) = ("", "");
                for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
                    match parameter.split_once('=') {
                        Some(("sentinel_user", value)) => user = value,
                        Some(("sentinel_password", value)) => password = value,
                        _ => return Err(bad("its parameters are sentinel_user and sentinel_password")),
                    }
                }
                let as_sentinels_know = if password.is_empty() { String::new() } else { format!("{user}:{password}") };
                let sentinel = |host: &str| match host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
                    Some(_) => endpoint(&as_sentinels_know, host, ""),
                    None => endpoint(&as_sentinels_know, &format!("{host}:{SENTINEL_PORT}"), ""),
                };
                let name = percent_decode_str(name).decode_utf8().map_err(|_| bad("the master's name is not UTF-8"))?;
                Ok(Target::Sentinel(Sentinels {
                    sentinels: hosts.split(',').map(sentinel).collect::<Result<_, _>>()?,
                    name: Some(name).filter(|name| !name.is_empty()).ok_or_else(no_master)?.into_owned(),
                    master: endpoint(login, "master", database)?,
                }))
            }
            _ => Err(bad("its scheme is not known")),
        }
    }

    /// The master that these sentinels (`host[:port]`) know by this name.
    pub(crate) fn sentinel(sentinels: &[String], master: &str, encrypted: bool) -> Result<Self, ConnectError> {
        if master.is_empty() {
            return Err(ConnectError::Address { address: String::new(), reason: "the name of the master is empty" });
        }
        Ok(Target::Sentinel(Sentinels {
            sentinels: endpoints(sentinels, SENTINEL_PORT, encrypted)?,
            name: master.to_owned(),
            // The sentinels report its address.
            master: Endpoint::of_node(Node { host: "master".into(), port: SERVER_PORT }, encrypted),
        }))
    }

    /// The cluster of which these (`host[:port]`) are some nodes.
    pub(crate) fn cluster(nodes: &[String], encrypted: bool) -> Result<Self, ConnectError> {
        endpoints(nodes, SERVER_PORT, encrypted).map(Target::Cluster)
    }

    /// Whether its connections are encrypted.
    #[cfg(feature = "tls")]
    pub(crate) fn is_encrypted(&self) -> bool {
        let endpoint = match self {
            Target::Server(server) => Some(server),
            Target::Sentinel(sentinels) => Some(&sentinels.master),
            Target::Cluster(seeds) => seeds.first(),
        };
        endpoint.is_some_and(|endpoint| endpoint.encrypted)
    }

    /// Certificates for all servers, sentinels among them. Their connections are encrypted.
    #[cfg(feature = "tls")]
    pub(crate) fn set_tls(&mut self, tls: &crate::Tls) -> Result<(), ConnectError> {
        let endpoints: Vec<&mut Endpoint> = match self {
            Target::Server(server) => vec![server],
            Target::Sentinel(s) => s.sentinels.iter_mut().chain(std::iter::once(&mut s.master)).collect(),
            Target::Cluster(seeds) => seeds.iter_mut().collect(),
        };
        for endpoint in endpoints {
            let bad =
                |cause: String| ConnectError::Certificate { address: endpoint.address.clone(), cause: cause.into() };
            if let Some(missing) = tls.missing() {
                return Err(bad(missing));
            }
            tls.begin(endpoint.host()).map_err(bad)?;
            endpoint.tls = tls.clone();
        }
        Ok(())
    }

    /// The login at the servers of the locks.
    pub(crate) fn set_login(&mut self, user: &str, password: &str) {
        for server in self.servers() {
            (server.user, server.password) = (Some(user.to_owned()), Some(password.to_owned()));
        }
    }

    /// The file with the password instead.
    pub(crate) fn set_password_file(&mut self, path: &Path) {
        self.servers().iter_mut().for_each(|server| server.password_file = Some(path.to_owned()));
    }

    /// The servers that have the locks, or know where they are, without sentinels.
    fn servers(&mut self) -> &mut [Endpoint] {
        match self {
            Target::Server(server) => std::slice::from_mut(server),
            Target::Sentinel(sentinels) => std::slice::from_mut(&mut sentinels.master),
            Target::Cluster(seeds) => seeds.as_mut_slice(),
        }
    }
}

impl fmt::Debug for Target {
    /// Without users and passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |endpoints: &[Endpoint]| {
            endpoints.iter().map(|endpoint| endpoint.address.as_str()).collect::<Vec<_>>().join(",")
        };
        match self {
            Target::Server(server) => f.write_str(&server.address),
            Target::Sentinel(s) => write!(f, "{} by the sentinels {}", s.name, list(&s.sentinels)),
            Target::Cluster(seeds) => write!(f, "cluster {}", list(seeds)),
        }
    }
}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let encrypts = ["rediss:", "valkeys:"].iter().any(|scheme| url.starts_with(scheme));
        if encrypts && !cfg!(feature = "tls") {
            return Err(bad("for connections that are encrypted fairlock must be built with its feature `tls`"));
        }
        if encrypts && url.contains('#') {
            return Err(bad("no certificate goes unchecked: name the authority of the server's instead of #insecure"));
        }
        // The library reads URLs. It need not know how to encrypt.
        let plain = if encrypts { url.replacen("s:", ":", 1) } else { url.to_owned() };
        // The URL may have a password, and the library's message may quote the URL: so this has a message of its own.
        let info = plain.into_connection_info().map_err(|error| match error.kind() {
            ErrorKind::InvalidClientConfig => bad("its scheme or one of its parts is not known"),
            _ => bad("it is not a URL"),
        })?;
        let at = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Address::Node(Node { host: host.clone(), port: *port }),
            ConnectionAddr::Unix(path) => Address::Path(path.clone()),
            _ => return Err(bad("its scheme is not known")),
        };
        let settings = info.redis_settings();
        Ok(Self {
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            database: settings.db(),
            ..Self::of(at, encrypts, info.addr().to_string())
        })
    }

    /// A server of this host and port, without a login.
    fn of_node(node: Node, encrypted: bool) -> Self {
        let address = ConnectionAddr::Tcp(node.host.clone(), node.port).to_string();
        Self::of(Address::Node(node), encrypted, address)
    }

    fn of(at: Address, encrypted: bool, address: String) -> Self {
        Self {
            at,
            encrypted,
            address,
            user: None,
            password: None,
            database: 0,
            digests: digests(),
            password_file: None,
            #[cfg(feature = "tls")]
            tls: crate::Tls::new(),
        }
    }

    /// The same user and settings at another address.
    pub(crate) fn at(&self, node: &Node) -> Self {
        Self { at: Address::Node(node.clone()), address: node.to_string(), ..self.clone() }
    }

    /// Its address, if it has a host and a port.
    pub(crate) fn node(&self) -> Option<Node> {
        if let Address::Node(node) = &self.at { Some(node.clone()) } else { None }
    }

    /// Its host, which a node leaves out when it names itself.
    pub(crate) fn host(&self) -> &str {
        if let Address::Node(node) = &self.at { &node.host } else { "127.0.0.1" }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Made once: the scripts are long, and some targets have many servers.
fn digests() -> Arc<[String]> {
    static DIGESTS: OnceLock<Arc<[String]>> = OnceLock::new();
    let digest = |script: &Source| redis::Script::new(script.text).get_hash().to_owned();
    DIGESTS.get_or_init(|| SCRIPTS.iter().map(digest).collect()).clone()
}

fn no_master() -> ConnectError {
    bad("the name of the master is missing: redis+sentinel://host:port,host:port/NAME")
}

fn bad(reason: &str) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        Target::parse(url).map_or_else(|error| error.to_string(), |target| format!("{target:?}"))
    }

    #[test]
    fn urls_name_servers_sentinels_and_clusters() {
        assert_eq!(shown("redis://u:secret@h:1/2"), "h:1");
        assert_eq!(shown("redis+unix:///tmp/a+b-sentinel.sock"), "/tmp/a+b-sentinel.sock");
        assert_eq!(shown("redis+sentinel://u:secret@a,b:1/m/3?sentinel_password=x"), "m by the sentinels a:26379,b:1");
        assert_eq!(shown("redis-sentinel://[::1],[::2]:7/m"), "m by the sentinels ::1:26379,::2:7");
        assert_eq!(shown("redis+cluster://a:1,b"), "cluster a:1,b:6379");
        let Target::Sentinel(sentinels) =
            Target::parse("redis+sentinel://u:p%40@a/m%2Fn/3?sentinel_password=x").unwrap()
        else {
            panic!("sentinels")
        };
        let (master, sentinel) = (&sentinels.master, &sentinels.sentinels[0]);
        assert_eq!((master.user.as_deref(), master.password.as_deref(), master.database), (Some("u"), Some("p@"), 3));
        assert_eq!(sentinels.name, "m/n");
        assert_eq!((sentinel.user.as_deref(), sentinel.password.as_deref(), sentinel.database), (None, Some("x"), 0));
        let url = "redis+sentinel://a/m?sentinel_user=s&sentinel_password=x";
        let Target::Sentinel(sentinels) = Target::parse(url).unwrap() else { panic!("sentinels") };
        let (master, sentinel) = (&sentinels.master, &sentinels.sentinels[0]);
        assert_eq!((master.user.as_deref(), master.password.as_deref()), (None, None));
        assert_eq!((sentinel.user.as_deref(), sentinel.password.as_deref()), (Some("s"), Some("x")));
    }

    #[test]
    fn sentinels_and_nodes_are_read_from_addresses() {
        let list = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let sentinel = |hosts: &[&str], master: &str| Target::sentinel(&list(hosts), master, false);
        let shown = format!("{:?}", sentinel(&["a", "[::1]:7", "b:1", "[::2]"], "m/n").unwrap());
        assert_eq!(shown, "m/n by the sentinels a:26379,::1:7,b:1,::2:26379");
        let cluster = |hosts: &[&str]| Target::cluster(&list(hosts), false);
        assert_eq!(format!("{:?}", cluster(&["a", "b:1"]).unwrap()), "cluster a:6379,b:1");
        for (address, reason) in [
            ("", "host is missing"),
            (":1", "host is missing"),
            ("a:port", "not a number"),
            ("a:70000", "not a number"),
            ("redis://a", "not a number"),
            ("user@a:1", "no host has"),
            ("a,b", "no host has"),
            ("::1:7", "no brackets"),
        ] {
            let error = cluster(&["b", address]).unwrap_err();
            assert!(matches!(&error, ConnectError::Address { address: said, .. } if said == address), "{error:?}");
            assert!(error.to_string().contains(reason), "{address:?}: {error}");
        }
        for error in [cluster(&[]).unwrap_err(), sentinel(&[], "m").unwrap_err(), sentinel(&["a"], "").unwrap_err()] {
            assert!(matches!(error, ConnectError::Address { .. }), "{error:?}");
        }
    }

    #[test]
    fn a_login_is_for_the_servers_of_the_locks() {
        for url in ["redis://h", "redis+cluster://h,i", "redis+sentinel://h/m"] {
            let mut target = Target::parse(url).unwrap();
            target.set_login("u", "p");
            let servers = match &target {
                Target::Server(server) => std::slice::from_ref(server),
                Target::Cluster(seeds) => seeds,
                Target::Sentinel(sentinels) => {
                    assert_eq!(sentinels.sentinels[0].user, None);
                    std::slice::from_ref(&sentinels.master)
                }
            };
            for server in servers {
                assert_eq!((server.user.as_deref(), server.password.as_deref()), (Some("u"), Some("p")), "{url}");
            }
        }
        assert_eq!(Endpoint::parse("redis://u:secret@h:1").unwrap().to_string(), "h:1");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn what_encrypts_needs_a_feature() {
        for url in ["rediss://h", "valkeys://h", "rediss+cluster://h"] {
            assert!(shown(url).contains("feature `tls`"), "{url}");
        }
    }

    #[test]
    fn bad_urls_say_what_is_wrong() {
        for (url, reason) in [
            ("redis+sentinel://a:1", "the name of the master is missing"),
            ("redis+sentinel://a:1/m?x=1", "its parameters are"),
            ("redis+cluster://a:1/3", "a cluster has no databases"),
            ("redis+cluster://", "a host is missing"),
            ("redis+cluster://a:1,,b:2", "a host is missing"),
            ("redis+ring://a:1", "its scheme is not known"),
            ("redis://u:secret@h:port", "one of its parts is not known"),
        ] {
            let shown = shown(url);
            assert!(shown.contains(reason) && !shown.contains("secret"), "{url}: {shown}");
        }
    }

    #[test]
    fn nodes_are_read_and_shown() {
        for address in ["127.0.0.1:7000", "host.example:1", "[::1]:7000"] {
            assert_eq!(Node::parse(address).unwrap().to_string(), address);
        }
        assert_eq!(Node::parse("::1:7000").unwrap().to_string(), "[::1]:7000");
        assert_eq!(Node::parse(":7000").unwrap(), Node { host: String::new(), port: 7000 });
        assert_eq!(Node::parse("h:70000"), None);
    }
}
