//! The arguments of `fairlock run`, and its help.

use std::ffi::OsString;
use std::time::Duration;

use clap::ValueHint;

use crate::duration::{any, positive, timeout};
use crate::sharing::Sharing;

/// Shown by `-h`, which fits one screen.
const SHORT: &str = "\
Examples:
  fairlock run deploy ./deploy.sh         one at a time, first come first served
  fairlock run -n -E 0 nightly backup.sh  cron: skip it if it still runs
  fairlock run -w 10m -c db 'a && b'      a shell line, after 10 minutes at most
  fairlock --local run build make         without a server of your own
Exit code: the command's; 122 busy, 123 lease lost, 124 timeout, 125-127 as env.";

const LONG: &str = "\
Examples:
  fairlock run deploy ./deploy.sh         one at a time, first come first served
  fairlock run -n -E 0 nightly backup.sh  cron: skip it if it still runs
  fairlock run -w 10m -c db 'a && b'      a shell line, after 10 minutes at most
  fairlock run stock -a orders ./move.sh  two locks at once, without deadlock
  fairlock --local run build make         without a server of your own

Exit codes:
  The command's own exit code, or 128+N when signal N ended it. Otherwise:
  122    the lock is held, and --no-wait was given
  123    the lease was lost, so the command was ended or not started
  124    others had the lock until --timeout was over
  125    fairlock itself failed, was called wrongly, or the server did not serve
  126    the command was found but cannot be executed
  127    the command was not found
  128+N  signal N ended the wait in the queue

Environment:
  The command finds the lock's name in FAIRLOCK_NAME, in FAIRLOCK_TOKEN its fencing token, in FAIRLOCK_SLOT its \
slot, and in FAIRLOCK_WAITED_MS how long it waited. The token rises with every grant: a store that the command writes \
to should refuse lower tokens than it has seen, in this slot; a job that holds the name alone uses all slots, and first writes its token for each. FAIRLOCK_HELD tells a `fairlock run` inside the command \
which locks this job already holds: it refuses (125) to wait for one of them, since the job would wait for itself.

  FAIRLOCK_LABEL and FAIRLOCK_LEASE stand for --label and --lease, and the command does not inherit them. The options \
of the connection have variables too: REDIS_URL, FAIRLOCK_PREFIX, FAIRLOCK_LOCAL=1 and so on. With NOTIFY_SOCKET, as \
systemd sets it for Type=notify, fairlock tells systemd how the wait goes, and READY=1 when the lock is granted.

The lease:
  The command never outlives its lease. When the lease is lost, for instance because Redis cannot be reached, the \
command and all its descendants are sent TERM. They are sent KILL after --kill-after, or earlier if the lease ends \
earlier. The same happens when fairlock itself is killed (KILL), stopped or frozen. Descendants that left the command's \
process group (setsid, timeout) are found on Linux only. When the command exits by itself, fairlock neither waits for \
processes that it left behind (daemons, background children) nor ends them.

  fairlock cannot end processes that run as another user (instead of sudo in the command, use `sudo fairlock run …`), \
nor processes that another program starts for the command (docker run, systemd-run). Between fairlock and the command \
is a process called lease-shim. If both are stopped, or lease-shim is stopped after fairlock was killed, nothing ends the \
command; if both are killed at the same instant, the kernel kills the command, but not its descendants. While fairlock waits in the queue, a process called queue-shim \
leaves the queue if fairlock is killed.

Signals:
  INT, TERM, HUP and QUIT sent to fairlock go to the command's process group and to what the command has started \
outside of it; USR1, USR2, ALRM and WINCH go to the command alone. If the command ends after one of the first four, or \
dies of any signal, the lock is kept until those processes have ended, too (daemons excepted). A line names them, a \
further signal goes to them, and a lost lease or KILL of fairlock ends them. The exit code is the command's.

  At a terminal Ctrl-C and Ctrl-Z reach the command directly. Ctrl-Z stops fairlock, too, so the lease runs out, and the \
command ends with it. A command that is stopped in another way (kill -STOP) keeps its lease. When the command dies of Ctrl-C or Ctrl-\\, fairlock releases the lock and dies of the same signal, so that \
the script around it ends too.";

#[derive(Debug, clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG, override_usage = "fairlock run [OPTIONS] NAME [--] COMMAND...")]
pub(crate) struct Args {
    /// The name of the lock
    #[arg(hide_short_help = true, value_name = "NAME")]
    pub(crate) name: String,
    /// Take this lock as well
    ///
    /// May be given more than once. All locks are taken in one order, that of their names, whatever the order on the
    /// command line, so jobs that take several do not block each other for ever. --timeout is for all of them together:
    /// the command starts with all locks, or with none. --slots and --shared are about NAME alone, and the others are
    /// held exclusively. FAIRLOCK_NAME, FAIRLOCK_TOKEN and FAIRLOCK_SLOT are those of NAME.
    #[arg(short = 'a', long, value_name = "NAME")]
    pub(crate) and: Vec<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// COMMAND is one word, a line for sh
    ///
    /// `fairlock run -c NAME 'a | b'` is `fairlock run NAME -- sh -c 'a | b'`.
    #[arg(short = 'c', long, alias = "command")]
    pub(crate) shell: bool,
    /// Of flock: the command never has the lock open
    #[arg(short = 'o', long, hide = true, overrides_with = "close")]
    pub(crate) close: bool,
    /// Of flock: fairlock cannot become the command, since it renews the lease
    #[arg(short = 'F', long, hide = true, overrides_with = "no_fork")]
    pub(crate) no_fork: bool,
    /// From TERM to KILL when the lease is lost
    ///
    /// How long the command has between TERM and KILL when its lease is lost, at most a third of the lease.
    #[arg(long, value_parser = any, default_value = "5s", value_name = "TIME", hide_short_help = true)]
    pub(crate) kill_after: Duration,
    /// The command and its arguments
    ///
    /// What stands behind COMMAND is the command's: options of fairlock stand before it.
    #[arg(
        trailing_var_arg = true,
        required = true,
        value_name = "COMMAND",
        hide_short_help = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) command: Vec<OsString>,
}

/// The options of everything that waits for locks and holds them.
#[derive(Debug, clap::Args)]
pub(crate) struct Wait {
    /// Give up after this time: 10, 90s, 1h
    ///
    /// How long to wait for the lock, and for a server that is not up yet, at most 366 days: seconds, or a time such as
    /// 90s, 10m or 1h [default: for ever]. With 0 it does not wait, as with --no-wait.
    #[arg(short = 'w', short_alias = 't', long, alias = "wait", value_parser = timeout, value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
    /// Do not wait at all
    ///
    /// Exits with 122 if the lock is taken, also with --timeout, as flock does. After holder and waiters died, two calls may find the lock taken before one
    /// finds them dead: silence alone does not show whether they died or the server stood still.
    #[arg(short = 'n', long, aliases = ["nb", "nonblock"])]
    pub(crate) no_wait: bool,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
    /// Exit with N instead of 122 and 124
    ///
    /// For callers that know the exit code of flock. With 0, a lock that is taken is no failure. A server that does not
    /// serve stays one (125).
    #[arg(short = 'E', long, value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// What others see as holder or waiter
    ///
    /// The default names user, host, process and command, as in `ops@db1:4711 backup.sh`.
    #[arg(short = 'l', long, value_name = "TEXT", hide_short_help = true)]
    pub(crate) label: Option<String>,
    /// Say nothing of waits and busy locks
    ///
    /// Failures of fairlock itself, a server that does not serve and a lost lease are still reported.
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// Tell of every change of the wait, and sum up
    ///
    /// Each new position, the grant and the server that gave it, and at the end how long was waited, behind whom, and how long the lock was held.
    #[arg(short = 'v', long, hide_short_help = true)]
    pub(crate) verbose: bool,
    /// Free after this time if this machine dies
    ///
    /// How long the lock stays taken when this machine dies. The lease is renewed while the lock is held.
    #[arg(long, value_parser = positive, default_value = "30s", value_name = "TIME", hide_short_help = true)]
    pub(crate) lease: Duration,
    /// Count a grant or a renewal only once this many replicas of the server have acknowledged it
    #[arg(long, default_value_t = 0, value_name = "N", hide_short_help = true)]
    pub(crate) replicas: u32,
    /// Write what happens as JSON lines to this file, or to an open descriptor
    ///
    /// A number is a descriptor, as in `--events 3 3>log`. docs/command-line.md describes the events.
    #[arg(long, value_name = "FD|FILE", hide_short_help = true, value_hint = ValueHint::FilePath)]
    pub(crate) events: Option<OsString>,
}
