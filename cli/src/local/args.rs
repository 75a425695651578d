//! The arguments of `fairlock local`, and its help.

use clap::Subcommand;

const SHORT: &str = "\
Jobs with --local start the server by themselves; `fairlock local --help` says
where it is, who shares it, and how it runs as a systemd unit.
Exit code: 0, of status 1 if it does not run, 125 if fairlock fails.";

const LONG: &str = "\
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
  Restart=on-failure

Exit code: 0, of status 1 if it does not run, 125 if fairlock fails.";

#[derive(Debug, clap::Args)]
#[command(
    after_help = SHORT,
    after_long_help = LONG,
    help_template = "{about-with-newline}\n{usage-heading} {usage}\n\nCommands:\n{subcommands}{after-help}",
    disable_help_subcommand = true,
    override_usage = "fairlock local COMMAND",
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) action: Action,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
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
