//! Why a request has no reply.

use std::sync::Arc;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server is alive and refused it for now.
    Refused(Arc<str>),
    /// The user may not do that, as long as an operator does not give it the right.
    Denied(Arc<str>),
    /// A key of the lock has another type.
    WrongType(Arc<str>),
    /// The lock is kept in another layout: clients of another version use it.
    OtherLayout(Arc<str>),
    /// The server does not understand the request; asking again would not help.
    Rejected(Arc<str>),
}

impl Failure {
    pub(crate) fn cause(&self) -> &Arc<str> {
        match self {
            Failure::Refused(cause)
            | Failure::Denied(cause)
            | Failure::WrongType(cause)
            | Failure::OtherLayout(cause)
            | Failure::Rejected(cause) => cause,
        }
    }
}
