//! Locks as text for people: aligned by columns, long labels cut.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use fairlock::state::{Holder, LockState};

use super::document::word;
use crate::duration::{about, seconds};
use crate::output::{self, wrap};
use crate::sharing::{self, Count, described, oldest, otherwise, who};
use crate::text::{UNANSWERED, columns, is_unanswered, no_grants, printable, shorten};

/// The most holders and the most waiters that are shown; JSON has all of them.
const MOST: usize = 20;
/// The columns of a file or a pipe: enough for labels as people choose them, and an end to those of 4000 bytes.
const WIDE: usize = 200;
/// A label that would get less room has a line of its own.
const LEAST: usize = 16;
/// Before what stands below a waiter.
const DEEP: &str = "       ";
/// A terminal with fewer columns shows each lock of a list in two lines.
const NARROW: usize = 60;

/// The columns of stdout.
pub(crate) fn width() -> usize {
    if std::io::stdout().is_terminal() { output::width() } else { WIDE }
}

/// Holders, leases and queue of one lock.
pub(crate) fn lock(name: &str, state: &LockState, width: usize) -> String {
    let mut text = String::new();
    let name = shorten(&printable(name), width / 2);
    match (&state.holders[..], count(state).told(None)) {
        ([], _) => {
            let what = match state.recovering_for {
                Some(longest) => no_grants(longest),
                None if state.waiting > 0 => "free, and its first waiter is next".to_owned(),
                None => "free".to_owned(),
            };
            let _ = writeln!(text, "{name}  {what}");
        }
        ([holder], None) => one_holder(&mut text, &name, holder, 1, width),
        (holders, told) => {
            let _ = writeln!(text, "{name}  held by {}", told.unwrap_or_default());
            for holder in holders.iter().take(MOST) {
                let slot = format!("  slot {:>2}", holder.slot);
                one_holder(&mut text, &slot, holder, count(state).limit, width);
            }
            and_more(&mut text, holders.len().saturating_sub(MOST) as u64);
        }
    }
    if let (false, Some(longest)) = (state.holders.is_empty(), state.recovering_for) {
        let _ = writeln!(text, "{}", indented(&no_grants(longest), width, 2));
    }
    queue(&mut text, state, width);
    text
}

/// Who holds it, and the lease, of which the others of the lock let so many hold it.
fn one_holder(text: &mut String, what: &str, holder: &Holder, limit: u32, width: usize) {
    let span = seconds(holder.held_for);
    let (mut before, to, after) = if is_unanswered(holder.confirmed, holder.held_for) {
        (format!("{what}  granted {span} ago"), "to", UNANSWERED)
    } else {
        (format!("{what}  held {span}"), "by", "")
    };
    let deep = what.len() - what.trim_start().len() + 2;
    let is_narrow = columns(&before) + to.len() + 2 + LEAST + after.len() > width;
    let gap = if is_narrow { format!("\n{}", " ".repeat(deep)) } else { " ".to_owned() };
    before += &format!("{gap}{to} ");
    let used = before.lines().last().map_or(0, columns) + after.len();
    let who = shorten(&who(holder), width.saturating_sub(used));
    let _ = writeln!(text, "{before}{who}{after}");
    let differs = otherwise(holder.slots, limit).map_or(String::new(), |said| format!("{said}; "));
    let _ = writeln!(text, "{}", indented(&format!("token {}; {differs}{}", holder.token, lease(holder)), width, deep));
}

pub(super) fn count(state: &LockState) -> Count {
    Count::of(state.holders.iter().map(|holder| holder.slots))
}

/// Lines below the first.
fn indented(text: &str, width: usize, deep: usize) -> String {
    let lines = wrap(text, width - deep);
    lines.iter().map(|line| format!("{:deep$}{line}", "")).collect::<Vec<_>>().join("\n")
}

fn lease(holder: &Holder) -> String {
    let left = seconds(holder.remaining);
    if holder.broken {
        format!("the lease was broken: it is not renewed, and ends in {left} at the latest")
    } else if is_unanswered(holder.confirmed, holder.held_for) {
        format!("without an answer the next one is asked in {left}")
    } else {
        format!("the lease ends in {left} if the holder dies")
    }
}

fn queue(text: &mut String, state: &LockState, width: usize) {
    let shown = &state.queue[..state.queue.len().min(MOST)];
    let waits: Vec<String> = shown.iter().map(|waiter| seconds(waiter.waited)).collect();
    let longest = waits.iter().map(String::len).max().unwrap_or(0);
    for (index, (waiter, waited)) in shown.iter().zip(&waits).enumerate() {
        let before = format!("  {:>2}.  waits {waited:>longest$}", index + 1);
        let differs = otherwise(waiter.slots, count(state).limit).map_or(String::new(), |said| format!("  {said}"));
        let after = differs + if waiter.alive { "" } else { "  silent" };
        let label = described(&waiter.label, &waiter.owner, &waiter.id);
        let room = width.saturating_sub(columns(&before) + 2 + after.len());
        let _ = if room < LEAST && columns(&label) > room {
            writeln!(text, "{before}{after}\n{DEEP}{}", shorten(&label, width.saturating_sub(DEEP.len())))
        } else {
            writeln!(text, "{before}  {}{after}", shorten(&label, room))
        };
    }
    and_more(text, state.waiting.saturating_sub(shown.len() as u64));
}

/// How many are not shown.
fn and_more(text: &mut String, more: u64) {
    if more > 0 {
        let _ = writeln!(text, "{DEEP}and {more} more");
    }
}

/// One line for each lock, in aligned columns.
pub(crate) fn table(locks: &[(String, LockState)], width: usize) -> String {
    if width < NARROW {
        return locks.iter().map(|(name, state)| in_two_lines(name, state, width)).collect();
    }
    const HEAD: [&str; 4] = ["NAME", "STATE", "WAITING", "HOLDER"];
    let rows: Vec<[String; 4]> = locks
        .iter()
        .map(|(name, state)| {
            let name = shorten(&printable(name), width * 2 / 5);
            [name, held(state), state.waiting.to_string(), holders(state).unwrap_or_default()]
        })
        .collect();
    let widest = |column: usize| {
        rows.iter().map(|row| columns(&row[column])).chain([HEAD[column].len()]).max().unwrap_or_default()
    };
    let widths = [widest(0), widest(1), widest(2)];
    let room = width.saturating_sub(widths.iter().sum::<usize>() + 6).max(LEAST);
    let mut text = String::new();
    for row in std::iter::once(&HEAD.map(str::to_owned)).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width.saturating_sub(columns(cell)) + 2));
        }
        line.push_str(&shorten(&row[3], room));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The state, and for how long the oldest hold has lasted.
fn held(state: &LockState) -> String {
    let Some(holder) = oldest(&state.holders) else { return word(state).to_owned() };
    let word = match word(state) {
        "held" if is_unanswered(holder.confirmed, holder.held_for) => "granted,",
        "held" => "held",
        _ => "breaking,",
    };
    format!("{word} {}", about(holder.held_for))
}

/// The oldest holder, and how many more there are.
fn holders(state: &LockState) -> Option<String> {
    oldest(&state.holders).map(|holder| who(holder) + &count(state).others(None))
}

fn in_two_lines(name: &str, state: &LockState, width: usize) -> String {
    let what = held(state) + &waiting(state);
    let name = shorten(&printable(name), width.saturating_sub(columns(&what) + 2));
    let who = holders(state).map(|holders| format!("  {}\n", shorten(&holders, width - 2)));
    format!("{name}  {what}\n{}", who.unwrap_or_default())
}

/// The lock in a few words: `held 12m by ops@db1:14380 deploy.sh, 2 waiting`. For one who waits for it, with its own
/// number where the holders say another one.
pub(crate) fn brief(state: &LockState, own: Option<u32>) -> String {
    what(state, own) + &waiting(state)
}

/// The same without its waiters.
pub(super) fn what(state: &LockState, own: Option<u32>) -> String {
    or_why_not(sharing::held(&state.holders, count(state), own), state)
}

/// The same without the other holders.
pub(super) fn what_alone(state: &LockState) -> String {
    or_why_not(sharing::oldest_hold(&state.holders), state)
}

fn or_why_not(held: Option<String>, state: &LockState) -> String {
    let left = |left: Duration| format!("recovering for {}", about(left.max(Duration::from_secs(1))));
    let parts: Vec<String> = [held, state.recovering_for.map(left)].into_iter().flatten().collect();
    if parts.is_empty() { "free".to_owned() } else { parts.join(", ") }
}

/// `, 2 waiting`
pub(super) fn waiting(state: &LockState) -> String {
    if state.waiting > 0 { format!(", {} waiting", state.waiting) } else { String::new() }
}

/// The holders as they are told of one by one, the oldest first, and how many are not.
pub(super) fn oldest_first(holders: &[Holder]) -> (Vec<&Holder>, usize) {
    let mut all: Vec<&Holder> = holders.iter().collect();
    all.sort_by_key(|holder| (std::cmp::Reverse(holder.held_for), holder.slot));
    all.truncate(MOST);
    let more = holders.len() - all.len();
    (all, more)
}
