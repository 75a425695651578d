//! One plain multiplexed RESP3 connection that carries commands and pushes. It is not supervised here: the keeper
//! sees it break, and decides when to connect again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, PushInfo, PushKind as Kind, RedisError, ServerErrorKind, Value,
};

use super::refusals::{Meaning, meaning, said};
use super::target::{Endpoint, Node};
use crate::error::ConnectError;
use crate::protocol::{self, Failure, LeaveRequest, LockKeys, Push, Request, SCRIPTS};

/// What comes in without having been asked for.
#[derive(Debug)]
pub(crate) enum Incoming {
    Push(Push),
    Subscribed(String),
    /// By the server itself, when a slot leaves it.
    Unsubscribed(String),
    /// The connection ended.
    Gone,
}

/// A connection of before: what it may still have under way must not run after anything is retried.
#[derive(Debug, Clone)]
pub(crate) struct Previous {
    run_id: String,
    id: u64,
}

impl Previous {
    /// Which run of which server it led to.
    pub(crate) fn run_id(&self) -> &str {
        &self.run_id
    }
}

/// A connection that is set up: old one killed, channel subscribed, scripts loaded.
pub(crate) struct Connected {
    pub(crate) connection: Connection,
    pub(crate) previous: Option<Previous>,
    /// Whether late requests of an old connection are ruled out.
    pub(crate) can_kill: bool,
    pub(crate) is_replica: bool,
    /// A replica may be told to take writes.
    pub(crate) read_only: bool,
    /// Whether it knows sharded pub/sub.
    pub(crate) shards: bool,
    /// Something that its operator should know.
    pub(crate) warning: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    digests: Arc<[String]>,
}

/// What comes back for a call.
pub(crate) enum Reply {
    Result(Result<protocol::Reply, Failure>),
    /// Another node of the cluster serves this slot; `asking`: for this one call.
    Elsewhere {
        node: Node,
        asking: bool,
    },
    /// This server does not take writes, or does not even answer: it is no master, or no longer.
    Replica(Arc<str>),
    /// The connection broke. Whether the request was executed is not known.
    Gone(Arc<str>),
}

impl Endpoint {
    /// A connection without any set-up. `incoming` is called in its driver and must not block.
    pub(crate) async fn open(
        &self,
        incoming: impl Fn(Incoming) + Send + Sync + 'static,
    ) -> Result<Connection, ConnectError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(1024)
            .set_push_sender(move |push: PushInfo| {
                let text = |index: usize| push.data.get(index).and_then(payload_text);
                match push.kind {
                    Kind::Message | Kind::SMessage => {
                        push.data.get(1).and_then(payload).and_then(Push::parse).map(Incoming::Push)
                    }
                    Kind::Subscribe | Kind::SSubscribe => text(0).map(Incoming::Subscribed),
                    Kind::SUnsubscribe => text(0).map(Incoming::Unsubscribed),
                    Kind::Disconnection => Some(Incoming::Gone),
                    _ => None,
                }
                .into_iter()
                .for_each(&incoming);
                Ok::<(), redis::aio::SendError>(())
            });
        #[cfg(feature = "tls")]
        if matches!(self.info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
            crate::tls::choose_cryptography();
        }
        let client = redis::Client::open(self.info.clone()).map_err(|error| self.explain(&error))?;
        let inner = self.knocking(client.get_multiplexed_async_connection_with_config(&config)).await?;
        Ok(Connection { inner, digests: self.digests.clone() })
    }

    /// Connects and sets up. `channel` is subscribed on this connection before this returns.
    pub(crate) async fn connect(
        &self,
        channel: Option<&str>,
        previous: Option<Previous>,
        incoming: impl Fn(Incoming) + Send + Sync + 'static,
    ) -> Result<Connected, ConnectError> {
        let connection = self.open(incoming).await?;
        let (id, server, memory, replication) = tokio::join!(
            connection.ask(&["CLIENT", "ID"]),
            connection.ask(&["INFO", "server"]),
            connection.ask(&["INFO", "memory"]),
            connection.ask(&["INFO", "replication"]),
        );
        // Without its id this connection could not be ended by the next, which would believe that there is nothing to end.
        [&id, &server].into_iter().try_for_each(|reply| self.for_good(reply))?;
        let text = |reply: Result<Value, RedisError>| reply.as_ref().ok().and_then(payload_text).unwrap_or_default();
        let (server, memory, replication) = (text(server), text(memory), text(replication));
        let version = self.check_version(&server)?;
        let this = match (id, field(&server, "run_id")) {
            (Ok(Value::Int(id)), Some(run_id)) => Some(Previous { run_id: run_id.to_owned(), id: id.unsigned_abs() }),
            _ => None,
        };

        // Ids start again when the server does: there the old connection is gone, and its id may be somebody else's. As
        // long as it runs no id is given twice, so that nothing else need be compared.
        let old = previous.filter(|old| this.as_ref().is_some_and(|this| this.run_id == old.run_id));
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("ID").arg(old.as_ref().map_or(i64::MAX as u64, |old| old.id));
        let load = SCRIPTS.iter().map(|script| connection.ask(&["SCRIPT", "LOAD", script.text]));
        let subscribe = async {
            match channel {
                Some(channel) => connection.inner.clone().subscribe(channel).await,
                None => Ok(()),
            }
        };
        // Where SCRIPT is forbidden or renamed, the first EVAL of each script loads it.
        let (killed, subscribed, _) =
            tokio::join!(connection.run(&kill), subscribe, futures_util::future::join_all(load));
        self.for_good(&killed)?;
        subscribed.map_err(|error| self.explain(&error))?;
        connection.try_scripts().await.map_err(|error| self.explain_script(&error))?;

        Ok(Connected {
            connection,
            can_kill: killed.is_ok() && this.is_some(),
            previous: this,
            is_replica: field(&replication, "role").is_some_and(|role| role != "master"),
            read_only: field(&replication, "slave_read_only") == Some("1"),
            shards: version >= 7,
            warning: eviction(&memory),
        })
    }

    /// What is refused for the moment only, as by a server that is busy with a script, is no answer: an error, and
    /// connecting is tried again. What is forbidden stays so.
    fn for_good(&self, reply: &Result<Value, RedisError>) -> Result<(), ConnectError> {
        match reply {
            Err(error) if matches!(Failure::of(error), Some(Failure::Refused(_))) => Err(self.explain(error)),
            _ => Ok(()),
        }
    }

    fn check_version(&self, server: &str) -> Result<u32, ConnectError> {
        // Valkey says that it is Redis 7.2, and knows what that knows.
        let Some(version) = field(server, "valkey_version").or(field(server, "redis_version")) else { return Ok(0) };
        let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(u32::MAX);
        if major < 6 {
            return Err(ConnectError::TooOld { address: self.address.clone(), version: version.to_owned() });
        }
        Ok(major)
    }

    fn explain_script(&self, error: &RedisError) -> ConnectError {
        match self.explain(error) {
            ConnectError::Refused { address, cause } => ConnectError::NoScripting { address, cause },
            other => other,
        }
    }

    pub(super) fn explain(&self, error: &RedisError) -> ConnectError {
        self.explain_as(meaning(error), said(error))
    }

    /// What the server said, with what it means for us.
    pub(super) fn explain_as(&self, meaning: Meaning, cause: String) -> ConnectError {
        let address = self.address.clone();
        match meaning {
            Meaning::Passing | Meaning::ReadOnly => ConnectError::NotReady { address, cause },
            Meaning::Login => ConnectError::Authentication { address, cause },
            Meaning::Denied => ConnectError::MissingRight { address, cause },
            Meaning::Database => ConnectError::Database { address, cause },
            Meaning::NotCluster => ConnectError::NotCluster { address, cause },
            Meaning::Hello => {
                let version = "it does not know the command HELLO, unless that is renamed".into();
                ConnectError::TooOld { address, version }
            }
            Meaning::Rejected | Meaning::WrongType => ConnectError::Refused { address, cause },
            Meaning::Broken => ConnectError::Unreachable { address, cause },
        }
    }
}

impl Connection {
    /// Sends a call; the reply may be awaited anywhere in the keeper's runtime. Calls are sent in the order in which
    /// these futures are first polled. Hand-offs come to `channel`. `asking`: a node of a cluster is asked for a slot
    /// that is only on its way there.
    pub(crate) fn send(&self, request: &Request, channel: &str, asking: bool) -> impl Future<Output = Reply> + use<> {
        let verb = request.verb();
        let mut connection = self.inner.clone();
        let cmd = request.command("EVALSHA", &self.digests[verb as usize], channel);
        let by_text = {
            let (request, channel) = (request.clone(), Arc::<str>::from(channel));
            move || request.command("EVAL", SCRIPTS[verb as usize].text, &channel)
        };
        // Without tokio's budget: a future that has used it up is woken in another order than it was polled in, and
        // arrivals would be sent in that one.
        tokio::task::unconstrained(async move {
            let no_script = |reply: &Result<Value, RedisError>| matches!(reply, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript));
            let mut reply = run(&mut connection, cmd, asking).await;
            if no_script(&reply) {
                reply = run(&mut connection, by_text(), asking).await;
            }
            match reply {
                Ok(value) => Reply::Result(
                    protocol::Reply::parse(verb, &value)
                        .ok_or_else(|| Failure::Rejected(format!("a reply that is not understood: {value:?}").into())),
                ),
                Err(error) => Reply::of(&error),
            }
        })
    }

    /// Asks for the messages of a channel. That it is subscribed, [`Incoming::Subscribed`] tells.
    pub(crate) fn subscribe(&self, channel: &str, sharded: bool) -> impl Future<Output = Result<(), Reply>> + use<> {
        let mut connection = self.inner.clone();
        let channel = channel.to_owned();
        async move {
            if sharded {
                let reply = connection.send_packed_command(redis::cmd("SSUBSCRIBE").arg(channel)).await;
                return reply.and_then(Value::extract_error).map(|_| ()).map_err(|error| Reply::of(&error));
            }
            connection.subscribe(channel).await.map_err(|error| Reply::of(&error))
        }
    }

    /// Which run of which server this leads to, if the server says it.
    pub(crate) async fn run_id(&self) -> Result<Option<String>, RedisError> {
        let info = self.ask(&["INFO", "server"]).await?;
        Ok(payload_text(&info).and_then(|info| field(&info, "run_id").map(str::to_owned)))
    }

    /// How many replicas have everything that was written before this is called, once there are so many or the time is
    /// over. Blocks the connection meanwhile.
    pub(crate) async fn replicas(&self, keys: &Arc<LockKeys>, replicas: u32, within: Duration) -> Result<u32, Failure> {
        // WAIT is about what its own connection wrote: so write something, after all that it is about. To leave the queue
        // on nobody's behalf prolongs the life of the keys, and is replicated.
        let leave = LeaveRequest { keys: keys.clone(), ids: vec!["nobody.0".into()] };
        match self.send(&Request::Leave(leave), "", false).await {
            Reply::Result(Ok(_)) => {}
            Reply::Result(Err(failure)) => return Err(failure),
            Reply::Replica(cause) | Reply::Gone(cause) => return Err(Failure::Refused(cause)),
            Reply::Elsewhere { .. } => return Err(Failure::Refused("its slot moved to another node".into())),
        }
        match self.ask(&["WAIT", &replicas.to_string(), &within.as_millis().max(1).to_string()]).await {
            Ok(Value::Int(have)) => Ok(have.try_into().unwrap_or(0)),
            Ok(value) => Err(Failure::Rejected(format!("a reply to WAIT that is not understood: {value:?}").into())),
            Err(error) => Err(Failure::Refused(error.to_string().into())),
        }
    }

    pub(crate) fn ask(&self, words: &[&str]) -> impl Future<Output = Result<Value, RedisError>> + use<> {
        let mut cmd = Cmd::new();
        words.iter().for_each(|word| {
            cmd.arg(word);
        });
        self.run(&cmd)
    }

    fn run(&self, cmd: &Cmd) -> impl Future<Output = Result<Value, RedisError>> + use<> {
        let (mut connection, cmd) = (self.inner.clone(), cmd.clone());
        async move { run(&mut connection, cmd, false).await }
    }

    /// Harmless calls that show whether this user may run scripts, by text and by digest.
    async fn try_scripts(&self) -> Result<(), RedisError> {
        let unknown = "0".repeat(40);
        let (by_text, by_digest) =
            tokio::join!(self.ask(&["EVAL", "return 1", "0"]), self.ask(&["EVALSHA", &unknown, "0"]));
        by_text?;
        match by_digest {
            // Nobody loaded a script with this digest: the command itself works.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

async fn run(connection: &mut MultiplexedConnection, cmd: Cmd, asking: bool) -> Result<Value, RedisError> {
    if !asking {
        return connection.send_packed_command(&cmd).await.and_then(Value::extract_error);
    }
    // In one write: ASKING is for the very next command.
    let mut pipe = Pipeline::with_capacity(2);
    pipe.cmd("ASKING").add_command(cmd);
    let mut replies = connection.send_packed_commands(&pipe, 0, 2).await?;
    replies.pop().unwrap_or(Value::Nil).extract_error()
}

impl Reply {
    fn of(error: &RedisError) -> Self {
        if let Some((address, _)) = error.redirect_node()
            && let Some(node) = Node::parse(address)
        {
            return Reply::Elsewhere { node, asking: error.kind() == ErrorKind::Server(ServerErrorKind::Ask) };
        }
        match Failure::of(error) {
            None => Reply::Gone(error.to_string().into()),
            Some(Failure::Refused(cause)) if meaning(error) == Meaning::ReadOnly => Reply::Replica(cause),
            Some(failure) => Reply::Result(Err(failure)),
        }
    }
}

fn payload(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        _ => None,
    }
}

pub(super) fn payload_text(value: &Value) -> Option<String> {
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
