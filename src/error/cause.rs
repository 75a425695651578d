//! The cause of an error.

use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// The cause of an error: a message of a server, or an error of the system or of the TLS library, such as
/// [`std::io::Error`]. It is the [`source`](Error::source) of the error that has it, and part of its message.
///
/// Two causes are equal if their messages are.
///
/// # Examples
/// ```no_run
/// # async fn example() {
/// use std::{error::Error as _, io};
///
/// if let Err(error) = fairlock::Client::connect("redis://127.0.0.1/").await {
///     let refused = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
///     println!("{:?}", refused.map(io::Error::kind));
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Cause(Arc<dyn Error + Send + Sync>);

impl Cause {
    /// An error of the system, which cannot be cloned.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        Self::from(match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        })
    }

    /// What went wrong on this machine, before the server was asked.
    pub(crate) fn of_here(words: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Here(words.into())))
    }

    pub(super) fn is_of_here(&self) -> bool {
        self.0.is::<Here>()
    }

    #[cfg(feature = "tls")]
    pub(crate) fn of_tls(error: &rustls::Error) -> Self {
        Self(Arc::new(error.clone()))
    }
}

impl Deref for Cause {
    type Target = dyn Error + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

impl Hash for Cause {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

/// A message, of a server or of fairlock.
#[derive(thiserror::Error)]
#[error("{0}")]
struct Words(Arc<str>);

/// A message about this machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Here(Arc<str>);

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<Arc<str>> for Cause {
    fn from(words: Arc<str>) -> Self {
        Self(Arc::new(Words(words)))
    }
}

impl From<String> for Cause {
    fn from(words: String) -> Self {
        Arc::<str>::from(words).into()
    }
}

impl From<&str> for Cause {
    fn from(words: &str) -> Self {
        Arc::<str>::from(words).into()
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::error::{AcquireError, ConnectError, Fault, Lost, LostReason, ReleaseError};

    #[test]
    fn an_error_keeps_its_source() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = ConnectError::Unreachable { address: "h:1".into(), cause: Cause::of_io(&refused) };
        let kind = |error: &dyn Error| error.source()?.downcast_ref::<io::Error>().map(io::Error::kind);
        assert_eq!(kind(&error), Some(io::ErrorKind::ConnectionRefused));
        let wrapped = AcquireError::Fault(Fault::Connect(error));
        assert_eq!(kind(&wrapped), Some(io::ErrorKind::ConnectionRefused));
        assert!(wrapped.to_string().contains(&refused.to_string()), "{wrapped}");

        let reason = LostReason::NotRenewed { cause: Some(Cause::of_io(&refused)) };
        let lost = Lost { name: "x".into(), token: 7, reason };
        assert_eq!(kind(&lost), Some(io::ErrorKind::ConnectionRefused));
        assert_eq!(kind(&ReleaseError::Lost(lost)), Some(io::ErrorKind::ConnectionRefused));

        let cause = Some("LOADING Redis is loading the dataset in memory".into());
        let timeout =
            AcquireError::Timeout { waited: std::time::Duration::ZERO, position: None, position_age: None, cause };
        assert!(timeout.source().unwrap().to_string().starts_with("LOADING"));
        assert!(AcquireError::Cancelled.source().is_none());
    }

    #[test]
    fn causes_that_say_the_same_are_equal() {
        let error = || io::Error::other("no");
        assert_eq!(Cause::from("no"), Cause::from(error()));
        assert_ne!(Cause::from("no"), Cause::from("yes"));
        assert_eq!(format!("{:?} {}", Cause::from("no"), Cause::of_io(&error())), r#""no" no"#);
    }
}
