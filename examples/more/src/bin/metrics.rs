//! Metrics of locks for Prometheus, and a dashboard for Grafana: `grafana-dashboard.json` next to this crate's manifest.
//!
//! When you would want it: you want to see how long jobs wait and hold, whether queues grow, and to be woken up when
//! leases are lost. `docs/observability.md` lists the metrics.
//!
//! `cargo run -p fairlock-examples --bin metrics -- 127.0.0.1:9187`, then `curl http://127.0.0.1:9187/metrics`

use std::{net::SocketAddr, time::Duration};

use fairlock::{Client, LockOptions};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr = std::env::args().nth(1).unwrap_or("127.0.0.1:9187".into()).parse()?;
    // Before the first client. Without buckets the exporter would make summaries, which cannot be added up over hosts.
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(
            Matcher::Suffix("_seconds".into()),
            &[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0],
        )?
        .set_buckets_for_metric(
            Matcher::Full("fairlock_queue_length".into()),
            &[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0],
        )?
        .install()?;

    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).await?;
    println!("serving http://{address}/metrics");
    let workers = (0..4).map(|worker| tokio::spawn(work(client.clone(), worker)));
    for worker in workers.collect::<Vec<_>>() {
        worker.await??;
    }
    Ok(())
}

/// Something to look at: four workers want one lock all the time, and one of them is impatient.
async fn work(client: Client, worker: u64) -> Result<(), fairlock::error::InvalidOption> {
    let options = LockOptions::new().lease(Duration::from_secs(3)).metrics_label("reports");
    let lock = client.lock_with("reports:nightly", options)?;
    let patience = Duration::from_millis(if worker == 0 { 300 } else { 60_000 });
    loop {
        match lock.acquire().timeout(patience).label(format!("worker {worker}")).await {
            Ok(guard) => {
                tokio::time::sleep(Duration::from_millis(50 + 50 * worker)).await;
                // An error says that the lease was lost, which the metrics say too.
                let _ = guard.release().await;
            }
            Err(error) => eprintln!("{error}"),
        }
    }
}
