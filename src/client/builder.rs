//! Settings of a client, and connecting.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::Client;
use crate::credentials::{Credentials, Login, LoginSource};
use crate::error::{ConnectError, InvalidOption};
use crate::keeper;
use crate::operation::Operation;
use crate::options::{check_prefix, check_text};
use crate::protocol::ClientId;
use crate::server::Target;

/// The address of the server, as the builder was given it.
#[derive(Clone)]
enum ServerChoice {
    Url(String),
    /// The environment names it so that nobody can read it.
    Unreadable(InvalidOption),
    Sentinel {
        sentinels: Vec<String>,
        master: String,
    },
    Cluster {
        nodes: Vec<String>,
    },
    #[cfg(feature = "redis-1")]
    Settings(Box<crate::server::ConnectionInfo>),
}

/// Settings of a [`Client`]. They are checked when it connects.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = fairlock::Client::builder()
///     .sentinel(["sentinel-1", "sentinel-2", "sentinel-3"], "mymaster")
///     .login("locks", "secret")
///     .prefix("payments")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    server: ServerChoice,
    login: Option<Login>,
    #[cfg(feature = "tls")]
    tls: Option<crate::Tls>,
    prefix: Result<String, InvalidOption>,
    label: Result<Option<String>, InvalidOption>,
}

impl std::fmt::Debug for ClientBuilder {
    /// Without the URL, which may have a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let server = self.address().ok();
        f.debug_struct("ClientBuilder")
            .field("server", &server)
            .field("prefix", &self.prefix.as_deref().ok())
            .field("label", &self.label.as_ref().ok().and_then(Option::as_ref))
            .finish()
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            server: ServerChoice::Url("redis://127.0.0.1/".into()),
            login: None,
            #[cfg(feature = "tls")]
            tls: None,
            prefix: Ok("fairlock".into()),
            label: Ok(None),
        }
    }
}

impl ClientBuilder {
    /// A builder with the settings that the environment names: the [`url`](Self::url) in `REDIS_URL`, the
    /// [`prefix`](Self::prefix) in `FAIRLOCK_PREFIX`, the [`label`](Self::label) in `FAIRLOCK_LABEL`. A variable that
    /// is not set, or empty, leaves the default; one that is not valid UTF-8 is an error when the client is made. The
    /// command line reads `REDIS_URL` too.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = fairlock::ClientBuilder::from_env().prefix("payments").connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Self {
        Self::of_variables(|name| std::env::var_os(name))
    }

    fn of_variables(value: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |variable| match value(variable).filter(|value| !value.is_empty()).map(OsString::into_string) {
            Some(Ok(value)) => Ok(Some(value)),
            // Any other text would be another server, or another prefix.
            Some(Err(_)) => Err(InvalidOption::NotUtf8 { variable }),
            None => Ok(None),
        };
        let default = Self::default();
        Self {
            server: match text("REDIS_URL") {
                Ok(url) => url.map_or(default.server, ServerChoice::Url),
                Err(error) => ServerChoice::Unreadable(error),
            },
            prefix: text("FAIRLOCK_PREFIX").and_then(|prefix| prefix.map_or(default.prefix, Ok)),
            label: text("FAIRLOCK_LABEL"),
            ..Self::default()
        }
    }

    /// A builder with the server of another client: its address, whether its connections are encrypted, user, password
    /// and database. Only these: certificates cannot be read from there, and are an error unless they are given to `tls`
    /// once more. TCP settings, the version of the protocol and the library's name are those of connections, and the
    /// connections of the other client are not used.
    ///
    /// Needs the feature `redis-1`, for the versions 1.x of the crate redis.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redis = redis::Client::open("redis://user:secret@127.0.0.1/2")?;
    /// let client = fairlock::ClientBuilder::from_redis(redis.get_connection_info()).connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis-1")]
    pub fn from_redis(settings: &crate::server::ConnectionInfo) -> Self {
        Self { server: ServerChoice::Settings(Box::new(settings.clone())), ..Self::default() }
    }

    /// The address of the server (default `redis://127.0.0.1/`):
    ///
    /// - `redis://[user:password@]host[:port][/db]`, one server; `?db=N` may name the database, too
    /// - `unix:///path/to/socket[?db=N&user=USER&pass=PASSWORD]`, one server on this machine
    /// - `redis+sentinel://[user:password@]host[:port],…/MASTER[/db][?sentinel_user=USER&sentinel_password=PASSWORD]`, the
    ///   master that these sentinels know by this name; they are asked again after every loss of the connection
    /// - `redis+cluster://[user:password@]host[:port],…`, a Redis Cluster of which these are some nodes
    ///
    /// With `rediss` for `redis` (and the feature `tls`) the connections are encrypted, see `tls`. In a user and a
    /// password all but letters, digits and `-._~` is written as `%23` (for `#`) and so on. A URL with a part that has no
    /// use here, such as another parameter or a fragment, is an error.
    pub fn url(mut self, url: &str) -> Self {
        self.server = ServerChoice::Url(url.into());
        self
    }

    /// The master that these sentinels (`host` or `host:port`, default port 26379) know by this name; they are asked
    /// again after every loss of the connection. Replaces [`url`](Self::url).
    pub fn sentinel<S: Into<String>>(mut self, sentinels: impl IntoIterator<Item = S>, master: &str) -> Self {
        let sentinels = sentinels.into_iter().map(Into::into).collect();
        self.server = ServerChoice::Sentinel { sentinels, master: master.into() };
        self
    }

    /// A Redis Cluster of which these (`host` or `host:port`, default port 6379) are some nodes. Replaces
    /// [`url`](Self::url).
    pub fn cluster<S: Into<String>>(mut self, nodes: impl IntoIterator<Item = S>) -> Self {
        self.server = ServerChoice::Cluster { nodes: nodes.into_iter().map(Into::into).collect() };
        self
    }

    /// User and password for the servers of the locks (not for sentinels): instead of those in the URL.
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some(Login::Known(Credentials::new(user, password)));
        self
    }

    /// The same, with the password in a file, which is read at each connection: one that is changed at the server and
    /// in the file needs no new client. A line break at its end does not count.
    pub fn login_from_file(mut self, user: &str, password_file: impl Into<PathBuf>) -> Self {
        self.login = Some(Login::Asked(LoginSource::of_file(user.to_owned(), password_file.into())));
        self
    }

    /// The same with what this gives, for passwords that live for minutes: the tokens of AWS IAM, Entra or Google IAM.
    /// It is asked at each login, and again when four fifths of the life of its last answer are over: the client then
    /// logs in anew on the connections that it has, and its leases and places are kept. While this fails, or the server
    /// denies what it gives, it is asked once a second, and the login that there is goes on. Where there is no connection
    /// it is asked at each attempt to connect.
    ///
    /// It may block, for at most 5 seconds: then the login is given up. It is called on a thread of its own, never
    /// twice at a time, and a panic counts as an error. It must not use this client.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use fairlock::{Client, Credentials};
    ///
    /// # fn sign() -> Result<String, std::io::Error> { Ok("token".to_owned()) }
    /// let builder = Client::builder().url("rediss://cache.example:6379").login_with(|| {
    ///     Ok::<_, std::io::Error>(Credentials::new("app", sign()?).expires_in(Duration::from_secs(900)))
    /// });
    /// ```
    pub fn login_with<E: std::fmt::Display>(
        mut self,
        ask: impl Fn() -> Result<Credentials, E> + Send + Sync + 'static,
    ) -> Self {
        self.login = Some(Login::Asked(LoginSource::new(move || ask().map_err(|error| error.to_string()))));
        self
    }

    /// Encrypts the connections to [`sentinel`](Self::sentinel)s and their master, or to the nodes of a
    /// [`cluster`](Self::cluster), and says which certificates to use. A [`url`](Self::url) says by itself whether
    /// connections are encrypted: there this is for a scheme that begins with `rediss`, and an error with any other.
    ///
    /// Needs the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The prefix of all keys and channels (default `fairlock`): at most 4096 bytes, no braces. Clients with different
    /// prefixes use different locks.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = Ok(prefix.into());
        self
    }

    /// What this client calls itself where others look, at most 4096 bytes. The default is `host:pid`, both as the
    /// process sees them when it connects: in a container the host is usually the container's id, and the process often
    /// number 1.
    pub fn label(mut self, label: &str) -> Self {
        self.label = Ok(Some(label.into()));
        self
    }

    /// Connects, see [`Client::connect`]. About three round trips, and those that ask sentinels or a cluster where the
    /// server is.
    ///
    /// # Errors
    /// [`ConnectError`] within 5 seconds if the server cannot be reached or cannot be used, or a setting cannot work.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed again.
    pub fn connect(self) -> Operation<Result<Client, ConnectError>> {
        Operation::of_others(async move {
            let (first, connected) = oneshot::channel();
            let client = self.start(Some(first))?;
            match Operation::relayed(&client.handle.wakers, connected).await {
                Ok(result) => result?,
                Err(_) => return Err(ConnectError::Panicked { cause: "the keeper, while it connected".into() }),
            }
            Ok(client)
        })
    }

    /// Connects when first used, see [`Client::connect_lazy`]. No round trip.
    ///
    /// # Errors
    /// [`ConnectError`] if the URL is not understood or a setting cannot work.
    pub fn connect_lazy(self) -> Result<Client, ConnectError> {
        self.start(None)
    }

    /// The server without its login and certificates: no file is read.
    fn address(&self) -> Result<Target, ConnectError> {
        #[cfg(feature = "tls")]
        let encrypted = self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        let encrypted = false;
        match &self.server {
            ServerChoice::Url(url) => Target::parse(url),
            ServerChoice::Unreadable(error) => Err(error.clone().into()),
            ServerChoice::Sentinel { sentinels, master } => Target::sentinel(sentinels, master, encrypted),
            ServerChoice::Cluster { nodes } => Target::cluster(nodes, encrypted),
            #[cfg(feature = "redis-1")]
            ServerChoice::Settings(settings) => Target::of_settings(settings, encrypted),
        }
    }

    pub(crate) fn target(&self) -> Result<Target, ConnectError> {
        let mut target = self.address()?;
        if let Some(login) = &self.login {
            target.set_login(login);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            if !target.is_encrypted() {
                let scheme =
                    if let ServerChoice::Url(url) = &self.server { url.trim().split(':').next() } else { None };
                return Err(ConnectError::NotEncrypted { scheme: scheme.unwrap_or("redis").to_owned() });
            }
            target.set_tls(tls)?;
        }
        Ok(target)
    }

    fn start(self, first: Option<oneshot::Sender<Result<(), ConnectError>>>) -> Result<Client, ConnectError> {
        let (prefix, label) = (self.prefix.clone()?, self.label.clone()?);
        check_text("the prefix", &prefix)?;
        check_prefix(&prefix)?;
        let label = label.unwrap_or_else(|| {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            format!("{host}:{}", std::process::id())
        });
        check_text("the label", &label)?;
        let target = self.target()?;
        let client = ClientId::random();
        let start = keeper::Start { target: target.clone(), client, prefix: prefix.into(), first };
        Ok(Client { handle: keeper::start(start)?, target: Arc::new(target), label: label.into() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[cfg(feature = "tls")]
    #[test]
    fn a_builder_is_shown_without_reading_its_files() {
        let tls = crate::Tls::new().ca_certificate_file("/nonexistent/ca.pem");
        let builder = Client::builder().cluster(["host:7"]).login("user", "secret").tls(tls);
        let shown = format!("{builder:?}");
        assert!(shown.contains("host:7") && !shown.contains("secret"), "{shown}");
        assert!(builder.connect_lazy().is_err());
    }

    #[test]
    fn the_environment_names_server_prefix_and_label() {
        let of = |variables: &[(&str, &str)]| {
            let find = |name: &str| Some(variables.iter().find(|(it, _)| *it == name)?.1.into());
            format!("{:?}", ClientBuilder::of_variables(find))
        };
        assert_eq!(of(&[]), format!("{:?}", ClientBuilder::default()));
        assert_eq!(of(&[("REDIS_URL", ""), ("FAIRLOCK_PREFIX", ""), ("FAIRLOCK_LABEL", "")]), of(&[]));
        let all = of(&[("REDIS_URL", "redis://host:7/"), ("FAIRLOCK_PREFIX", "team"), ("FAIRLOCK_LABEL", "job")]);
        let builder = Client::builder().url("redis://host:7/").prefix("team").label("job");
        assert_eq!(all, format!("{builder:?}"));

        // A text that is like it would be another server, or other locks.
        for variable in ["REDIS_URL", "FAIRLOCK_PREFIX", "FAIRLOCK_LABEL"] {
            let unreadable = || OsString::from_vec(b"redis://h/\xff".into());
            let builder = ClientBuilder::of_variables(|name| (name == variable).then(unreadable));
            let error = builder.connect_lazy().unwrap_err();
            assert!(error.to_string().contains(variable), "{error}");
        }
    }
}
