//! The parts of a URL.
//!
//! Each part is honoured or refused. If one was left out in silence, two programs with the same URL could use two
//! databases, and hold one lock both. No error repeats a part that may be one of a password: a password that is not
//! written as it must be in a URL makes parts of its own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use super::endpoint::{bad, insecure};
use crate::credentials::Credentials;
use crate::error::ConnectError;

/// What to do about a character that is none of a password.
macro_rules! quoting {
    () => {
        "in a user and a password, write all but letters, digits and -._~ as % and two digits: %23 for #, %3F for ?, \
         %2F for /, %40 for @, %25 for %"
    };
}

/// What a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlKind {
    Server,
    Socket,
    Sentinels,
    Cluster,
}

impl UrlKind {
    /// The parameters of such a URL.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            UrlKind::Server => &["db", "protocol"],
            UrlKind::Socket => &["db", "protocol", "user", "pass"],
            UrlKind::Sentinels => &["db", "protocol", "sentinel_user", "sentinel_password"],
            UrlKind::Cluster => &["protocol"],
        }
    }
}

/// A URL in its parts. Only logins are decoded.
pub(super) struct Url<'a> {
    pub(super) kind: UrlKind,
    pub(super) encrypted: bool,
    login: Option<Credentials>,
    /// With their ports, between commas.
    pub(super) hosts: &'a str,
    /// Without the slash before it.
    pub(super) path: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Url<'a> {
    pub(super) fn parse(url: &'a str) -> Result<Self, ConnectError> {
        // A variable or a file may end with a line break.
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it does not begin with a scheme and ://"))?;
        let (kind, encrypted) = kind(&scheme.to_ascii_lowercase()).ok_or_else(|| bad("its scheme is not known"))?;
        if encrypted && !cfg!(feature = "tls") {
            return Err(bad("encrypted connections need a fairlock that was built with its feature `tls`"));
        }
        if rest.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(bad("it has a space or a control character, which is written as %20 or the like"));
        }
        let rest = match rest.split_once('#') {
            None => rest,
            Some((_, "insecure")) => return Err(insecure()),
            Some(_) => return Err(bad(concat!("it has a # and no use for what follows; ", quoting!()))),
        };
        let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = front.split_once('/').unwrap_or((front, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (login, hosts),
            None if kind != UrlKind::Socket && rest.contains('@') => {
                return Err(bad(concat!("a / or a ? comes before its @; ", quoting!())));
            }
            None => ("", authority),
        };
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let parameters = parameters(kind, query)?;
        Ok(Self { kind, encrypted, login: credentials(user, password)?, hosts, path, parameters })
    }

    /// The value of a parameter.
    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The login at the servers of the locks.
    pub(super) fn login(&self) -> Result<Option<Credentials>, ConnectError> {
        let more = self.login_in(["user", "pass"])?;
        match (&self.login, more) {
            (Some(_), Some(_)) => Err(bad("it has two logins")),
            (one, other) => Ok(one.clone().or(other)),
        }
    }

    /// The login at the sentinels.
    pub(super) fn sentinels_login(&self) -> Result<Option<Credentials>, ConnectError> {
        self.login_in(["sentinel_user", "sentinel_password"])
    }

    fn login_in(&self, names: [&str; 2]) -> Result<Option<Credentials>, ConnectError> {
        let [user, password] = names.map(|name| self.parameter(name).unwrap_or_default());
        credentials(user, password)
    }

    /// The database by this part of the path, and by the parameter. Both or one of them may name it.
    pub(super) fn database(&self, in_path: &str) -> Result<i64, ConnectError> {
        let number = |text: &str| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number).ok_or_else(|| bad("its database is not a number"))
        };
        let in_path = Some(in_path).filter(|text| !text.is_empty()).map(number).transpose()?;
        match (in_path, self.parameter("db").map(number).transpose()?) {
            (Some(one), Some(other)) if one != other => Err(bad("its path and its parameter `db` name two databases")),
            (one, other) => Ok(one.or(other).unwrap_or_default()),
        }
    }

    /// The path of a socket.
    pub(super) fn socket(&self) -> Result<PathBuf, ConnectError> {
        if !self.hosts.is_empty() {
            return Err(bad("a socket has no host: a third slash begins its path"));
        }
        let path = format!("/{}", self.path);
        Ok(OsString::from_vec(percent_decode_str(&path).collect()).into())
    }
}

fn kind(scheme: &str) -> Option<(UrlKind, bool)> {
    let (plain, kind) = scheme.split_once(['+', '-']).map_or((scheme, None), |(plain, kind)| (plain, Some(kind)));
    let encrypted = match plain {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        "unix" if kind.is_none() => return Some((UrlKind::Socket, false)),
        _ => return None,
    };
    let kind = match kind {
        None => UrlKind::Server,
        Some("unix") if !encrypted => UrlKind::Socket,
        Some("sentinel") => UrlKind::Sentinels,
        Some("cluster") => UrlKind::Cluster,
        Some(_) => return None,
    };
    Some((kind, encrypted))
}

fn parameters(kind: UrlKind, query: &str) -> Result<Vec<(&str, &str)>, ConnectError> {
    let mut read: Vec<(&str, &str)> = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let known = kind.parameters();
        if !known.contains(&name) {
            // It may be the rest of a password before it.
            let may_be_secret = query.contains('@') || read.iter().any(|(name, _)| name.contains("pass"));
            let shown =
                if may_be_secret { "one of its parameters".to_owned() } else { format!("its parameter {name:?}") };
            let known = known.join(", ");
            return Err(bad(&format!("{shown} is not known; this form takes {known}; {}", quoting!())));
        }
        if read.iter().any(|(before, _)| *before == name) {
            return Err(bad(&format!("its parameter `{name}` comes twice")));
        }
        if name == "protocol" && !["3", "resp3"].contains(&value) {
            return Err(bad("its parameter `protocol` names another version than 3, which fairlock speaks"));
        }
        read.push((name, value));
    }
    Ok(read)
}

/// A user without a password may need none, and logs in with an empty one.
fn credentials(user: &str, password: &str) -> Result<Option<Credentials>, ConnectError> {
    let decoded =
        |text| percent_decode_str(text).decode_utf8().map_err(|_| bad(concat!("it is not UTF-8; ", quoting!())));
    let (user, password) = (decoded(user)?, decoded(password)?);
    Ok((!user.is_empty() || !password.is_empty()).then(|| Credentials::new(user, password)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
