//! `fairlock exporter`: the state of locks for Prometheus, over HTTP.

mod args;
mod metrics;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

pub(crate) use args::Args;
use metrics::Metrics;

use crate::exit::{Failure, say};
use crate::survey::Survey;
use crate::{connect, output, runtime};

/// More are not served at the same time.
const CONNECTIONS: usize = 64;
/// A client that says nothing for this long is gone.
const SILENCE: Duration = Duration::from_secs(30);

const PAGE: &str =
    "<!DOCTYPE html><title>fairlock exporter</title><p>The metrics are at <a href=\"/metrics\">/metrics</a>.\n";

pub(crate) fn exporter(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let client = connect::client(server)?;
    let places = client.places().map_err(|error| Failure::own(error.to_string()))?;
    let survey = Survey::new(places, &server.prefix, &args.patterns, args.find_every);
    let mut metrics = Metrics::new(survey, args.holders);
    if args.once {
        let text = metrics.scrape();
        let code = if text.contains("\nfairlock_up 1\n") { 0 } else { crate::exit::OWN_FAILURE };
        return output::write(&text).map(|()| code);
    }
    let runtime = runtime::start(Builder::enable_all)?;
    runtime.block_on(async {
        let cannot = |error: std::io::Error| Failure::because(&format!("cannot listen on {}", args.listen), error);
        let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        say(format_args!("the metrics are at http://{address}/metrics"));
        serve(listener, Arc::new(Mutex::new(metrics))).await
    })
}

async fn serve(listener: TcpListener, metrics: Arc<Mutex<Metrics>>) -> ! {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned().await;
        let Ok((stream, _)) = listener.accept().await else {
            // No descriptors are left, for instance: others end meanwhile.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(request, Arc::clone(&metrics)));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(SILENCE);
            // A client that breaks off is no concern of ours.
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, metrics: Arc<Mutex<Metrics>>) -> Result<Response<String>, Infallible> {
    let is_get = [Method::GET, Method::HEAD].contains(request.method());
    let (status, kind, text) = match request.uri().path() {
        _ if !is_get => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is known here\n".to_owned()),
        "/metrics" => {
            // The servers are asked on a thread that may block.
            let scrape = move || metrics.lock().unwrap_or_else(PoisonError::into_inner).scrape();
            match tokio::task::spawn_blocking(scrape).await {
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
