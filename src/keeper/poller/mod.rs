//! How the keeper sleeps: until a connection can be read, or written if it has something to send, another thread notifies it, or
//! the time is over.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
mod poll;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use epoll::{Poller, poller};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use poll::{Poller, poller};

use std::time::Duration;

use rustix::event::Timespec;

use super::routes::ConnectionId;

/// A connection that can wake the keeper.
pub(super) struct Watched<F> {
    pub(super) connection: ConnectionId,
    pub(super) socket: F,
    pub(super) wants_write: bool,
}

fn timespec(longest: Duration) -> Timespec {
    Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);
    const NOW: Duration = Duration::ZERO;

    // Both ways to sleep, by the same tests.
    macro_rules! tests {
        ($way:ident) => {
            mod $way {
                use super::super::$way::poller;
                use super::*;

                fn of(connection: u64, socket: &UnixStream, wants_write: bool) -> Watched<&UnixStream> {
                    Watched { connection: ConnectionId(connection), socket, wants_write }
                }

                #[test]
                fn each_notification_wakes_once() {
                    let nobody = || std::iter::empty::<Watched<&UnixStream>>();
                    let (notifier, mut poller) = poller().unwrap();
                    let start = Instant::now();
                    let nap = Duration::from_millis(20);
                    assert_eq!(poller.sleep(nobody(), nap).unwrap(), []);
                    assert!(start.elapsed() >= nap);
                    for _ in 0..3 {
                        notifier.notify();
                        let start = Instant::now();
                        poller.sleep(nobody(), SOON).unwrap();
                        assert!(start.elapsed() < SOON, "the notification was not heard");
                        let start = Instant::now();
                        poller.sleep(nobody(), nap).unwrap();
                        assert!(start.elapsed() >= nap, "it is notified again");
                    }
                }

                #[test]
                fn data_wakes_until_it_is_read_and_room_only_a_connection_that_wants_to_write() {
                    let (_notifier, mut poller) = poller().unwrap();
                    let [(mut a, mut to_a), (b, to_b)] = [(); 2].map(|()| UnixStream::pair().unwrap());
                    assert_eq!(poller.sleep([of(1, &a, false), of(2, &b, false)], NOW).unwrap(), []);
                    to_a.write_all(b"x").unwrap();
                    for _ in 0..2 {
                        assert_eq!(
                            poller.sleep([of(1, &a, false), of(2, &b, false)], SOON).unwrap(),
                            [ConnectionId(1)]
                        );
                    }
                    a.read_exact(&mut [0]).unwrap();
                    let start = Instant::now();
                    // There is room: it wakes, and nothing can be read.
                    assert_eq!(poller.sleep([of(1, &a, false), of(2, &b, true)], SOON).unwrap(), []);
                    assert!(start.elapsed() < SOON);
                    let start = Instant::now();
                    let nap = Duration::from_millis(20);
                    assert_eq!(poller.sleep([of(1, &a, false), of(2, &b, false)], nap).unwrap(), []);
                    assert!(start.elapsed() >= nap);
                    // The end of a connection can be read, also if another one is new.
                    drop(to_b);
                    poller.forget(ConnectionId(1), &a);
                    drop(a);
                    let (c, _to_c) = UnixStream::pair().unwrap();
                    assert_eq!(poller.sleep([of(2, &b, false), of(3, &c, false)], SOON).unwrap(), [ConnectionId(2)]);
                }

                #[test]
                fn connection_that_was_closed_wakes_nobody_though_a_forked_process_has_a_copy() {
                    let (_notifier, mut poller) = poller().unwrap();
                    let (a, mut to_a) = UnixStream::pair().unwrap();
                    let _copy = a.try_clone().unwrap();
                    assert_eq!(poller.sleep([of(1, &a, false)], NOW).unwrap(), []);
                    to_a.write_all(b"x").unwrap();
                    poller.forget(ConnectionId(1), &a);
                    drop(a);
                    assert_eq!(poller.sleep(std::iter::empty::<Watched<&UnixStream>>(), NOW).unwrap(), []);
                }
            }
        };
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    tests!(epoll);
    tests!(poll);
}
