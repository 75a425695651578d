//! Connecting, and the handle that all locks of a client share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{ConnectError, OptionError};
use crate::keeper::{self, Handle};
use crate::lock::Lock;
use crate::options::{LockOptions, check_braces, check_name, check_text};
use crate::protocol::LockKeys;
use crate::server::Target;

/// A connection to a Redis server, and the thread that keeps its leases and places.
///
/// Cheap to clone; one for a process is enough, for any number of locks. When the last handle (clones, locks, guards,
/// acquires under way) is dropped, the thread ends; that drop waits up to 250 ms for what is still to be given back.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
    target: Arc<Target>,
    label: Arc<str>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.target).field("id", self.handle.client_id()).finish()
    }
}

impl Client {
    /// Connects to the server, or servers, that a URL names; see [`ClientBuilder::url`]. About three round trips.
    ///
    /// # Errors
    /// [`ConnectError`] within 5 seconds if the server cannot be reached or cannot be used. Whether waiting may help,
    /// [`ConnectError::is_transient`] tells.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed again.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().url(url).connect().await
    }

    /// A client that connects in the background when it is first used, and waits for a server that is not there yet. An
    /// acquire waits until its timeout; a server that cannot be used, whoever waits, fails it at once with
    /// [`Fault::Connect`](crate::Fault::Connect).
    ///
    /// # Errors
    /// [`ConnectError::Url`] if the URL is not understood.
    pub fn connect_lazy(url: &str) -> Result<Self, ConnectError> {
        Self::builder().url(url).connect_lazy()
    }

    /// A client with other than the usual settings.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The lock of this name, with the usual options. No round trip.
    ///
    /// # Errors
    /// [`OptionError`] if the name is empty, longer than 512 bytes or contains a brace.
    pub fn lock(&self, name: &str) -> Result<Lock, OptionError> {
        self.lock_with(name, LockOptions::default())
    }

    /// The lock of this name, with these options. No round trip.
    ///
    /// # Errors
    /// [`OptionError`] if the name or an option cannot work.
    pub fn lock_with(&self, name: &str, options: LockOptions) -> Result<Lock, OptionError> {
        check_name(name)?;
        let spec = options.of(LockKeys::new(&self.handle.prefix, name))?;
        Ok(Lock::new(self.handle.clone(), spec, self.label.clone()))
    }

    /// Ends the client: waiters get [`Fault::Closed`](crate::Fault::Closed), guards hear that they are lost, everything
    /// is given back. Returns when that is done, or after a second.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the client is closed all the same.
    pub async fn close(&self) {
        // An error says that the keeper is gone: so is everything that it kept.
        let _ = self.handle.close().await;
    }

    /// Makes the client's thread panic: for tests of what comes after.
    #[cfg(feature = "test-hooks")]
    #[doc(hidden)]
    pub fn panic_keeper(&self) {
        self.handle.panic();
    }
}

/// Settings of a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    url: String,
    login: Option<(String, String)>,
    password_file: Option<PathBuf>,
    #[cfg(feature = "tls")]
    tls: Option<crate::Tls>,
    prefix: String,
    label: Option<String>,
}

impl std::fmt::Debug for ClientBuilder {
    /// Without the URL: it may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let server = Target::parse(&self.url).ok();
        f.debug_struct("ClientBuilder")
            .field("server", &server)
            .field("prefix", &self.prefix)
            .field("label", &self.label)
            .finish()
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1/".into(),
            login: None,
            password_file: None,
            #[cfg(feature = "tls")]
            tls: None,
            prefix: "fairlock".into(),
            label: None,
        }
    }
}

impl ClientBuilder {
    /// Where the server is (default `redis://127.0.0.1/`):
    ///
    /// - `redis://[user:password@]host[:port][/db]`, one server
    /// - `unix:///path/to/socket[?db=N&user=USER&pass=PASSWORD]`, one server on this machine
    /// - `redis+sentinel://[user:password@]host[:port],…/MASTER[/db][?sentinel_user=USER&sentinel_password=PASSWORD]`, the
    ///   master of this name, as these sentinels know it; they are asked again after every loss of the connection
    /// - `redis+cluster://[user:password@]host[:port],…`, a Redis Cluster of which these are some nodes
    ///
    /// With `rediss` for `redis` (and the feature `tls`) the connections are encrypted, see `tls`.
    pub fn url(mut self, url: &str) -> Self {
        self.url = url.into();
        self
    }

    /// The master of this name, as these sentinels (`host:port`) know it: the same as a URL of `redis+sentinel://`.
    pub fn sentinel<S: AsRef<str>>(self, sentinels: impl IntoIterator<Item = S>, master: &str) -> Self {
        let hosts: Vec<S> = sentinels.into_iter().collect();
        let hosts: Vec<&str> = hosts.iter().map(AsRef::as_ref).collect();
        self.url(&format!("redis+sentinel://{}/{master}", hosts.join(",")))
    }

    /// A Redis Cluster of which these (`host:port`) are some nodes: the same as a URL of `redis+cluster://`.
    pub fn cluster<S: AsRef<str>>(self, nodes: impl IntoIterator<Item = S>) -> Self {
        let hosts: Vec<S> = nodes.into_iter().collect();
        let hosts: Vec<&str> = hosts.iter().map(AsRef::as_ref).collect();
        self.url(&format!("redis+cluster://{}", hosts.join(",")))
    }

    /// As whom to go to the servers of the locks (not to sentinels): instead of user and password in the URL.
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.into(), password.into()));
        self.password_file = None;
        self
    }

    /// The same, with the password in a file, which is read at each connection: one that is changed at the server and in
    /// the file needs no new client. A line break at its end does not count.
    pub fn login_from_file(mut self, user: &str, password_file: impl Into<PathBuf>) -> Self {
        self.login = Some((user.into(), String::new()));
        self.password_file = Some(password_file.into());
        self
    }

    /// Certificates for connections of `rediss://`, with the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// What the names of all keys and channels begin with (default `fairlock`): at most 4096 bytes, no
    /// braces. Clients with another one use other locks.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// What this client calls itself where others look (default `host:pid`).
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Connects, see [`Client::connect`].
    ///
    /// # Errors
    /// [`ConnectError`] within 5 seconds if the server cannot be reached or cannot be used, or a setting cannot work.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let (first, connected) = oneshot::channel();
        let client = self.start(Some(first))?;
        match client.handle.wakers.relay(connected).await {
            Ok(result) => result?,
            Err(_) => return Err(ConnectError::Thread { cause: "it ended at once".into() }),
        }
        client.handle.say_notes();
        Ok(client)
    }

    /// Connects when first used, see [`Client::connect_lazy`].
    ///
    /// # Errors
    /// [`ConnectError`] if the URL is not understood or a setting cannot work.
    pub fn connect_lazy(self) -> Result<Client, ConnectError> {
        self.start(None)
    }

    fn start(self, first: Option<oneshot::Sender<Result<(), ConnectError>>>) -> Result<Client, ConnectError> {
        check_text("the prefix", &self.prefix)?;
        check_braces("the prefix", &self.prefix)?;
        let label = self.label.unwrap_or_else(|| {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            format!("{host}:{}", std::process::id())
        });
        check_text("the label", &label)?;
        let mut target = Target::parse(&self.url)?;
        if let Some((user, password)) = &self.login {
            target.set_login(user, password);
        }
        if let Some(path) = &self.password_file {
            target.set_password_file(path);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            target.set_tls(tls)?;
        }
        let client: Arc<str> = uuid::Uuid::new_v4().simple().to_string().into();
        let start = keeper::Start { target: target.clone(), client, prefix: self.prefix.into(), first };
        Ok(Client { handle: keeper::start(start)?, target: Arc::new(target), label: label.into() })
    }
}
