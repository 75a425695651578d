use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use fairlock::{Client, testing::LockService};

/// A handler of a web service: it builds a report, one request after the other, whichever instance has it.
async fn build(State(locks): State<Client>, Path(report): Path<String>) -> StatusCode {
    let Ok(lock) = locks.lock(&format!("report:{report}")) else { return StatusCode::BAD_REQUEST };
    let Ok(guard) = lock.acquire().timeout(Duration::from_secs(1)).await else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    // … and here it builds the report.
    if guard.check().is_ok() { StatusCode::OK } else { StatusCode::CONFLICT }
}

#[tokio::test]
async fn a_report_is_built_by_one_instance_at_a_time() {
    let redis = LockService::start().unwrap();
    let (here, elsewhere) = (redis.client().await.unwrap(), redis.client().await.unwrap());
    let ask = || build(State(here.clone()), Path("daily".into()));
    assert_eq!(ask().await, StatusCode::OK);

    let other = elsewhere.lock("report:daily").unwrap().acquire().await.unwrap();
    assert_eq!(ask().await, StatusCode::SERVICE_UNAVAILABLE, "another instance builds it");
    redis.advance(other.lease_length());
    assert_eq!(ask().await, StatusCode::OK, "the other instance was not heard of for a whole lease");

    redis.pause();
    assert_eq!(ask().await, StatusCode::SERVICE_UNAVAILABLE, "Redis hangs");
    redis.resume();
    redis.lose_data();
    assert_eq!(ask().await, StatusCode::SERVICE_UNAVAILABLE, "a holder from before the loss may come back");
    redis.advance(other.lease_length());
    assert_eq!(ask().await, StatusCode::OK, "none has");
}
