//! A web service that serves the requests of each user one after the other, and those of different users side by side.
//!
//! When you would want it: a request reads, computes and writes back, several instances of the service run, and two
//! requests of one user must not overtake each other. The lock of a user is a few bytes in Redis for as long as it is
//! used, so there may be millions of users.
//!
//! `cargo run -p fairlock-examples --bin web_service -- 127.0.0.1:3000`, then
//! `curl -X POST http://127.0.0.1:3000/users/7/deposit/100`

use std::time::Duration;

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use fairlock::{Client, LockOptions, compat::KeyedMutex, error::AcquireError};
use redis::{AsyncCommands as _, aio::MultiplexedConnection};

#[derive(Clone)]
struct App {
    users: KeyedMutex,
    balances: MultiplexedConnection,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let balances = redis::Client::open(&*url)?.get_multiplexed_async_connection().await?;
    // A user who sends everything at once waits; the service does not pile up requests for ever, nor without a bound.
    let options = LockOptions::new().max_waiting(32);
    let users = KeyedMutex::with_options(&Client::connect(&url).await?, "user", options)?;
    let app = App { users, balances };
    let routes = Router::new().route("/users/{user}/deposit/{amount}", post(deposit)).with_state(app);
    let listener = tokio::net::TcpListener::bind(std::env::args().nth(1).unwrap_or("127.0.0.1:3000".into())).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}

/// Answers with the new balance. If the browser hangs up, axum drops this future: the waiter leaves the queue, or the
/// lock is given back. The label is what `fairlock status user:7` shows of this request.
async fn deposit(State(mut app): State<App>, Path((user, amount)): Path<(u64, u64)>) -> Result<String, Failure> {
    let acquire = app.users.lock(user)?.acquire().timeout(Duration::from_secs(5)).label(format!("deposit of {amount}"));
    let guard = match acquire.await {
        Err(AcquireError::Timeout { .. }) => return Err(Failure(StatusCode::SERVICE_UNAVAILABLE, "try again".into())),
        Err(AcquireError::QueueFull { waiting, .. }) => {
            return Err(Failure(StatusCode::TOO_MANY_REQUESTS, format!("{waiting} of your requests wait already")));
        }
        acquired => acquired?,
    };
    let before: Option<u64> = app.balances.get(format!("balance:{user}")).await?;
    let after = before.unwrap_or(0) + amount;
    tokio::time::sleep(Duration::from_millis(5)).await;
    guard.check()?;
    let () = app.balances.set(format!("balance:{user}"), after).await?;
    Ok(after.to_string())
}

/// What went wrong, as the browser is told.
struct Failure(StatusCode, String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, self.1).into_response()
    }
}
