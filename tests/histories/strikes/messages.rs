//! Messages that the server never sent: a user with the right to publish forges them.

use redis::{Connection, cmd};

use testkit::{
    RedisServer,
    crew::{Fault, Struck},
};

const HOUR_US: u64 = 3_600_000_000;

/// Somebody who hears nothing, and guesses the ids of those who wait or hold, tells them that they have been granted
/// the lock, or another one, or that their leases are broken. A hit is a forged grant that reaches the client of a
/// waiter. Nothing is admitted for it: the members believe the server alone.
pub fn forged(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("messages forged", hits, move |crew| {
        let mut raw = server.raw();
        let queue = format!("fairlock:{{{}}}:queue", crew.lock());
        let other = "fairlock:{another}:queue";
        let (seconds, micros): (u64, u64) = cmd("TIME").query(&mut raw).unwrap();
        let now = seconds * 1_000_000 + micros;
        let waiters: Vec<(String, u64)> = with_scores(&mut raw, &queue);
        let holders: Vec<(String, u64)> = with_scores(&mut raw, &queue.replace(":queue", ":leases"));
        let mut reached = 0;
        for (nth, (id, ticket)) in (0..).zip(&waiters) {
            let token = now + HOUR_US + nth;
            publish(&mut raw, id, &format!("grant {id} {token} {ticket} 2000000 {other}"));
            publish(&mut raw, id, &format!("break {id} {token} {ticket} 2000000 {queue}"));
            reached += publish(&mut raw, id, &format!("grant {id} {token} {ticket} 2000000 {queue}"));
        }
        for (id, _) in &holders {
            let token = now + HOUR_US;
            publish(&mut raw, id, &format!("break {id} {token} 1 0 {queue}"));
            publish(&mut raw, id, &format!("grant {id} {token} 1 2000000 {queue}"));
            publish(&mut raw, id, &format!("grant {id} {now} 1 2000000 {other}"));
        }
        Struck::hits(reached)
    })
}

fn with_scores(raw: &mut Connection, key: &str) -> Vec<(String, u64)> {
    cmd("ZRANGE").arg(&[key, "0", "-1", "WITHSCORES"]).query(raw).unwrap()
}

/// How many heard it.
fn publish(raw: &mut Connection, id: &str, message: &str) -> u64 {
    let client = id.split('.').next().unwrap();
    cmd("PUBLISH").arg(format!("fairlock:client:{client}")).arg(message).query(raw).unwrap()
}
