//! `fairlock wait`: until locks are free, without taking them.

use std::future::IntoFuture as _;
use std::time::Duration;

use fairlock::operator::LookError;
use fairlock::state::LockState;
use fairlock::{Client, ClientBuilder};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::document::{self, is_used};
use super::screen::brief;
use super::show::Show;
use super::status::WAITERS;
use super::{HELD, LOOK, check_names, each_second, lock, look, own};
use crate::duration::timeout;
use crate::exit::{Failure, TIMED_OUT};
use crate::progress;
use crate::sharing::Sharing;
use crate::survey::{self, Survey};
use crate::text::printable;
use crate::{connect, output, refusal, runtime};

const HELP: &str = "\
Examples:
  fairlock wait deploy && ./start.sh        starts when no deploy runs
  fairlock wait -w 10m 'ci:*'               for 10 minutes at most
  fairlock wait --slots 4 gpu               until one of four slots is free

Another process may take the lock at the same moment: to act while no other job
does, use `fairlock run`.
Exit code: 0 it is free, 124 held until --timeout, 125 no answer.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock wait [OPTIONS] NAME|PATTERN...")]
pub(crate) struct Args {
    /// Names, or patterns with * ? []
    ///
    /// The wait ends when nobody holds one of the locks or waits for it; with --slots or --shared, when `fairlock run`
    /// with the same option would be granted each of them at once. A pattern means all locks that match it, also those
    /// that are taken meanwhile: each time the known ones are free, fairlock looks through the keys of all servers
    /// (SCAN), which does not hold them up. In a name that has them, write a backslash before * ? and [.
    #[arg(value_name = "NAME|PATTERN", required = true, hide_short_help = true)]
    pub(crate) names: Vec<String>,
    /// Give up after this time: 10, 90s, 1h
    ///
    /// It includes the wait for a server that is not up yet.
    #[arg(short = 'w', short_alias = 't', long, value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    /// Print each lock as it is at the end, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(short = 'q', long, hide_short_help = true)]
    pub(crate) quiet: bool,
}

pub(crate) fn wait(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let (names, patterns) = survey::split(&args.names);
    let slots = args.sharing.slots()?;
    check_names(&names)?;
    let client = connect::client(server)?;
    let places = client.places().map_err(|error| server.failed(error))?;
    let survey = Survey::new(places, &server.prefix, &patterns, Duration::ZERO);
    let survey = Some(survey).filter(|_| !patterns.is_empty());
    let mut show = Show::new(&args.names, slots, args.timeout, args.quiet, server.tip());
    let runtime = runtime::start(Builder::enable_time)?;
    let ended = runtime.block_on(async {
        let client = show.in_time(async |show| connect(&client, server, show).await).await?;
        until_free(&mut Watched { client, names, survey }, slots, &mut show).await
    });
    progress::erase();
    let locks = ended?;
    if args.json {
        let lines = locks.iter().map(|(name, state)| document::line(&document::of_lock(name, state)));
        output::write(&lines.collect::<String>())?;
    }
    let mut busy = locks.iter().filter(|(_, state)| !is_free_for(slots, state));
    let Some((name, state)) = busy.next() else { return Ok(HELD) };
    let more = match busy.count() {
        0 => String::new(),
        1 => "; 1 more is not free".to_owned(),
        more => format!("; {more} more are not free"),
    };
    Err(Failure::new(TIMED_OUT, format!("{} is {}{more}", printable(name), brief(state, Some(slots)))))
}

/// Waits for a server that is not up yet.
async fn connect(client: &ClientBuilder, server: &connect::Args, show: &mut Show) -> Result<Client, Failure> {
    loop {
        let connecting = client.clone().connect().into_future();
        match each_second(connecting, || show.silent()).await {
            Err(error) if error.is_transient() => show.trouble(&error.to_string()),
            connected => return connected.map_err(|error| server.failed(error)),
        }
        sleep(LOOK).await;
    }
}

/// The locks that are waited for.
struct Watched {
    client: Client,
    names: Vec<String>,
    /// What finds those that match patterns.
    survey: Option<Survey>,
}

/// Returns the locks as they are when all are free, or when the time is over.
async fn until_free(watched: &mut Watched, slots: u32, show: &mut Show) -> Result<Vec<(String, LockState)>, Failure> {
    loop {
        let mut locks = show.in_time(async |show| watched.look(show).await).await?;
        let busy = locks.iter().filter(|(_, state)| !is_free_for(slots, state)).count();
        // All are looked at again when the first one is free.
        let first = locks.iter_mut().find(|(_, state)| !is_free_for(slots, state));
        let Some((name, state)) = first else { return Ok(locks) };
        let lock = lock(&watched.client, name)?;
        while !is_free_for(slots, state) {
            if show.is_over() {
                return Ok(locks);
            }
            show.waiting(name, busy - 1, state);
            show.pause().await;
            *state = show.in_time(async |show| look(&lock, || show.silent()).await).await?;
        }
    }
}

impl Watched {
    /// All locks with these names, and those in use that match patterns.
    async fn look(&mut self, show: &mut Show) -> Result<Vec<(String, LockState)>, Failure> {
        let mut locks = Vec::new();
        for name in &self.names {
            locks.push((name.clone(), look(&lock(&self.client, name)?, || show.silent()).await?));
        }
        while let Some(mut survey) = self.survey.take() {
            // On a thread of its own, because it blocks, and its answer is not awaited for ever.
            let (send, found) = oneshot::channel();
            let look = move || drop(send.send((survey.look(WAITERS), survey)));
            std::thread::Builder::new()
                .spawn(look)
                .map_err(|error| Failure::because("cannot look for locks", error))?;
            let (seen, survey) = each_second(found, || show.searching()).await.map_err(own)?;
            self.survey = Some(survey);
            match seen {
                Ok(found) => {
                    // One of them may be held.
                    if let Some(complaint) = found.complaint() {
                        return Err(own(complaint));
                    }
                    let seen = found.seen.into_iter().map(|(name, seen)| (name, seen.state));
                    locks.extend(seen.filter(|(name, state)| is_used(state) && !self.names.contains(name)));
                    break;
                }
                Err(error) if may_pass(&error) => show.trouble(&error.to_string()),
                Err(error) => return Err(own(error)),
            }
            sleep(LOOK).await;
        }
        Ok(locks)
    }
}

fn may_pass(error: &LookError) -> bool {
    match error {
        LookError::Connection(error) => error.is_transient(),
        LookError::Moved(_) => true,
        LookError::Unreadable(_) => false,
        LookError::Refused(said) => refusal::meaning(said).is_some(),
    }
}

/// Whether an acquire that lets so many hold the lock, itself among them, would be granted at once.
fn is_free_for(slots: u32, state: &LockState) -> bool {
    let numbers = state.holders.iter().map(|holder| holder.slots);
    let held = numbers.len() as u64;
    state.waiting == 0 && state.recovering_for.is_none() && numbers.chain([slots]).all(|slots| held < slots.into())
}
