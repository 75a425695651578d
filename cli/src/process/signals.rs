//! Signals without handlers: they are blocked, and one thread waits for them.
//!
//! So no code runs at an unexpected moment, and the dispositions stay as the caller set them: a command under `nohup
//! fairlock run …` ignores HUP as it would without fairlock. Only the mask must be restored for the command.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::descendants;
use super::table::{self, Process};
use crate::stderr;

/// The signals that fairlock passes on or acts upon.
const HEARD: [Signal; 10] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Faults stay unblocked: a broken process must die of them.
const FAULTS: [Signal; 7] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGSYS, Signal::SIGABRT];

/// What `kill` takes for the process group of its caller.
const OWN_GROUP: Pid = Pid::from_raw(0);

/// The signal mask that a process was started with, in a form that fits into an argument list.
#[derive(Debug, Clone)]
pub(crate) struct Mask(SigSet);

impl Mask {
    pub(crate) fn to_argument(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(|signal| (signal as i32).to_string()).collect();
        numbers.join(",")
    }

    pub(crate) fn from_argument(argument: &str) -> Self {
        let numbers = argument.split(',').filter_map(|number| number.parse::<i32>().ok());
        Self(numbers.filter_map(|number| Signal::try_from(number).ok()).collect())
    }

    /// Sets this mask for the calling thread, just before it becomes another program.
    pub(crate) fn restore(&self) -> nix::Result<()> {
        self.0.thread_set_mask()
    }
}

/// Blocks the signals that fairlock waits for, and those that stop a background process which uses the terminal:
/// fairlock takes the terminal back from the background. Must be called before any other thread exists, so that all of
/// them inherit the mask. (The thread that writes to stderr blocks everything anyway.)
pub(crate) fn block() -> nix::Result<Mask> {
    let blocked: SigSet = HEARD.into_iter().chain([Signal::SIGCHLD, Signal::SIGTTIN, Signal::SIGTTOU]).collect();
    Ok(Mask(blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
}

/// Blocks everything but faults. For the shim, which ends after its command and for no other reason.
pub(crate) fn block_all() -> nix::Result<()> {
    let mut all = SigSet::all();
    for fault in FAULTS {
        all.remove(fault);
    }
    all.thread_set_mask()
}

/// Calls `on_signal` for every signal that arrives, on a separate thread, until the process ends. That thread also
/// collects the children that fairlock adopted: as the first process of a container it adopts all orphans there.
pub(crate) fn listen(mut on_signal: impl FnMut(Signal) + Send + 'static) -> std::io::Result<()> {
    descendants::collect();
    wait_for(HEARD.into_iter().chain([Signal::SIGCHLD]), move |signal| match signal {
        Signal::SIGCHLD => descendants::collect(),
        signal => on_signal(signal),
    })
}

/// Calls `on_change` on a separate thread whenever a child exits or stops. For the shim.
pub(crate) fn listen_to_children(mut on_change: impl FnMut() + Send + 'static) -> std::io::Result<()> {
    wait_for([Signal::SIGCHLD], move |_| on_change())
}

fn wait_for(
    signals: impl IntoIterator<Item = Signal>,
    mut on_signal: impl FnMut(Signal) + Send + 'static,
) -> std::io::Result<()> {
    let signals: SigSet = signals.into_iter().collect();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        loop {
            if let Ok(signal) = signals.wait() {
                on_signal(signal);
            }
        }
    })?;
    Ok(())
}

/// Whether people and programs ask a process to end by this signal.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
}

/// Whether this signal ends the wait in the queue. An ignored signal does not, although the kernel queues it while it
/// is blocked: a waiter under nohup must survive HUP.
pub(crate) fn ends(signal: Signal) -> bool {
    asks_to_end(signal) && ignored() & (1 << (signal as i32 - 1)) == 0
}

/// Stops this process as Ctrl-Z would, or its whole process group: for a shell a job is stopped when all its processes
/// are. Returns when it is continued, or at once if no shell could continue it (an orphaned process group does not
/// stop).
pub(crate) fn stop_here(whole_group: bool) {
    stderr::flush(stderr::A_MOMENT);
    let stop = SigSet::from_iter([Signal::SIGTSTP]);
    let _ = stop.thread_unblock();
    if whole_group {
        let _ = kill(OWN_GROUP, Signal::SIGTSTP);
    } else {
        let _ = nix::sys::signal::raise(Signal::SIGTSTP);
    }
    let _ = stop.thread_block();
}

/// Whether no shell could continue this process group, because no parent of its processes is in another group of the
/// session. The signals of a terminal do not stop such a group.
pub(crate) fn is_orphaned() -> bool {
    let all = table::all();
    let Some(own) = all.iter().find(|process| process.pid == table::own_pid()) else {
        return false;
    };
    let parents = all.iter().filter(|process| process.group == own.group).map(|process| process.parent);
    let parents: Vec<i32> = parents.collect();
    let is_outside = |parent: &Process| parent.session == own.session && parent.group != own.group;
    !all.iter().any(|parent| is_outside(parent) && parents.contains(&parent.pid))
}

/// Whether a key of the terminal sends this signal to end a command: Ctrl-C or Ctrl-\\.
pub(crate) fn is_typed(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGQUIT)
}

/// Sends the whole job the signal that the terminal sent only to the command's group. Without fairlock the job would
/// have received it too.
pub(crate) fn tell_job(signal: Signal) {
    let _ = kill(OWN_GROUP, signal);
}

/// Dies of this signal. A shell ends its script only if its child died of the signal; if the child exits with 130 the
/// shell counts the signal as handled and goes on. Returns only in the first process of a container, which cannot end
/// itself with a signal.
pub(crate) fn die_by(signal: Signal) {
    stderr::flush(stderr::LAST_WORDS);
    if std::process::id() == 1 {
        return;
    }
    // A core file of fairlock would overwrite the command's.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) });
    let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
}

/// The signals that this process ignores, as bits, bit 0 for signal 1. A shell without job control starts background
/// commands with INT and QUIT ignored, and nohup starts its command with HUP ignored.
fn ignored() -> u64 {
    // Without this file no signal counts as ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
