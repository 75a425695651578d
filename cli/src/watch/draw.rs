//! The screens of `fairlock watch`. They use no colours: what is chosen is reversed, what is old is dim.

use std::time::Duration;

use fairlock::operator::Seen;
use fairlock::state::Holder;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Padding, Paragraph, Row, Table, TableState, Wrap};
use unicode_width::UnicodeWidthStr as _;

use super::app::{App, Mode};
use super::sparkline::sparkline;
use crate::duration::short;
use crate::output::wrap;
use crate::sharing::{Count, oldest, otherwise};
use crate::survey::complaint;
use crate::text::{columns, cut, is_unanswered, name_of, printable, shorten};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
/// A terminal with fewer columns shows fewer of a table.
const NARROW: u16 = 60;
/// The columns of a rate with bars.
const BARS: u16 = 16;
const RATE: &str = "GRANTS/MIN";
/// So many columns for a name and a holder are enough to tell them from others.
const ENOUGH: u16 = 64;
/// The columns of a token, and of what stands before it in the row of a holder, but for its label.
const TOKEN: usize = 18;
const LEASE: usize = 7;
const HELD: usize = 13;

pub(crate) fn draw(frame: &mut Frame<'_>, app: &App, server: &str) {
    let rows = [Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(frame.area());
    let mode = if let Mode::Confirm { back, .. } = &app.mode { &**back } else { &app.mode };
    let below = match (mode, app.chosen.as_deref()) {
        (Mode::Open, Some(name)) => {
            open(frame, body, app, name);
            0
        }
        _ => list(frame, body, app),
    };
    frame.render_widget(Line::styled(fit(&title(app, server, below), head.width), BOLD), head);
    frame.render_widget(Line::styled(fit(&keys(app, foot.width), foot.width), DIM), foot);
    if let Mode::Confirm { name, holder, token, force, of, .. } = &app.mode {
        confirm(frame, name, holder, *token, *force, *of);
    }
}

/// With how many locks are below the screen.
fn title(app: &App, server: &str, below: usize) -> String {
    let locks = match (&app.trouble, &app.locks) {
        // The body has room for all of it.
        (Some(_), None) => return format!("no answer yet from {server}"),
        (Some(trouble), Some(_)) => {
            return format!("seen {} ago · {}", short(app.seen_at.elapsed()), printable(trouble));
        }
        (None, None) => return format!("looking at {server}"),
        (None, Some(_)) if app.is_old() => {
            return format!("seen {} ago · no answer yet from {server}", short(app.seen_at.elapsed()));
        }
        (None, Some(locks)) => locks,
    };
    let held = locks.values().filter(|seen| !seen.state.holders.is_empty()).count();
    let waiting: u64 = locks.values().map(|seen| seen.state.waiting).sum();
    let all = format!("{} lock{}", locks.len(), if locks.len() == 1 { "" } else { "s" });
    let shown = if app.filter.is_empty() { String::new() } else { format!("{} of ", app.names().len()) };
    let count = |count: usize, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    let (unreadable, below) = (count(app.unreadable.len(), "unreadable"), count(below, "below"));
    format!("{shown}{all}, {held} held, {waiting} waiting{unreadable}{below} · {server}")
}

fn keys(app: &App, width: u16) -> String {
    if let (Some(news), false) = (app.news(), app.mode == Mode::Filter) {
        return printable(news);
    }
    match (&app.mode, width >= NARROW) {
        (Mode::Filter, _) => format!("/{}_", printable(&app.filter)),
        (Mode::Open, true) => "↑↓ scroll   b break   Esc back   q quit".to_owned(),
        (Mode::Open, false) => "b break  Esc back  q quit".to_owned(),
        (Mode::Confirm { of: 2.., .. }, _) => "y yes   ↑↓ another holder   any other key: no".to_owned(),
        (Mode::Confirm { .. }, _) => "y yes   any other key: no".to_owned(),
        (Mode::List, wide) => {
            let filter =
                if app.filter.is_empty() { "filter".to_owned() } else { format!("'{}'", printable(&app.filter)) };
            let sort = app.sort.word();
            if wide {
                format!("↑↓ choose   ⏎ open   s sort: {sort}   / {filter}   b break   q quit")
            } else {
                format!("⏎ open s {sort} / {filter} b break q quit")
            }
        }
    }
}

/// Returns how many locks are below the screen.
fn list(frame: &mut Frame<'_>, area: Rect, app: &App) -> usize {
    let names = app.names();
    if names.is_empty() {
        let nothing = match (&app.locks, app.filter.is_empty()) {
            (None, _) => app.trouble.as_deref().map(printable).unwrap_or_default(),
            (Some(_), true) if !app.unreadable.is_empty() => {
                complaint(&app.unreadable).as_deref().map(printable).unwrap_or_default()
            }
            (Some(_), true) => "No lock was used within the last hour.".to_owned(),
            (Some(_), false) => "No lock and no holder has this text. Esc shows all.".to_owned(),
        };
        frame.render_widget(Paragraph::new(nothing).wrap(Wrap { trim: true }), area);
        return 0;
    }
    let wide = area.width >= NARROW;
    let (lock, holder) =
        (widest(names.iter().map(|name| printable(name)), "LOCK"), widest(holders(app, &names), "HOLDER"));
    // Names and holders come before bars, but a single long label does not.
    let has_bars = (lock + holder).min(ENOUGH) + 7 + 6 + 5 + BARS + 5 <= area.width;
    let rate = if has_bars { BARS } else { RATE.len() as u16 };
    let (fixed, titles): (u16, &[&str]) = if wide {
        (7 + 6 + 5 + rate, &["LOCK", "HOLDER", "HELD", "LEASE", "QUEUE", RATE])
    } else {
        (7 + 5, &["LOCK", "HOLDER", "HELD", "QUEUE"])
    };
    let gaps = titles.len() as u16 - 1;
    let (lock, holder) = share(area.width.saturating_sub(fixed + gaps), lock, holder);
    let row = |name: &String| {
        let Some(seen) = app.lock(name) else { return Row::default() };
        let held = oldest(&seen.state.holders);
        let span = |span: Option<Duration>| span.map_or_else(String::new, short);
        let queue = if seen.state.waiting == 0 { String::new() } else { seen.state.waiting.to_string() };
        let mut cells = vec![shorten(&printable(name), lock.into()), shorten(&holder_of(seen), holder.into())];
        cells.push(format!("{:>7}", span(held.map(|holder| holder.held_for))));
        if wide {
            cells.push(format!("{:>6}", span(seen.state.holders.iter().map(|holder| holder.remaining).min())));
            cells.push(format!("{queue:>5}"));
            let grants = app.rates.a_minute(name);
            let bars = if has_bars { sparkline(app.rates.steps(name), 11) } else { String::new() };
            cells.push(format!("{grants:>4} {bars}"));
        } else {
            cells.push(format!("{queue:>5}"));
        }
        let is_free = held.is_none() && seen.state.waiting == 0 && seen.state.recovering_for.is_none();
        Row::new(cells).style(if is_free || app.is_old() { DIM } else { Style::new() })
    };
    let mut widths = vec![Constraint::Length(lock), Constraint::Length(holder), Constraint::Length(7)];
    widths.extend(if wide { vec![6, 5, rate] } else { vec![5] }.into_iter().map(Constraint::Length));
    let titles = titles.iter().map(|title| match *title {
        "HELD" => format!("{title:>7}"),
        "LEASE" => format!("{title:>6}"),
        title => title.to_owned(),
    });
    let table = Table::new(names.iter().map(row), widths).header(Row::new(titles).style(BOLD));
    let chosen = app.chosen.as_ref().and_then(|chosen| names.iter().position(|name| name == chosen));
    let mut state = TableState::new().with_selected(chosen);
    frame.render_stateful_widget(table.column_spacing(1).row_highlight_style(REVERSED), area, &mut state);
    let shown = usize::from(area.height.saturating_sub(1));
    names.len().saturating_sub(state.offset() + shown)
}

fn holders(app: &App, names: &[String]) -> impl Iterator<Item = String> {
    names.iter().filter_map(|name| app.lock(name)).map(holder_of)
}

/// The columns that these texts and their title take.
fn widest(texts: impl Iterator<Item = String>, title: &str) -> u16 {
    texts.map(|text| columns(&text)).chain([title.len()]).max().unwrap_or(0) as u16
}

/// The columns of names and of holders: what they need, if there is room for both. Otherwise each gets half of the room
/// at least, if it needs so much.
fn share(room: u16, name: u16, holder: u16) -> (u16, u16) {
    let name = name.min(room - holder.min(room / 2));
    (name, holder.min(room - name))
}

/// The oldest holder and how many more there are, or why there is none.
fn holder_of(seen: &Seen) -> String {
    match (oldest(&seen.state.holders), seen.state.recovering_for) {
        (Some(holder), _) => named(holder) + &count(seen).others(None),
        (None, Some(left)) => format!("recovering, {} left", short(left)),
        (None, None) if seen.state.waiting > 0 => "none; the first waiter is next".to_owned(),
        (None, None) => "free".to_owned(),
    }
}

fn named(holder: &Holder) -> String {
    let label = printable(&holder.label);
    match holder {
        holder if holder.broken => format!("broken: {label}"),
        holder if is_unanswered(holder.confirmed, holder.held_for) => format!("no answer: {label}"),
        _ => label,
    }
}

fn count(seen: &Seen) -> Count {
    Count::of(seen.state.holders.iter().map(|holder| holder.slots))
}

fn open(frame: &mut Frame<'_>, area: Rect, app: &App, name: &str) {
    let old = if app.is_old() { DIM } else { Style::new() };
    let Some(seen) = app.lock(name) else {
        let gone = format!("{} is not in use any more.", printable(name));
        return frame.render_widget(Paragraph::new(gone).wrap(Wrap { trim: true }), area);
    };
    let count = count(seen);
    let differs = |slots| otherwise(slots, count.limit).map_or(String::new(), |said| format!(" {said}"));
    let mut lines = vec![("lock", printable(name))];
    let several = count.told(None);
    match &several {
        Some(count) => lines.push(("held by", count.clone())),
        None => lines.push(("holder", holder_of(seen))),
    }
    if let [holder @ Holder { slots: 1, .. }] = &seen.state.holders[..] {
        if !holder.owner.is_empty() {
            lines.push(("owner", printable(&holder.owner)));
        }
        lines.push(("held", short(holder.held_for)));
        let end = if holder.broken { "it is broken and not renewed" } else { "unless renewed" };
        lines.push(("lease", format!("{} left, {end}", short(holder.remaining))));
        lines.push(("token", holder.token.to_string()));
    }
    let bars = sparkline(app.rates.steps(name), usize::from(area.width.saturating_sub(24)).min(60));
    lines.push(("grants", format!("{} a minute {bars}", app.rates.a_minute(name))));
    let queue = app.opened.as_ref().map(|opened| &opened.state.queue[..]).unwrap_or_default();
    let room = usize::from(area.height).saturating_sub(lines.len() + 1);
    let rows = match several {
        // The queue may have up to half of it.
        Some(_) => holder_rows(&seen.state.holders, differs, area.width, room - queue.len().min(room / 2)),
        None => Vec::new(),
    };
    let room = room.saturating_sub(rows.len());
    app.room.set(room);
    let below = queue.len().saturating_sub(app.scrolled + room);
    let below = if below > 0 { format!(", {below} below") } else { String::new() };
    let line = |(word, text): &(&str, String)| {
        Line::raw(format!("{word:8}{}", shorten(text, area.width.saturating_sub(8).into())))
    };
    let waiting = ("queue", format!("{}{below}", seen.state.waiting));
    let text: Vec<Line<'_>> = lines.iter().map(line).chain(rows).chain([line(&waiting)]).collect();
    let [above, below] = Layout::vertical([Constraint::Length(text.len() as u16), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(text).style(old), above);
    let waiters = queue.iter().enumerate().skip(app.scrolled).take(below.height.into());
    let rows: Vec<Line<'_>> = waiters
        .map(|(index, waiter)| {
            let silent = if waiter.alive { "" } else { " silent" };
            let end = format!("{:>8}{}{silent}", short(waiter.waited), differs(waiter.slots));
            let room = below.width.saturating_sub(8 + end.width() as u16);
            let label = shorten(&name_of(&waiter.label, &waiter.id), room.into());
            let gap = " ".repeat(usize::from(room).saturating_sub(label.width()));
            Line::raw(format!("{:>5}.  {label}{gap}{end}", index + 1))
        })
        .collect();
    frame.render_widget(Paragraph::new(rows).style(old), below);
}

/// The holders of a lock that several may hold, by their slots, in so many rows at most.
fn holder_rows(holders: &[Holder], differs: impl Fn(u32) -> String, width: u16, room: usize) -> Vec<Line<'static>> {
    let (width, wide) = (usize::from(width), width >= NARROW);
    let room_of_label = width.saturating_sub(if wide { HELD + LEASE + TOKEN } else { HELD });
    let row = |slot: &str, label: &str, after: &str, [held, lease, token]: [&str; 3]| {
        let label = shorten(label, room_of_label.saturating_sub(columns(after))) + after;
        let gap = " ".repeat(room_of_label.saturating_sub(columns(&label)));
        let rest = if wide { format!(" {lease:>6}  {token:>16}") } else { String::new() };
        format!("{slot:>4} {label}{gap} {held:>7}{rest}")
    };
    let head = Line::styled(row("SLOT", "HOLDER", "", ["HELD", "LEASE", "TOKEN"]), BOLD);
    let shown = if holders.len() < room { holders.len() } else { room.saturating_sub(2) };
    let rows = holders.iter().take(shown).map(|holder| {
        let texts = [short(holder.held_for), short(holder.remaining), holder.token.to_string()];
        let texts = [texts[0].as_str(), texts[1].as_str(), texts[2].as_str()];
        Line::raw(row(&holder.slot.to_string(), &named(holder), &differs(holder.slots), texts))
    });
    let more = holders.len() - shown;
    let more = (more > 0).then(|| Line::raw(format!("     and {more} more")));
    std::iter::once(head).chain(rows).chain(more).collect()
}

fn confirm(frame: &mut Frame<'_>, name: &str, holder: &str, token: u64, force: bool, of: usize) {
    let (name, holder) = (printable(name), printable(holder));
    let another = if of > 1 { "   ↑↓: another holder" } else { "" };
    let text = if force {
        format!(
            "End the lease on {name} at once?\n\nIts holder {holder} was told and has not let go. If it still works, two \
             jobs hold the lock.\n\ntoken {token}\n\ny: end it{another}   any other key: no"
        )
    } else {
        format!(
            "Break the lease on {name}?\n\nIts holder {holder} is told to stop; the lock passes on when it lets go, or \
             when its lease ends.\n\ntoken {token}\n\ny: break it{another}   any other key: no"
        )
    };
    let area = frame.area();
    let width = area.width.min(64);
    let text: Vec<Line<'_>> =
        text.lines().flat_map(|line| wrap(line, usize::from(width.saturating_sub(4)))).map(Line::raw).collect();
    let height = (text.len() as u16 + 2).min(area.height);
    let middle = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(text).block(Block::bordered().padding(Padding::horizontal(1))), middle);
}

fn fit(text: &str, columns: u16) -> String {
    cut(text, columns.into())
}
