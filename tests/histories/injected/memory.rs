//! A server whose memory is full.

use std::time::Duration;

use fairlock::{Client, error::AcquireError};

use super::tell;
use testkit::{
    RedisServer,
    crew::{Crew, Fault, Struck},
    history::Trouble,
};

/// The server has no memory left until another client has failed to acquire another lock. A hit is a client that was
/// told so.
pub fn out_of_memory(server: &RedisServer, span: fn(&mut Crew) -> Duration, hits: u64) -> Fault<'_> {
    let client = Client::connect_lazy(&server.url()).unwrap();
    let other = client.lock("other").unwrap();
    Fault::new("out of memory", hits, move |crew| {
        let span = span(crew);
        Struck::during(&[Trouble::Silent], || {
            limit(server, 1);
            let told = match other.acquire().timeout(span).blocking() {
                Err(AcquireError::Timeout { cause: Some(cause), .. }) => cause.to_string().contains("OOM"),
                other => panic!("granted by a server without memory: {other:?}"),
            };
            limit(server, 0);
            u64::from(told)
        })
    })
}

/// `maxmemory`, without eviction. 0: no limit.
pub fn limit(server: &RedisServer, bytes: u64) {
    tell(server, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    tell(server, &["CONFIG", "SET", "maxmemory", &bytes.to_string()]);
}
