//! `fairlock break`: ends the lease of a holder, by asking it or by force.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use fairlock::{
    Lock,
    state::{BreakOutcome, Holder, LockState},
};
use serde_json::{Value, json};

use super::document::{self, of_lock};
use super::screen::{brief, oldest_first, waiting, what};
use super::{FREE, HELD, LOOK, lock, look, own, with_client};
use crate::duration::{milliseconds, seconds};
use crate::exit::{Failure, say};
use crate::sharing::who;
use crate::text::{held_by, printable};
use crate::{connect, output, survey};

const SHORT: &str = "\
The holder is told, and break waits until it lets go or its lease ends.
With --force the next waiter gets the lock at once, although the holder may go
on until it hears of it: only for a holder that is dead or harmless.";

const EXAMPLES: &str = "\
Examples:
  fairlock break deploy                            shows the holders, and asks
  fairlock break deploy --token 1795328894826758   that holder, and no other
  fairlock break gpu --slot 2                      whoever holds that slot
  fairlock break deploy --force                    its only holder, at once

Exit code: 0 the lease is over, 1 there was nothing to break or the reply was
no, 125 no answer of the server.";

const LONG: &str = "\
The holder is told, and its lease is not renewed any more. `fairlock run` then ends its command, and exits with 123. \
break waits until the holder lets go, or until the lease ends. If break itself is ended meanwhile, the lease stays \
broken. Without a terminal to ask at, name the lease with --token or --slot, or use --force. If several hold the lock, \
break asks for the slot of the one that is meant, and --force alone is refused.

--force does not wait: the next waiter is granted the lock at once, although the holder may go on until it hears of \
it, at the latest when its lease would have ended. Until then two processes may believe that they hold the lock; only \
a store that refuses old fencing tokens is safe from that. While a lock recovers after a loss of data, --force ends the \
wait for its former holder.";

#[derive(Debug, clap::Args)]
#[command(
    after_help = format!("{SHORT}\n\n{EXAMPLES}"),
    after_long_help = format!("{LONG}\n\n{EXAMPLES}"),
    override_usage = "fairlock break [OPTIONS] NAME",
)]
pub(crate) struct Args {
    /// The name of the lock
    ///
    /// In a name that has them, write a backslash before * ? and [, as for the other subcommands that look at locks.
    #[arg(value_name = "NAME", value_parser = survey::name, hide_short_help = true)]
    pub(crate) name: String,
    /// The fencing token of the lease, as status shows it
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<u64>,
    /// Whoever holds this slot
    ///
    /// Of a lock that several hold. By the time of the break it may be another one than status has shown: --token names
    /// one lease for good.
    #[arg(long, value_name = "N", conflicts_with = "token")]
    pub(crate) slot: Option<u32>,
    /// At once, even if the holder does not know
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object about the outcome
    #[arg(long)]
    pub(crate) json: bool,
}

/// What became of the lease.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// The holder let go.
    Released,
    /// The holder did not, and the lease ran out.
    Expired,
    /// A lease that was ended at once.
    Ended,
    /// There is no such lease.
    Unknown,
    /// The user said no.
    Declined,
}

pub(crate) fn break_lease(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    with_client(server, std::slice::from_ref(&args.name), async |client| {
        let lock = lock(&client, &args.name)?;
        let (began, before) = (Instant::now(), lock.inspect().await.map_err(own)?);
        // The moments in it count from now, and a break takes a while.
        let document = of_lock(&args.name, &before);
        let (outcome, holder) = match choose(args, &before)? {
            Choice::Break(holder) if args.force => (force(&lock, holder.token).await?, Some(holder)),
            Choice::Break(holder) => (ask_to_end(&lock, holder.token).await?, Some(holder)),
            Choice::EndRecovery if lock.end_recovery().await.map_err(own)? => (Outcome::Ended, None),
            Choice::EndRecovery => (Outcome::Unknown, None),
            Choice::Not(outcome) => (outcome, None),
        };
        let after = lock.inspect().await.map_err(own)?;
        if args.json {
            output::write(&json_of(args, outcome, began.elapsed(), document, &after))?;
        } else {
            tell(args, outcome, holder, &before, &after);
        }
        Ok(match outcome {
            Outcome::Released | Outcome::Expired | Outcome::Ended => HELD,
            Outcome::Unknown | Outcome::Declined => FREE,
        })
    })
}

enum Choice<'a> {
    /// The lease of this holder.
    Break(&'a Holder),
    EndRecovery,
    Not(Outcome),
}

/// Which lease to break, if any.
fn choose<'a>(args: &Args, state: &'a LockState) -> Result<Choice<'a>, Failure> {
    let named = match (args.token, args.slot) {
        (Some(token), _) => Some(state.holders.iter().find(|holder| holder.token == token)),
        (None, Some(slot)) => Some(state.holders.iter().find(|holder| holder.slot == slot)),
        (None, None) => None,
    };
    if let Some(holder) = named {
        return Ok(holder.map_or(Choice::Not(Outcome::Unknown), Choice::Break));
    }
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let found = format!("{} is {}", printable(&args.name), brief(state, None));
    let chosen = match &state.holders[..] {
        [] if args.force && state.recovering_for.is_some() => return Ok(Choice::EndRecovery),
        [] => return Ok(Choice::Not(Outcome::Unknown)),
        [holder] if args.force => Some(holder),
        [holder] if !can_ask => {
            let token = holder.token;
            return Err(Failure::own(format!("{found}: name the lease with --token {token}, or use --force")));
        }
        [holder] => {
            let question = format!("Break the lease of {}, with token {}? [y/N] ", who(holder), holder.token);
            let yes = matches!(ask(&[format!("{found}."), question]).to_lowercase().as_str(), "y" | "yes");
            yes.then_some(holder)
        }
        _ if args.force || !can_ask => {
            let word = survey::word(&args.name);
            return Err(Failure::own(format!(
                "{found}: name the one that is meant with --slot or --token, as `fairlock status {word} --json` shows"
            )));
        }
        holders => {
            let mut lines = vec![format!("{found}.")];
            let (oldest, more) = oldest_first(holders);
            lines.extend(oldest.into_iter().map(|holder| {
                format!("slot {}: {}, token {}", holder.slot, held_by(&who(holder), holder.held_for), holder.token)
            }));
            if more > 0 {
                let word = survey::word(&args.name);
                lines.push(format!("and {more} more, which `fairlock status {word} --json` shows"));
            }
            lines.push("Break the lease of which slot? [none] ".to_owned());
            let slot = ask(&lines).parse().ok();
            holders.iter().find(|holder| Some(holder.slot) == slot)
        }
    };
    Ok(chosen.map_or(Choice::Not(Outcome::Declined), Choice::Break))
}

/// The answer of the user, of whom the last line asks something.
fn ask(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| output::wrap(line, output::width()).join("\n")).collect();
    // Written at once, since the user answers it.
    let _ = std::io::stderr().write_all(lines.join("\n").as_bytes());
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    answer.trim().to_owned()
}

async fn force(lock: &Lock, token: u64) -> Result<Outcome, Failure> {
    match lock.force_break_lease(token).await.map_err(own)? {
        BreakOutcome::Unknown => Ok(Outcome::Unknown),
        _ => Ok(Outcome::Ended),
    }
}

/// Tells the holder, and waits until it has let go or its lease has ended.
async fn ask_to_end(lock: &Lock, token: u64) -> Result<Outcome, Failure> {
    let asked = Instant::now();
    let BreakOutcome::Told { remaining, .. } = lock.break_lease(token).await.map_err(own)? else {
        return Ok(Outcome::Unknown);
    };
    let mut said = false;
    // The lease is broken and runs out, whatever becomes of the server.
    while look(lock, || {}).await?.holders.iter().any(|holder| holder.token == token) {
        if !std::mem::replace(&mut said, true) {
            let left = seconds(remaining.max(Duration::from_secs(1)));
            say(format_args!("the holder is told; its lease ends in {left} at the latest"));
        }
        tokio::time::sleep(LOOK).await;
    }
    // A holder counts its lease from before the request that renewed it, so for it the end comes earlier.
    Ok(if asked.elapsed() < remaining.mul_f64(0.8) { Outcome::Released } else { Outcome::Expired })
}

fn json_of(args: &Args, outcome: Outcome, took: Duration, before: Value, after: &LockState) -> String {
    let word = match outcome {
        Outcome::Released => "released",
        Outcome::Expired => "expired",
        Outcome::Ended => "ended",
        Outcome::Unknown => "unknown",
        Outcome::Declined => "declined",
    };
    let after = of_lock(&args.name, after);
    document::line(&json!({
        "name": args.name, "outcome": word, "took_ms": milliseconds(took), "before": before, "after": after,
    }))
}

/// Tells what became of the lease of this holder, and what the lock is now.
fn tell(args: &Args, outcome: Outcome, holder: Option<&Holder>, before: &LockState, after: &LockState) {
    let (name, now) = (printable(&args.name), brief(after, None));
    match (outcome, holder) {
        (Outcome::Released, Some(holder)) => say(format_args!("{} let go; {name} is {now}", who(holder))),
        (Outcome::Expired, Some(holder)) => {
            say(format_args!("{} did not answer, and its lease has ended; {name} is {now}", who(holder)));
        }
        (Outcome::Ended, Some(holder)) => {
            say(format_args!("the lease of {} was ended; {name} is {now}", who(holder)));
            say("the former holder may go on until it hears of it");
        }
        (Outcome::Declined, _) => say(format_args!("nothing was changed; {name} is {now}")),
        (_, None) if matches!(outcome, Outcome::Ended) => {
            say(format_args!("the server no longer waits for the holder from before the loss; {name} is {now}"));
        }
        (_, _) if !before.holders.is_empty() => {
            let token = match &after.holders[..] {
                [holder] => format!(" with token {}", holder.token),
                _ => String::new(),
            };
            let missing = args.slot.map(|slot| format!("nobody holds slot {slot}"));
            let missing = missing.unwrap_or_else(|| "no lease with that token is alive".to_owned());
            say(format_args!("{missing}: {name} is {}{token}{}", what(after, None), waiting(after)));
        }
        (_, None) if before.recovering_for.is_some() => {
            let by = match (args.token, args.slot) {
                (Some(_), _) => "--force without --token",
                (None, Some(_)) => "--force without --slot",
                (None, None) => "--force",
            };
            say(format_args!("{name} has no holder, and recovers; {by} ends the wait for the former one"));
        }
        (_, _) => say(format_args!("{name} is {now}: there is nothing to break")),
    }
}
