//! A second look at a server whose connection could not be set up, and that did not say why.
//!
//! Redis closes a connection that is one too many with a word that is lost where a request is under way. And of two sides
//! of which only one encrypts, each waits for the other, or hangs up. A connection of its own, without a login, shows which
//! of these it is.

use std::future::Future;
use std::time::Duration;

use redis::{ConnectionAddr, ErrorKind, RedisError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use super::refusals::{Meaning, meaning, meaning_of, said};
use super::target::Endpoint;
use crate::error::ConnectError;

/// How long a server is left to say something by itself, and the other side of an encrypted connection to begin.
const MOMENT: Duration = Duration::from_millis(500);

/// What a client of TLS 1.2 says first, with two common ciphers: a server that encrypts answers it with a record of TLS,
/// be it an alert.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03\
    fairlock asks whether you speak \x00\x00\x04\xc0\x2f\xc0\x30\x01\x00";

impl Endpoint {
    /// Awaits the set-up of a connection. If that fails, or hangs, without a word of the server, it is asked for one.
    pub(super) async fn knocking<T>(
        &self,
        connecting: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, ConnectError> {
        let encrypted = matches!(self.info.addr(), ConnectionAddr::TcpTls { .. });
        let hangs = async {
            if encrypted {
                tokio::time::sleep(MOMENT).await;
                if let Some(error) = self.knock(true).await {
                    return error;
                }
            }
            std::future::pending().await
        };
        let error = tokio::select! {
            connected = connecting => match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => error,
            },
            error = hangs => return Err(error),
        };
        // A connection that was made, and ended. Without one there is nobody to be asked.
        let without_a_word = error.is_connection_dropped() && !error.is_connection_refusal();
        let heard = if without_a_word { self.knock(encrypted).await } else { None };
        Err(heard.unwrap_or_else(|| self.explain_socket(&error)))
    }

    /// What the socket, or the library of encryption, says.
    fn explain_socket(&self, error: &RedisError) -> ConnectError {
        let (address, cause) = (self.address.clone(), said(error));
        if error.kind() == ErrorKind::Parse {
            let cause = "its answer is not in Redis's protocol".into();
            return ConnectError::NotRedis { address, cause };
        }
        // What either side refuses during the handshake reaches us as an error of the socket.
        if meaning(error) == Meaning::Broken && (cause.contains("ertificate") || cause.contains("fatal alert")) {
            return ConnectError::Certificate { address, cause: cause.into() };
        }
        if cause.contains("InvalidContentType") {
            return self.plain();
        }
        self.explain(error)
    }

    /// A server that hangs up on a client says why before it is asked for anything.
    fn heard(&self, unasked: &[u8]) -> Option<ConnectError> {
        let unasked = String::from_utf8_lossy(unasked);
        let line = unasked.lines().next()?.strip_prefix('-')?;
        Some(self.explain_as(meaning_of(line).unwrap_or(Meaning::Rejected), line.to_owned()))
    }

    fn plain(&self) -> ConnectError {
        ConnectError::Encryption { address: self.address.clone(), expected: false }
    }

    /// What the server says to a connection without a login. None: nothing that tells.
    async fn knock(&self, encrypted: bool) -> Option<ConnectError> {
        let (host, port) = match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => (host, port),
            ConnectionAddr::Unix(path) => return self.heard(&hear(&mut UnixStream::connect(path).await.ok()?).await?),
            _ => return None,
        };
        let mut stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
        if !encrypted && let Some(unasked) = hear(&mut stream).await {
            return self.heard(&unasked);
        }
        stream.write_all(if encrypted { b"PING\r\n" } else { CLIENT_HELLO }).await.ok()?;
        match hear(&mut stream).await?.first()? {
            b'+' | b'-' if encrypted => Some(self.plain()),
            // A handshake, or an alert.
            0x16 | 0x15 if !encrypted => {
                Some(ConnectError::Encryption { address: self.address.clone(), expected: true })
            }
            _ => None,
        }
    }
}

/// What comes within a moment. None: nothing, or the end.
async fn hear(stream: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut heard = vec![0; 512];
    let length = tokio::time::timeout(MOMENT, stream.read(&mut heard)).await.ok()?.ok()?;
    heard.truncate(length);
    Some(heard).filter(|heard| !heard.is_empty())
}
