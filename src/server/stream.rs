//! The bytes of a connection: a non-blocking socket, encrypted or not, and its buffers in both directions.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use socket2::Socket;

use super::own_socket::OwnSocket;
use super::resp::{Frames, Garbage, Value, put};
use super::socket::{await_any, silence};
use crate::clock::Time;

/// The most reads in a row, before other connections have their turn.
const READS: usize = 16;
/// The most memory that an empty buffer of requests keeps.
const LARGE: usize = 256 << 10;

/// Why a conversation ended.
#[derive(Debug)]
pub(super) enum Broken {
    Socket(io::Error),
    Garbage(Garbage),
    /// A reply does not belong to any request.
    OutOfStep(String),
}

impl Broken {
    /// Nothing arrived by the deadline.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Broken::Socket(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken::Socket(error)
    }
}

impl From<Garbage> for Broken {
    fn from(garbage: Garbage) -> Self {
        Broken::Garbage(garbage)
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Socket(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("the server closed the connection")
            }
            Broken::Socket(error) => error.fmt(f),
            Broken::Garbage(garbage) => garbage.fmt(f),
            Broken::OutOfStep(cause) => f.write_str(cause),
        }
    }
}

/// One connection, as bytes.
pub(crate) struct Stream {
    socket: OwnSocket,
    #[cfg(feature = "tls")]
    tls: Option<Box<rustls::ClientConnection>>,
    /// Requests; the bytes before `written` are sent.
    pub(crate) out: Vec<u8>,
    written: usize,
    pub(crate) frames: Frames,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket: OwnSocket::new(socket),
            #[cfg(feature = "tls")]
            tls: None,
            out: Vec::new(),
            written: 0,
            frames: Frames::new(),
        }
    }

    /// Encrypts from now on. An error of the handshake shows at a read or write.
    #[cfg(feature = "tls")]
    pub(super) fn encrypt(&mut self, tls: rustls::ClientConnection) {
        self.tls = Some(Box::new(tls));
    }

    /// The TLS handshake is not done.
    pub(super) fn is_handshaking(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
        #[cfg(not(feature = "tls"))]
        false
    }

    /// There is something to write.
    pub(crate) fn wants_write(&self) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.as_ref().is_some_and(|tls| tls.wants_write()) {
            return true;
        }
        self.written < self.out.len()
    }

    /// Writes as much as possible. False if the socket takes no more for now.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.wants_write() {
            match self.write() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.written > LARGE {
                        self.out.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        self.out.clear();
        if self.out.capacity() > LARGE {
            self.out = Vec::new();
        }
        Ok(true)
    }

    fn write(&mut self) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            // First the data that is there: after an error TLS can only send an alert.
            if tls.wants_write() {
                return tls.write_tls(&mut self.socket).map(drop);
            }
            // TLS takes as much as it has room for, and has none during a handshake when much is waiting.
            return match tls.writer().write(&self.out[self.written..])? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                taken => {
                    self.written += taken;
                    Ok(())
                }
            };
        }
        match self.socket.write(&self.out[self.written..])? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => {
                self.written += count;
                Ok(())
            }
        }
    }

    /// Reads what has arrived, up to a bound. An error means that nothing more will come; the frames have everything
    /// before it.
    pub(crate) fn fill(&mut self) -> io::Result<()> {
        for _ in 0..READS {
            match self.read() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One read from the socket. True if there may be more.
    fn read(&mut self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            let end = tls.read_tls(&mut self.socket)? == 0;
            tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // Nothing may stay in the TLS buffer: the socket would not report it.
            loop {
                match tls.reader().read(self.frames.space()) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => self.frames.filled(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !end => return Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let space = self.frames.space();
        let room = space.len();
        match self.socket.read(space)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.frames.filled(count);
                Ok(count == room)
            }
        }
    }

    /// Writes and reads until `done` returns true or the deadline passes. It blocks: not for a keeper.
    pub(super) fn converse(
        &mut self,
        deadline: Time,
        mut done: impl FnMut(&mut Self) -> Result<bool, Broken>,
    ) -> Result<(), Broken> {
        loop {
            let written = self.flush()?;
            if done(self)? {
                return Ok(());
            }
            let flags = if written { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            if await_any([&*self], flags, deadline)?.is_empty() {
                return Err(silence().into());
            }
            if let Err(error) = self.fill() {
                // Data before the end counts, and the other side hears what was wrong.
                let _ = self.flush();
                return if done(self)? { Ok(()) } else { Err(error.into()) };
            }
        }
    }

    /// Sends commands and waits for the reply to each; none after a reply that makes going on useless. A confirmation
    /// is the reply to a subscription; messages are dropped.
    pub(super) fn ask(
        &mut self,
        commands: &[Vec<&str>],
        ends: impl Fn(usize, &Value<'_>) -> bool,
        deadline: Time,
    ) -> Result<Vec<Value<'static>>, Broken> {
        commands.iter().for_each(|command| put(&mut self.out, command));
        let mut replies: Vec<Value<'static>> = Vec::with_capacity(commands.len());
        self.converse(deadline, |stream| {
            while replies.len() < commands.len() {
                let index = replies.len();
                match stream.frames.next()? {
                    None => return Ok(false),
                    Some(Value::Push(items)) => {
                        let awaited = commands[index][0].to_ascii_lowercase();
                        if awaited.ends_with("subscribe") && is_text(items.first(), awaited.as_bytes()) {
                            replies.push(Value::Nil);
                        }
                    }
                    Some(reply) if ends(index, &reply) => {
                        replies.push(reply.into_owned());
                        break;
                    }
                    Some(reply) => replies.push(reply.into_owned()),
                }
            }
            Ok(true)
        })?;
        Ok(replies)
    }
}

fn is_text(value: Option<&Value<'_>>, is: &[u8]) -> bool {
    matches!(value, Some(Value::Text(text)) if **text == *is)
}

#[cfg(all(test, feature = "tls"))]
#[allow(clippy::unwrap_used)]
mod tests;
