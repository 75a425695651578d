//! Signals, without handlers: they are blocked, and one thread waits for them.
//!
//! So no code runs at an odd moment, and above all the dispositions stay what the caller made them: a command under
//! `nohup fairlock run …` ignores HUP as it would without fairlock. Only the mask has to be put back for the command.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};

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
pub(crate) fn block() -> nix::Result<Mask> {
    let blocked: SigSet = HEARD.into_iter().chain([Signal::SIGTTIN, Signal::SIGTTOU]).collect();
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

/// Calls `hear` for every signal that arrives, on a thread of its own, for the rest of the process's life.
pub(crate) fn listen(mut hear: impl FnMut(Signal) + Send + 'static) -> std::io::Result<()> {
    let heard: SigSet = HEARD.into_iter().collect();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        loop {
            if let Ok(signal) = heard.wait() {
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
    let stop = SigSet::from_iter([Signal::SIGTSTP]);
    let _ = stop.thread_unblock();
    if whole_group {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(0), Signal::SIGTSTP);
    } else {
        let _ = nix::sys::signal::raise(Signal::SIGTSTP);
    }
    let _ = stop.thread_block();
}

/// The signals that this process ignores, as bits, bit 0 for signal 1: a shell without job control starts background
/// commands with INT and QUIT ignored, and nohup ignores HUP.
fn ignored() -> u64 {
    // Where there is no such file the signals count as not ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
