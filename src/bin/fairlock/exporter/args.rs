//! The arguments of `fairlock exporter`.

use std::net::SocketAddr;
use std::time::Duration;

use crate::duration;

const HELP: &str = "\
Metrics are at http://ADDR/metrics, read from the server at each scrape. Rights to read suffice: from Redis 7 on
  %R~fairlock:* +hello +scan +evalsha_ro +eval_ro +time +hget +hmget +zcard +zrangebyscore

Example:
  fairlock exporter --listen 0.0.0.0:9764 'deploy:*' backup

Exit code: 125 if it cannot listen or was called wrongly. While the server is away it answers `fairlock_up 0`.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The locks: names, or patterns with `*`, `?` and `[…]` [default: all]
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,
    /// Where to listen for HTTP
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9764")]
    pub(crate) listen: SocketAddr,
    /// How often to look for new locks among all keys of the server
    #[arg(long, value_name = "TIME", value_parser = duration::any, default_value = "30s")]
    pub(crate) find_every: Duration,
    /// Tell the labels of holders too: a time series for each of them
    #[arg(long)]
    pub(crate) holders: bool,
    /// Print the metrics once instead of listening
    #[arg(long, conflicts_with = "listen")]
    pub(crate) once: bool,
}
