//! The timeline as a page of its own: SVG in HTML, in the colours that the reader prefers.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use super::timeline::{End, Grant, Timeline, span};
use crate::text::{iso, moment, shorten};

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1c1f23; --paper: #ffffff; --soft: #6b7280; --line: #e3e6ea;
  --held: #2563a8; --waited: #b9c8da; --bad: #c2410c }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #14171a; --soft: #9aa3ad; --line: #2c3238;
  --held: #6aa9e9; --waited: #4a6078; --bad: #f28a5b } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } p { color: var(--soft) }
div { overflow-x: auto } b { display: inline-block; width: .9em; height: .9em; border-radius: 2px; margin: 0 .3em 0 .8em;
  vertical-align: -.1em } b:first-child { margin-left: 0 }
svg { width: 100%; min-width: 40rem; height: auto; font: 12px system-ui, sans-serif } svg text { fill: var(--soft) }
svg .label { fill: var(--ink) } .tick { stroke: var(--line) } .held { fill: var(--held); background: var(--held) }
.waited { fill: var(--waited); background: var(--waited) } .bad { fill: var(--bad); background: var(--bad) }
table { border-collapse: collapse; width: 100%; margin-top: 2rem }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap }
td.text { overflow-wrap: anywhere; white-space: normal; min-width: 10rem }
.number { text-align: right; font-variant-numeric: tabular-nums } td.end { color: var(--bad) }";

/// Units of the drawing: its width, the column of labels, the height of a row.
const WIDTH: f64 = 1000.0;
const LABELS: f64 = 220.0;
const ROW: f64 = 22.0;
/// A label of more columns is shortened in the drawing; the table has the whole.
const LONGEST: usize = 28;
/// Ticks of a longer time have their date.
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn page(timeline: &Timeline) -> String {
    let name = escape(&timeline.name);
    let median = |of: fn(&Grant) -> Duration| (span(timeline.median(of)), span(timeline.longest(of)));
    let (waits, holds) = (median(|grant| grant.waited), median(|grant| grant.held));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{name}: history</title>\n\
         <style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{name}</h1>\n\
         <p>{} grants from {} to {} (UTC), held {:.0} % of the time. Waited: median {}, longest {}. Held: median {}, \
         longest {}.</p>\n<p><b class=\"waited\"></b>waited<b class=\"held\"></b>held<b class=\"bad\"></b>held until it \
         expired, was lost or broken</p>\n<div>\n{}</div>\n<div>\n{}</div>\n</body>\n</html>\n",
        timeline.grants.len(),
        moment(timeline.from),
        moment(timeline.to),
        timeline.busy() * 100.0,
        waits.0,
        waits.1,
        holds.0,
        holds.1,
        drawing(timeline),
        table(timeline)
    )
}

fn drawing(timeline: &Timeline) -> String {
    let lanes = timeline.lanes();
    let height = ROW * (lanes.len() + timeline.grants.len() + 2) as f64;
    let bottom = height - ROW;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Who held the lock, and when\">\n");
    let within_a_day = timeline.span() < DAY;
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        let x = LABELS + share * (WIDTH - LABELS - 1.0);
        let anchor = ["start", "middle", "middle", "middle", "end"][tick as usize];
        let at = moment(timeline.from + timeline.span().mul_f64(share));
        let at = if within_a_day { at.split(' ').nth(1).unwrap_or_default() } else { &at };
        let _ = writeln!(svg, "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{bottom}\"/>");
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{at}</text>", bottom + 16.0);
    }
    // The lanes of the slots come first, without waits: in one slot one lease follows the other.
    for (row, (slot, grants)) in lanes.iter().enumerate() {
        let y = ROW * row as f64 + 4.0;
        text(&mut svg, y, &format!("slot {slot}"));
        grants.iter().for_each(|grant| bars(&mut svg, timeline, grant, y, None));
    }
    for (row, grant) in timeline.grants.iter().enumerate() {
        let y = ROW * (lanes.len() + row) as f64 + 4.0;
        bars(&mut svg, timeline, grant, y, Some(&shorten(&grant.label, LONGEST)));
    }
    svg + "</svg>\n"
}

/// What stands to the left of a row.
fn text(svg: &mut String, y: f64, label: &str) {
    let _ = writeln!(svg, "<text class=\"label\" x=\"0\" y=\"{:.0}\">{}</text>", y + 12.0, escape(label));
}

/// The hold of a grant; with its label also its wait.
fn bars(svg: &mut String, timeline: &Timeline, grant: &Grant, y: f64, label: Option<&str>) {
    let x = |at: SystemTime| LABELS + timeline.at(at) * (WIDTH - LABELS - 1.0);
    let (queued, granted, ended) = (x(grant.queued_at()), x(grant.granted_at), x(grant.ended_at()));
    let _ = writeln!(svg, "<g><title>{}</title>", escape(&told(grant)));
    let bar = |svg: &mut String, class: &str, from: f64, to: f64, least: f64| {
        let width = (to - from).max(least);
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"14\" rx=\"2\"/>"
        );
    };
    if let Some(label) = label {
        text(svg, y, label);
        if granted > queued {
            bar(svg, "waited", queued, granted, 0.0);
        }
    }
    // However short it was held, it is seen.
    bar(svg, if grant.end.is_bad() { "bad" } else { "held" }, granted, ended, 2.0);
    svg.push_str("</g>\n");
}

fn told(grant: &Grant) -> String {
    let waited = grant.waited().map_or_else(String::new, |waited| format!("waited {}, ", span(waited)));
    let end = if grant.end == End::Held { "still held".to_owned() } else { format!("then {}", grant.end.word()) };
    format!("{}: granted {}, {waited}held {}, {end}", grant.label, moment(grant.granted_at), span(grant.held))
}

fn table(timeline: &Timeline) -> String {
    let owned = timeline.grants.iter().any(|grant| !grant.owner.is_empty());
    let has_slots = !timeline.lanes().is_empty();
    let mut table = format!(
        "<table>\n<tr><th>granted</th>{}<th>label</th>{}<th class=\"number\">waited</th><th class=\"number\">held</th>\
         <th>ended</th><th class=\"number\">token</th></tr>\n",
        if has_slots { "<th class=\"number\">slot</th>" } else { "" },
        if owned { "<th>owner</th>" } else { "" }
    );
    for grant in timeline.grants.iter().rev() {
        let waited = grant.waited().map(span).unwrap_or_default();
        let owner = if owned { format!("<td class=\"text\">{}</td>", escape(&grant.owner)) } else { String::new() };
        let slot = if has_slots { format!("<td class=\"number\">{}</td>", grant.slot) } else { String::new() };
        let _ = writeln!(
            table,
            "<tr><td>{}</td>{slot}<td class=\"text\">{}</td>{owner}<td class=\"number\">{waited}</td><td class=\"number\">{}</td>\
             <td{}>{}</td><td class=\"number\">{}</td></tr>",
            iso(grant.granted_at),
            escape(&grant.label),
            span(grant.held),
            if grant.end.is_bad() { " class=\"end\"" } else { "" },
            grant.end.word(),
            grant.token
        );
    }
    table + "</table>\n"
}

/// Others choose names and labels. Characters that no document may have are left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
