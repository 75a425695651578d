//! A history as the judges read it: every acquire from its call to its end.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

use super::{clock::ServerClock, record::Event};
use fairlock::__hooks::promises::keeps_its_ticket;

/// One acquire, from its call to its end.
#[derive(Clone, Debug, Default)]
pub struct Wait {
    pub process: String,
    pub waiter: String,
    pub ticket: Option<u64>,
    pub token: Option<u64>,
    pub slot: u32,
    /// How many may hold together while its lease lasts, as it asked.
    pub most: u32,
    /// From when on it may let so many hold together instead.
    pub downgrades: Option<(u64, u32)>,
    /// When it certainly does.
    pub downgraded_ns: Option<u64>,
    pub called_ns: u64,
    /// When its ticket was first recorded: no earlier than its client knew of it.
    pub queued_ns: Option<u64>,
    pub timeout_ns: Option<u64>,
    pub granted_ns: Option<u64>,
    /// The last moment at which its own check said that it held the lock.
    pub held_ns: Option<u64>,
    pub released_ns: Option<u64>,
    pub lost_ns: Option<u64>,
    pub left_ns: Option<u64>,
    pub untaken_ns: Option<u64>,
    pub returned_ns: Option<u64>,
    pub died_ns: Option<u64>,
    /// The pauses of its process, each from no earlier than the call to its end, if it ended.
    pub pauses: Vec<(u64, u64)>,
}

impl Wait {
    /// From this moment on nobody has to wait behind it, apart from its own grant and pauses of its process.
    pub(super) fn gone(&self) -> Option<u64> {
        // The moment at which a grant was given up untaken is not recorded.
        let untaken = self.untaken_ns.map(|_| self.called_ns);
        [self.left_ns, untaken, self.died_ns].into_iter().flatten().min()
    }

    /// When its wait ended, in whatever way, or its process was first paused.
    pub(super) fn waited_until(&self) -> Option<u64> {
        let paused = self.pauses.iter().map(|(from, _)| *from).min();
        self.gone().into_iter().chain(paused).chain(self.granted_ns).chain(self.returned_ns).min()
    }

    /// The end of its hold: the last moment at which it certainly believed in it.
    fn hold_end(&self, from: u64) -> u64 {
        match (self.held_ns, self.released_ns) {
            (Some(held), Some(released)) if self.lost_ns.is_none() => released.max(held),
            (Some(held), _) => held,
            (None, released) => {
                let paused = self.pauses.iter().map(|(paused, _)| *paused).filter(|&at| at >= from).min();
                [released, self.lost_ns, self.died_ns, paused].into_iter().flatten().min().unwrap_or(u64::MAX)
            }
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.waiter)
    }
}

/// A wait that was granted the lock, for as long as it believed in its lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold<'a> {
    pub(super) wait: &'a Wait,
    pub(super) token: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    /// No earlier than the server granted it, and never later than `from`.
    pub(super) granted: u64,
}

impl Hold<'_> {
    /// Whether there was a moment in which it believed in its lease. A late grant can be reported as lost at once, and
    /// then nobody acted under it.
    pub(super) fn believed(&self) -> bool {
        self.from < self.to || self.wait.held_ns.is_some()
    }
}

impl fmt::Display for Hold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.wait.waiter)?;
        if self.wait.most > 1 {
            write!(f, "slot {} of {}, ", self.wait.slot, self.wait.most)?;
        }
        write!(f, "token {}, from {} to ", self.token, self.from)?;
        if self.to == u64::MAX { f.write_str("its end, unknown)") } else { write!(f, "{})", self.to) }
    }
}

#[derive(Clone, Debug, Default)]
pub struct History {
    waits: Vec<Wait>,
    pub(super) clock: ServerClock,
    /// The leases that the server showed: when, at the latest, and the token, slot and number of each.
    pub(super) seen: Vec<(u64, u64, u32, u32)>,
}

impl History {
    pub fn read(path: &Path) -> Result<History, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        // The last line may be incomplete while other processes go on writing.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        History::parse(&text[..whole])
    }

    /// The acquires that began within the last `bytes` of the history: enough to see what is going on, at a constant
    /// price.
    pub fn read_latest(path: &Path, bytes: u64) -> Result<History, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = File::open(path).map_err(failed)?;
        let from = file.metadata().map_err(failed)?.len().saturating_sub(bytes);
        file.seek(SeekFrom::Start(from)).map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        // The first line may be a part of one, and so may the last.
        let begin = if from > 0 { text.find('\n').map_or(0, |end| end + 1) } else { 0 };
        let whole = text.rfind('\n').map_or(begin, |end| end + 1);
        let lines = || text[begin..whole].lines();
        let waiter = |line: &str| line.split(' ').nth(2).map(str::to_owned);
        let begun: HashSet<_> = lines().filter(|line| line.contains(" called")).filter_map(waiter).collect();
        let known =
            |line: &&str| line.starts_with('#') || waiter(line).is_some_and(|its| its == "-" || begun.contains(&its));
        History::parse(&lines().filter(known).collect::<Vec<_>>().join("\n"))
    }

    /// Reads the lines in any order; only their times count.
    pub fn parse(text: &str) -> Result<History, String> {
        let mut lines = Vec::new();
        let said = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| said(line)) {
            lines.push(Line::parse(line).ok_or_else(|| format!("line {number} is not an event: {line:?}"))?);
        }
        // Of events at the same moment the earlier line comes first.
        lines.sort_by_key(|line| line.at);

        let mut waits: BTreeMap<&str, Wait> = BTreeMap::new();
        for line in &lines {
            let timeout_ns = match line.event {
                Event::Called => None,
                Event::CalledFor(timeout_ns) => Some(timeout_ns),
                _ => continue,
            };
            let wait = Wait {
                process: line.process.to_owned(),
                waiter: line.waiter.to_owned(),
                called_ns: line.at,
                timeout_ns,
                most: 1,
                ..Wait::default()
            };
            if waits.insert(line.waiter, wait).is_some() {
                return Err(format!("{} called twice", line.waiter));
            }
        }
        let (mut marks, mut seen) = (Vec::new(), Vec::new());
        for (number, line) in lines.iter().enumerate() {
            match line.event {
                Event::Clock { server_us, took_ns } => marks.push((line.at, line.at + took_ns, server_us)),
                Event::Seen { token, slot, most } => seen.push((line.at, token, slot, most)),
                Event::Died | Event::Paused => {
                    let resumed = |other: &&Line<'_>| other.event == Event::Resumed && other.process == line.process;
                    let until = lines[number..].iter().find(resumed).filter(|_| line.event == Event::Paused);
                    line.befall(until.map(|resumed| resumed.at), &mut waits);
                }
                Event::Resumed => {}
                _ => line.apply(&mut waits)?,
            }
        }
        let mut waits: Vec<Wait> = waits.into_values().collect();
        waits.sort_by_key(|wait| wait.called_ns);
        Ok(History { waits, clock: ServerClock::new(marks), seen })
    }

    /// All acquires, by the time of their calls.
    pub fn waits(&self) -> &[Wait] {
        &self.waits
    }

    /// All grants, by the time at which their processes noticed them.
    pub(super) fn holds(&self) -> Vec<Hold<'_>> {
        let hold = |wait: &'_ Wait| {
            let (token, from) = (wait.token?, wait.granted_ns?);
            let granted = self.clock.latest(token, wait.called_ns, from).map_or(from, |at| at.min(from));
            Some((token, from, wait.hold_end(from).max(from), granted))
        };
        let mut holds: Vec<Hold<'_>> = self
            .waits
            .iter()
            .filter_map(|wait| hold(wait).map(|(token, from, to, granted)| Hold { wait, token, from, to, granted }))
            .collect();
        holds.sort_by_key(|hold| hold.from);
        holds
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
        let event = Event::parse(&words[3..])?;
        (event.of_process() == (waiter == "-")).then_some(Line { at, process, waiter, event })
    }

    /// An event of a whole process applies to all of its acquires that have not ended, also to those that are called
    /// before it is over. A process may call until it is killed, and its death is noted before.
    fn befall(&self, until: Option<u64>, waits: &mut BTreeMap<&str, Wait>) {
        let called_by = if self.event == Event::Died { u64::MAX } else { until.unwrap_or(self.at) };
        let concerned = |wait: &&mut Wait| {
            // A timeout ends the wait when it is due, and its caller returns later.
            let returns = self.event == Event::Paused && wait.timeout_ns.is_some();
            let left = wait.left_ns.filter(|_| !returns);
            let ends = [wait.released_ns, wait.lost_ns, left, wait.untaken_ns, wait.returned_ns];
            wait.process == self.process && wait.called_ns <= called_by && ends.iter().all(Option::is_none)
        };
        for wait in waits.values_mut().filter(concerned) {
            if self.event == Event::Paused {
                wait.pauses.push((self.at.max(wait.called_ns), until.unwrap_or(u64::MAX)));
            } else {
                wait.died_ns.get_or_insert(self.at.max(wait.called_ns));
            }
        }
    }

    fn apply(&self, waits: &mut BTreeMap<&str, Wait>) -> Result<(), String> {
        let wait = waits
            .get_mut(self.waiter)
            .filter(|wait| wait.called_ns <= self.at)
            .ok_or_else(|| format!("{} was {} before it called", self.waiter, self.event))?;
        let first = match self.event {
            // A ticket may be recorded again.
            Event::Queued(ticket) => {
                wait.queued_ns.get_or_insert(self.at);
                keeps_its_ticket(self.waiter, wait.ticket.replace(ticket), ticket)?;
                true
            }
            Event::Granted(token, slot) => {
                wait.slot = slot;
                wait.token.replace(token).is_none() && wait.granted_ns.replace(self.at).is_none()
            }
            Event::Shares(most) => std::mem::replace(&mut wait.most, most) == 1,
            Event::Downgrades(most) => wait.downgrades.replace((self.at, most)).is_none(),
            Event::Downgraded => wait.downgraded_ns.replace(self.at).is_none(),
            Event::Held => {
                wait.held_ns = Some(self.at);
                true
            }
            Event::Released => wait.released_ns.replace(self.at).is_none(),
            Event::Lost => wait.lost_ns.replace(self.at).is_none(),
            Event::Left => wait.left_ns.replace(self.at).is_none(),
            Event::Untaken => wait.untaken_ns.replace(self.at).is_none(),
            Event::Returned => wait.returned_ns.replace(self.at).is_none(),
            _ => true,
        };
        if first { Ok(()) } else { Err(format!("{} was {} twice", self.waiter, self.event)) }
    }
}
