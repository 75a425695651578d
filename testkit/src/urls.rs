//! The URLs under which a server is reached.

use std::path::Path;

use super::{run::Topology, sentinel::MASTER, server::RedisServer};

impl RedisServer {
    /// The URL for clients of the tests: of the unix socket, unless the environment says otherwise (`testkit::run`),
    /// with the password if there is one.
    pub fn url(&self) -> String {
        self.to_clients(self.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str())))
    }

    /// [`Self::url`] for an ACL user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.to_clients(Some((user, password)))
    }

    /// The URL of the unix socket in any case, for a user with all rights.
    pub fn admin_url(&self) -> String {
        self.of_the_socket(self.password().map(|password| ("default", password)))
    }

    /// The URL of the loopback port, with the password if there is one.
    #[track_caller]
    pub fn tcp_url(&self) -> String {
        format!("redis://{}127.0.0.1:{}/", before_host(self.password().map(|password| ("", password))), self.port())
    }

    fn to_clients(&self, login: Option<(&str, &str)>) -> String {
        let companion =
            self.companion.as_ref().map(|other| format!("{}127.0.0.1:{}", before_host(login), other.port()));
        match (self.topology, companion) {
            (Topology::Sentinel, Some(sentinel)) => format!("redis-sentinel://{sentinel}/{MASTER}"),
            (Topology::Cluster, Some(node)) => format!("redis-cluster://{node}/"),
            _ => self.of_the_socket(login),
        }
    }

    fn of_the_socket(&self, login: Option<(&str, &str)>) -> String {
        of_socket(&self.socket(), login)
    }
}

pub(super) fn of_socket(socket: &Path, login: Option<(&str, &str)>) -> String {
    let login = login.map(|(user, password)| format!("?user={}&pass={}", encoded(user), encoded(password)));
    format!("redis+unix://{}{}", socket.display(), login.unwrap_or_default())
}

/// The login part of a URL.
pub(super) fn before_host(login: Option<(&str, &str)>) -> String {
    login.map_or(String::new(), |(user, password)| format!("{}:{}@", encoded(user), encoded(password)))
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
