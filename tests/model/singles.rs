//! Single cases of what random walks do not make: long rows of the dead, ids of another form, keys of another kind.

use super::driver::Driver;
use super::world::Checked;
use super::{Memory, Request, Seat, Terms, UNBOUNDED};

const TIME: u64 = 1_700_000_000_000_000;
const TERMS: Terms = Terms { lease: 60_000_000, liveness: 10_000_000, buffer: 1_000_000, heartbeat: 3_000_000 };

/// What the case shows, and the case.
type Single = (&'static str, fn(&mut Driver) -> Checked);

/// All single cases, by what they show.
pub const SINGLES: [Single; 4] = [
    ("whoever stands behind the dead is next", behind_the_dead),
    ("an id of another form is refused", ids_of_another_form),
    ("another layout is refused", another_layout),
    ("a queue of another type is found before the first write", a_queue_of_another_type),
];

fn acquire(id: &str) -> Request {
    let (memory, seat) = (Memory::default(), Seat::default());
    Request::Acquire { id: id.to_owned(), room: UNBOUNDED, claim: false, terms: TERMS, memory, seat }
}

fn renew(id: &str) -> Request {
    let (memory, seat) = (Memory::default(), Seat { epoch: 1, ticket: 1, token: 1 });
    Request::Renew { id: id.to_owned(), seat, left: 0, terms: TERMS, memory }
}

fn release(id: &str) -> Request {
    Request::Release { id: id.to_owned(), seat: Seat::default(), memory: Memory::default() }
}

fn heartbeat(client: &str, ids: &[&str]) -> Request {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Request::Heartbeat { client: client.to_owned(), terms: TERMS, ids, memory: Memory::default() }
}

fn leave(ids: &[&str]) -> Request {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    Request::Leave { ids, memory: Memory::default() }
}

fn queue(driver: &mut Driver, ids: &[&str]) -> Checked {
    driver.flush_all();
    ids.iter().try_for_each(|id| driver.run(TIME, 100, &acquire(id)).map(|_| ()))
}

/// The request must fail with this error and leave everything as it is.
fn refused(driver: &mut Driver, request: &Request, error: &str) -> Checked {
    let before = driver.stored();
    match driver.refusal(TIME + 1, request) {
        Some(message) if message.contains(error) => {}
        other => return Err(format!("{request:?} was to fail with {error}: {other:?}")),
    }
    if driver.stored() == before { Ok(()) } else { Err(format!("{request:?} was refused and wrote something")) }
}

// There are more dead waiters in a row than random walks make: scripts read heads in pages.
fn behind_the_dead(driver: &mut Driver) -> Checked {
    for dead in 0..12 {
        let mut ids = vec!["holder.1".to_owned()];
        ids.extend((1..=dead).map(|n| format!("dead.{n}")));
        ids.extend(["first.1".to_owned(), "second.1".to_owned()]);
        queue(driver, &ids.iter().map(String::as_str).collect::<Vec<_>>())?;
        for (seconds, client) in [4, 8, 12].into_iter().flat_map(|at| [(at, "first"), (at, "second")]) {
            driver.run(TIME + seconds * 1_000_000, 100, &heartbeat(client, &[&format!("{client}.1")]))?;
        }
        let found = driver.run(TIME + 12_000_000, 100, &release("holder.1"))?.found.lock;
        if found.lease.as_ref().map(|(id, _)| id.as_str()) != Some("first.1") || found.queue.len() != 1 {
            return Err(format!("behind {dead} who are dead: {found:?}"));
        }
    }
    Ok(())
}

// Ids are names of fields in a hash, so an id of another form could be taken for another field.
fn ids_of_another_form(driver: &mut Driver) -> Checked {
    const BAD: &str = "an id must be CLIENT.NUMBER";
    queue(driver, &["a.1", "a.2", "b.1"])?;
    for id in ["", ".", "a", "a.", ".1", "a.x", "a.1x", "a.b.1", "a.1 "] {
        for request in [acquire(id), renew(id), release(id), leave(&[id]), leave(&["a.2", id]), heartbeat("a", &[id])] {
            refused(driver, &request, BAD)?;
        }
    }
    refused(driver, &heartbeat("a", &["a.2", "b.1"]), BAD)?;
    refused(driver, &heartbeat("a.b", &["a.b.1"]), BAD)
}

fn another_layout(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1", "a.2"])?;
    driver.edit("redis.call('HSET', KEYS[1], '', string.char(9) .. string.sub(redis.call('HGET', KEYS[1], ''), 2))");
    let inspect = Request::Inspect { after: 0, count: 1 };
    let by_force = Request::Break { token: TIME, force: true };
    let theirs = [acquire("a.3"), renew("a.1"), release("a.1"), leave(&["a.2"]), heartbeat("a", &["a.2"])];
    theirs.into_iter().chain([inspect, by_force]).try_for_each(|request| refused(driver, &request, "OTHERLAYOUT"))
}

fn a_queue_of_another_type(driver: &mut Driver) -> Checked {
    queue(driver, &["a.1"])?;
    driver.edit("redis.call('SET', KEYS[2], 'something else')");
    refused(driver, &acquire("b.1"), "WRONGTYPE")
}
