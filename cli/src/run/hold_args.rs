//! The arguments of `fairlock hold`, and its help.

use nix::sys::signal::Signal;

use super::args::Wait;

const SHORT: &str = "\
Examples:
  exec 9>x.lock; fairlock hold x --fd 9 || exit  waits in line, as flock 9 does
  exec 9>&-         or:  fairlock hold x -u      gives it back, as its end does
In a terminal, `fairlock hold deploy` holds until Ctrl-D or Ctrl-C.
Exit code: 0, or 122 busy, 123 lease lost, 124 timeout, 125 fairlock failed.";

const LONG: &str = "\
It prints the fencing token when the lock is granted, and holds until its stdin ends, or until INT. A script \
keeps the lock for as long as it has the other end of a pipe open, to which it writes nothing; bash: `coproc L { fairlock hold deploy; }; read -r token \
<&\"${L[0]}\"`, and later `exec {L[1]}>&-`. A stdin that has ended already, as /dev/null and that of `fairlock hold \
deploy &` in a script, is refused: nothing would be held. So is one with data, which is meant for another command.

With --fd N it returns when the lock is granted. The lock is held until the script has closed descriptor N, as it does \
when it ends, however it ends. The descriptor must be a file, as for flock, which the script opened on a line before, and may have any number. Programs that the \
script starts inherit the descriptor, and with it the lock: start a daemon with `9>&-`. It prints nothing, as flock; \
--print token asks for the fencing token, --print slot for the slot, and --print token,slot for both. Scripts may use one \
file for any locks. Inside of the script, `run` and `hold` of the same lock are refused.

In a container the kernel ends all processes with the first one. If that is the script, or ends with it, the lock stays \
taken for the rest of its lease. There `fairlock run` takes the script, or the script waits for the end of its hold: \
trap 'fairlock hold NAME -u' EXIT.

Another process, the stand-in, holds the lock then. TERM, INT, HUP and QUIT to it are passed on to the script, and the \
lock is held until the descriptor is closed. Its messages go to the script's stderr; where that is a socket, as under \
systemd, or the script has ended, they go to the system log. Nothing tells the script if the stand-in is killed.

When the lease is lost, the script is sent --signal. Without a command there is nothing that fairlock could end, so \
the script has to stop by itself: the default, TERM, ends it. The next holder comes when the script is done, or when \
the lease ends. Without --fd only a message on stderr tells of the loss.

Examples:
  exec 9>x.lock; fairlock hold x --fd 9 || exit  waits in line, as flock 9 does
  exec 9>&-         or:  fairlock hold x -u      gives it back, as its end does

Exit codes: 0, or 122 busy, 123 lease lost, 124 busy until --timeout, 125 fairlock failed or the server does not \
serve, 128+N by signal N.";

#[derive(Debug, clap::Args)]
#[command(after_help = SHORT, after_long_help = LONG, override_usage = "fairlock hold [OPTIONS] NAME")]
pub(crate) struct HoldArgs {
    /// The name of the lock
    #[arg(value_name = "NAME", hide_short_help = true)]
    pub(crate) name: String,
    /// Hold this lock as well
    #[arg(short = 'a', long, value_name = "NAME")]
    pub(crate) and: Vec<String>,
    /// Return; hold until the script closes N
    ///
    /// Returns when the lock is granted, and holds it until the script has closed the descriptor N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) fd: Option<i32>,
    /// Give it back, and wait until that is done
    ///
    /// Ends the hold of this lock by the script around, as if it had closed its descriptor, and returns when the server
    /// knows. A program that inherited the descriptor keeps the lock no longer. All locks that one `hold` took with --and
    /// are given back together.
    #[arg(short = 'u', long)]
    pub(crate) unlock: bool,
    /// Print the token, the slot, or token,slot
    ///
    /// In one line when the lock is granted, in the order in which they are named. Without it, `hold` with --fd prints
    /// nothing, and without --fd the fencing token.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', hide_short_help = true)]
    pub(crate) print: Vec<Print>,
    /// With --fd: sent at a loss [default: TERM]
    ///
    /// The script is sent this signal when the lease is lost.
    #[arg(long, value_name = "NAME", value_parser = signal, requires = "fd")]
    pub(crate) signal: Option<Signal>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

impl HoldArgs {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.and).map(String::as_str)
    }

    /// What is printed of a grant.
    pub(super) fn told(&self, (token, slot): (u64, u32)) -> String {
        let asked = match &self.print[..] {
            [] if self.fd.is_none() => &[Print::Token],
            asked => asked,
        };
        let words = asked.iter().map(|what| match what {
            Print::Token => token.to_string(),
            Print::Slot => slot.to_string(),
        });
        words.collect::<Vec<_>>().join(" ") + "\n"
    }
}

/// A number that a grant has.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Print {
    Token,
    Slot,
}

fn signal(name: &str) -> Result<Signal, String> {
    let name = name.to_uppercase();
    let full = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    full.parse().map_err(|_| "no signal has this name; TERM, INT, HUP, USR1 and others do".to_owned())
}
