//! `fairlock hold`: holds locks without a command, for scripts that lock in the middle.
//!
//! It holds until its stdin ends. With `--fd N` it holds until a descriptor of the script is closed, as flock does. No
//! process sees another one close a file, so two processes work together:
//!
//! ```text
//! script                 has a file open as descriptor N
//!   ├─ fairlock hold     waits until the stand-in has the lock, exits
//!   └─ stand-in          holds the lock, in a session of its own, until the script has closed its descriptor
//! ```
//!
//! The stand-in locks the script's open file with flock(2), closes its own copy, and waits for a lock on the file
//! through another descriptor. The kernel grants that when the last copy of the script's descriptor is closed, however
//! the script ends.
//!
//! A lost lease is told, and then kept like any other until the script is done or the lease is over: released at once,
//! it would let the next holder in while the script still works.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;
use tokio::runtime::Builder;

use super::events::Event;
use super::granted::{self, Granted};
use super::setting::Setting;
use super::{request, warning};
use crate::exit::{self, Failure, LOST, say};
use crate::process::signals;
use crate::{connect, output, runtime, warnings};

const SHORT: &str = "\
Examples:
  exec 9>x.lock; fairlock hold x --fd 9 || exit  waits in line, as flock 9 does
  exec 9>&-                                      gives it back, as its end does

In a terminal, `fairlock hold deploy` holds until Ctrl-D or Ctrl-C.
Exit code: 0, or 122 busy, 123 lease lost, 124 timeout, 125 fairlock failed.";

const LONG: &str = "\
It prints the fencing token when the lock is granted, and holds until its stdin ends, or until INT. A script that \
writes to it keeps the lock as long as it likes; bash: `coproc L { fairlock hold deploy; }; read -r token \
<&\"${L[0]}\"`, and later `exec {L[1]}>&-`. A stdin that has ended already, as /dev/null and that of `fairlock hold \
deploy &` in a script, is refused: nothing would be held.

With --fd N it returns when the lock is granted. The lock is held until the script has closed descriptor N, as it does \
when it ends, however it ends. The descriptor must be a file, as for flock. Programs that the script starts inherit \
the descriptor, and with it the lock: start a daemon with `9>&-`. It prints nothing, as flock; --print-token asks for \
the fencing token.

When the lease is lost, the script is sent --signal. Without a command there is nothing that fairlock could end, so \
the script has to stop by itself: the default, TERM, ends it. The next holder comes when the script is done, or when \
the lease ends. Without --fd only a message on stderr tells of the loss. Nothing tells the script if the process that \
holds the lock for it is killed.

Examples:
  exec 9>x.lock; fairlock hold x --fd 9 || exit  waits in line, as flock 9 does
  exec 9>&-                                      gives it back, as its end does

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
    #[arg(long, value_name = "N")]
    pub(crate) fd: Option<u32>,
    /// With --fd: print the fencing token
    ///
    /// Without --fd it is always printed.
    #[arg(long, requires = "fd", hide_short_help = true)]
    pub(crate) print_token: bool,
    /// With --fd: sent at a loss [default: TERM]
    ///
    /// The script is sent this signal when the lease is lost.
    #[arg(long, value_name = "NAME", value_parser = signal, requires = "fd")]
    pub(crate) signal: Option<Signal>,
    #[command(flatten)]
    pub(crate) wait: super::args::Wait,
}

fn signal(name: &str) -> Result<Signal, String> {
    let name = name.to_uppercase();
    let full = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    full.parse().map_err(|_| "no signal has this name; TERM, INT, HUP, USR1 and others do".to_owned())
}

/// How long before the end of the lease a loss is told.
const NOTICE: Duration = Duration::from_secs(5);

pub(crate) fn hold(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    match args.fd {
        Some(fd) => start_stand_in(fd, args.print_token),
        None => refuse_ended_stdin().and_then(|()| keep(server, args, None)),
    }
}

/// `fairlock __hold SCRIPT ARGUMENTS…` is the stand-in of the script with this process id; its stdin is the descriptor.
pub(crate) const WORD: &str = "__hold";

/// Starts the stand-in, and waits until it has the lock.
fn start_stand_in(fd: u32, print_token: bool) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::because("cannot start the process that holds the lock", error);
    let about = std::fs::metadata(format!("/dev/fd/{fd}")).map_err(|error| {
        Failure::own(format!("descriptor {fd}: {error}; open a file first, as in `exec {fd}>/tmp/my.lock`"))
    })?;
    if !about.is_file() && !about.is_dir() {
        return Err(Failure::own(format!("descriptor {fd} is no file: open one, as in `exec {fd}>/tmp/my.lock`")));
    }
    let script = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    // A shell makes the descriptor the stand-in's stdin and closes the original: in Rust neither is safe code.
    let move_descriptor = format!("exec \"$0\" \"$@\" <&{fd} {fd}<&-");
    let mut stand_in = Command::new("/bin/sh");
    stand_in.args(["-c", &move_descriptor]).arg(std::env::current_exe().map_err(failed)?);
    stand_in.arg(WORD).arg(script.to_string()).args(std::env::args_os().skip(1));
    let mut stand_in = stand_in.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut token = String::new();
    if let Some(stdout) = stand_in.stdout.take() {
        BufReader::new(stdout).read_line(&mut token).map_err(failed)?;
    }
    if token.ends_with('\n') {
        return if print_token { output::write(&token).map(|()| 0) } else { Ok(0) };
    }
    let status = stand_in.wait().map_err(failed)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or_else(|| status.signal().map_or(exit::OWN_FAILURE, exit::by_signal)))
}

/// The stand-in's process; `script` is the process id of the script, in words.
pub(crate) fn keep_for(script: Option<OsString>, server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let script = script.and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
    if !args.wait.quiet {
        warnings::show();
    }
    Script::of(script).and_then(|script| keep(server, args, Some(script)))
}

/// Holds the locks until the stdin ends, or for a script until it has closed its descriptor.
fn keep(server: &connect::Args, args: &Args, script: Option<Script>) -> Result<u8, Failure> {
    let names = granted::in_order(&args.name, &args.and);
    let label = || request::default_label(&script.as_ref().map_or_else(|| vec!["hold".into()], Script::words));
    let mut setting = Setting::new(server, &args.wait, names, NOTICE, label)?;
    let runtime = runtime::start(Builder::enable_time)?;
    runtime.block_on(async {
        let (granted, _) = setting.take().await?;
        // It may have ended during the wait.
        let wanted = if script.is_none() { refuse_ended_stdin() } else { Ok(()) };
        if let Some(script) = &script {
            script.detach();
        }
        let told = output::write(&format!("{}\n", granted.token(&args.name)));
        let hear = setting.hear.clone();
        let closed = move || drop(hear.send(Event::Closed));
        let begun = match &script {
            Some(script) => script.watch(closed),
            None => watch_stdin(closed),
        };
        let end = match wanted.and(told).and(begun) {
            Ok(()) => until_closed(&mut setting, &granted).await,
            Err(failure) => End::Failed(failure),
        };
        let lost = matches!(end, End::Lost);
        if lost {
            if let Some(script) = &script {
                script.tell(args.signal.unwrap_or(Signal::SIGTERM));
            }
            until_done(&mut setting, &granted).await;
        }
        setting.news.stopping();
        let released = setting.release(granted, lost).await;
        let code = match end {
            End::Closed | End::Signalled(Signal::SIGINT) => 0,
            End::Signalled(signal) => exit::by_signal(signal as i32),
            End::Lost => LOST,
            End::Failed(failure) => return Err(failure),
        };
        if released {
            setting.news.released(code);
        }
        Ok(code)
    })
}

enum End {
    Closed,
    Signalled(Signal),
    Lost,
    Failed(Failure),
}

async fn until_closed(setting: &mut Setting<'_>, granted: &Granted) -> End {
    loop {
        let renewed = granted.renewed();
        let next_look = warning::look(granted, setting.timing, &mut setting.news).await;
        tokio::select! {
            biased;
            event = setting.events.recv() => match event {
                Some(Event::Closed) | None => return End::Closed,
                Some(Event::Signal(Signal::SIGTSTP)) => signals::stop_here(false),
                Some(Event::Signal(signal)) if signals::ends(signal) => return End::Signalled(signal),
                Some(_) => {}
            },
            lost = granted.guards.lost() => {
                setting.news.lost(Some(&lost), "stop what it protects");
                return End::Lost;
            }
            Some((name, token, left)) = renewed => setting.news.renewed(&name, token, left),
            () = tokio::time::sleep(next_look.min(setting.timing.warning)) => {}
        }
    }
}

/// After a loss: until what used the lock is done, or until no lease is left that keeps others out.
async fn until_done(setting: &mut Setting<'_>, granted: &Granted) {
    loop {
        let left = granted.longest_remaining();
        tokio::select! {
            event = setting.events.recv() => match event {
                Some(Event::Closed) | None => return,
                Some(Event::Signal(Signal::SIGTSTP)) => signals::stop_here(false),
                Some(Event::Signal(signal)) if signals::ends(signal) => return,
                Some(_) => {}
            },
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
    start("stdin", watch)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Failure::because("cannot start a thread", error))
}

/// The script for which a stand-in holds its locks.
struct Script {
    pid: Pid,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    handle: std::os::fd::OwnedFd,
}

impl Script {
    /// Called while `fairlock hold` is alive, whose parent is the script. If `fairlock hold` dies before the grant, so
    /// does this process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn of(pid: Option<Pid>) -> Result<Self, Failure> {
        use rustix::process::{PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};
        let gone = |error: rustix::io::Errno| Failure::because("the script is gone", error);
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(gone)?;
        let pid = pid.ok_or_else(|| Failure::own("the script is gone"))?;
        Ok(Self { pid, handle: pidfd_open(pid, PidfdFlags::empty()).map_err(gone)? })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn of(pid: Option<Pid>) -> Result<Self, Failure> {
        Ok(Self { pid: pid.ok_or_else(|| Failure::own("the script is gone"))? })
    }

    /// The command line of the script, for the label.
    fn words(&self) -> Vec<OsString> {
        use std::os::unix::ffi::OsStringExt as _;
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid.as_raw_nonzero())).unwrap_or_default();
        let mut words: Vec<_> = line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
        words.retain(|word| !word.is_empty());
        if words.is_empty() { vec!["hold".into()] } else { words }
    }

    /// From the grant on neither the terminal nor the end of `fairlock hold` ends this process.
    fn detach(&self) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = rustix::process::set_parent_process_death_signal(None);
        let _ = rustix::process::setsid();
    }

    /// Calls this when all copies of the descriptor are closed but this process's own, which is closed first. `fairlock
    /// hold` returns when this process's stdout ends.
    fn watch(&self, closed: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::because("cannot watch the descriptor", error);
        let null = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
        let again = File::open("/dev/fd/0").or_else(|_| File::options().write(true).open("/dev/fd/0"));
        let again = again.map_err(failed)?;
        rustix::stdio::dup2_stdout(&null).map_err(|error| failed(error.into()))?;
        start("descriptor", move || {
            // Another stand-in on this file that is about to end still has it locked.
            let _ = rustix::io::retry_on_intr(|| flock(std::io::stdin(), FlockOperation::LockExclusive));
            let _ = rustix::stdio::dup2_stdin(&null);
            let _ = rustix::io::retry_on_intr(|| flock(&again, FlockOperation::LockExclusive));
            closed();
        })
    }

    fn tell(&self, signal: Signal) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let sent = rustix::process::Signal::from_named_raw(signal as i32)
            .ok_or(rustix::io::Errno::INVAL)
            .and_then(|signal| rustix::process::pidfd_send_signal(&self.handle, signal));
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let sent = nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid.as_raw_nonzero().get()), signal);
        if let Err(error) = sent {
            say(format_args!("cannot send {signal} to process {}: {error}", self.pid.as_raw_nonzero()));
        }
    }
}
