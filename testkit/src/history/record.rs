//! Events, and how they are written.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Now, on a clock that all processes of this machine share and that is never set.
pub fn now_ns() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Called,
    /// `Called`, with a timeout of so many ns.
    CalledFor(u64),
    /// With this ticket.
    Queued(u64),
    /// Under this token, in this slot.
    Granted(u64, u32),
    /// With a lease of its own, so many may hold together, itself among them.
    Shares(u32),
    /// Is about to let so many hold together.
    Downgrades(u32),
    Downgraded,
    Held,
    Released,
    Lost,
    Left,
    Untaken,
    Returned,
    Died,
    Paused,
    Resumed,
    Clock {
        server_us: u64,
        took_ns: u64,
    },
    /// The server showed the lease of this token.
    Seen {
        token: u64,
        slot: u32,
        most: u32,
    },
}

/// The events of one word.
const PLAIN: [Event; 11] = {
    use Event::*;
    [Called, Held, Downgraded, Released, Lost, Left, Untaken, Returned, Died, Paused, Resumed]
};

impl Event {
    pub(super) fn parse(words: &[&str]) -> Option<Event> {
        Some(match *words {
            ["called", timeout] => Event::CalledFor(timeout.parse().ok()?),
            ["queued", ticket] => Event::Queued(ticket.parse().ok()?),
            ["granted", token] => Event::Granted(token.parse().ok()?, 0),
            ["granted", token, slot] => Event::Granted(token.parse().ok()?, slot.parse().ok()?),
            ["shares", most] => Event::Shares(most.parse().ok()?),
            ["downgrades", most] => Event::Downgrades(most.parse().ok()?),
            ["seen", token, slot, most] => {
                Event::Seen { token: token.parse().ok()?, slot: slot.parse().ok()?, most: most.parse().ok()? }
            }
            ["clock", server, took] => Event::Clock { server_us: server.parse().ok()?, took_ns: took.parse().ok()? },
            [word] => PLAIN.into_iter().find(|event| event.to_string() == word)?,
            _ => return None,
        })
    }

    /// Whether it is an event of a whole process and not of a single waiter.
    pub(super) fn of_process(self) -> bool {
        matches!(self, Event::Died | Event::Paused | Event::Resumed | Event::Clock { .. } | Event::Seen { .. })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::CalledFor(timeout_ns) => write!(f, "called {timeout_ns}"),
            Event::Queued(ticket) => write!(f, "queued {ticket}"),
            Event::Granted(token, 0) => write!(f, "granted {token}"),
            Event::Granted(token, slot) => write!(f, "granted {token} {slot}"),
            Event::Shares(most) => write!(f, "shares {most}"),
            Event::Downgrades(most) => write!(f, "downgrades {most}"),
            Event::Seen { token, slot, most } => write!(f, "seen {token} {slot} {most}"),
            Event::Clock { server_us, took_ns } => write!(f, "clock {server_us} {took_ns}"),
            plain => f.write_str(&format!("{plain:?}").to_lowercase()),
        }
    }
}

/// Writes one process's events.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    process: String,
}

impl Recorder {
    pub fn open(path: &Path, process: &str) -> io::Result<Recorder> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Recorder { file, process: process.to_owned() })
    }

    /// An event of a waiter, now.
    pub fn note(&self, waiter: &str, event: Event) {
        self.note_at(now_ns(), waiter, event);
    }

    /// An event of the whole process, now.
    pub fn note_process(&self, event: Event) {
        self.note("-", event);
    }

    /// An event of another moment, such as a timeout that was due then.
    pub fn note_at(&self, at_ns: u64, waiter: &str, event: Event) {
        self.write(format!("{at_ns} {} {waiter} {event}\n", self.process));
    }

    /// Records that this process stood still since it last looked, if that is longer ago than this. On a busy machine it
    /// may, which excuses as much as a pause. Returns the time of this look.
    pub fn note_pause(&self, looked_ns: u64, longest: Duration) -> u64 {
        let now = now_ns();
        if u128::from(now - looked_ns) > longest.as_nanos() {
            self.note_at(looked_ns, "-", Event::Paused);
            self.note_at(now, "-", Event::Resumed);
        }
        now
    }

    /// A remark for the reader; judges ignore it.
    pub fn remark(&self, text: impl fmt::Display) {
        self.write(format!("# {} {}: {text}\n", now_ns(), self.process));
    }

    fn write(&self, line: String) {
        (&self.file).write_all(line.as_bytes()).expect("writing the history");
    }
}
