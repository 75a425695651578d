//! What happened to the waiters of one lock, as they and those who killed them saw it, and whether it may happen.
//!
//! Processes write one file together, one event in a line, each line with one write to a file opened for appending:
//!
//! ```text
//! TIME_NS PROCESS WAITER EVENT [NUMBER]
//!
//! 118200345 p3 p3.1 called                    the acquire begins
//! 118211100 p3 p3.1 queued 1763733712000001   it has a ticket
//! 118300000 p3 p3.1 granted 1763733712000009  it has the lock, under this token
//! 118400000 p3 p3.1 released                  one of these ends a hold: released,
//! 118400000 p3 p3.1 lost                      told that the lease is lost,
//! 118400000 p3 p3.2 left                      and this ends a wait without a grant: timeout or cancellation
//! 118500000 p3 - died                         ends everything of that process (SIGKILL)
//! 118500000 p3 - paused                       ends its claims to be served and believed (SIGSTOP), see below
//! ```
//!
//! Times are [`now_ns`], one clock for all processes of a machine. **Stamp every beginning after the act and every end
//! before it**: `granted` when the guard is there; `released` before `release` is called or the guard dropped; `left`
//! before the future is dropped, or with the moment of its timeout; `died` and `paused` before the signal is sent. Then
//! each interval on record lies within the real one, and what the judges find is certain. Only `lost` can be stamped no
//! earlier than it is told. Write `paused` only for a pause that is long enough to cost the place or the lease: it excuses
//! those who overtake, and no hold is counted from there on, because nobody can stop a paused process from believing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use rustix::time::{ClockId, clock_gettime};

/// Now, on a clock that all processes of this machine share and that nobody sets.
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
    Queued { ticket: u64 },
    Granted { token: u64 },
    Released,
    Lost,
    Left,
    Died,
    Paused,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Called => f.write_str("called"),
            Event::Queued { ticket } => write!(f, "queued {ticket}"),
            Event::Granted { token } => write!(f, "granted {token}"),
            Event::Released => f.write_str("released"),
            Event::Lost => f.write_str("lost"),
            Event::Left => f.write_str("left"),
            Event::Died => f.write_str("died"),
            Event::Paused => f.write_str("paused"),
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

    /// Something that happened to a waiter just now.
    pub fn note(&self, waiter: &str, event: Event) {
        self.note_at(now_ns(), waiter, event);
    }

    /// Something that happened to the whole process just now.
    pub fn note_process(&self, event: Event) {
        self.note("-", event);
    }

    /// Something that happened at another moment, such as a timeout that was due then.
    pub fn note_at(&self, at_ns: u64, waiter: &str, event: Event) {
        let line = format!("{at_ns} {} {waiter} {event}\n", self.process);
        (&self.file).write_all(line.as_bytes()).expect("writing the history");
    }
}

/// One acquire, from its call to its end.
#[derive(Clone, Debug, Default)]
pub struct Wait {
    pub process: String,
    pub waiter: String,
    pub ticket: Option<u64>,
    pub token: Option<u64>,
    pub called_ns: u64,
    pub granted_ns: Option<u64>,
    pub released_ns: Option<u64>,
    pub lost_ns: Option<u64>,
    pub left_ns: Option<u64>,
    pub died_ns: Option<u64>,
    /// The first pause of its process after the call.
    pub paused_ns: Option<u64>,
}

impl Wait {
    /// The end of its hold, if it has one: the first reason counts.
    fn hold_end(&self) -> Option<u64> {
        [self.released_ns, self.lost_ns, self.died_ns, self.paused_ns].into_iter().flatten().min()
    }

    /// From when on nobody needs to wait behind it, apart from its own grant.
    fn gone(&self) -> Option<u64> {
        [self.left_ns, self.died_ns, self.paused_ns].into_iter().flatten().min()
    }

    /// Its hold, if it was granted before its process stopped or died.
    fn hold(&self) -> Option<Hold<'_>> {
        let (token, from) = (self.token?, self.granted_ns?);
        let to = self.hold_end().unwrap_or(u64::MAX);
        (from <= to).then_some(Hold { wait: self, token, from, to })
    }
}

#[derive(Clone, Copy, Debug)]
struct Hold<'a> {
    wait: &'a Wait,
    token: u64,
    from: u64,
    to: u64,
}

impl fmt::Display for Hold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (token {}, from {} to ", self.wait.waiter, self.token, self.from)?;
        if self.to == u64::MAX { f.write_str("its end, unknown)") } else { write!(f, "{})", self.to) }
    }
}

#[derive(Clone, Debug, Default)]
pub struct History {
    waits: Vec<Wait>,
}

impl History {
    pub fn read(path: &Path) -> Result<History, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        History::parse(&text)
    }

    /// Reads the lines in any order; times alone count.
    pub fn parse(text: &str) -> Result<History, String> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            lines.push(Line::parse(line).ok_or_else(|| format!("line {number} is not an event: {line:?}"))?);
        }
        // Of events at the same moment the earlier line comes first.
        lines.sort_by_key(|line| line.at);

        let mut waits: BTreeMap<&str, Wait> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.event == Event::Called) {
            let wait = Wait {
                process: line.process.to_owned(),
                waiter: line.waiter.to_owned(),
                called_ns: line.at,
                ..Wait::default()
            };
            if waits.insert(line.waiter, wait).is_some() {
                return Err(format!("{} called twice", line.waiter));
            }
        }
        for line in &lines {
            line.apply(&mut waits)?;
        }
        let mut waits: Vec<Wait> = waits.into_values().collect();
        waits.sort_by_key(|wait| wait.called_ns);
        Ok(History { waits })
    }

    /// All acquires, by the time of their calls.
    pub fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// All holds, by the time of their grants.
    fn holds(&self) -> Vec<Hold<'_>> {
        let mut holds: Vec<Hold<'_>> = self.waits.iter().filter_map(Wait::hold).collect();
        holds.sort_by_key(|hold| hold.from);
        holds
    }

    /// All of the judges below; the first complaint.
    pub fn check(&self) -> Result<(), String> {
        self.exclusion()?;
        self.tokens_rise()?;
        self.order()?;
        self.all_finished()
    }

    /// I1: no two holds overlap.
    pub fn exclusion(&self) -> Result<(), String> {
        let mut longest: Option<Hold<'_>> = None;
        for hold in self.holds() {
            if let Some(before) = longest.filter(|before| hold.from < before.to) {
                return Err(format!("two hold at once: {before} and {hold}"));
            }
            longest = Some(hold);
        }
        Ok(())
    }

    /// I3: tokens strictly rise in the order of the grants.
    pub fn tokens_rise(&self) -> Result<(), String> {
        match self.holds().windows(2).find(|pair| pair[1].token <= pair[0].token) {
            Some(pair) => Err(format!("the token did not rise from {} to {}", pair[0], pair[1])),
            None => Ok(()),
        }
    }

    /// I2: nobody was granted while somebody with a lower ticket stood in the queue.
    ///
    /// Who was granted first is told by the tokens, which the server gave, not by when the processes noticed. A grant
    /// without a ticket on record is one that came at once, so nobody was overtaken that this could judge.
    pub fn order(&self) -> Result<(), String> {
        for hold in self.holds() {
            let Some(ticket) = hold.wait.ticket else {
                continue;
            };
            let overtaken = self.waits.iter().find(|other| {
                let lower = other.ticket.is_some_and(|its| its < ticket);
                let not_before = other.token.is_none_or(|its| its > hold.token);
                let waiting = other.gone().is_none_or(|gone| hold.from < gone);
                lower && not_before && waiting
            });
            if let Some(other) = overtaken {
                return Err(format!(
                    "{} (ticket {}) waited when {hold} was granted with ticket {ticket}",
                    other.waiter,
                    other.ticket.unwrap_or_default(),
                ));
            }
        }
        Ok(())
    }

    /// Nobody is still waiting or holding: every acquire ended, and every hold that it got.
    pub fn all_finished(&self) -> Result<(), String> {
        let unfinished: BTreeSet<&str> = self
            .waits
            .iter()
            .filter(|wait| match wait.granted_ns {
                Some(_) => wait.released_ns.or(wait.lost_ns).or(wait.died_ns).is_none(),
                None => wait.left_ns.or(wait.died_ns).is_none(),
            })
            .map(|wait| wait.waiter.as_str())
            .collect();
        if unfinished.is_empty() { Ok(()) } else { Err(format!("never finished: {unfinished:?}")) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    at: u64,
    process: &'a str,
    waiter: &'a str,
    event: Event,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let words: Vec<&str> = line.split(' ').collect();
        let (at, process, waiter) = (words.first()?.parse().ok()?, *words.get(1)?, *words.get(2)?);
        let event = match words[3..] {
            ["called"] => Event::Called,
            ["queued", ticket] => Event::Queued { ticket: ticket.parse().ok()? },
            ["granted", token] => Event::Granted { token: token.parse().ok()? },
            ["released"] => Event::Released,
            ["lost"] => Event::Lost,
            ["left"] => Event::Left,
            ["died"] => Event::Died,
            ["paused"] => Event::Paused,
            _ => return None,
        };
        let of_process = matches!(event, Event::Died | Event::Paused);
        (of_process == (waiter == "-")).then_some(Line { at, process, waiter, event })
    }

    fn apply(&self, waits: &mut BTreeMap<&str, Wait>) -> Result<(), String> {
        if self.waiter == "-" {
            for wait in waits.values_mut().filter(|wait| wait.process == self.process && wait.called_ns <= self.at) {
                let when = if self.event == Event::Died { &mut wait.died_ns } else { &mut wait.paused_ns };
                when.get_or_insert(self.at);
            }
            return Ok(());
        }
        let wait = waits
            .get_mut(self.waiter)
            .filter(|wait| wait.called_ns <= self.at)
            .ok_or_else(|| format!("{} was {} before it called", self.waiter, self.event))?;
        let first = match self.event {
            Event::Queued { ticket } => wait.ticket.replace(ticket).is_none_or(|before| before == ticket),
            Event::Granted { token } => {
                wait.token.replace(token).is_none() && wait.granted_ns.replace(self.at).is_none()
            }
            Event::Released => wait.released_ns.replace(self.at).is_none(),
            Event::Lost => wait.lost_ns.replace(self.at).is_none(),
            Event::Left => wait.left_ns.replace(self.at).is_none(),
            Event::Called | Event::Died | Event::Paused => true,
        };
        if first { Ok(()) } else { Err(format!("{} was {} twice", self.waiter, self.event)) }
    }
}
