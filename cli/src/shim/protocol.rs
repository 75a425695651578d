//! The messages between fairlock and its shim, one line each, over a socket pair.
//!
//! The socket is the shim's stdin. The first order names the leases, which the shim reports to be `ready` for. Then
//! fairlock sends the command's real stdin over the socket, and the command starts. It inherits only stdin, stdout and
//! stderr, and no other descriptor of fairlock.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::str::FromStr;

use fairlock::operator::Time;
use rustix::net::SendFlags;

/// The word that makes this binary a shim: `fairlock __shim KILL_AFTER_NS TERM_AT KILL_AT FOREGROUND MASK COMMAND…`,
/// where `FOREGROUND MASK COMMAND…` is for the stage.
pub(crate) const SHIM_WORD: &str = "__shim";
/// The shim's process name, which `ps` shows and by which `pkill` and `killall` choose.
pub(crate) const SHIM_NAME: &str = "lease-shim";

/// From fairlock to the shim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// If fairlock dies, give these leases back, see `give_back.rs`. The first order.
    Keep { leases: String },
    /// The lease was renewed: unless another order comes, send TERM at `term_at` and KILL by `kill_at`.
    Lease { term_at: Time, kill_at: Time },
    /// The lease is lost: send TERM now, and KILL by `kill_at`.
    End { kill_at: Time },
    /// Pass this signal on.
    Signal { number: i32, whole_group: bool },
    /// Continue the stopped command.
    Continue,
}

/// From the shim to fairlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The shim gives the leases back from now on, and waits for the command's stdin. The first report.
    Ready,
    /// The command runs, as leader of its own process group.
    Started { pid: i32 },
    /// The lease's end as the shim knows it now, after an order.
    Lease { term_at: Time, kill_at: Time },
    /// The command was stopped by this signal; or, once it has ended, what is left of its process group.
    Stopped { signal: i32 },
    /// The command exited, by itself or because the shim ended it (`forced`).
    Exited { code: i32, forced: bool },
    /// A signal ended the command.
    Killed { signal: i32, forced: bool },
    /// The command has ended, and the lease is still needed for these processes. Whether any of them is in the
    /// command's process group, which may have the terminal.
    Rest { in_group: bool, processes: String },
    /// Nothing needs the lease any more. The shim's last message.
    Done,
    /// The lease ended before the command was started, so it was not started. The shim's last message.
    TooLate,
    /// The command could not be started. The shim's last message.
    Failed { cause: String },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep { leases } => writeln!(f, "keep {leases}"),
            Self::Lease { term_at, kill_at } => writeln!(f, "lease {} {}", term_at.0, kill_at.0),
            Self::End { kill_at } => writeln!(f, "end {}", kill_at.0),
            Self::Signal { number, whole_group } => writeln!(f, "signal {number} {whole_group}"),
            Self::Continue => writeln!(f, "continue"),
        }
    }
}

/// The other side sent a line that this protocol does not have.
#[derive(Debug)]
pub(crate) struct Garbled;

impl FromStr for Order {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        if let Some(leases) = line.strip_prefix("keep ") {
            return Ok(Self::Keep { leases: leases.trim_end().to_owned() });
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["lease", term_at, kill_at] => {
                Self::Lease { term_at: Time(number(term_at)?), kill_at: Time(number(kill_at)?) }
            }
            ["end", kill_at] => Self::End { kill_at: Time(number(kill_at)?) },
            ["signal", signal, whole_group] => {
                Self::Signal { number: number(signal)?, whole_group: number(whole_group)? }
            }
            ["continue"] => Self::Continue,
            _ => return Err(Garbled),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => writeln!(f, "ready"),
            Self::Started { pid } => writeln!(f, "started {pid}"),
            Self::Lease { term_at, kill_at } => writeln!(f, "lease {} {}", term_at.0, kill_at.0),
            Self::Stopped { signal } => writeln!(f, "stopped {signal}"),
            Self::Exited { code, forced } => writeln!(f, "exited {code} {forced}"),
            Self::Killed { signal, forced } => writeln!(f, "killed {signal} {forced}"),
            Self::Rest { in_group, processes } => writeln!(f, "rest {in_group} {}", processes.replace('\n', " ")),
            Self::Done => writeln!(f, "done"),
            Self::TooLate => writeln!(f, "too late"),
            Self::Failed { cause } => writeln!(f, "failed {}", cause.replace('\n', " ")),
        }
    }
}

impl FromStr for Report {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        if let Some(cause) = line.strip_prefix("failed ") {
            return Ok(Self::Failed { cause: cause.trim_end().to_owned() });
        }
        if let Some((in_group, processes)) = line.strip_prefix("rest ").and_then(|rest| rest.split_once(' ')) {
            return Ok(Self::Rest { in_group: number(in_group)?, processes: processes.trim_end().to_owned() });
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["ready"] => Self::Ready,
            ["done"] => Self::Done,
            ["started", pid] => Self::Started { pid: number(pid)? },
            ["lease", term_at, kill_at] => {
                Self::Lease { term_at: Time(number(term_at)?), kill_at: Time(number(kill_at)?) }
            }
            ["stopped", signal] => Self::Stopped { signal: number(signal)? },
            ["exited", code, forced] => Self::Exited { code: number(code)?, forced: number(forced)? },
            ["too", "late"] => Self::TooLate,
            ["killed", signal, forced] => Self::Killed { signal: number(signal)?, forced: number(forced)? },
            _ => return Err(Garbled),
        })
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, Garbled> {
    word.parse().map_err(|_| Garbled)
}

/// Sends a message without waiting, because a stopped shim must not hold up fairlock. False if it could not be sent. (A
/// closed socket gives an error and no signal, since every Rust program ignores SIGPIPE.)
pub(crate) fn send(socket: &UnixStream, message: impl fmt::Display) -> bool {
    let line = message.to_string();
    rustix::net::send(socket, line.as_bytes(), SendFlags::DONTWAIT).is_ok_and(|sent| sent == line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_survives_the_way() {
        let orders = [
            Order::Keep { leases: r#"{"name":"a b"}"#.to_owned() },
            Order::Lease { term_at: Time(1), kill_at: Time(u64::MAX) },
            Order::End { kill_at: Time(7) },
            Order::Signal { number: 15, whole_group: true },
            Order::Signal { number: 10, whole_group: false },
            Order::Continue,
        ];
        for order in orders {
            assert_eq!(order.to_string().parse::<Order>().unwrap(), order);
        }
        let reports = [
            Report::Ready,
            Report::Started { pid: 4711 },
            Report::Lease { term_at: Time(1), kill_at: Time(u64::MAX) },
            Report::Stopped { signal: 20 },
            Report::Exited { code: 3, forced: false },
            Report::Killed { signal: 9, forced: true },
            Report::Rest { in_group: true, processes: "4712 (a b), 4713 (c)".to_owned() },
            Report::Done,
            Report::TooLate,
            Report::Failed { cause: "no more processes: try later".to_owned() },
        ];
        for report in reports {
            assert_eq!(report.to_string().parse::<Report>().unwrap(), report);
        }
        assert!("end soon".parse::<Order>().is_err());
        assert!("exited".parse::<Report>().is_err());
    }
}
