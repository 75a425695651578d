//! One plain multiplexed RESP3 connection that carries commands and pushes. It is not supervised here: the keeper
//! sees it break, and decides when to connect again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind as Kind, RedisError, Value,
};

use super::reply::{Answer, Failure, Push};
use super::scripts::{Call, SCRIPTS};
use crate::error::ConnectError;

/// Where the server is, and as whom to go there.
#[derive(Clone)]
pub(crate) struct Endpoint {
    info: ConnectionInfo,
    /// Without user and password: for messages.
    address: String,
    /// The digests of the scripts.
    digests: Arc<[String]>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.address)
    }
}

/// What comes in without having been asked for.
#[derive(Debug)]
pub(crate) enum Incoming {
    Push(Push),
    /// The connection ended.
    Gone,
}

/// A connection of before: what it may still have under way must not run after anything is retried.
#[derive(Debug, Clone)]
pub(crate) struct Previous {
    run_id: String,
    id: u64,
    address: Option<String>,
}

/// A connection that is set up: old one killed, channel subscribed, scripts loaded.
pub(crate) struct Connected {
    pub(crate) connection: Connection,
    pub(crate) previous: Option<Previous>,
    /// Whether late requests of an old connection are ruled out.
    pub(crate) can_kill: bool,
    /// Something that its operator should know.
    pub(crate) warning: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    digests: Arc<[String]>,
}

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        // The URL may hold a password, and the library's message may quote the URL: say it in our own words.
        let bad = |reason: &str| ConnectError::Url { reason: reason.into() };
        let info = url.into_connection_info().map_err(|error| match error.kind() {
            ErrorKind::InvalidClientConfig => bad("its scheme or one of its parts is not known"),
            _ => bad("it is not a URL"),
        })?;
        let address = info.addr().to_string();
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("fairlock", env!("CARGO_PKG_VERSION"));
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let digests = SCRIPTS.iter().map(|script| redis::Script::new(script.text).get_hash().to_owned()).collect();
        Ok(Self { info, address, digests })
    }

    /// Connects and sets up, within `patience`. `incoming` is called in the connection's driver and must not block.
    pub(crate) async fn connect(
        &self,
        channel: &str,
        previous: Option<Previous>,
        patience: Duration,
        incoming: impl Fn(Incoming) + Send + Sync + 'static,
    ) -> Result<Connected, ConnectError> {
        let timeout = tokio::time::timeout(patience, self.set_up(channel, previous, incoming));
        let unreachable = |_| ConnectError::Unreachable {
            address: self.address.clone(),
            cause: format!("no answer within {patience:?}"),
        };
        timeout.await.map_err(unreachable)?
    }

    async fn set_up(
        &self,
        channel: &str,
        previous: Option<Previous>,
        incoming: impl Fn(Incoming) + Send + Sync + 'static,
    ) -> Result<Connected, ConnectError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024)
            .set_push_sender(move |push: PushInfo| {
                match push.kind {
                    Kind::Message => push.data.get(1).and_then(payload).and_then(Push::parse).map(Incoming::Push),
                    Kind::Disconnection => Some(Incoming::Gone),
                    _ => None,
                }
                .into_iter()
                .for_each(&incoming);
                Ok::<(), redis::aio::SendError>(())
            });
        let client = redis::Client::open(self.info.clone()).map_err(|error| self.explain(&error))?;
        let inner =
            client.get_multiplexed_async_connection_with_config(&config).await.map_err(|error| self.explain(&error))?;

        let (id, me, server, memory) = tokio::join!(
            ask(&inner, &["CLIENT", "ID"]),
            ask(&inner, &["CLIENT", "INFO"]),
            ask(&inner, &["INFO", "server"]),
            ask(&inner, &["INFO", "memory"]),
        );
        let server = server.as_ref().ok().and_then(payload_text).unwrap_or_default();
        self.check_version(&server)?;
        let this = match (id, field(&server, "run_id")) {
            (Ok(Value::Int(id)), Some(run_id)) => {
                let me = me.as_ref().ok().and_then(payload_text).unwrap_or_default();
                let address = me.split_whitespace().find_map(|word| word.strip_prefix("addr=")).map(str::to_owned);
                Some(Previous { run_id: run_id.to_owned(), id: id.unsigned_abs(), address })
            }
            _ => None,
        };

        // Ids start again when the server does: there the old connection is gone, and its id may be somebody else's.
        let old = previous.filter(|old| this.as_ref().is_some_and(|this| this.run_id == old.run_id));
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(old.as_ref().map_or(i64::MAX as u64, |old| old.id));
        if let Some(address) = old.as_ref().and_then(|old| old.address.as_ref()) {
            kill.arg("ADDR").arg(address);
        }
        let mut subscriber = inner.clone();
        let load = SCRIPTS.iter().map(|script| {
            let mut connection = inner.clone();
            async move { connection.send_packed_command(redis::cmd("SCRIPT").arg("LOAD").arg(script.text)).await }
        });
        // Where SCRIPT is forbidden or renamed, the first EVAL of each script loads it.
        let (killed, subscribed, _) =
            tokio::join!(send(&inner, &kill), subscriber.subscribe(channel), futures_util::future::join_all(load));
        subscribed.map_err(|error| self.explain(&error))?;
        self.try_scripts(&inner).await?;

        let can_kill = killed.is_ok() && this.is_some();
        let memory = memory.as_ref().ok().and_then(payload_text).unwrap_or_default();
        Ok(Connected {
            connection: Connection { inner, digests: self.digests.clone() },
            previous: this,
            can_kill,
            warning: eviction(&memory),
        })
    }

    /// Harmless calls that show whether this user may run scripts, by text and by digest.
    async fn try_scripts(&self, inner: &MultiplexedConnection) -> Result<(), ConnectError> {
        let probe = |command, script: &str| redis::cmd(command).arg(script).arg(0).to_owned();
        let (by_text, by_digest) = (probe("EVAL", "return 1"), probe("EVALSHA", &"0".repeat(40)));
        let (by_text, by_digest) = tokio::join!(send(inner, &by_text), send(inner, &by_digest));
        for error in [by_text.err(), by_digest.err()].into_iter().flatten() {
            // Nobody loaded a script with this digest: the command itself works.
            if error.kind() != ErrorKind::Server(redis::ServerErrorKind::NoScript) {
                return Err(self.explain_script(&error));
            }
        }
        Ok(())
    }

    fn check_version(&self, server: &str) -> Result<(), ConnectError> {
        let Some(version) = field(server, "valkey_version").or(field(server, "redis_version")) else { return Ok(()) };
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(u32::MAX);
        if major < 6 {
            return Err(ConnectError::TooOld { address: self.address.clone(), version: version.to_owned() });
        }
        Ok(())
    }

    fn explain_script(&self, error: &RedisError) -> ConnectError {
        match error.kind() {
            ErrorKind::Server(redis::ServerErrorKind::ResponseError)
                if error.to_string().contains("unknown command") =>
            {
                ConnectError::NoScripting { address: self.address.clone(), cause: error.to_string() }
            }
            _ => self.explain(error),
        }
    }

    fn explain(&self, error: &RedisError) -> ConnectError {
        let (address, cause) = (self.address.clone(), error.to_string());
        match (error.kind(), error.code()) {
            (ErrorKind::RESP3NotSupported, _) => {
                ConnectError::TooOld { address, version: "it does not know RESP3".into() }
            }
            (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS" | "NOAUTH")) => {
                ConnectError::Authentication { address, cause }
            }
            (_, Some("NOPERM")) => ConnectError::MissingRight { address, cause },
            _ => ConnectError::Unreachable { address, cause },
        }
    }
}

impl Connection {
    /// Sends a call; the answer may be awaited anywhere in the keeper's runtime. Calls are sent in the order in which
    /// these futures are first polled.
    pub(crate) fn send(&self, call: &Call) -> impl Future<Output = Result<Answer, Failure>> + use<> {
        let script = call.script();
        let mut connection = self.inner.clone();
        let cmd = call.command("EVALSHA", &self.digests[script]);
        let call = call.clone();
        // Without tokio's budget: a future that has used it up is woken in another order than it was polled in, and
        // arrivals would be sent in that one.
        tokio::task::unconstrained(async move {
            let mut reply = connection.send_packed_command(&cmd).await.and_then(Value::extract_error);
            if matches!(&reply, Err(error) if error.kind() == ErrorKind::Server(redis::ServerErrorKind::NoScript)) {
                reply = connection
                    .send_packed_command(&call.command("EVAL", SCRIPTS[script].text))
                    .await
                    .and_then(Value::extract_error);
            }
            match reply {
                Ok(value) => Answer::parse(&value)
                    .ok_or_else(|| Failure::Rejected(format!("a reply that is not understood: {value:?}").into())),
                Err(error) => Err(Failure::of(&error)),
            }
        })
    }
}

async fn ask(connection: &MultiplexedConnection, words: &[&str]) -> Result<Value, RedisError> {
    let mut cmd = Cmd::new();
    words.iter().for_each(|word| {
        cmd.arg(word);
    });
    send(connection, &cmd).await
}

async fn send(connection: &MultiplexedConnection, cmd: &Cmd) -> Result<Value, RedisError> {
    connection.clone().send_packed_command(cmd).await.and_then(Value::extract_error)
}

fn payload(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        _ => None,
    }
}

fn payload_text(value: &Value) -> Option<String> {
    payload(value).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Every key of a lock has a TTL, so each policy but `noeviction` may drop one while it is in use.
fn eviction(memory: &str) -> Option<String> {
    let (policy, limit) = (field(memory, "maxmemory_policy")?, field(memory, "maxmemory")?);
    (policy != "noeviction" && limit != "0").then(|| {
        format!("the server may evict keys of locks when memory is short (maxmemory-policy {policy}): set it to noeviction, or use a server of its own for locks")
    })
}
