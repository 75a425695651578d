//! The arguments of `fairlock run`, and its help.

use std::ffi::OsString;
use std::time::Duration;

use crate::args::{positive, timeout};
use crate::exit::EXIT_CODES;

const RUN_HELP: &str = "\
The command finds the lock's name in FAIRLOCK_NAME, and in FAIRLOCK_TOKEN its fencing token, a number that rises with \
every grant. A store that the command writes to should refuse lower tokens than it has seen. FAIRLOCK_HELD tells a \
`fairlock run` inside the command which locks this job already holds: it refuses (125) to wait for one of them, since \
the job would wait for itself.

The command never outlives its lease. When the lease is lost, for instance because Redis cannot be reached, the \
command and all its descendants are sent TERM. They are sent KILL after --kill-after, or earlier if the lease ends \
earlier. The same happens when fairlock itself is killed, stopped or frozen. Descendants that left the command's \
process group (setsid, timeout) are found on Linux only. When the command exits by itself, fairlock neither waits for \
processes that it left behind (daemons, background children) nor ends them.

fairlock cannot end processes that run as another user (instead of sudo in the command, use `sudo fairlock run …`), \
nor processes that another program starts for the command (docker run, systemd-run). Between fairlock and the command \
is a process called lease-shim. If both are stopped, nothing ends the command; if both are killed at the same instant, \
the kernel kills the command, but not its descendants.

Signals: INT, TERM, HUP and QUIT sent to fairlock go to the command's process group; USR1, USR2, ALRM and WINCH go to \
the command alone. At a terminal Ctrl-C and Ctrl-Z reach the command directly. While the command is stopped, its lease \
runs out. When the command dies of Ctrl-C or Ctrl-\\, fairlock releases the lock and dies of the same signal, so that \
the script around it ends too.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{RUN_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// The name of the lock
    pub(crate) name: String,
    /// How long to wait for the lock, and for a server that is not up yet, such as 90s or 1h, at most 366 days
    /// [default: for ever]
    #[arg(long, value_parser = timeout, conflicts_with = "no_wait", value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
    /// How long the lock stays taken when this machine dies; renewed while the command runs
    #[arg(long, value_parser = positive, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
    /// How long the command has between TERM and KILL when its lease is lost, at most a third of the lease
    #[arg(long, value_parser = humantime::parse_duration, default_value = "5s", value_name = "TIME")]
    pub(crate) kill_after: Duration,
    /// Count a grant or a renewal only once this many replicas of the server have acknowledged it
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) replicas: u32,
    /// Do not wait: exit with 122 if the lock is taken
    ///
    /// After holder and waiters died, two calls may find the lock taken before one finds them dead: silence alone does
    /// not show whether they died or the server stood still.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// What others see as the holder or waiter [default: HOST:PID and the command's name]
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
