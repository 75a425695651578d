//! `fairlock run`: waits for the lock, and supervises the command while it is held.

mod args;
mod events;
mod nested;
pub(crate) mod progress;
mod request;
mod supervise;
mod timing;
mod wait;
mod watch;

use std::time::{Duration, Instant};

use fairlock::{Guard, LockOptions};
use nix::sys::signal::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::exit::{self, Failure, say};
use crate::process::clock::Moment;
use crate::process::terminal::Terminal;
use crate::process::{lookup, signals};
use crate::shim::job::{Job, Plan};
use crate::{connect, local};
pub(crate) use args::Args;
use events::Event;
use nested::Ancestors;
use request::Request;
use supervise::{Ended, Supervisor};
use timing::Timing;

pub(crate) fn run(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let program = lookup::find(&args.command[0])?;
    let timing = Timing::new(args.lease, args.kill_after);
    // A claim is too short to stop a command within it, so the command starts with a whole lease.
    let options =
        LockOptions::new().lease(args.lease).notice(timing.notice).confirm_grants(true).replicas(args.replicas);
    options.check(&args.name).map_err(|error| Failure::own(error.to_string()))?;
    let ancestors = Ancestors::of_this_process();
    let client = connect::client(server)?;
    // Before any other thread is started, and after the private server, which must not inherit the mask.
    let mask = signals::block().map_err(|error| Failure::because("cannot block signals", error))?;
    let (hear, mut events) = unbounded_channel();
    let on_signal = hear.clone();
    signals::listen(move |signal| drop(on_signal.send(Event::Signal(signal))))
        .map_err(|error| Failure::because("cannot listen to signals", error))?;
    if server.local {
        // After the signals are blocked, because its threads must leave them to the listener.
        local::keep_running();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| Failure::because("cannot start the async runtime", error))?;
    runtime.block_on(async {
        let terminal = Terminal::open();
        let began = Instant::now();
        let mut request = Request {
            client: &client,
            name: &args.name,
            label: args.label.clone().unwrap_or_else(|| request::default_label(&args.command[0])),
            options,
            timeout: args.timeout,
            no_wait: args.no_wait,
            ancestors: &ancestors,
        };
        let (client, guard, term_at, kill_at) = loop {
            let (client, guard) = wait::for_lock(&request, &mut events, terminal.as_ref()).await?;
            // If this process was stopped, or the machine suspended, since the lease was confirmed, it is renewed
            // first.
            if Moment::now() >= timing.of(&guard.held()).0 {
                let _ = guard.renew().await;
            }
            let (term_at, kill_at) = timing.of(&guard.held());
            if Moment::now() < term_at {
                break (client, guard, term_at, kill_at);
            }
            // The lease is over, and the command was not started.
            say("the lock was granted too late to be used; waiting again");
            let interrupted = release(guard, true, &mut events).await;
            let _ = tokio::time::timeout(Duration::from_secs(1), client.close()).await;
            if let Some(signal) = interrupted {
                return Err(request::interrupted_by(signal, &args.name));
            }
            let least = Duration::from_millis(1);
            request.timeout = args.timeout.map(|all| all.saturating_sub(began.elapsed()).max(least));
        };
        // At a plain terminal the command replaces fairlock's group in the foreground.
        let foreground = terminal.as_ref().filter(|terminal| terminal.is_for_command()).map(Terminal::own_group);
        let plan = Plan {
            program: &program,
            words: &args.command,
            environment: [
                ("FAIRLOCK_NAME", args.name.clone()),
                ("FAIRLOCK_TOKEN", guard.token().to_string()),
                (nested::VARIABLE, ancestors.with(&args.name, guard.token())),
            ],
            kill_after: args.kill_after,
            term_at,
            kill_at,
            foreground,
            mask: &mask,
        };
        let job = Job::start(plan, move |report| drop(hear.send(report.map_or(Event::ShimGone, Event::Shim))));
        let result = match job {
            Ok(job) => {
                let told = (term_at, kill_at);
                let in_front = foreground.is_some();
                Supervisor::new(job, terminal, in_front, guard.held(), timing, told, &args.name)
                    .watch(&mut events)
                    .await
            }
            Err(error) => Err(Failure::because("cannot start the command's shim", error)),
        };
        // In every case the command is dead here. Only now may the lock be granted to another.
        release(guard, matches!(result, Ok(Ended { code: exit::LOST, .. })), &mut events).await;
        let _ = tokio::time::timeout(Duration::from_secs(1), client.close()).await;
        result.map(|ended| {
            if let Some(signal) = ended.interrupted {
                signals::tell_job(signal);
                signals::die_by(signal);
            }
            ended.code
        })
    })
}

/// Releases the lock. If a signal comes before the server answers, it is returned, and the lease expires by itself.
async fn release(guard: Guard, lost: bool, events: &mut UnboundedReceiver<Event>) -> Option<Signal> {
    tokio::select! {
        released = guard.release() => {
            if let (Err(error), false) = (released, lost) {
                say(format_args!("the lock could not be released and stays held until its lease ends: {error}"));
            }
            None
        }
        signal = wait::interruption(events) => {
            say(format_args!("{signal} before the lock was released: it stays held until its lease ends"));
            Some(signal)
        }
    }
}
