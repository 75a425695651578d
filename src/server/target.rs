//! The target of a client: one server, a master that sentinels know, or a cluster.

use std::fmt;
use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;

use super::endpoint::{Address, Endpoint, Node, bad};
use super::url::{Url, UrlKind};
use crate::credentials::Login;
use crate::error::ConnectError;

const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// A server as a caller names it: `host` or `host:port`, with an IPv6 address in brackets.
fn node(address: &str, default_port: u16) -> Result<Node, &'static str> {
    let is_whole = address.ends_with(']') || !address.contains(':');
    let node = if is_whole { Node::parse(&format!("{address}:{default_port}")) } else { Node::parse(address) };
    let node = node.ok_or("its port is not a number of a port")?;
    let in_brackets = address.starts_with('[');
    let is_v6 = |host: &str| host.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok());
    match node.host.as_str() {
        "" => Err("its host is missing"),
        // The zone of an IPv6 address comes after a percent sign.
        host if in_brackets && is_v6(host) => Ok(node),
        host if host.contains(':') && !in_brackets => Err("its IPv6 address has no brackets"),
        host if in_brackets
            || host.contains(|c: char| "/@,?#%[]".contains(c) || c.is_whitespace() || c.is_control()) =>
        {
            Err("its host has a character that no host has")
        }
        _ => Ok(node),
    }
}

fn endpoints(addresses: &[String], default_port: u16, encrypted: bool) -> Result<Vec<Endpoint>, ConnectError> {
    if addresses.is_empty() {
        return Err(ConnectError::Address { address: String::new(), reason: "no address is given" });
    }
    let endpoint = |address: &String| match node(address, default_port) {
        Ok(node) => Ok(Endpoint::of_node(node, encrypted)),
        Err(reason) => Err(ConnectError::Address { address: address.clone(), reason }),
    };
    addresses.iter().map(endpoint).collect()
}

/// The sentinels report its address.
fn unknown_master(encrypted: bool) -> Endpoint {
    Endpoint::of_node(Node { host: "master".into(), port: SERVER_PORT }, encrypted)
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
    /// One server, by the settings of another client.
    #[cfg(feature = "redis-1")]
    pub(crate) fn of_settings(info: &redis::ConnectionInfo, has_certificates: bool) -> Result<Self, ConnectError> {
        Endpoint::of_settings(info, has_certificates).map(Self::Server)
    }

    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let url = Url::parse(url)?;
        let login = url.login()?.map(Login::Known);
        let with_login = |endpoint: Endpoint| Endpoint { login: login.clone(), ..endpoint };
        let servers = |default_port| {
            let nodes = url.hosts.split(',').map(|host| node(&host.replace("%25", "%"), default_port).map_err(bad));
            nodes.map(|node| Ok(Endpoint::of_node(node?, url.encrypted))).collect::<Result<Vec<_>, ConnectError>>()
        };
        match url.kind {
            UrlKind::Server => {
                let database = url.database(url.path.trim_end_matches('/'))?;
                let [server] = <[_; 1]>::try_from(servers(SERVER_PORT)?)
                    .map_err(|_| bad("several hosts need redis+sentinel:// or redis+cluster://"))?;
                Ok(Target::Server(Endpoint { database, ..with_login(server) }))
            }
            UrlKind::Socket => {
                let (path, database) = (Address::Path(url.socket()?), url.database("")?);
                Ok(Target::Server(Endpoint { database, ..with_login(Endpoint::of(path, false)) }))
            }
            UrlKind::Cluster if !url.path.is_empty() => Err(bad("a cluster has no databases")),
            UrlKind::Cluster => Ok(Target::Cluster(servers(SERVER_PORT)?.into_iter().map(with_login).collect())),
            UrlKind::Sentinels => {
                let (name, database) = url.path.split_once('/').unwrap_or((url.path, ""));
                let name = percent_decode_str(name).decode_utf8().map_err(|_| bad("the master's name is not UTF-8"))?;
                if name.is_empty() {
                    return Err(bad("the name of the master is missing: redis+sentinel://host:port,host:port/NAME"));
                }
                let login = url.sentinels_login()?.map(Login::Known);
                let sentinels = servers(SENTINEL_PORT)?.into_iter();
                Ok(Target::Sentinel(Sentinels {
                    sentinels: sentinels.map(|sentinel| Endpoint { login: login.clone(), ..sentinel }).collect(),
                    name: name.into_owned(),
                    master: Endpoint { database: url.database(database)?, ..with_login(unknown_master(url.encrypted)) },
                }))
            }
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
            master: unknown_master(encrypted),
        }))
    }

    /// The cluster of which these (`host[:port]`) are some nodes.
    pub(crate) fn cluster(nodes: &[String], encrypted: bool) -> Result<Self, ConnectError> {
        endpoints(nodes, SERVER_PORT, encrypted).map(Target::Cluster)
    }

    /// The servers that have the locks, or know where they are: not the sentinels.
    pub(crate) fn servers(&self) -> &[Endpoint] {
        match self {
            Target::Server(server) => std::slice::from_ref(server),
            Target::Sentinel(sentinels) => std::slice::from_ref(&sentinels.master),
            Target::Cluster(seeds) => seeds,
        }
    }

    /// Whether its connections are encrypted.
    #[cfg(feature = "tls")]
    pub(crate) fn is_encrypted(&self) -> bool {
        self.servers().first().is_some_and(|server| server.encrypted)
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
            let bad = |cause: String| ConnectError::Certificate {
                address: endpoint.address.clone(),
                cause: crate::error::Cause::of_here(cause),
            };
            if let Some(missing) = tls.missing() {
                return Err(bad(missing));
            }
            tls.begin(endpoint.host()).map_err(bad)?;
            endpoint.tls = tls.clone();
        }
        Ok(())
    }

    /// The login that a program was asked for, or set.
    pub(crate) fn login(&self) -> Option<&Login> {
        self.servers().first()?.login.as_ref()
    }

    /// The login at the servers.
    pub(crate) fn set_login(&mut self, login: &Login) {
        let servers = match self {
            Target::Server(server) => std::slice::from_mut(server),
            Target::Sentinel(sentinels) => std::slice::from_mut(&mut sentinels.master),
            Target::Cluster(seeds) => seeds.as_mut_slice(),
        };
        servers.iter_mut().for_each(|server| server.login = Some(login.clone()));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::Time;
    use crate::credentials::Credentials;

    fn shown(url: &str) -> String {
        Target::parse(url).map_or_else(|error| error.to_string(), |target| format!("{target:?}"))
    }

    fn login(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    fn login_of(server: &Endpoint) -> Option<(String, String)> {
        let Credentials { user, password, .. } = server.login.as_ref()?.credentials(Time::now()).unwrap();
        Some((user, password))
    }

    #[test]
    fn urls_name_servers_sentinels_and_clusters() {
        assert_eq!(shown("redis://u:secret@h:1/2"), "h:1");
        assert_eq!(shown("redis://[::1]:7"), "[::1]:7");
        assert_eq!(shown("redis+unix:///tmp/a+b-sentinel.sock"), "/tmp/a+b-sentinel.sock");
        assert_eq!(shown("redis+sentinel://u:secret@a,b:1/m/3?sentinel_password=x"), "m by the sentinels a:26379,b:1");
        assert_eq!(shown("redis-sentinel://[::1],[::2]:7/m"), "m by the sentinels [::1]:26379,[::2]:7");
        assert_eq!(shown("redis+cluster://a:1,b"), "cluster a:1,b:6379");
        let Target::Sentinel(sentinels) =
            Target::parse("redis+sentinel://u:p%40@a/m%2Fn/3?sentinel_password=x").unwrap()
        else {
            panic!("sentinels")
        };
        let (master, sentinel) = (&sentinels.master, &sentinels.sentinels[0]);
        assert_eq!((login_of(master), master.database), (login("u", "p@"), 3));
        assert_eq!(sentinels.name, "m/n");
        assert_eq!((login_of(sentinel), sentinel.database), (login("default", "x"), 0));
        let url = "redis+sentinel://a/m?sentinel_user=s&sentinel_password=x";
        let Target::Sentinel(sentinels) = Target::parse(url).unwrap() else { panic!("sentinels") };
        let (master, sentinel) = (&sentinels.master, &sentinels.sentinels[0]);
        assert_eq!((login_of(master), login_of(sentinel)), (None, login("s", "x")));
    }

    #[test]
    fn sentinels_and_nodes_are_read_from_addresses() {
        let list = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let sentinel = |hosts: &[&str], master: &str| Target::sentinel(&list(hosts), master, false);
        let shown = format!("{:?}", sentinel(&["a", "[::1]:7", "b:1", "[::2]"], "m/n").unwrap());
        assert_eq!(shown, "m/n by the sentinels a:26379,[::1]:7,b:1,[::2]:26379");
        let cluster = |hosts: &[&str]| Target::cluster(&list(hosts), false);
        assert_eq!(format!("{:?}", cluster(&["a", "b:1"]).unwrap()), "cluster a:6379,b:1");
        for (address, reason) in [
            ("", "host is missing"),
            (":1", "host is missing"),
            ("a:port", "not a number"),
            ("a:70000", "not a number"),
            ("a:+1", "not a number"),
            ("[a]:1", "no host has"),
            ("[::1", "no host has"),
            ("a%b", "no host has"),
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
            target.set_login(&Login::Known(Credentials::new("u", "p")));
            if let Target::Sentinel(sentinels) = &target {
                assert_eq!(login_of(&sentinels.sentinels[0]), None);
            }
            for server in target.servers() {
                assert_eq!(login_of(server), login("u", "p"), "{url}");
            }
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn an_encrypting_url_needs_the_feature() {
        for url in ["rediss://h", "valkeys://h", "rediss+cluster://h"] {
            assert!(shown(url).contains("feature `tls`"), "{url}");
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
