//! A server whose wall clock is set.
use std::{iter::Peekable, time::Duration};

use testkit::{
    RedisServer, SOON,
    crew::{Fault, Struck, fault::concerned},
    eventually,
    history::Trouble,
    vclock::WallClock,
};

/// The changes that people and time services make to clocks; each hit is the next of these.
const STEPS: [Duration; 3] = [Duration::from_secs(90), Duration::from_secs(10 * 60), Duration::from_secs(2 * 60 * 60)];

/// The server's clock is set forwards, and the crew goes on.
pub fn forwards<'a>(clock: &'a WallClock, server: &'a RedisServer, hits: u64) -> Fault<'a> {
    let mut steps = STEPS.into_iter().cycle().peekable();
    Fault::new("the clock went forwards", hits, move |crew| {
        let concerned = concerned(crew).min(1);
        let step = next(&mut steps, concerned);
        let struck = Struck::during(&[Trouble::Jumped], || {
            clock.step_forwards(step);
            noticed(server);
            concerned
        });
        // One jump costs sessions two heartbeats, which they must make up for before the next jump.
        let liveness = crew.terms().liveness;
        crew.rest(liveness);
        struck
    })
}

/// The clock is set back, the crew goes on, and the clock is set forwards again by more than that: stamps that were
/// only counted up meanwhile are times of the clock again.
pub fn back<'a>(clock: &'a WallClock, server: &'a RedisServer, hits: u64) -> Fault<'a> {
    let mut steps = STEPS.into_iter().cycle().peekable();
    Fault::new("the clock went back", hits, move |crew| {
        let concerned = concerned(crew).min(1);
        let step = next(&mut steps, concerned);
        clock.step_back(step);
        noticed(server);
        let mut struck = Struck::hits(concerned);
        crew.work(5);
        let jump = Struck::during(&[Trouble::Jumped], || {
            clock.step_forwards(2 * step);
            noticed(server);
            0
        });
        struck.admits.extend(jump.admits);
        let liveness = crew.terms().liveness;
        crew.rest(liveness);
        struck
    })
}

/// A change that affected no member is repeated.
fn next(steps: &mut Peekable<impl Iterator<Item = Duration>>, concerned: u64) -> Duration {
    let next = if concerned > 0 { steps.next() } else { steps.peek().copied() };
    next.expect("they go round")
}

/// Some servers read the clock only a few times in a hundredth of a second: waits until a new reading is certain.
fn noticed(server: &RedisServer) {
    let mut raw = server.raw();
    let mut time = || redis::cmd("TIME").query::<(u64, u64)>(&mut raw).unwrap();
    let first = time();
    eventually("the server looks at its clock", SOON, || time() != first);
}
