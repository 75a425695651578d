//! The start of a connection, with encryption if it is asked for. And a second connection to a server that ended the
//! set-up of the first without a reason, or hangs.
//!
//! If there are too many connections Redis closes the last one with a message, which is lost if a request is under way.
//! If only one side encrypts, each waits for the other or hangs up. A separate connection without a login shows which
//! of these it is.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use rustix::event::PollFlags;
use socket2::Socket;

use super::endpoint::{Address, Endpoint};
use super::refusals::{Meaning, meaning_of};
use super::socket::await_any;
use super::stream::{Broken, Stream};
use crate::clock::Time;
#[cfg(feature = "tls")]
use crate::error::Cause;
use crate::error::ConnectError;

/// How long to wait for the server to send something by itself, and for the start of an encrypted connection.
const MOMENT: Duration = Duration::from_millis(500);

/// The first message of a TLS 1.2 client, with two common ciphers: a server that encrypts answers with a TLS record, if
/// only an alert.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03\
    fairlock asks whether you speak \x00\x00\x04\xc0\x2f\xc0\x30\x01\x00";

impl Endpoint {
    /// Certificates are read again for each connection: they may have changed.
    #[cfg(feature = "tls")]
    pub(super) fn encrypt(&self, mut stream: Stream) -> Result<Stream, ConnectError> {
        if self.encrypted {
            let bad = |cause: String| {
                let (address, cause) = (self.address.clone(), Cause::of_here(cause));
                ConnectError::Certificate { address, cause }
            };
            stream.encrypt(self.tls.begin(self.host()).map_err(bad)?);
        }
        Ok(stream)
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn encrypt(&self, stream: Stream) -> Result<Stream, ConnectError> {
        Ok(stream)
    }

    /// Waits until both sides agree how to encrypt, if they do.
    pub(super) fn shake_hands(&self, stream: &mut Stream, deadline: Time) -> Result<(), ConnectError> {
        let agree = |stream: &mut Stream, by| stream.converse(by, |stream| Ok(!stream.is_handshaking()));
        let agreed = match agree(stream, (Time::now() + MOMENT).min(deadline)) {
            // A server that does not encrypt may wait for the end of a line.
            Err(broken) if broken.is_silence() && Time::now() < deadline => match self.knock(deadline) {
                Some(error) => return Err(error),
                None => agree(stream, deadline),
            },
            agreed => agreed,
        };
        agreed.map_err(|broken| self.why_broken(&broken, deadline))
    }

    /// Why the set-up of a connection ended before the server sent anything.
    pub(super) fn why_broken(&self, broken: &Broken, deadline: Time) -> ConnectError {
        let Broken::Socket(error) = broken else { return self.explain_broken(broken) };
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
        let hung_up =
            matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof);
        let heard = if hung_up { self.knock(deadline) } else { None };
        heard.unwrap_or_else(|| self.explain_broken(broken))
    }

    /// A refusal of either side during the TLS handshake arrives as an error of the socket.
    #[cfg(feature = "tls")]
    pub(super) fn explain_encryption(&self, broken: &Broken) -> Option<ConnectError> {
        let Broken::Socket(error) = broken else { return None };
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        let address = self.address.clone();
        Some(match error {
            rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => self.takes_plain(),
            error => ConnectError::Certificate { address, cause: Cause::of_tls(error) },
        })
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn explain_encryption(&self, _: &Broken) -> Option<ConnectError> {
        None
    }

    /// A server that hangs up on a client sends the reason before any request.
    fn overheard(&self, unasked: &[u8]) -> Option<ConnectError> {
        let unasked = String::from_utf8_lossy(unasked);
        let line = unasked.lines().next()?.strip_prefix('-')?;
        Some(self.explain_as(meaning_of(line).unwrap_or(Meaning::Permanent), line.to_owned()))
    }

    fn takes_plain(&self) -> ConnectError {
        ConnectError::Encryption { address: self.address.clone(), expected: false }
    }

    /// What the server sends on a connection without a login. None if it tells nothing.
    fn knock(&self, deadline: Time) -> Option<ConnectError> {
        let mut socket = self.at.dial((Time::now() + MOMENT).min(deadline)).ok()?;
        if !self.encrypted
            && let Some(unasked) = hear(&mut socket, deadline)
        {
            return self.overheard(&unasked);
        }
        if let Address::Path(_) = self.at {
            return None;
        }
        socket.write_all(if self.encrypted { b"PING\r\n" } else { CLIENT_HELLO }).ok()?;
        match hear(&mut socket, deadline)?.first()? {
            b'+' | b'-' if self.encrypted => Some(self.takes_plain()),
            // A handshake, or an alert.
            0x16 | 0x15 if !self.encrypted => {
                Some(ConnectError::Encryption { address: self.address.clone(), expected: true })
            }
            _ => None,
        }
    }
}

/// The data that arrives within a moment. None: nothing, or the end.
fn hear(socket: &mut Socket, deadline: Time) -> Option<Vec<u8>> {
    await_any([&*socket], PollFlags::IN, (Time::now() + MOMENT).min(deadline)).ok()?.first()?;
    let mut heard = vec![0; 512];
    let length = socket.read(&mut heard).ok()?;
    heard.truncate(length);
    Some(heard).filter(|heard| !heard.is_empty())
}
