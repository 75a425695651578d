//! The arguments of `fairlock exporter`.

use std::net::{SocketAddr, ToSocketAddrs as _};

const HELP: &str = "\
Examples:
  fairlock exporter --once 'reports:*' backup

Exit code: 125 if it cannot listen; while the server is away `fairlock_up` is 0.";

const MORE: &str = "\
The metrics are read from the server at each scrape. Rights to read suffice, from Redis 7 on these:
  %R~fairlock:* +hello +scan +evalsha_ro +eval_ro +time +hget +zcard +zrangebyscore";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, after_long_help = format!("{MORE}\n\n{HELP}"))]
pub(crate) struct Args {
    /// Names, or patterns with `*`, `?` and `[…]` [default: all]
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Where to listen for HTTP
    ///
    /// HOST:PORT; without a host, as in :9764, at all addresses.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9764", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Tell the labels of holders too
    #[arg(long)]
    pub(crate) holders: bool,
    /// Print the metrics once instead of listening
    #[arg(long, conflicts_with = "listen")]
    pub(crate) once: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let host = if text.starts_with(':') { "0.0.0.0" } else { "" };
    let wrong = |error| format!("{error}; write HOST:PORT, as in 127.0.0.1:9764");
    let found = format!("{host}{text}").to_socket_addrs().map_err(|error| wrong(error.to_string()))?.next();
    found.ok_or_else(|| wrong("it has no address".to_owned()))
}
