//! One connection that is set up: requests and subscriptions go out; replies, confirmations and messages come in. The
//! keeper's loop decides when to write and read, and how long to wait.
//!
//! Only their order tells which reply belongs to which request. If anything else were taken for a reply, every later
//! reply would go to the request before its own. RESP3 distinguishes them by the first byte: messages are pushes, and
//! so is the unsolicited unsubscription of a slot that leaves its node. The confirmation of a subscription is a push
//! too, but takes the place of a reply; its refusal is a reply. So a push counts as an answer only if a subscription to
//! that same channel is the next unanswered request.
//!
//! TCP loses and doubles no reply, but a proxy that reads frames may. A reply that fits another request than the one
//! whose turn it is shows that: the routes then end the connection. They tell the call that it failed, because a server
//! that always answers so would otherwise be connected to and asked without an end.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::endpoint::Node;
use super::refusals::{Meaning, meaning, refusal};
use super::resp::{Command, Value, put};
use super::stream::{Broken, Stream};
use crate::clock::Time;
use crate::credentials::{Credentials, LOGIN_PAUSE};
use crate::memory::GiveBack as _;
use crate::protocol::{self, LockKeys, Misfit, Push, Refusal, SCRIPTS, Value as _};

/// An event of a connection.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // The large one is the usual one.
pub(crate) enum WireEvent {
    /// The reply to a request, with the request: another node may have to be asked.
    Reply {
        tag: u64,
        call: protocol::Request,
        reply: CallOutcome,
    },
    Push(Push),
    Subscribed(Arc<str>),
    NotSubscribed {
        channel: Arc<str>,
        reply: CallOutcome,
    },
    /// By the server itself, when a slot leaves it.
    Unsubscribed(Arc<str>),
    /// This many replicas have the writes from before the question.
    Replicas(Result<u32, Refusal>),
}

/// The outcome of a request.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // It is moved once or twice, and a box would cost an allocation for each reply.
pub(crate) enum CallOutcome {
    Result(Result<protocol::Reply, Refusal>),
    /// Another node of the cluster serves this slot; `asking`: for this one call.
    Elsewhere {
        node: Node,
        asking: bool,
    },
    /// This server does not serve the locks, now or any more; another one may.
    NotServing(Arc<str>),
}

/// One connection that is set up. If it is dropped, it closes its socket and reports nothing more.
pub(crate) struct Wire {
    stream: Stream,
    pairing: Pairing,
    /// When the login has to be renewed, until someone does that.
    pub(crate) login_due: Option<Time>,
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Wire {
    pub(super) fn new(stream: Stream, digests: Arc<[String]>, login_due: Option<Time>) -> Self {
        Self { stream, pairing: Pairing::new(digests), login_due }
    }

    /// Logs in anew, after the requests that are queued. If the server denies that, the old login goes on, and the next
    /// one is due soon.
    pub(crate) fn log_in(&mut self, credentials: &Credentials) {
        put(&mut self.stream.out, &["AUTH", &credentials.user, &credentials.password]);
        self.pairing.awaited.push_back(PendingReply::Login);
        self.login_due = credentials.renewed_at(Time::now());
    }

    /// Queues a request. `hash_tag`: that of the channel to which hand-offs come; empty outside of a cluster. `asking`: a
    /// node of a cluster is asked for a slot that is only on its way there.
    pub(crate) fn send(&mut self, tag: u64, call: protocol::Request, hash_tag: &Arc<str>, asking: bool) {
        let request = OutgoingRequest { call, hash_tag: hash_tag.clone(), asking };
        self.pairing.request(Purpose::Tag(tag), request, false, &mut self.stream.out);
    }

    /// Queues a subscription. It may be asked for again.
    pub(crate) fn subscribe(&mut self, channel: &Arc<str>, sharded: bool) {
        put(&mut self.stream.out, &[if sharded { "SSUBSCRIBE" } else { "SUBSCRIBE" }, channel]);
        self.pairing.subscription(channel);
    }

    /// Asks how many replicas have all earlier writes, once there are enough or the time is over. This connection
    /// blocks at the server meanwhile.
    pub(crate) fn wait_replicas(&mut self, keys: &Arc<LockKeys>, replicas: u32, within: Duration) {
        // WAIT is about what its own connection wrote: so write something, after all that it is about. To leave the
        // queue on nobody's behalf prolongs the life of the keys, and is replicated.
        let leave = protocol::LeaveRequest {
            keys: keys.clone(),
            memory: protocol::Memory::NONE,
            ids: vec![protocol::WireId::of_nobody()],
        };
        let call = protocol::Request::Leave(leave);
        let request = OutgoingRequest { call, hash_tag: "".into(), asking: false };
        self.pairing.request(Purpose::Replicas { replicas, within }, request, false, &mut self.stream.out);
    }

    /// How many requests have no answer yet.
    pub(crate) fn unanswered(&self) -> usize {
        self.pairing.awaited.len()
    }

    /// There is something to write: the loop waits until the socket takes it.
    pub(crate) fn wants_write(&self) -> bool {
        self.stream.wants_write()
    }

    /// Writes what is queued. False if the socket takes no more for now.
    pub(crate) fn flush(&mut self) -> Result<bool, Arc<str>> {
        self.stream.flush().map_err(|error| Broken::from(error).to_string().into())
    }

    /// Reads what has arrived and reports it in order. An error means that the connection broke. Called once for a new
    /// connection: data may have come with the last replies of the set-up.
    pub(crate) fn receive(&mut self, said: &mut Vec<WireEvent>) -> Result<(), Arc<str>> {
        let filled = self.stream.fill();
        self.take_in(said).and(filled.map_err(Broken::from)).map_err(|broken| broken.to_string().into())
    }

    fn take_in(&mut self, said: &mut Vec<WireEvent>) -> Result<(), Broken> {
        let Stream { frames, out, .. } = &mut self.stream;
        while let Some(value) = frames.next()? {
            if let Some(word) = self.pairing.take(value, out).map_err(Broken::OutOfStep)? {
                said.push(word);
            }
        }
        if std::mem::take(&mut self.pairing.login_denied) {
            self.login_due = Some(Time::now() + LOGIN_PAUSE);
        }
        Ok(())
    }
}

/// The unanswered requests, in order.
pub(super) struct Pairing {
    awaited: VecDeque<PendingReply>,
    digests: Arc<[String]>,
    /// The server has denied a new login.
    login_denied: bool,
}

#[allow(clippy::large_enum_variant)] // The large one is the usual one.
enum PendingReply {
    Request {
        of: Purpose,
        request: OutgoingRequest,
        by_text: bool,
    },
    /// ASKING before a request. The answer to it is of no use; that of the request is.
    Asking,
    Subscription(Arc<str>),
    Login,
    Replicas,
}

/// What a reply is for.
pub(super) enum Purpose {
    Tag(u64),
    /// WAIT comes after it.
    Replicas {
        replicas: u32,
        within: Duration,
    },
}

pub(super) struct OutgoingRequest {
    pub(super) call: protocol::Request,
    pub(super) hash_tag: Arc<str>,
    pub(super) asking: bool,
}

impl Pairing {
    pub(super) fn new(digests: Arc<[String]>) -> Self {
        Self { awaited: VecDeque::new(), digests, login_denied: false }
    }

    pub(super) fn subscription(&mut self, channel: &Arc<str>) {
        self.awaited.push_back(PendingReply::Subscription(channel.clone()));
    }

    pub(super) fn request(&mut self, of: Purpose, request: OutgoingRequest, by_text: bool, out: &mut Vec<u8>) {
        if request.asking {
            // In one write, because ASKING is for the very next command.
            put(out, &["ASKING"]);
            self.awaited.push_back(PendingReply::Asking);
        }
        let mut command = Command::new(out);
        let (script, lock) = (request.call.verb() as usize, request.call.keys().lock.as_bytes());
        if let Some(field) = request.call.removed_field() {
            command.word(b"HDEL");
            command.word(lock);
            command.pieces(&field);
        } else {
            if by_text {
                command.word(b"EVAL");
                command.word(SCRIPTS[script].text.as_bytes());
            } else {
                command.word(b"EVALSHA");
                command.word(self.digests[script].as_bytes());
            }
            command.number(1);
            command.word(lock);
            request.call.arguments(&request.hash_tag, |_, pieces| command.pieces(pieces));
        }
        command.end();
        self.awaited.push_back(PendingReply::Request { of, request, by_text });
    }

    /// Takes in a frame. Requests that it makes necessary go to `out`. After an error it is unknown which reply belongs
    /// to which request.
    pub(super) fn take(&mut self, value: Value<'_>, out: &mut Vec<u8>) -> Result<Option<WireEvent>, String> {
        match value {
            Value::Push(items) => self.push(&items),
            reply => self.reply(&reply, out),
        }
    }

    /// The oldest request without an answer.
    fn next(&mut self) -> Option<PendingReply> {
        let oldest = self.awaited.pop_front();
        self.awaited.give_back();
        oldest
    }

    fn push(&mut self, items: &[Value<'_>]) -> Result<Option<WireEvent>, String> {
        let bytes = |index: usize| match items.get(index) {
            Some(Value::Text(text)) => Some(&**text),
            _ => None,
        };
        let channel = || bytes(1).map(String::from_utf8_lossy);
        Ok(match (bytes(0), channel()) {
            (Some(b"message" | b"smessage"), _) => bytes(2).and_then(Push::parse).map(WireEvent::Push),
            (Some(b"subscribe" | b"ssubscribe"), Some(channel)) => match self.next() {
                Some(PendingReply::Subscription(awaited)) if *awaited == *channel => {
                    Some(WireEvent::Subscribed(awaited))
                }
                _ => return Err(format!("the server confirmed a subscription to {channel} out of turn")),
            },
            (Some(b"unsubscribe" | b"sunsubscribe"), Some(channel)) => {
                Some(WireEvent::Unsubscribed((&*channel).into()))
            }
            _ => None,
        })
    }

    fn reply(&mut self, value: &Value<'_>, out: &mut Vec<u8>) -> Result<Option<WireEvent>, String> {
        let error = value.error();
        let Some(awaited) = self.next() else {
            // The message of a server before it hangs up.
            let what = error.map_or_else(|| short(value), |error| error.into_owned());
            return Err(format!("the server said without having been asked: {what}"));
        };
        Ok(match (awaited, error) {
            (PendingReply::Asking, Some(_)) => None,
            (PendingReply::Asking | PendingReply::Login, None) if value.bytes() == Some(b"OK") => None,
            (PendingReply::Asking | PendingReply::Login, None) => return Err(out_of_step(value)),
            // It keeps the old one, and says when that is over.
            (PendingReply::Login, Some(_)) => {
                self.login_denied = true;
                None
            }
            (PendingReply::Request { of, request, by_text: false }, Some(error)) if error.starts_with("NOSCRIPT") => {
                self.request(of, request, true, out);
                None
            }
            (PendingReply::Request { of, request, .. }, error) => {
                let reply = match error {
                    Some(error) => CallOutcome::of(&error),
                    None => CallOutcome::Result(read(&request.call, value)),
                };
                self.answered(of, request.call, reply, out)
            }
            (PendingReply::Subscription(channel), Some(error)) => {
                Some(WireEvent::NotSubscribed { channel, reply: CallOutcome::of(&error) })
            }
            (PendingReply::Subscription(_), None) => {
                return Err(format!("the server answers a subscription with {}", short(value)));
            }
            (PendingReply::Replicas, error) => {
                let result = match (value, error) {
                    (Value::Int(have), _) => Ok((*have).try_into().unwrap_or(0)),
                    (_, Some(error)) => Err(Refusal::Temporary((&*error).into())),
                    _ => Err(Refusal::OutOfStep(out_of_step(value).into())),
                };
                Some(WireEvent::Replicas(result))
            }
        })
    }

    fn answered(
        &mut self,
        of: Purpose,
        call: protocol::Request,
        reply: CallOutcome,
        out: &mut Vec<u8>,
    ) -> Option<WireEvent> {
        let (replicas, within) = match of {
            Purpose::Tag(tag) => return Some(WireEvent::Reply { tag, call, reply }),
            Purpose::Replicas { replicas, within } => (replicas, within),
        };
        let refusal = match reply {
            CallOutcome::Result(Ok(_)) => {
                put(out, &["WAIT", &replicas.to_string(), &within.as_millis().max(1).to_string()]);
                self.awaited.push_back(PendingReply::Replicas);
                return None;
            }
            CallOutcome::Result(Err(refusal)) => refusal,
            CallOutcome::NotServing(cause) => Refusal::Temporary(cause),
            CallOutcome::Elsewhere { .. } => Refusal::Temporary("its slot moved to another node".into()),
        };
        Some(WireEvent::Replicas(Err(refusal)))
    }
}

impl CallOutcome {
    /// The meaning of an error, by the server's words.
    fn of(error: &str) -> Self {
        let mut words = error.split(' ');
        let redirects = matches!(words.next(), Some("MOVED" | "ASK"));
        if redirects && let Some(node) = words.nth(1).and_then(Node::parse) {
            return CallOutcome::Elsewhere { node, asking: error.starts_with("ASK ") };
        }
        match meaning(error) {
            Meaning::NotServing => CallOutcome::NotServing(error.into()),
            _ => CallOutcome::Result(Err(refusal(error))),
        }
    }
}

/// What the server replies to this request.
fn read(call: &protocol::Request, value: &Value<'_>) -> Result<protocol::Reply, Refusal> {
    protocol::Reply::to(call, value).map_err(|misfit| match misfit {
        Misfit::OutOfStep => Refusal::OutOfStep(out_of_step(value).into()),
        Misfit::NotUnderstood => {
            Refusal::NotUnderstood(format!("a reply that is not understood: {}", short(value)).into())
        }
    })
}

fn out_of_step(value: &Value<'_>) -> String {
    format!("the server answers another request than the one whose turn it is: {}", short(value))
}

/// As much of it as fits a message.
fn short(value: &Value<'_>) -> String {
    let mut text = format!("{value:?}");
    if let Some((end, _)) = text.char_indices().nth(200) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
