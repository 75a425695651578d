//! What is shown and chosen, and what keys do. It knows no terminal and no server.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use fairlock::error::Fault;
use fairlock::operator::Seen;

use super::rates::Rates;
use super::worker::{Lease, Order, Report};
use crate::sharing::oldest;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The longest hold first, then the longest wait.
    Held,
    /// The longest queue first.
    Waiting,
    Name,
}

impl Sort {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Sort::Held => "held",
            Sort::Waiting => "waiting",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            Sort::Held => Sort::Waiting,
            Sort::Waiting => Sort::Name,
            Sort::Name => Sort::Held,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    List,
    /// The filter is being typed.
    Filter,
    /// One lock with its queue.
    Open,
    /// Whether to break this lease, of so many.
    Confirm {
        name: String,
        token: u64,
        holder: String,
        force: bool,
        of: usize,
        back: Box<Mode>,
    },
}

pub(crate) struct App {
    pub(crate) mode: Mode,
    pub(crate) sort: Sort,
    pub(crate) filter: String,
    /// None before the first look.
    pub(crate) locks: Option<BTreeMap<String, Seen>>,
    /// Locks that are not among them, and why.
    pub(crate) unreadable: Vec<Fault>,
    /// The open lock with its queue.
    pub(crate) opened: Option<Seen>,
    pub(crate) rates: Rates,
    pub(crate) seen_at: Instant,
    /// Without an answer for this long, what is shown is old.
    late: Duration,
    /// Why the locks cannot be seen now.
    pub(crate) trouble: Option<String>,
    /// The outcome of the last order, and when it was told.
    news: Option<(String, Instant)>,
    /// The lease that this is about, if its holder was told and has still to let go.
    told: Option<Lease>,
    /// The chosen lock, wherever it is sorted to.
    pub(crate) chosen: Option<String>,
    /// How many rows of the queue are above the screen.
    pub(crate) scrolled: usize,
    /// How many rows of the queue the screen had room for when it was drawn last.
    pub(crate) room: Cell<usize>,
}

/// What a key asks for beyond the screen.
pub(crate) enum Wish {
    Nothing,
    Quit,
    /// The screen is drawn anew, because another program wrote to it.
    Redraw,
    /// Ctrl-Z.
    Stop,
    Order(Order),
}

/// Rows that PgUp and PgDn move by.
const PAGE: isize = 10;
/// After this time the keys are shown again.
const NEWS: Duration = Duration::from_secs(5);

impl App {
    /// Locks are looked at this often.
    pub(crate) fn new(now: Instant, every: Duration) -> Self {
        Self {
            mode: Mode::List,
            sort: Sort::Held,
            filter: String::new(),
            locks: None,
            unreadable: Vec::new(),
            opened: None,
            rates: Rates::new(now),
            seen_at: now,
            late: every.saturating_mul(2).saturating_add(Duration::from_secs(2)),
            trouble: None,
            news: None,
            told: None,
            chosen: None,
            scrolled: 0,
            room: Cell::new(1),
        }
    }

    pub(crate) fn take(&mut self, now: Instant, report: Report) {
        match report {
            Report::Seen(locks, opened) => {
                self.rates.take(now, &locks.seen);
                (self.seen_at, self.trouble, self.opened) = (now, None, opened);
                (self.locks, self.unreadable) = (Some(locks.seen), locks.unreadable);
                self.told_is_over(now);
                let names = self.names();
                if self.chosen.as_ref().is_none_or(|chosen| !names.contains(chosen)) && self.mode == Mode::List {
                    self.chosen = names.into_iter().next();
                }
            }
            Report::Trouble(trouble) => self.trouble = Some(trouble),
            Report::Broke(news, told) => (self.news, self.told) = (Some((news, now)), told),
        }
    }

    /// Replaces the news that a holder is told once it has let go.
    fn told_is_over(&mut self, now: Instant) {
        let Some((name, token)) = &self.told else { return };
        let holders = self.lock(name).into_iter().flat_map(|seen| &seen.state.holders);
        if !holders.into_iter().any(|holder| holder.token == *token) {
            self.news = Some((format!("that lease on {name} is over"), now));
            self.told = None;
        }
    }

    /// The names that are shown, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        let filter = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&filter);
        let holds = |seen: &Seen| seen.state.holders.iter().any(|one| has(&one.label) || has(&one.owner));
        let locks = self.locks.iter().flatten().filter(|(name, seen)| has(name) || holds(seen));
        let mut locks: Vec<(&String, &Seen)> = locks.collect();
        let held = |seen: &Seen| oldest(&seen.state.holders).map(|holder| holder.held_for);
        let waited = |seen: &Seen| seen.state.queue.first().map(|waiter| waiter.waited);
        // Names come in their order, and a stable sort keeps it among equals.
        match self.sort {
            Sort::Held => locks.sort_by_key(|(_, seen)| std::cmp::Reverse((held(seen), waited(seen)))),
            Sort::Waiting => locks.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.state.waiting)),
            Sort::Name => {}
        }
        locks.into_iter().map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn lock(&self, name: &str) -> Option<&Seen> {
        self.locks.as_ref()?.get(name)
    }

    /// Whether the locks may have changed since they were seen: there was an error, or no answer at all.
    pub(crate) fn is_old(&self) -> bool {
        self.trouble.is_some() || self.seen_at.elapsed() > self.late
    }

    /// What the foot of the screen says instead of the keys, for a while.
    pub(crate) fn news(&self) -> Option<&str> {
        self.news.as_ref().filter(|(_, told)| told.elapsed() < NEWS).map(|(news, _)| news.as_str())
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Wish {
        (self.news, self.told) = (None, None);
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Wish::Quit,
                KeyCode::Char('l') => Wish::Redraw,
                KeyCode::Char('z') => Wish::Stop,
                _ => Wish::Nothing,
            };
        }
        match self.mode.clone() {
            Mode::List => self.key_in_list(key.code),
            Mode::Filter => self.key_in_filter(key.code),
            Mode::Open => self.key_in_open(key.code),
            Mode::Confirm { name, token, force, of, back, .. } => {
                self.mode = *back;
                match (key.code, steps(key.code)) {
                    (KeyCode::Char('y'), _) => return Wish::Order(Order::Break { name, token, force }),
                    (_, Some(by)) if of > 1 => self.ask_to_break(Some((token, by))),
                    _ => {}
                }
                Wish::Nothing
            }
        }
    }

    fn key_in_list(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('b') => self.ask_to_break(None),
            KeyCode::Enter => {
                if let Some(name) = self.chosen.clone() {
                    (self.mode, self.opened, self.scrolled) = (Mode::Open, None, 0);
                    return Wish::Order(Order::Open(Some(name)));
                }
            }
            key => {
                if let Some(by) = steps(key) {
                    self.choose(by);
                }
            }
        }
        Wish::Nothing
    }

    fn key_in_filter(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        // What is chosen must be on the screen.
        self.choose(0);
        Wish::Nothing
    }

    fn key_in_open(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                self.mode = Mode::List;
                return Wish::Order(Order::Open(None));
            }
            KeyCode::Char('b') => self.ask_to_break(None),
            key => {
                // The last rows fill the screen.
                let most =
                    self.opened.as_ref().map_or(0, |seen| seen.state.queue.len().saturating_sub(self.room.get()));
                self.scrolled = self.scrolled.saturating_add_signed(steps(key).unwrap_or(0)).min(most);
            }
        }
        Wish::Nothing
    }

    /// Asks about the oldest holder, or about the one that is so many slots away from this one. A lease that is broken
    /// already can only be ended by force.
    fn ask_to_break(&mut self, from: Option<(u64, isize)>) {
        let chosen = self.chosen.clone();
        let Some(name) = chosen else { return };
        let holders = self.lock(&name).map(|seen| &seen.state.holders[..]).unwrap_or_default();
        let at = from.and_then(|(token, by)| {
            let at = holders.iter().position(|holder| holder.token == token)?;
            holders.get(at.saturating_add_signed(by).min(holders.len() - 1))
        });
        let Some(holder) = at.or_else(|| oldest(holders)) else {
            self.news = Some((format!("{name} has no holder"), Instant::now()));
            return;
        };
        let (token, force, of) = (holder.token, holder.broken, holders.len());
        let slot = if of > 1 { format!(" in slot {}", holder.slot) } else { String::new() };
        let (holder, back) = (format!("{}{slot}", holder.label), Box::new(self.mode.clone()));
        self.mode = Mode::Confirm { name, token, holder, force, of, back };
    }

    fn choose(&mut self, by: isize) {
        let names = self.names();
        let at = self.chosen.as_ref().and_then(|chosen| names.iter().position(|name| name == chosen));
        let at = at.unwrap_or(0).saturating_add_signed(by).min(names.len().saturating_sub(1));
        self.chosen = names.get(at).cloned();
    }
}

/// How far a key moves.
fn steps(key: KeyCode) -> Option<isize> {
    Some(match key {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -PAGE,
        KeyCode::PageDown => PAGE,
        KeyCode::Home => isize::MIN,
        KeyCode::End => isize::MAX,
        _ => return None,
    })
}
