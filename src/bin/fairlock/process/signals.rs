//! Signals, without handlers: they are blocked, and one thread waits for them.
//!
//! So no code runs at an odd moment, and above all the dispositions stay what the caller made them: a command under
//! `nohup fairlock run …` ignores HUP as it would without fairlock. Only the mask has to be put back for the command.

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::descendants;
use crate::stderr;

/// What fairlock passes on, or acts upon.
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

/// Faults must stay deadly: blocked, they would leave a broken process running.
const FAULTS: [Signal; 7] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP, Signal::SIGSYS, Signal::SIGABRT];

/// How `kill` calls the process group of its caller.
const OWN_GROUP: Pid = Pid::from_raw(0);

/// The mask that a process was started with, in a form that goes through an argument list.
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

/// Blocks what fairlock hears, and the stops of a background process that touches its terminal: fairlock takes the
/// terminal back from the background. Must be called before any other thread exists, so that all of them inherit it.
/// (The thread that writes to stderr blocks everything anyway.)
pub(crate) fn block() -> nix::Result<Mask> {
    let blocked: SigSet = HEARD.into_iter().chain([Signal::SIGCHLD, Signal::SIGTTIN, Signal::SIGTTOU]).collect();
    Ok(Mask(blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?))
}

/// Blocks everything but faults: for the shim, which ends when its command has, and by nothing else.
pub(crate) fn block_all() -> nix::Result<()> {
    let mut all = SigSet::all();
    for fault in FAULTS {
        all.remove(fault);
    }
    all.thread_set_mask()
}

/// Calls `hear` for every signal that arrives, on a thread of its own, for the rest of the process's life. That thread
/// also collects the children that fairlock adopted: as the first process of a container, it adopts all orphans there.
pub(crate) fn listen(mut hear: impl FnMut(Signal) + Send + 'static) -> std::io::Result<()> {
    descendants::collect();
    wait_for(HEARD.into_iter().chain([Signal::SIGCHLD]), move |signal| match signal {
        Signal::SIGCHLD => descendants::collect(),
        signal => hear(signal),
    })
}

/// Calls `hear` whenever a child ends or stops, on a thread of its own: for the shim.
pub(crate) fn listen_to_children(mut hear: impl FnMut() + Send + 'static) -> std::io::Result<()> {
    wait_for([Signal::SIGCHLD], move |_| hear())
}

fn wait_for(
    signals: impl IntoIterator<Item = Signal>,
    mut hear: impl FnMut(Signal) + Send + 'static,
) -> std::io::Result<()> {
    let signals: SigSet = signals.into_iter().collect();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        loop {
            if let Ok(signal) = signals.wait() {
                hear(signal);
            }
        }
    })?;
    Ok(())
}

/// Does this signal end the wait in the queue? Not if it is ignored: the kernel queues it all the same while it is
/// blocked, and a waiter under nohup must survive HUP.
pub(crate) fn ends(signal: Signal) -> bool {
    let deadly = matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT);
    deadly && ignored() & (1 << (signal as i32 - 1)) == 0
}

/// Stops this process as Ctrl-Z would, or its whole process group: a shell regards a job as stopped when all of it is.
/// Returns once it is continued; at once where nobody could continue it (an orphaned process group does not stop).
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

/// Does a key of the terminal send this signal to end something, Ctrl-C or Ctrl-\\?
pub(crate) fn is_typed(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGQUIT)
}

/// Sends the job what the terminal sent to the command's group alone: without fairlock it would have got it as well.
pub(crate) fn tell_job(signal: Signal) {
    let _ = kill(OWN_GROUP, signal);
}

/// Dies by this signal. A shell believes that its script was interrupted only if its child died of the signal; if the
/// child exits with 130 the shell takes the signal for handled, and goes on. Returns only as the first process of a
/// container, which no signal of its own can end.
pub(crate) fn die_by(signal: Signal) {
    stderr::flush(stderr::LAST_WORDS);
    if std::process::id() == 1 {
        return;
    }
    // A core file of fairlock would take the place of the command's.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) });
    let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
}

/// The signals that this process ignores, as bits, bit 0 for signal 1: a shell without job control starts background
/// commands with INT and QUIT ignored, and nohup ignores HUP.
fn ignored() -> u64 {
    // Where there is no such file the signals count as not ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
