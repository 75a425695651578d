//! `fairlock hold`: holds locks without a command, for scripts that lock in the middle.
//!
//! It holds until its stdin ends. With `--fd N` it holds until a descriptor of the script is closed, as flock does. No
//! process sees another one close a file, so two processes work together:
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
use std::io::IsTerminal as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;

use super::around;
use super::held_locks::{self, HeldLocks};
use super::inbox::RunEvent;
use super::label;
use super::setting::Setting;
use super::stand_in::{self, Script};
use crate::exit::{self, Failure, LOST};
use crate::process::signals;
use crate::text::{printable, quoted};
use crate::{connect, output, runtime, stderr, warnings};

const SHORT: &str = "\
Examples:
  exec 9>x.lock; fairlock hold x --fd 9 || exit  waits in line, as flock 9 does
  exec 9>&-         or:  fairlock hold x -u      gives it back, as its end does
In a terminal, `fairlock hold deploy` holds until Ctrl-D or Ctrl-C.
Exit code: 0, or 122 busy, 123 lease lost, 124 timeout, 125 fairlock failed.";

const LONG: &str = "\
It prints the fencing token when the lock is granted, and holds until its stdin ends, or until INT. A script that \
writes to it keeps the lock as long as it likes; bash: `coproc L { fairlock hold deploy; }; read -r token \
<&\"${L[0]}\"`, and later `exec {L[1]}>&-`. A stdin that has ended already, as /dev/null and that of `fairlock hold \
deploy &` in a script, is refused: nothing would be held.

With --fd N it returns when the lock is granted. The lock is held until the script has closed descriptor N, as it does \
when it ends, however it ends. The descriptor must be a file, as for flock, and may have any number. Programs that the \
script starts inherit the descriptor, and with it the lock: start a daemon with `9>&-`. It prints nothing, as flock; \
--print token asks for the fencing token, --print slot for the slot, and --print token,slot for both. Scripts may use one \
file for any locks. Inside of the script, `run` and `hold` of the same lock are refused.

In a container the kernel ends all processes with the first one. If that is the script, or ends with it, the lock stays \
taken for the rest of its lease. There `fairlock run` takes the script, or the script waits for the end of its hold: \
trap 'fairlock hold NAME -u' EXIT.

Another process, the stand-in, holds the lock then. TERM, INT, HUP and QUIT to it are passed on to the script, and the \
lock is held until the descriptor is closed. Its messages go to the script's stderr; where that is a socket, as under \
systemd, or the script has ended, they go to the system log. Nothing tells the script if the stand-in is killed.

When the lease is lost, the script is sent --signal. Without a command there is nothing that fairlock could end, so \
the script has to stop by itself: the default, TERM, ends it. The next holder comes when the script is done, or when \
the lease ends. Without --fd only a message on stderr tells of the loss.

Examples:
  exec 9>x.lock; fairlock hold x --fd 9 || exit  waits in line, as flock 9 does
  exec 9>&-         or:  fairlock hold x -u      gives it back, as its end does

Exit codes: 0, or 122 busy, 123 lease lost, 124 busy until --timeout, 125 fairlock failed or the server does not \
serve, 128+N by signal N.";

#[derive(Debug, clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG, override_usage = "fairlock hold [OPTIONS] NAME")]
pub(crate) struct Args {
    /// The name of the lock
    #[arg(value_name = "NAME", hide_short_help = true)]
    pub(crate) name: String,
    /// Hold this lock as well
    #[arg(short = 'a', long, value_name = "NAME")]
    pub(crate) and: Vec<String>,
    /// Return; hold until the script closes N
    ///
    /// Returns when the lock is granted, and holds it until the script has closed the descriptor N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) fd: Option<i32>,
    /// Give it back, and wait until that is done
    ///
    /// Ends the hold of this lock by the script around, as if it had closed its descriptor, and returns when the server
    /// knows. A program that inherited the descriptor keeps the lock no longer.
    #[arg(short = 'u', long)]
    pub(crate) unlock: bool,
    /// Print the token, the slot, or token,slot
    ///
    /// In one line when the lock is granted, in the order in which they are named. Without it, `hold` with --fd prints
    /// nothing, and without --fd the fencing token.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', hide_short_help = true)]
    pub(crate) print: Vec<Print>,
    /// With --fd: sent at a loss [default: TERM]
    ///
    /// The script is sent this signal when the lease is lost.
    #[arg(long, value_name = "NAME", value_parser = signal, requires = "fd")]
    pub(crate) signal: Option<Signal>,
    #[command(flatten)]
    pub(crate) wait: super::args::Wait,
}

impl Args {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.and).map(String::as_str)
    }

    /// What is printed of a grant.
    fn told(&self, (token, slot): (u64, u32)) -> String {
        let asked = match &self.print[..] {
            [] if self.fd.is_none() => &[Print::Token],
            asked => asked,
        };
        let words = asked.iter().map(|what| match what {
            Print::Token => token.to_string(),
            Print::Slot => slot.to_string(),
        });
        words.collect::<Vec<_>>().join(" ") + "\n"
    }
}

/// A number that a grant has.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Print {
    Token,
    Slot,
}

fn signal(name: &str) -> Result<Signal, String> {
    let name = name.to_uppercase();
    let full = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    full.parse().map_err(|_| "no signal has this name; TERM, INT, HUP, USR1 and others do".to_owned())
}

/// How long before the end of the lease a loss is told.
const NOTICE: Duration = Duration::from_secs(5);

pub(crate) fn hold(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    if args.unlock {
        return match around::stand_in(server, &args.name) {
            Some(stand_in) => stand_in::end(&stand_in, &args.name),
            None => Err(Failure::own(format!(
                "no script around this process holds {}, so there is nothing to give back",
                printable(&args.name)
            ))),
        };
    }
    around::refuse_own(server, args.names())?;
    match args.fd {
        Some(fd) => stand_in::start(fd),
        None => refuse_ended_stdin().and_then(|()| keep(server, args, None)),
    }
}

/// The stand-in's process; `script` is the process id of the script, in words.
pub(crate) fn keep_for(script: Option<OsString>, server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let script = Script::of(script, args.wait.events.as_deref())?;
    if !args.wait.quiet {
        warnings::show();
    }
    keep(server, args, Some(script))
}

/// Holds the locks until the stdin ends, or for a script until it has closed its descriptor.
fn keep(server: &connect::Args, args: &Args, mut script: Option<Script>) -> Result<u8, Failure> {
    let wanted = held_locks::in_order(&args.name, args.wait.sharing.most()?, &args.and);
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
        let closed = move || drop(outbox.send(RunEvent::Closed));
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
                script.granted(&grant, closed)
            }
            // It may have ended during the wait.
            None => refuse_ended_stdin().and_then(|()| output::write(&grant)).and_then(|()| watch_stdin(closed)),
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
            until_done(&mut setting, &granted, script).await;
        }
        if script.is_some() {
            // Nobody waits for the stand-in, so no signal keeps it from giving back the lock.
            setting.inbox = unbounded_channel().1;
        }
        setting.reporter.stopping();
        let released = setting.release(granted, lost).await;
        let code = match end {
            HoldEnd::Closed | HoldEnd::Signalled(Signal::SIGINT) => 0,
            HoldEnd::Signalled(signal) => exit::by_signal(signal as i32),
            HoldEnd::Lost => LOST,
            HoldEnd::Failed(failure) => return Err(failure),
        };
        if released {
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

/// After a loss: until what used the lock is done, or until no lease is left that keeps others out.
async fn until_done(setting: &mut Setting<'_>, granted: &HeldLocks, script: Option<&Script>) {
    loop {
        let left = granted.longest_remaining();
        tokio::select! {
            event = setting.inbox.recv() => if end_by(event, script).is_some() { return },
            // Of several leases some may still be renewed.
            () = tokio::time::sleep(left) => if left.is_zero() { return },
        }
    }
}

/// Fails if a read would give nothing, and at once: then the lock would be given back as soon as it is granted.
fn refuse_ended_stdin() -> Result<(), Failure> {
    let stdin = std::io::stdin();
    let ready =
        poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    if ready && rustix::io::ioctl_fionread(&stdin).unwrap_or(0) == 0 {
        return Err(Failure::own(
            "stdin is at its end already, so nothing would be held: use --fd N in scripts, or give it a pipe (the stdin \
             of a command with & in a script is /dev/null)",
        ));
    }
    Ok(())
}

fn watch_stdin(closed: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let watch = move || {
        // A terminal in whose background this process runs gives an error, which is no end.
        if std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).is_ok() {
            closed();
        }
    };
    runtime::thread("stdin", watch)
}
