//! A socket that is connected, or an error by a deadline: to one of the addresses of a name, or to a path.
//!
//! A name is looked up each time. A look-up cannot be interrupted, so it has its own thread, which is left behind when
//! the deadline passes. Addresses are tried in parallel: a silent address delays the next one only by a moment.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::endpoint::Address;
use crate::clock::Time;
use crate::fork::{Lazy, OfProcess};
use crate::spots::reach;
use crate::thread::{self, caught};

/// How long an address may be silent before the next one is tried as well.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// The pause before a path is tried again whose server has a full queue of connections.
const FULL: Duration = Duration::from_millis(10);
/// The number of look-ups that hang, in the whole process. No more are started while there are so many.
const MOST_LOOKUPS: usize = 32;

impl Address {
    /// A socket that is connected.
    pub(super) fn dial(&self, deadline: Time) -> io::Result<Socket> {
        match self {
            Address::Node(node) => dial_first(look_up(&node.host, node.port, deadline)?, deadline),
            Address::Path(path) => dial_path(path, deadline),
        }
    }
}

fn dial_path(path: &Path, deadline: Time) -> io::Result<Socket> {
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SockAddr::unix(path)?) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Time::now() >= deadline {
                    return Err(silence());
                }
                std::thread::sleep(FULL);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Nothing arrived by the deadline.
pub(super) fn silence() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// Waits until one of these can be read or written, and returns the indices of those. None if the time is over.
pub(super) fn await_any<'a, F: AsFd + 'a>(
    sockets: impl IntoIterator<Item = &'a F>,
    flags: PollFlags,
    until: Time,
) -> io::Result<Vec<usize>> {
    let mut polled: Vec<PollFd<'_>> = sockets.into_iter().map(|socket| PollFd::new(socket, flags)).collect();
    loop {
        let left = until.since(Time::now());
        // At most a second, because a sleep does not count suspended time.
        let nap = left.min(Duration::from_secs(1));
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
        match poll(&mut polled, Some(&nap)) {
            Ok(0) if left.is_zero() => return Ok(vec![]),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let ready = polled.iter().enumerate().filter(|(_, polled)| !polled.revents().is_empty());
                return Ok(ready.map(|(index, _)| index).collect());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn look_up(host: &str, port: u16, deadline: Time) -> io::Result<Vec<SocketAddr>> {
    static UNDER_WAY: Lazy<OfProcess<AtomicUsize>> = Lazy::new(OfProcess::default);
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let under_way = UNDER_WAY.get();
    if under_way.fetch_add(1, Ordering::Relaxed) >= MOST_LOOKUPS {
        under_way.fetch_sub(1, Ordering::Relaxed);
        return Err(io::Error::other("names are not looked up at the moment: earlier look-ups have no answer"));
    }
    let (found, finding) = mpsc::channel();
    let host = host.to_owned();
    let lookup = move || {
        let addresses = caught(|| {
            reach("a look-up");
            (host.as_str(), port).to_socket_addrs().map(Vec::from_iter)
        });
        let addresses =
            addresses.unwrap_or_else(|text| Err(io::Error::other(format!("the look-up of the name panicked: {text}"))));
        under_way.fetch_sub(1, Ordering::Relaxed);
        // The caller may have stopped waiting.
        let _ = found.send(addresses);
    };
    if let Err(error) = thread::spawn("fairlock-lookup", lookup) {
        under_way.fetch_sub(1, Ordering::Relaxed);
        return Err(error);
    }
    finding.recv_timeout(deadline.since(Time::now())).unwrap_or_else(|_| Err(silence()))
}

fn dial_first(addresses: Vec<SocketAddr>, deadline: Time) -> io::Result<Socket> {
    let mut addresses = addresses.into_iter().peekable();
    let mut trying: Vec<Socket> = Vec::new();
    let mut next_at = Time::now();
    let mut error = io::Error::other("the name has no address");
    loop {
        let now = Time::now();
        if now >= deadline {
            return Err(silence());
        }
        if (trying.is_empty() || now >= next_at)
            && let Some(address) = addresses.next()
        {
            next_at = now + NEXT_ADDRESS;
            match begin(address) {
                Ok((socket, true)) => return Ok(socket),
                Ok((socket, false)) => trying.push(socket),
                Err(failed) => error = failed,
            }
            continue;
        }
        if trying.is_empty() {
            return Err(error);
        }
        let until = if addresses.peek().is_some() { next_at.min(deadline) } else { deadline };
        for index in await_any(&trying, PollFlags::OUT, until)?.into_iter().rev() {
            let socket = trying.swap_remove(index);
            match socket.take_error()? {
                None => return Ok(socket),
                Some(failed) => (error, next_at) = (failed, now),
            }
        }
    }
}

/// Starts to connect. True if it is done already.
fn begin(address: SocketAddr) -> io::Result<(Socket, bool)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok((socket, true)),
        Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::server::Node;

    fn soon() -> Time {
        Time::now() + Duration::from_secs(20)
    }

    /// An address that neither accepts more connections nor refuses them: its queue is full.
    fn silent() -> (SocketAddr, Vec<Socket>) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut sockets = vec![listener];
        // The connections that the queue takes, and one that waits for ever.
        loop {
            let (socket, _) = begin(address).unwrap();
            let taken = await_any([&socket], PollFlags::OUT, Time::now() + Duration::from_millis(200)).unwrap();
            sockets.push(socket);
            if taken.is_empty() {
                return (address, sockets);
            }
        }
    }

    #[test]
    fn silent_and_refused_addresses_do_not_hold_up_the_one_that_answers() {
        let answers = TcpListener::bind("[::1]:0").or_else(|_| TcpListener::bind("127.0.0.1:0")).unwrap();
        let refuses = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (silent, _sockets) = silent();
        let addresses = vec![silent, refuses, silent, answers.local_addr().unwrap()];
        let socket = dial_first(addresses, soon()).unwrap();
        assert_eq!(socket.peer_addr().unwrap().as_socket(), answers.local_addr().ok());
        assert!(socket.tcp_nodelay().unwrap());
    }

    #[test]
    fn a_deadline_ends_an_attempt_at_silent_addresses() {
        let (silent, _sockets) = silent();
        let error = dial_first(vec![silent, silent], Time::now() + Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let refuses = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(dial_first(vec![refuses], soon()).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(dial_first(vec![], soon()).is_err());
    }

    #[test]
    fn names_and_addresses_of_both_kinds_are_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let dial = |host: &str, port| Address::Node(Node { host: host.into(), port }).dial(soon());
        dial("localhost", port).unwrap();
        dial("127.0.0.1", port).unwrap();
        if let Ok(listener) = TcpListener::bind("[::1]:0") {
            dial("::1", listener.local_addr().unwrap().port()).unwrap();
        }
        assert!(dial("nowhere.invalid", port).is_err());
    }

    #[test]
    fn a_path_whose_queue_is_full_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(dial_path(&path, soon()).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let mut connected = Vec::new();
        while let Ok(socket) = dial_path(&path, Time::now()) {
            connected.push(socket);
        }
        let waiting = std::thread::spawn(move || dial_path(&path, soon()).map(drop));
        let _accepted = listener.accept().unwrap();
        waiting.join().unwrap().unwrap();
    }
}
