//! `fairlock exporter`: the state of locks for Prometheus, over HTTP.

mod args;
mod clients;
mod metrics;

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

pub(crate) use args::Args;
use clients::{Clients, Phase};
use metrics::Metrics;

use crate::exit::{Failure, say};
use crate::survey::Survey;
use crate::text::printable;
use crate::{connect, output, runtime};

/// The interval of looks for new locks: a walk through all keys of the servers.
const FIND: Duration = Duration::from_secs(30);
/// A client that takes longer for its question is gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// A client that has not read its answer by then is gone. A scrape of servers that do not answer takes a while.
const AT_MOST: Duration = Duration::from_secs(60);

const PAGE: &str =
    "<!DOCTYPE html><title>fairlock exporter</title><p>The metrics are at <a href=\"/metrics\">/metrics</a>.\n";

pub(crate) fn exporter(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let client = connect::client(server)?;
    let places = client.places().map_err(|error| Failure::own(error.to_string()))?;
    let survey = Survey::new(places, &server.prefix, &args.patterns, FIND);
    let mut metrics = Metrics::new(survey, args.holders);
    if args.once {
        let text = metrics.scrape();
        let code = if text.contains("\nfairlock_up 1\n") { 0 } else { crate::exit::OWN_FAILURE };
        let text = if std::io::stdout().is_terminal() { printable_lines(&text) } else { text };
        return output::write(&text).map(|()| code);
    }
    let runtime = runtime::start(Builder::enable_all)?;
    runtime.block_on(async {
        let cannot = |error: std::io::Error| Failure::because(&format!("cannot listen on {}", args.listen), error);
        let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        say(format_args!("the metrics are at http://{address}/metrics"));
        serve(listener, Arc::new(Mutex::new(Scrapes { metrics, latest: None }))).await
    })
}

/// The metrics, and the latest text of them.
struct Scrapes {
    metrics: Metrics,
    /// When its scrape began.
    latest: Option<(Instant, String)>,
}

impl Scrapes {
    /// What a client is told that has asked at this moment. Clients that wait at the same time share a scrape.
    fn asked_at(&mut self, moment: Instant) -> String {
        if let Some((began, text)) = &self.latest
            && *began >= moment
        {
            return text.clone();
        }
        let began = Instant::now();
        let text = self.metrics.scrape();
        self.latest = Some((began, text.clone()));
        text
    }
}

/// Clients that are silent, send a byte now and then, or do not read must not keep Prometheus from its metrics, nor
/// this process from its descriptors.
async fn serve(listener: TcpListener, scrapes: Arc<Mutex<Scrapes>>) -> ! {
    let pause = || tokio::time::sleep(Duration::from_millis(100));
    let mut clients = Clients::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                let is_full = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
                if !is_full || !clients.make_room().await {
                    pause().await;
                }
                continue;
            }
        };
        while clients.are_too_many() && !clients.make_room().await {
            pause().await;
        }
        let (phase, seen) = watch::channel(Phase::Silent);
        let scrapes = Arc::clone(&scrapes);
        // A client that breaks off is no concern of ours.
        let task = async { drop(timeout(AT_MOST, talk(stream, phase, scrapes)).await) };
        clients.push(seen, tokio::spawn(task));
        // A client that has asked already is not silent, however many come at the same moment.
        tokio::task::yield_now().await;
    }
}

async fn talk(stream: TcpStream, phase: watch::Sender<Phase>, scrapes: Arc<Mutex<Scrapes>>) {
    let until = Instant::now() + PATIENCE;
    let Ok(Ok(_)) = timeout(PATIENCE, stream.peek(&mut [0])).await else { return };
    phase.send_replace(Phase::Slow);
    let answer = service_fn(|request| async {
        phase.send_replace(Phase::Asking);
        let answer = answer(request, Arc::clone(&scrapes)).await;
        phase.send_replace(Phase::Slow);
        answer
    });
    let left = until.saturating_duration_since(Instant::now());
    let mut http = http1::Builder::new();
    // A connection that is kept would be silent until the next scrape.
    http.timer(TokioTimer::new()).header_read_timeout(left).keep_alive(false);
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}

/// For a terminal: the names of locks and the labels of holders may have control characters.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| printable(line) + "\n").collect()
}

async fn answer(request: Request<Incoming>, scrapes: Arc<Mutex<Scrapes>>) -> Result<Response<String>, Infallible> {
    let is_get = [Method::GET, Method::HEAD].contains(request.method());
    let (status, kind, text) = match request.uri().path() {
        _ if !is_get => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is known here\n".to_owned()),
        "/metrics" => {
            // The servers are asked on a thread that may block, one scrape after the other.
            let moment = Instant::now();
            let mut scrapes = scrapes.lock_owned().await;
            match tokio::task::spawn_blocking(move || scrapes.asked_at(moment)).await {
                Ok(text) => (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
                Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "the scrape failed\n".to_owned()),
            }
        }
        "/" => (StatusCode::OK, "text/html; charset=utf-8", PAGE.to_owned()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "the metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    Ok(response)
}
