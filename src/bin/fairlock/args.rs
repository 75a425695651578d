//! The arguments, and the help that explains them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes of `run`:
  The command's own exit code, or 128+N when signal N ended it. Otherwise:
  122    the lock is held, and --no-wait was given
  123    the lease was lost, and the command was ended because of it or not started
  124    the lock was not granted within --timeout
  125    fairlock itself failed, or was called wrongly (the other subcommands too)
  126    the command was found and cannot be executed
  127    the command was not found
  128+N  signal N ended the wait in the queue";

const RUN_HELP: &str = "\
The command finds the lock's name in FAIRLOCK_NAME and its fencing token, a number that rises with every grant, in \
FAIRLOCK_TOKEN. Whatever the command writes to should refuse a lower token than it has seen. FAIRLOCK_HELD tells a \
`fairlock run` inside of the command what is held already: it refuses (125) to wait for a lock that this job itself \
holds, since that would never end.

The command never outlives its lease. When the lease is lost, for instance because Redis cannot be reached, \
the command and all its descendants are sent TERM, and KILL at the latest --kill-after later and before the lease ends. The \
same happens when fairlock itself is killed, stopped or frozen. Descendants that left the command's process group \
(setsid, timeout) are found on Linux only. When the command exits by itself, processes that it left behind (daemons, \
background children) are not waited for and not ended.

Beyond its reach are processes that run as another user (instead of sudo in the command, use `sudo fairlock run …`), and \
those that somebody else starts for the command (docker run, systemd-run). Between fairlock and the command is a \
process called lease-shim. If both are stopped, nothing ends the command; if both are killed at the same instant, the \
kernel kills the command, but not its descendants.

Signals: INT, TERM, HUP and QUIT sent to fairlock go to the command's process group; USR1, USR2, ALRM and WINCH to the \
command alone. At a terminal Ctrl-C and Ctrl-Z reach the command directly; while it is stopped, its lease runs out. When \
the command dies of Ctrl-C or Ctrl-\\, so does fairlock after it gave the lock back, and the script around it.";

const STATUS_HELP: &str = "\
With --json, `state` is one of
  held         somebody holds the lock
  breaking     somebody holds it, and the lease is not renewed any more because it was broken
  free         nobody holds it; if `waiting` is not zero, the first waiter is next
  recovering   nobody holds it, and nothing is granted for `recovering_for_ms` at most: the server lost data, and waits \
for the clients that were there before";

const LOCAL_HELP: &str = "\
All jobs of a user on a machine share one private server, whatever their environment: those of cron, of a login, and of \
a systemd unit. Jobs of root, also by sudo, share root's. The server listens on a unix socket, and on no port, in \
.local/state/fairlock in the home folder that the user database (passwd) names; HOME and the XDG variables have no say. \
FAIRLOCK_LOCAL_DIR names another folder, on a local disk: give it to all jobs or to none, because jobs with it and jobs \
without it do not meet. The folder must be the user's own, of mode 0700. If it is removed while the server runs, no other \
server is started until the jobs that hold its locks have ended.

The server outlives the job that started it, but not that job's control group: a systemd unit with KillMode=control-group, \
the default, takes the server along when it ends. Jobs that wait or hold a lock then start it again at once, and keep \
their places and leases. A unit of its own keeps the server apart from all jobs:

  [Service]
  ExecStart=/usr/local/bin/fairlock local start --foreground
  Restart=on-failure";

/// Hold a fair distributed lock on Redis while a command runs: who asked first is served first.
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
    /// redis://[USER:PASSWORD@]HOST[:PORT][/DB] or unix:///SOCKET is one server; redis+sentinel://HOST[:PORT],…/MASTER is the
    /// master that these sentinels know; redis+cluster://HOST[:PORT],… is a cluster of which these are some nodes. With
    /// rediss for redis the connections are encrypted.
    ///
    /// A URL with a password is visible to other users in the list of processes; REDIS_URL is not.
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) redis: Option<String>,
    /// What the names of keys and channels begin with; runs with another one use other locks
    #[arg(long, value_name = "PREFIX", default_value = "fairlock", global = true)]
    pub(crate) prefix: String,
    /// Trust this certificate authority, and none besides, where the URL begins with rediss (PEM file)
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Show this certificate to the server (PEM file)
    #[arg(long, value_name = "FILE", global = true, requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate of --tls-cert (PEM file)
    #[arg(long, value_name = "FILE", global = true, requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Use a private redis-server of this user on this machine, and start it if need be
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
    /// How long to wait for the lock, and for a server that is not there yet, such as 90s or 1h, at most 366 days
    /// [default: for ever]
    #[arg(long, value_parser = timeout, conflicts_with = "no_wait", value_name = "TIME")]
    pub(crate) timeout: Option<Duration>,
    /// How long the lock stays taken when this machine dies; renewed while the command runs
    #[arg(long, value_parser = positive, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
    /// How long a command whose lease is lost has between TERM and KILL, at most a third of the lease
    #[arg(long, value_parser = humantime::parse_duration, default_value = "5s", value_name = "TIME")]
    pub(crate) kill_after: Duration,
    /// Count the lock as granted, and as renewed, only once so many replicas of the server have that
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) replicas: u32,
    /// Do not wait: exit with 122 if the lock is taken
    ///
    /// After holder and waiters died, this may say so twice before it finds them dead: their silence alone does not tell
    /// whether they died or the server stood still.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// What others see as holder or waiter [default: HOST:PID and the command's name]
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
        /// Be the server instead of starting it in the background, as soon as no other runs
        #[arg(long)]
        foreground: bool,
    },
    /// End the private server
    Stop {
        /// Also while others are connected, whose commands are then ended when their leases run out
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
