//! The arguments, and the help that explains them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::doctor::args::Doctor;

const EXIT_CODES: &str = "\
Exit codes of `run`:
  The command's own exit code, or 128+N when signal N ended it. Otherwise:
  122    the lock is held, and --no-wait was given
  123    the lease was lost, so the command was ended or not started
  124    the lock was not granted within --timeout
  125    fairlock itself failed, or was called wrongly (the other subcommands too)
  126    the command was found but cannot be executed
  127    the command was not found
  128+N  signal N ended the wait in the queue";

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

const STATUS_HELP: &str = "\
With --json, `state` is one of
  held         the lock has a holder
  breaking     the lock has a holder whose lease was broken: it is not renewed any more
  free         the lock has no holder; if `waiting` is not zero, the first waiter is next
  recovering   the lock has no holder, and nothing is granted for up to `recovering_for_ms`: the server lost data, and \
waits for its former clients";

const LOCAL_HELP: &str = "\
All jobs of a user on a machine share one private server, whatever their environment (cron, a login, a systemd unit). \
Jobs of root, also with sudo, share root's server. The server listens on a unix socket, and on no port, in \
.local/state/fairlock in the home folder that the user database (passwd) names; HOME and the XDG variables do not \
count. FAIRLOCK_LOCAL_DIR names another folder, on a local disk. Set it for all jobs or for none: jobs with it and \
jobs without it use different servers. The folder must belong to the user and have mode 0700. If it is removed while \
the server runs, no other server is started until the jobs that hold its locks have ended.

The server outlives the job that started it, but not that job's control group: a systemd unit with \
KillMode=control-group, the default, ends the server when the unit ends. Jobs that wait or hold a lock then start it \
again at once, and keep their places and leases. A unit of its own keeps the server apart from all jobs:

  [Service]
  ExecStart=/usr/local/bin/fairlock local start --foreground
  Restart=on-failure";

/// Hold a fair distributed lock on Redis while a command runs: first come, first served
#[derive(Debug, Parser)]
#[command(name = "fairlock", version, after_long_help = EXIT_CODES, after_help = EXIT_CODES, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// Where the locks are kept.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// The Redis server [default: the environment's REDIS_URL, or else redis://127.0.0.1/]
    ///
    /// redis://[USER:PASSWORD@]HOST[:PORT][/DB] or unix:///SOCKET is one server; redis+sentinel://HOST[:PORT],…/MASTER
    /// is the master that these sentinels know; redis+cluster://HOST[:PORT],… is a cluster of which these are some
    /// nodes. With rediss instead of redis the connections are encrypted.
    ///
    /// A URL with a password is visible to other users in the list of processes; REDIS_URL is not.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) redis: Option<String>,
    /// The prefix of all keys and channels; runs with different prefixes use different locks
    #[arg(long, value_name = "PREFIX", default_value = "fairlock", global = true)]
    pub(crate) prefix: String,
    /// Trust only this certificate authority, if the URL begins with rediss (PEM file)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show this certificate to the server (PEM file)
    #[arg(long, value_name = "FILE", global = true, requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate of --tls-cert (PEM file)
    #[arg(long, value_name = "FILE", global = true, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Use this user's private redis-server on this machine; start it if necessary
    #[arg(long, global = true, conflicts_with = "redis")]
    pub(crate) local: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Wait for the lock, and run a command while holding it
    Run(Run),
    /// Show who holds a lock, and who waits for it
    #[command(after_help = STATUS_HELP)]
    Status(Status),
    /// Look for what harms locks at the servers, and say what mends it
    Doctor(Doctor),
    /// The private server that --local uses
    #[command(after_help = LOCAL_HELP)]
    Local {
        #[command(subcommand)]
        action: LocalAction,
    },
}

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{RUN_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Run {
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

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// The name of the lock
    pub(crate) name: String,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LocalAction {
    /// Start the private server, unless it runs
    Start {
        /// Become the server instead of starting it in the background, as soon as no other server runs
        #[arg(long)]
        foreground: bool,
    },
    /// End the private server
    Stop {
        /// Even if jobs are connected; their commands are ended when their leases run out
        #[arg(long)]
        force: bool,
    },
    /// Show whether the private server runs, and where
    Status,
}

fn positive(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be more than zero".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    const DAYS: u64 = 366;
    let at_most = Duration::from_secs(DAYS * 24 * 3600);
    positive(text).and_then(|time| if time > at_most { Err(format!("must be at most {DAYS} days")) } else { Ok(time) })
}
