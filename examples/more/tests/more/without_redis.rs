use std::time::Duration;

use axum::{extract::State, http::StatusCode};
use fairlock::{Client, testing::LockService};

/// A handler of a web service: the report is built by one instance at a time.
async fn build(State(locks): State<Client>) -> StatusCode {
    let lock = locks.lock("report").expect("a name");
    match lock.acquire().timeout(Duration::from_secs(1)).await {
        Ok(_guard) => StatusCode::OK, // … and here it builds the report.
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[tokio::test]
async fn a_report_is_built_by_one_instance_at_a_time() {
    let redis = LockService::start().unwrap();
    let (here, elsewhere) = (redis.client().await.unwrap(), redis.client().await.unwrap());
    let ask = || build(State(here.clone()));
    assert_eq!(ask().await, StatusCode::OK);

    let other = elsewhere.lock("report").unwrap().acquire().await.unwrap();
    assert_eq!(ask().await, StatusCode::SERVICE_UNAVAILABLE, "another instance builds it");
    redis.advance(other.lease_length());
    assert_eq!(ask().await, StatusCode::OK, "the other instance was not heard of for a whole lease");

    redis.pause();
    assert_eq!(ask().await, StatusCode::SERVICE_UNAVAILABLE, "Redis hangs");
}
