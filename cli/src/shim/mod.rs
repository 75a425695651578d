//! The shim: the process between fairlock and the command, which ends the command in time when fairlock cannot.
//!
//! The shim knows the lease's deadline and is told of every renewal. It sends TERM and later KILL to the command and
//! all its descendants in three cases: fairlock orders it; fairlock is gone (its end of the socket is closed, however
//! it died); the deadline comes without an order (fairlock is stopped or frozen, or Redis cannot be reached).
//!
//! The shim has its own process group and blocks all signals, so that neither the terminal nor a well-meant `kill` ends
//! it before its command. Its name is not fairlock, so that `killall -9 fairlock` does not end it either. If the shim
//! is killed nevertheless, the kernel kills the command with it (`stage.rs`), and fairlock kills the descendants
//! (`process/descendants.rs`). If the shim is stopped, fairlock kills it at the deadline. If fairlock dies while the
//! shim is stopped, the kernel continues the shim.
//!
//! INT, TERM, HUP and QUIT that fairlock hears go to the command and to what it has started. If the command ends after
//! that, or dies of any signal, the shim does not report that it is done before those processes have ended (`rest.rs`).
//! It ends none of them while the lease lasts.
//!
//! Once the command has ended after the death of fairlock, the shim gives the lock back (`give_back.rs`). So it does
//! if fairlock dies before the command starts.
//!
//! `events.rs` decides what to do at each event. The shim acts first and writes messages afterwards. It never waits for
//! a reader of its messages or reports.

mod events;
pub(crate) mod give_back;
pub(crate) mod job;
pub(crate) mod protocol;
pub(crate) mod queue;
mod rest;
pub(crate) mod stage;

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use fairlock::operator::Time;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::exit::{OWN_FAILURE, say};
use crate::process::alarm::Alarm;
use crate::process::terminal::Terminal;
use crate::process::{descendants, descriptors, signals, this_binary};
use crate::stderr;
use events::{Shim, ShimEvent};
use protocol::{Order, Report};

pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match guard_command(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("the shim failed: {error}"));
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn guard_command(mut arguments: impl Iterator<Item = OsString>) -> std::io::Result<()> {
    signals::block_all()?;
    // If the caller ignores SIGCHLD, the kernel would discard the command's exit status.
    signal_hook::flag::register(Signal::SIGCHLD as i32, Arc::new(AtomicBool::new(false)))?;
    outlive_fairlock()?;
    descendants::adopt()?;
    let mut number =
        || arguments.next().and_then(|word| word.to_str()?.parse().ok()).ok_or(std::io::ErrorKind::InvalidInput);
    let (kill_after, term_at, kill_at) = (Duration::from_nanos(number()?), Time(number()?), Time(number()?));
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut first = String::new();
    // Nothing follows this order before the report, so no later order gets into the buffer.
    BufReader::new(&socket).read_line(&mut first)?;
    let Ok(Order::Keep { leases }) = first.parse() else {
        return Ok(());
    };
    protocol::send(&socket, Report::Ready);
    let Ok(stdin) = descriptors::receive(&socket) else {
        // fairlock is dead, and no command has started.
        give_back::give_back(&leases, kill_at);
        return Ok(());
    };
    if Time::now() >= term_at {
        // fairlock was stopped after the grant. The lease is over and the command was not started.
        protocol::send(&socket, Report::TooLate);
        return Ok(());
    }
    // The threads start before the command, so that nothing can fail once it runs.
    let (events, inbox) = mpsc::channel();
    let alarm = match start_threads(&socket, events) {
        Ok(alarm) => alarm,
        Err(error) => {
            protocol::send(&socket, Report::Failed { cause: format!("its shim cannot start a thread: {error}") });
            return Ok(());
        }
    };
    let terminal = Terminal::of_parent();
    let mut command = this_binary();
    command.arg(stage::COMMAND_WORD).arg(std::process::id().to_string()).args(arguments);
    // The main thread spawns it and lives as long as the shim: the kernel ties the command's life to this thread.
    let pid = match descendants::spawn(command.stdin(Stdio::from(stdin)).process_group(0)) {
        Ok(child) => child.id().cast_signed(),
        Err(error) => {
            protocol::send(&socket, Report::Failed { cause: error.to_string() });
            return Ok(());
        }
    };
    // The command's stdin must have no other reader than the command.
    drop(command);
    protocol::send(&socket, Report::Started { pid });

    let mut shim = Shim::new(socket, Pid::from_raw(pid), kill_after, (term_at, kill_at), leases, terminal);
    loop {
        alarm.set(shim.next_look())?;
        // The alarm's thread holds a sender for ever, so there is always one.
        let Ok(event) = inbox.recv() else {
            return Ok(());
        };
        if shim.handle(event) {
            // fairlock kills the shim after its last message.
            stderr::flush(stderr::LAST_WORDS);
            shim.send(Report::Done);
            shim.await_end_of_fairlock(&inbox);
            return Ok(());
        }
    }
}

/// What the shim waits for, a thread each: orders, children, and the alarm.
fn start_threads(socket: &UnixStream, events: Sender<ShimEvent>) -> std::io::Result<Arc<Alarm>> {
    let orders = BufReader::new(socket.try_clone()?);
    let on_order = events.clone();
    thread::Builder::new().name("orders".to_owned()).spawn(move || {
        // A line that cannot be parsed is ignored: without an order the deadline ends the command.
        for order in orders.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
            let _ = on_order.send(ShimEvent::Order(order));
        }
        let _ = on_order.send(ShimEvent::FairlockGone);
    })?;
    let on_child = events.clone();
    signals::listen_to_children(move || drop(on_child.send(ShimEvent::Child)))?;
    let alarm = Arc::new(Alarm::new()?);
    let rings = Arc::clone(&alarm);
    thread::Builder::new()
        .name("alarm".to_owned())
        .spawn(move || while rings.wait().is_ok() && events.send(ShimEvent::Alarm).is_ok() {})?;
    Ok(alarm)
}

/// If this process is stopped when fairlock dies, the kernel continues it: otherwise nothing would end the command.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn outlive_fairlock() -> std::io::Result<()> {
    rustix::thread::set_name(c"lease-shim")?;
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT))?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn outlive_fairlock() -> std::io::Result<()> {
    Ok(())
}
