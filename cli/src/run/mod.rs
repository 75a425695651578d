//! `fairlock run` and `fairlock hold`: they wait for locks, then hold them for a command, a script or an open stdin.
//!
//! ```text
//! threads that wait        main thread                            what it acts on
//! signals, reports, ─────▶ inbox ─▶ acquire.rs,   ───Order──────▶ lease-shim ─▶ command (run)
//! stdin, script,  RunEvent          supervise.rs, ───Reporter───▶ stderr, --events, systemd
//! descriptor                        hold.rs       ◀──grant, renewal, loss── the library's keeper ◀─▶ Redis
//! ```
//!
//! **The main thread** decides everything, and owns all that changes: the request, the inbox, the reporter and the
//! terminal (`setting.rs`), then the leases (`held_locks.rs`), and the shim of a command (`supervise.rs`). It runs one
//! future, which spawns no task. So nothing in this folder needs a mutex.
//!
//! **Other threads wait** for what cannot be awaited, and put a `RunEvent` into the inbox (`inbox.rs`): `signals` for
//! signals, `reports` for the lines of the shim. For `hold` it is `stdin` for its end, or `script` for the death of the
//! script and `descriptor` for its close. Signals are blocked before the first of these threads starts; all inherit the
//! mask, so `signals` alone receives any. The threads `stderr` and `events` write, so that a reader which does not read
//! holds up neither the wait nor the end of a command. With `--local`, `local server` keeps the private server running.
//!
//! **The keeper**, the library's thread, renews the leases whatever the main thread does. But only the main thread
//! tells the shim of renewals. If the main thread hangs, the shim ends the command at the last deadline that it knows
//! (`shim/mod.rs`). Deadlines follow from the lease (`timing.rs`): TERM before its end, KILL in time for the kernel.
//!
//! **Processes.** While fairlock waits in a queue, its queue shim leaves the queue if fairlock is killed. `run` ends
//! the queue shim when the shim of the command has taken over the leases. `hold --fd` goes on as another process, the
//! stand-in (`hold.rs` says why). `nested.rs` tells a `run` inside a command which locks are held above it.
//!
//! **Order.** `Setting::new` does what can fail before fairlock connects: it checks names, opens the file of
//! `--events`, finds or starts the server, blocks signals. `acquire.rs` takes the locks in the order of their names.
//! Meanwhile `queue_view.rs` looks at the queue; if a lock is not granted, `request.rs` says why. Then `supervise.rs`
//! runs the command, or `hold.rs` waits for the script. The locks are released last, when nothing needs them any more.
//!
//! **Who is told what.** The `Reporter` decides. A *message* is a line on stderr, for people and logs; `../log.rs`
//! leaves out repeated ones. The *progress line* (`../progress.rs`) is on a terminal, rewritten in place during the
//! wait. An *event* is a line of JSON in the *event file* (`event_file.rs`), for programs. A *status* is for systemd
//! (`systemd.rs`). The *label* (`label.rs`) is what others see of this waiter or holder.

mod acquire;
mod args;
mod around;
mod event_file;
mod held_locks;
pub(crate) mod hold;
mod hold_args;
mod inbox;
mod label;
mod nested;
mod queue_view;
mod reporter;
mod request;
mod setting;
mod stand_in;
mod supervise;
mod systemd;
mod timing;

use std::borrow::Cow;
use std::ffi::OsString;

pub(crate) use args::Args;
pub(crate) use hold_args::HoldArgs;
pub(crate) use stand_in::WORD as STAND_IN;
use tokio::runtime::Builder;

use crate::exit::{self, Failure};
use crate::process::terminal::Terminal;
use crate::process::{lookup, signals};
use crate::shim::give_back;
use crate::shim::job::{Job, Plan};
use crate::{connect, runtime, tips};
use inbox::RunEvent;
use setting::Setting;
use supervise::{CommandEnd, Supervisor};

pub(crate) fn run(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let words = words(args)?;
    let program = lookup::find(&words[0]).map_err(|failure| {
        match tips::for_no_command(&args.name, args.wait.no_wait, &words) {
            Some(tip) => failure.with_tip(tip),
            None => failure,
        }
    })?;
    around::refuse_own(server, std::iter::once(&args.name).chain(&args.and).map(String::as_str))?;
    let wanted = held_locks::in_order(&args.name, args.wait.sharing.slots()?, &args.and);
    let label = || label::default(&words, std::process::id());
    let mut setting = Setting::new(server, &args.wait, wanted, args.kill_after, label)?;
    let runtime = runtime::start(Builder::enable_time)?;
    runtime.block_on(async {
        let (granted, (term_at, kill_at), queue_shim) = setting.take().await?;
        let (token, slot) = granted.lease(&args.name);
        // At a plain terminal the command replaces fairlock's group in the foreground.
        let terminal = setting.terminal.take();
        let foreground = terminal.as_ref().filter(|terminal| terminal.is_for_command()).map(Terminal::own_group);
        let plan = Plan {
            program: &program,
            words: &words,
            environment: vec![
                ("FAIRLOCK_NAME", args.name.clone()),
                ("FAIRLOCK_TOKEN", token.to_string()),
                ("FAIRLOCK_SLOT", slot.to_string()),
                ("FAIRLOCK_WAITED_MS", setting.reporter.waited().as_millis().to_string()),
                (nested::VARIABLE, setting.request.ancestors.with(granted.leases())),
            ],
            leases: give_back::describe(&setting.request.server, &granted.tokens()),
            kill_after: args.kill_after,
            term_at,
            kill_at,
            foreground,
            mask: &setting.mask,
        };
        let outbox = setting.outbox.clone();
        let on_report = move |report: Option<_>| drop(outbox.send(report.map_or(RunEvent::ShimGone, RunEvent::Shim)));
        let job = Job::start(plan, queue_shim, on_report);
        let result = match job {
            Ok(job) => {
                let told = (term_at, kill_at);
                let in_front = foreground.is_some();
                Supervisor::new(job, terminal, in_front, &granted, setting.timing, told, &mut setting.reporter)
                    .supervise(&mut setting.inbox)
                    .await
            }
            Err(error) => Err(Failure::because("cannot start the command's shim", error)),
        };
        setting.reporter.stopping();
        // In every case the command is dead here, and what needs the lock has ended. Only now may it be granted to
        // another.
        let lost = matches!(result, Ok(CommandEnd { lost: true, .. }));
        if setting.release(granted, lost).await {
            setting.reporter.released(result.as_ref().map_or(exit::OWN_FAILURE, |ended| ended.code));
        }
        result.map(|ended| {
            if let Some(signal) = ended.interrupted {
                signals::tell_job(signal);
                signals::die_by(signal);
            }
            ended.code
        })
    })
}

/// The words of the command: with `--shell` those of the shell that runs it.
fn words(args: &Args) -> Result<Cow<'_, [OsString]>, Failure> {
    match &args.command[..] {
        command if !args.shell => Ok(command.into()),
        [line] => Ok(vec!["sh".into(), "-c".into(), line.clone()].into()),
        _ => Err(Failure::own(
            "--shell takes one word, a line for sh: quote the line, or leave --shell out to run a command with its \
             arguments",
        )),
    }
}
