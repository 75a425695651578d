//! `fairlock doctor`: whether the servers are fit for locks, before jobs suffer.
//!
//! A finding says what was found, what it risks for locks, and which line fixes it.

mod args;
mod clocks;
mod find;
mod finding;
mod latency;
mod node;
mod rights;
mod server;
mod show;
mod trial;

pub(crate) use args::Args;
use finding::Level;

use crate::connect::{self, Server};
use crate::exit::Failure;
use crate::output;

pub(crate) fn doctor(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let named = Server::find(server)?;
    let (client, user) = (named.client(), named.user());
    let places = client.places().map_err(|error| Failure::own(error.to_string()))?;
    let name = format!("doctor-{}", output::random_word());
    let mut found = find::all(&places, &user, args.lease);
    for node in &mut found.nodes {
        // A server that nobody named is not there.
        if let (Some(tip), [finding]) = (server.tip(), &mut node.findings[..]) {
            finding.fix = finding.fix.take().or_else(|| Some(tip.to_owned()));
        }
        server::check(node, args.lease);
        rights::check(node, &server.prefix, &name, found.is_cluster);
        clocks::read(node);
        latency::measure(node, args.lease);
    }
    found.findings.extend(clocks::compare(&found.nodes));
    found.findings.extend(trial::run(client, &mut found.nodes, &server.prefix, &name));
    let worst = show::all(&found).map(|finding| finding.level).max().unwrap_or(Level::Good);
    let report =
        if args.json { show::json(&found, worst, &server.prefix) } else { show::text(&found, worst, output::width()) };
    output::write(&report)?;
    Ok(worst.exit_code())
}
