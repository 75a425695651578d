//! The refusals of servers.

use std::sync::Arc;

use super::keys::LockKeys;
use crate::error::Fault;

/// A server answers a request with an error instead of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server refuses the request for now: it loads its data, for instance, or its memory is full.
    Temporary(Arc<str>),
    /// The user lacks a login or a right, until an operator gives it.
    Denied(Arc<str>),
    /// A key of the lock has another type.
    WrongType(Arc<str>),
    /// The lock has another layout: clients of another version use it.
    OtherLayout(Arc<str>),
    /// The reply belongs to another request, or no script says it: from there on each reply would go to the request
    /// before its own, so its connection ends.
    OutOfStep(Arc<str>),
    /// No version of the scripts that this client knows gives such a reply.
    NotUnderstood(Arc<str>),
    /// The server refuses the request each time it is asked.
    Permanent(Arc<str>),
}

impl Refusal {
    pub(crate) fn cause(&self) -> &Arc<str> {
        match self {
            Refusal::Temporary(cause)
            | Refusal::Denied(cause)
            | Refusal::WrongType(cause)
            | Refusal::OtherLayout(cause)
            | Refusal::OutOfStep(cause)
            | Refusal::NotUnderstood(cause)
            | Refusal::Permanent(cause) => cause,
        }
    }

    /// Whether the server did not say that it refuses: the request may have been executed.
    pub(crate) fn may_be_executed(&self) -> bool {
        matches!(self, Refusal::OutOfStep(_) | Refusal::NotUnderstood(_))
    }

    /// The failure that it is, if the reason is what the keys of a lock have.
    pub(crate) fn about_keys(&self, lock: &LockKeys) -> Option<Fault> {
        let (name, keys) = (lock.name.clone(), lock.of_state());
        match self {
            Refusal::WrongType(message) => Some(Fault::WrongType { name, keys, message: message.clone() }),
            Refusal::OtherLayout(message) => Some(Fault::OtherLayout { name, keys, message: message.clone() }),
            _ => None,
        }
    }
}
