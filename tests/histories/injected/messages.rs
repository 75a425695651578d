//! Messages that the server never sent: a user with the right to publish forges them.

use redis::{Connection, cmd};

use testkit::{
    RedisServer,
    crew::{Fault, Struck},
    forgery::push,
    run,
    state::{self, State},
};

const HOUR_US: u64 = 3_600_000_000;

/// An attacker that receives nothing, and guesses the ids of waiters and holders, sends them messages that they have
/// been granted this lock or another one, or that their leases are broken. A hit is a forged grant that reaches the
/// client of a waiter. The judges excuse nothing for it: the members believe the server alone.
pub fn forged(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("messages forged", hits, move |crew| {
        let mut raw = server.raw();
        let lock = state::key(crew.lock());
        let other = state::key("another");
        let (seconds, micros): (u64, u64) = cmd("TIME").query(&mut raw).unwrap();
        let now = seconds * 1_000_000 + micros;
        let waiters = lock.replace(":lock", ":waiters");
        let waiters = cmd("ZRANGE").arg(&[&waiters, "0", "-1", "WITHSCORES"]).query(&mut raw);
        let waiters: Vec<(String, u64)> = waiters.unwrap();
        let holder = State::read(&mut raw, crew.lock()).and_then(|state| state.holder());
        let mut reached = 0;
        for (nth, (id, ticket)) in (0..).zip(&waiters) {
            let token = now + HOUR_US + nth;
            publish(&mut raw, &lock, id, &push("grant", id, &other, "", token, *ticket));
            publish(&mut raw, &lock, id, &push("break", id, &lock, "", token, *ticket));
            reached += publish(&mut raw, &lock, id, &push("grant", id, &lock, "", token, *ticket));
        }
        if let Some(id) = &holder {
            let token = now + HOUR_US;
            publish(&mut raw, &lock, id, &push("break", id, &lock, "", token, 1));
            publish(&mut raw, &lock, id, &push("grant", id, &lock, "", token, 1));
            publish(&mut raw, &lock, id, &push("grant", id, &other, "", now, 1));
        }
        Struck::hits(reached)
    })
}

/// How many clients received it. In a cluster they listen to channels of their slots.
fn publish(raw: &mut Connection, lock: &str, id: &str, message: &[u8]) -> u64 {
    let client = id.split('.').next().unwrap();
    let of_slot = lock.replace(":lock", &format!(":client:{client}"));
    let mut to = |command: &str, channel: &str| cmd(command).arg(channel).arg(message).query(raw).unwrap_or(0);
    let reached = to("PUBLISH", &format!("fairlock:client:{client}")) + to("PUBLISH", &of_slot);
    // Elsewhere than in a cluster nobody listens. Redis 6 would quote the message in an error, which is no text then.
    if run::version() >= (7, 0) { reached + to("SPUBLISH", &of_slot) } else { reached }
}
