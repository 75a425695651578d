//! `fairlock wait`: until a lock is free, without taking it.

use std::time::Duration;

use fairlock::state::LockState;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::document::{self, word};
use super::screen::brief;
use super::{HELD, LOOK, lock, look, with_client};
use crate::duration::timeout;
use crate::exit::{Failure, TIMED_OUT};
use crate::process::terminal::Terminal;
use crate::run::progress::{self, Style};
use crate::text::printable;
use crate::{connect, output};

const HELP: &str = "\
Examples:
  fairlock wait deploy && ./start.sh        starts when no deploy runs
  fairlock wait -w 10m deploy               for 10 minutes at most
  fairlock wait --token 1795328894826758 x  until that holder has ended

Another process may take the lock at the same moment: to act while no other job
does, use `fairlock run`.
Exit code: 0 it is free, 124 held until --timeout, 125 no answer.";

/// How long the server may take for an answer, also at the end of the timeout.
const ANSWER: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock wait [OPTIONS] NAME")]
pub(crate) struct Args {
    /// The name of the lock
    #[arg(value_name = "NAME", hide_short_help = true)]
    pub(crate) name: String,
    /// Give up after this time: 10, 90s, 1h
    #[arg(short = 'w', short_alias = 't', long, value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Only until the lease with this token is over
    ///
    /// Without it the wait ends when nobody holds the lock or waits for it.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<u64>,
    /// Print the lock as it is at the end, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
}

pub(crate) fn wait(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let terminal = Terminal::open();
    let began = Instant::now();
    with_client(server, std::slice::from_ref(&args.name), async |client| {
        let lock = lock(&client, &args.name)?;
        let show = |what: String| {
            let waited = began.elapsed().as_secs();
            let clock = format!("{}:{:02} · ", waited / 60, waited % 60);
            if !args.quiet {
                progress::draw(terminal.as_ref(), &[(Style::Plain, clock), (Style::Plain, what)]);
            }
        };
        let end = args.timeout.map(|most| began + most);
        let ended = loop {
            let silent = || show(format!("waiting for {} · no answer from the server", progress::name(&args.name)));
            let state = match end {
                Some(end) => timeout_at(end.max(Instant::now() + ANSWER), look(&lock, silent)).await,
                None => Ok(look(&lock, silent).await),
            };
            let state = match state {
                Ok(Ok(state)) => state,
                Ok(Err(failure)) => break Err(failure),
                // Whether the lock is free is not known: that is no timeout of the wait.
                Err(_) => break Err(Failure::own("no answer from the server")),
            };
            let over = is_over(&state, args.token);
            if over || end.is_some_and(|end| Instant::now() >= end) {
                break Ok((state, over));
            }
            show(format!("{} is {}", progress::name(&args.name), brief(&state)));
            let pause = Instant::now() + LOOK;
            sleep_until(end.map_or(pause, |end| end.min(pause))).await;
        };
        progress::erase();
        let (state, over) = ended?;
        if args.json {
            output::write(&document::line(&document::of_lock(&args.name, &state)))?;
        }
        let late = || format!("{} is {}", printable(&args.name), brief(&state));
        if over { Ok(HELD) } else { Err(Failure::new(TIMED_OUT, late())) }
    })
}

/// Whether the lease is over; without a token, whether the lock is free and nobody is next.
pub(super) fn is_over(state: &LockState, token: Option<u64>) -> bool {
    match token {
        Some(token) => state.holders.iter().all(|holder| holder.token != token),
        None => word(state) == "free" && state.waiting == 0,
    }
}
