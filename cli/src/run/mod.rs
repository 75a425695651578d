//! `fairlock run`: waits for the lock, and supervises the command while it is held.

mod args;
mod events;
mod granted;
pub(crate) mod hold;
mod journal;
mod nested;
mod news;
pub(crate) mod progress;
mod request;
mod setting;
mod stand_in;
mod subject;
mod supervise;
mod systemd;
mod timing;
mod view;
mod wait;
mod warning;
mod watch;

use std::borrow::Cow;
use std::ffi::OsString;

pub(crate) use args::Args;
pub(crate) use stand_in::WORD as STAND_IN;
use tokio::runtime::Builder;

use crate::exit::{self, Failure};
use crate::process::terminal::Terminal;
use crate::process::{lookup, signals};
use crate::shim::give_back;
use crate::shim::job::{Job, Plan};
use crate::{connect, runtime, tips};
use events::Event;
use setting::Setting;
use supervise::{Ended, Supervisor};

pub(crate) fn run(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let words = words(args)?;
    let program = lookup::find(&words[0]).map_err(|failure| match tips::for_no_command(&words) {
        Some(tip) => failure.with_tip(tip),
        None => failure,
    })?;
    let names = granted::in_order(&args.name, &args.and);
    let label = || request::default_label(&words, std::process::id());
    let mut setting = Setting::new(server, &args.wait, names, args.kill_after, label)?;
    let runtime = runtime::start(Builder::enable_time)?;
    runtime.block_on(async {
        let (granted, (term_at, kill_at), queue_shim) = setting.take_guarded().await?;
        // At a plain terminal the command replaces fairlock's group in the foreground.
        let terminal = setting.terminal.take();
        let foreground = terminal.as_ref().filter(|terminal| terminal.is_for_command()).map(Terminal::own_group);
        let plan = Plan {
            program: &program,
            words: &words,
            environment: vec![
                ("FAIRLOCK_NAME", args.name.clone()),
                ("FAIRLOCK_TOKEN", granted.token(&args.name).to_string()),
                ("FAIRLOCK_WAITED_MS", setting.news.waited().as_millis().to_string()),
                (nested::VARIABLE, setting.ancestors.with(&granted.tokens())),
            ],
            leases: give_back::describe(&setting.server, &granted.tokens()),
            kill_after: args.kill_after,
            term_at,
            kill_at,
            foreground,
            mask: &setting.mask,
        };
        let hear = setting.hear.clone();
        let job =
            Job::start(plan, queue_shim, move |report| drop(hear.send(report.map_or(Event::ShimGone, Event::Shim))));
        let result = match job {
            Ok(job) => {
                let told = (term_at, kill_at);
                let in_front = foreground.is_some();
                Supervisor::new(job, terminal, in_front, &granted, setting.timing, told, &mut setting.news)
                    .watch(&mut setting.events)
                    .await
            }
            Err(error) => Err(Failure::because("cannot start the command's shim", error)),
        };
        setting.news.stopping();
        // In every case the command is dead here, and what needs the lock has ended. Only now may it be granted to
        // another.
        let lost = matches!(result, Ok(Ended { lost: true, .. }));
        if setting.release(granted, lost).await {
            setting.news.released(result.as_ref().map_or(exit::OWN_FAILURE, |ended| ended.code));
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
