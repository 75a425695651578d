//! The refusals of servers.

use std::sync::Arc;

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
            | Refusal::Permanent(cause) => cause,
        }
    }
}
