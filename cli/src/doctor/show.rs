//! The report: for people, or as JSON.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::find::Report;
use super::finding::{Finding, Level};
use super::latency::quantile;
use super::node::Node;
use crate::output::wrap;
use crate::text::{printable, printable_json};

/// The column at which the texts of findings begin.
const INDENT: usize = 10;

const LASTS: &str = "What CONFIG SET and ACL SETUSER change is gone after a restart of the server, unless CONFIG REWRITE \
                     (ACL SAVE where there is an aclfile) writes it to its files.";

const LOGIN: &str = "redis-cli needs the login of an administrator (--user, REDISCLI_AUTH), and --cacert where the \
                     certificates have an authority of their own.";

pub(crate) fn text(found: &Report, worst: Level, width: usize) -> String {
    let mut text = String::new();
    let alike = alike(found);
    if !alike.is_empty() {
        text.push_str("several servers\n");
        alike.values().for_each(|(nodes, findings)| write(&mut text, nodes, findings, width));
        text.push('\n');
    }
    for node in &found.nodes {
        let _ = writeln!(text, "{} ({})", printable(&node.place.to_string()), node.part.word());
        let (good, trouble): (Vec<&Finding>, _) =
            in_order(&node.findings).into_iter().partition(|finding| finding.level == Level::Good);
        let alone = trouble.into_iter().filter(|finding: &&Finding| !alike.contains_key(&gist(finding)));
        alone.for_each(|finding| write(&mut text, &[], &[finding], width));
        if found.nodes.len() == 1 {
            good.iter().for_each(|finding| write(&mut text, &[], &[finding], width));
        } else if !good.is_empty() {
            // Where there are many servers, what is good about each must not hide what is not.
            let mut names = Vec::new();
            for finding in good {
                names.push(if finding.check == "version" { finding.found.as_str() } else { finding.check });
            }
            paragraph(&mut text, "ok", &names.join(", "), width);
        }
        text.push('\n');
    }
    if !found.findings.is_empty() {
        let _ = writeln!(text, "together ({})", found.kind);
        in_order(&found.findings).iter().for_each(|finding| write(&mut text, &[], &[finding], width));
        text.push('\n');
    }
    let proposes = |what: &str| all(found).any(|finding| finding.fix.as_ref().is_some_and(|fix| fix.contains(what)));
    let needs_more = found.nodes.iter().any(|node| node.place.has_login() || node.place.is_encrypted());
    for (says, is_said) in [(LASTS, proposes(" SET")), (LOGIN, proposes("redis-cli") && needs_more)] {
        if is_said {
            let _ = writeln!(text, "{}\n", wrap(says, width).join("\n"));
        }
    }
    text + &wrap(&summary(found, worst), width).join("\n") + "\n"
}

fn in_order(findings: &[Finding]) -> Vec<&Finding> {
    let mut findings: Vec<_> = findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

/// What findings of different servers may have in common.
type Gist<'a> = (Reverse<Level>, &'static str, &'a str, Option<&'a str>);

fn gist(finding: &Finding) -> Gist<'_> {
    (Reverse(finding.level), finding.check, &finding.found, finding.risk.as_deref())
}

/// What is wrong with several servers alike, the worst first. It is told once, with the line that fixes each server.
fn alike(found: &Report) -> BTreeMap<Gist<'_>, (Vec<&Node>, Vec<&Finding>)> {
    let mut groups = BTreeMap::<_, (Vec<_>, Vec<_>)>::new();
    for node in &found.nodes {
        for finding in node.findings.iter().filter(|finding| finding.level != Level::Good) {
            let (nodes, findings) = groups.entry(gist(finding)).or_default();
            nodes.push(node);
            findings.push(finding);
        }
    }
    groups.retain(|_, (nodes, _)| nodes.len() > 1);
    groups
}

/// Findings that have the same gist. The nodes are named unless it is clear which one is meant.
fn write(text: &mut String, nodes: &[&Node], findings: &[&Finding], width: usize) {
    let [finding, ..] = findings else { return };
    let word = match finding.level {
        Level::Good => "ok",
        level => level.word(),
    };
    paragraph(text, word, &format!("{}: {}", finding.check, finding.found), width);
    if !nodes.is_empty() {
        let places: Vec<String> = nodes.iter().map(|node| node.place.to_string()).collect();
        paragraph(text, "", &format!("at {}", places.join(", ")), width);
    }
    if let Some(risk) = &finding.risk {
        paragraph(text, "", &format!("risk: {risk}"), width);
    }
    let mut fixes: Vec<&str> = findings.iter().filter_map(|finding| finding.fix.as_deref()).collect();
    fixes.dedup();
    for fix in fixes {
        if is_for_a_shell(fix) {
            // A line to copy is not broken.
            let _ = writeln!(text, "{:INDENT$}fix: {}", "", printable(fix));
        } else {
            paragraph(text, "", &format!("fix: {fix}"), width);
        }
    }
}

fn is_for_a_shell(fix: &str) -> bool {
    ["redis-cli ", "fairlock "].iter().any(|program| fix.starts_with(program))
}

fn paragraph(out: &mut String, head: &str, text: &str, width: usize) {
    for (index, line) in wrap(&printable(text), width - INDENT).iter().enumerate() {
        let head = if index == 0 { head } else { "" };
        let _ = writeln!(out, "  {head:0$}{line}", INDENT - 2);
    }
}

fn summary(found: &Report, worst: Level) -> String {
    let different: BTreeSet<_> = all(found).map(gist).collect();
    let count = |level| different.iter().filter(|(Reverse(one), ..)| *one == level).count();
    let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let counts = [(Level::Fault, "fault"), (Level::Warning, "warning"), (Level::Note, "note")];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(level, _)| count(*level) > 0)
        .map(|(level, word)| counted(count(level), word))
        .collect();
    let counts = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
    match worst {
        Level::Good | Level::Note => format!("Nothing was found that harms locks{counts}"),
        Level::Warning => format!("Locks work, and are in danger if something else fails{counts}"),
        Level::Fault => format!("Locks fail here, or are not safe{counts}"),
    }
}

pub(crate) fn all(found: &Report) -> impl Iterator<Item = &Finding> {
    found.nodes.iter().flat_map(|node| &node.findings).chain(&found.findings)
}

pub(crate) fn json(found: &Report, worst: Level, prefix: &str) -> String {
    let finding = |finding: &Finding, node: Option<&Node>| {
        json!({
            "level": finding.level.word(), "check": finding.check, "found": finding.found, "risk": finding.risk,
            "fix": finding.fix, "node": node.map(|node| node.place.to_string()),
        })
    };
    let of_nodes = found.nodes.iter().flat_map(|node| node.findings.iter().map(move |one| (one, Some(node))));
    let findings: Vec<Value> =
        of_nodes.chain(found.findings.iter().map(|one| (one, None))).map(|(one, node)| finding(one, node)).collect();
    let us = |node: &Node, share: f64| quantile(&node.round_trips, share).as_micros() as u64;
    let nodes: Vec<Value> = found.nodes.iter().map(|node| {
        let latency = (!node.round_trips.is_empty()).then(|| {
            json!({"samples": node.round_trips.len(), "p50_us": us(node, 0.5), "p90_us": us(node, 0.9), "p99_us": us(node, 0.99), "max_us": us(node, 1.0)})
        });
        json!({
            "address": node.place.to_string(), "part": node.part.word(), "version": node.version(),
            "clock_offset_ms": node.clock.map(|(offset, _)| (offset * 1e3).round() as i64), "latency": latency,
        })
    }).collect();
    let report =
        json!({"verdict": worst.word(), "kind": found.kind, "prefix": prefix, "nodes": nodes, "findings": findings});
    printable_json(&report.to_string()) + "\n"
}
