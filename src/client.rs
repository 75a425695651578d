//! Connecting, and the handle that all locks of a client share.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{ConnectError, OptionError};
use crate::keeper::{self, Command, Handle};
use crate::lock::Lock;
use crate::options::{LockOptions, check_braces, check_name, check_text};
use crate::server::{Endpoint, LockKeys};

/// A connection to a Redis server, and the thread that keeps its leases and places.
///
/// Cheap to clone; one for a process is enough, for any number of locks. When the last handle (clones, locks, guards,
/// acquires under way) is dropped, the thread ends; that drop waits up to 250 ms for what is still to be given back.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
    endpoint: Arc<Endpoint>,
    label: Arc<str>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.endpoint).field("id", self.handle.client_id()).finish()
    }
}

impl Client {
    /// Connects to `redis://[user:password@]host[:port][/db]` or `unix:///path/to/socket`. About three round trips.
    ///
    /// # Errors
    /// [`ConnectError`] if the server cannot be reached within 5 seconds or cannot be used.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed again.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().url(url).connect().await
    }

    /// A client that connects in the background when it is first used, and waits for a server that is not there yet.
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
        let spec = options.check(LockKeys::new(&self.handle.prefix, name))?;
        Ok(Lock::new(self.handle.clone(), spec, self.label.clone()))
    }

    /// Ends the client: waiters get [`Fault::Closed`](crate::Fault::Closed), guards hear that they are lost, everything
    /// is given back. Returns when that is done, or after a second.
    ///
    /// # Cancel safety
    /// If the future is dropped, the client is closed all the same.
    pub async fn close(&self) {
        // An error says that the keeper is gone: so is everything that it kept.
        let _ = self.handle.call(|call| Command::Close { call }).await;
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
    prefix: String,
    label: Option<String>,
}

impl std::fmt::Debug for ClientBuilder {
    /// Without the URL: it may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let server = Endpoint::parse(&self.url).ok();
        f.debug_struct("ClientBuilder")
            .field("server", &server)
            .field("prefix", &self.prefix)
            .field("label", &self.label)
            .finish()
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self { url: "redis://127.0.0.1/".into(), prefix: "fairlock".into(), label: None }
    }
}

impl ClientBuilder {
    /// Where the server is (default `redis://127.0.0.1/`).
    pub fn url(mut self, url: &str) -> Self {
        self.url = url.into();
        self
    }

    /// What the names of all keys and channels begin with (default `fairlock`). Clients with another one use other locks.
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
    /// [`ConnectError`] if the server cannot be reached within 5 seconds or cannot be used, or a setting cannot work.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        let (first, connected) = oneshot::channel();
        let client = self.start(Some(first))?;
        match connected.await {
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
        check_braces("the prefix", &self.prefix)?;
        let label = self.label.unwrap_or_else(|| {
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            format!("{host}:{}", std::process::id())
        });
        check_text("the label", &label)?;
        let endpoint = Endpoint::parse(&self.url)?;
        let client: Arc<str> = uuid::Uuid::new_v4().simple().to_string().into();
        let channel = format!("{}:client:{client}", self.prefix).into();
        let start = keeper::Start { endpoint: endpoint.clone(), client, prefix: self.prefix.into(), channel, first };
        Ok(Client { handle: keeper::start(start)?, endpoint: Arc::new(endpoint), label: label.into() })
    }
}
