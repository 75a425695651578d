//! `fairlock hold`: holds locks without a command, for scripts that lock in the middle.
//!
//! It holds until its stdin ends. Nothing is to be written there: what arrives is meant for another command, which would
//! find nothing, and go on without the lock. So it is a wrong call. With `--fd N` it holds until a descriptor of the
//! script is closed, as flock does. No process sees another one close a file, so two processes work together:
//!
//! ```text
//! script                 has a file open as descriptor N
//!   ├─ fairlock hold     waits until the stand-in has the lock, exits                                hold.rs
//!   └─ stand-in          holds the lock, in a session of its own, until the script has closed N      stand_in.rs
//! ```
//!
//! The stand-in locks a byte of the script's open file, closes its own copy, and waits for a lock on the same byte
//! through another descriptor. The kernel grants that when the last copy of the script's descriptor is closed, however
//! the script ends (`../process/open_file.rs`). `hold --unlock` unlocks the byte before.
//!
//! A lost lease is told, and then kept like any other until the script is done or the lease is over: released at once,
//! it would let the next holder in while the script still works. For the same reason a signal to the stand-in is passed
//! on to the script, and ends neither of the two by itself.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;

use super::around;
use super::held_locks::{self, HeldLocks};
use super::hold_args::HoldArgs;
use super::inbox::RunEvent;
use super::label;
use super::setting::Setting;
use super::stand_in::{self, Script};
use crate::exit::{self, Failure, LOST, say};
use crate::process::signals;
use crate::text::{printable, quoted};
use crate::{connect, output, runtime, stderr, warnings};

/// How long before the end of the lease a loss is told.
const NOTICE: Duration = Duration::from_secs(5);

pub(crate) fn hold(server: &connect::Args, args: &HoldArgs) -> Result<u8, Failure> {
    if args.unlock {
        return unlock(server, args);
    }
    refuse_descriptor_as_name(args)?;
    around::refuse_own(server, args.names())?;
    match args.fd {
        Some(fd) => stand_in::start(fd),
        None => refuse_unfit_stdin().and_then(|()| keep(server, args, None)),
    }
}

fn unlock(server: &connect::Args, args: &HoldArgs) -> Result<u8, Failure> {
    let Some(stand_in) = around::stand_in(server, &args.name) else {
        let name = printable(&args.name);
        let failure =
            Failure::own(format!("no script around this process holds {name}, so there is nothing to give back"));
        return Err(match args.name.parse::<u16>() {
            Ok(number) => failure.with_tip(format!("{number} is a descriptor? give the lock's NAME")),
            Err(_) => failure,
        });
    };
    let code = stand_in::end(&stand_in, &args.name)?;
    let others: Vec<&str> = stand_in.names.iter().filter(|name| **name != args.name).map(String::as_str).collect();
    if !others.is_empty() && !args.wait.quiet {
        say(format_args!("also gave back {}, which was taken with {}", others.join(", "), args.name));
    }
    Ok(code)
}

/// `flock 9` has a descriptor where `hold` has a name.
fn refuse_descriptor_as_name(args: &HoldArgs) -> Result<(), Failure> {
    let number = args.name.parse::<u16>().ok().filter(|number| args.fd.is_none() && *number > 2);
    let is_open = |number: &u16| std::fs::metadata(format!("/dev/fd/{number}")).is_ok();
    number.filter(is_open).map_or(Ok(()), |number| {
        Err(Failure::own(format!("{number} is an open descriptor: `fairlock hold NAME --fd {number}`")))
    })
}

/// The stand-in's process; `script` is the process id of the script, in words.
pub(crate) fn keep_for(script: Option<OsString>, server: &connect::Args, args: &HoldArgs) -> Result<u8, Failure> {
    let script = Script::of(script, args.wait.events.as_deref())?;
    if !args.wait.quiet {
        warnings::show();
    }
    keep(server, args, Some(script))
}

/// Holds the locks until the stdin ends, or for a script until it has closed its descriptor.
fn keep(server: &connect::Args, args: &HoldArgs, mut script: Option<Script>) -> Result<u8, Failure> {
    let wanted = held_locks::in_order(&args.name, args.wait.sharing.slots()?, &args.and);
    let label = || match &script {
        Some(script) => label::default(&script.words(), script.number()),
        None => label::default(&["hold".into()], std::process::id()),
    };
    let mut setting = Setting::new(server, &args.wait, wanted, NOTICE, label)?;
    if let Some(script) = &script {
        let outbox = setting.outbox.clone();
        // Before the grant nobody needs it then.
        script.on_death(move || drop(outbox.send(RunEvent::Signal(Signal::SIGTERM))))?;
    }
    let runtime = runtime::start(Builder::enable_time)?;
    runtime.block_on(async {
        let (granted, ..) = setting.take().await?;
        let outbox = setting.outbox.clone();
        let tell = move |event| drop(outbox.send(event));
        let grant = args.told(granted.lease(&args.name));
        let begun = match &mut script {
            Some(script) => {
                if script.number() == 1 {
                    let names = setting.reporter.names().to_owned();
                    let name = printable(&quoted(&args.name));
                    setting.reporter.mention(format_args!(
                        "this script is process 1, with which the kernel ends all others: unless it ends with `fairlock \
                         hold {name} -u`, {names} stays taken for the rest of its lease"
                    ));
                }
                setting.terminal = None;
                script.granted(&grant, move || tell(RunEvent::Closed))
            }
            // It may have ended during the wait.
            None => refuse_unfit_stdin().and_then(|()| output::write(&grant)).and_then(|()| watch_stdin(tell)),
        };
        if script.is_none() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            let names = setting.reporter.names().to_owned();
            setting.reporter.mention(format_args!("{names} is held until Ctrl-D"));
        }
        let script = script.as_ref();
        let end = match begun {
            Ok(()) => until_closed(&mut setting, &granted, script).await,
            Err(failure) => HoldEnd::Failed(failure),
        };
        let lost = matches!(end, HoldEnd::Lost);
        if lost {
            if let Some(script) = script {
                // The signal may end it, and with it its stderr.
                stderr::flush(stderr::A_MOMENT);
                script.tell(args.signal.unwrap_or(Signal::SIGTERM));
            }
            if !until_done(&mut setting, &granted, script).await {
                // The server ends the lease a little later. A release would say that what used the lock is done.
                std::mem::forget(granted);
                return Ok(LOST);
            }
        }
        if script.is_some() {
            // Nobody waits for the stand-in, so no signal keeps it from giving back the lock.
            setting.inbox = unbounded_channel().1;
        }
        setting.reporter.stopping();
        let released = setting.release(granted, lost).await;
        let is_closed = matches!(end, HoldEnd::Closed);
        let code = match end {
            HoldEnd::Closed | HoldEnd::Signalled(Signal::SIGINT) => 0,
            HoldEnd::Signalled(signal) => exit::by_signal(signal as i32),
            HoldEnd::Lost => LOST,
            HoldEnd::Failed(failure) => return Err(failure),
        };
        if released {
            if is_closed && script.is_none() {
                let names = setting.reporter.names().to_owned();
                setting.reporter.mention(format_args!("{names} given back: stdin ended"));
            }
            setting.reporter.released(code);
        }
        Ok(code)
    })
}

enum HoldEnd {
    Closed,
    Signalled(Signal),
    Lost,
    Failed(Failure),
}

/// The end that this event brings, if it brings one. A script decides itself what a signal means, so it is passed on,
/// and the lock is held until the script is done.
fn end_by(event: Option<RunEvent>, script: Option<&Script>) -> Option<HoldEnd> {
    match event {
        Some(RunEvent::Closed) | None => return Some(HoldEnd::Closed),
        Some(RunEvent::Data) => return Some(HoldEnd::Failed(data_on_stdin())),
        Some(RunEvent::Signal(Signal::SIGTSTP)) => signals::stop_here(false),
        Some(RunEvent::Signal(signal)) if signals::ends(signal) => match script {
            Some(script) => script.tell(signal),
            None => return Some(HoldEnd::Signalled(signal)),
        },
        Some(_) => {}
    }
    None
}

async fn until_closed(setting: &mut Setting<'_>, granted: &HeldLocks, script: Option<&Script>) -> HoldEnd {
    loop {
        let renewed = granted.renewed();
        let next_look = setting.reporter.warn_if_due(granted, setting.timing).await;
        tokio::select! {
            biased;
            event = setting.inbox.recv() => if let Some(end) = end_by(event, script) { return end },
            lost = granted.guards.lost() => {
                setting.reporter.lost(Some(&lost), "stop what it protects");
                return HoldEnd::Lost;
            }
            Some((name, token, left)) = renewed => setting.reporter.renewed(&name, token, left),
            () = tokio::time::sleep(next_look.min(setting.timing.warning)) => {}
        }
    }
}

/// After a loss: waits until what used the lock is done, or until no lease is left that keeps others out. Returns
/// whether it is done.
async fn until_done(setting: &mut Setting<'_>, granted: &HeldLocks, script: Option<&Script>) -> bool {
    loop {
        let left = granted.longest_remaining();
        tokio::select! {
            event = setting.inbox.recv() => if end_by(event, script).is_some() { return true },
            // Of several leases some may still be renewed.
            () = tokio::time::sleep(left) => if left.is_zero() { return false },
        }
    }
}

/// Fails if a read would give nothing, and at once: then the lock would be given back as soon as it is granted. Fails
/// also if it would give something.
fn refuse_unfit_stdin() -> Result<(), Failure> {
    let stdin = std::io::stdin();
    let ready =
        poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    match rustix::io::ioctl_fionread(&stdin).unwrap_or(0) {
        _ if !ready => Ok(()),
        0 => Err(Failure::own(
            "stdin is at its end already, so nothing would be held: use --fd N in scripts, or give it a pipe (the stdin \
             of a command with & in a script is /dev/null)",
        )),
        _ if stdin.is_terminal() => Ok(()),
        _ => Err(data_on_stdin()),
    }
}

fn data_on_stdin() -> Failure {
    Failure::own(
        "stdin has data, which this command would take from others: use --fd N in scripts, or give it a pipe to which \
         nothing is written",
    )
}

fn watch_stdin(tell: impl Fn(RunEvent) + Send + 'static) -> Result<(), Failure> {
    let watch = move || {
        let mut stdin = std::io::stdin();
        let event = if stdin.is_terminal() {
            // In its background a terminal gives an error, which is no end.
            std::io::copy(&mut stdin, &mut std::io::sink()).map(|_| RunEvent::Closed)
        } else {
            stdin.read(&mut [0]).map(|length| if length == 0 { RunEvent::Closed } else { RunEvent::Data })
        };
        event.into_iter().for_each(tell);
    };
    runtime::thread("stdin", watch)
}
