//! What `acquire` and `release` do first, in the common case (`lua/lib/simple.lua`), is what the rest of them does.

use super::model::clients::Client;
use super::model::driver::Driver;
use super::model::{Request, Terms, UNBOUNDED};
use super::scene::SECOND;

const STEPS: usize = 30_000;

/// A lock that is mostly free: two clients, and seldom a loss, a history, or a clock that was set.
#[test]
fn the_common_case_ends_as_the_rest_of_its_script_does() {
    let mut driver = Driver::with(|file, text| match file {
        "lua/lib/simple.lua" => format!("{text}if simple then call('ECHO', '') end\n"),
        _ => text.to_owned(),
    });
    driver.compare_with(|file, text| match file {
        "lua/lib/simple.lua" => text.replace("local simple = ", "local simple = false and "),
        _ => text.to_owned(),
    });
    let mut draw = fastrand::Rng::with_seed(28);
    let mut now = 1_700_000_000 * SECOND;
    let mut saved = None;
    let mut clients = new_clients(&mut draw, 0);
    for step in 0..STEPS {
        let by = [0, 1, 2, draw.u64(..2_000), draw.u64(..SECOND), draw.u64(..30 * SECOND)];
        now += by[draw.usize(..by.len())];
        match draw.u16(..1_000) {
            0..3 => driver.flush_all(),
            3..8 => saved = Some(driver.save()),
            8..12 => saved.iter().for_each(|saved| driver.restore(saved)),
            12..15 => driver.delete(draw.usize(..2)),
            15..20 => now -= draw.u64(..20) * SECOND,
            20..25 => clients = new_clients(&mut draw, step),
            _ => {}
        }
        let client = draw.usize(..clients.len());
        let client = &mut clients[client];
        let (waiters, holds) = (client.waiters.len(), client.holds.len());
        let request = match draw.u8(..100) {
            0..2 => Request::History { switch: Some(draw.u8(..4) == 0), count: 1 },
            2..4 => Request::Break { token: 0, force: true },
            4..10 if holds > 0 => client.renew(now, 0),
            _ if holds > 0 => client.release(now, draw.usize(..holds)),
            10..60 if waiters > 0 => client.leave(now, 0, waiters, false),
            _ if waiters > 0 => client.heartbeat(now),
            _ => client.acquire(now, [UNBOUNDED, UNBOUNDED, 0][draw.usize(..3)], draw.u8(..10) == 0),
        };
        let answer =
            driver.run(now, 100, &request).unwrap_or_else(|wrong| panic!("{request:?} at {now}: {wrong}")).answer;
        if draw.u8(..20) > 0 {
            client.learn(now, &request, &answer);
        }
    }
    let simple = driver.calls("echo");
    testkit::say(format_args!("two roads to one state: {simple} of {STEPS} steps are simple"));
    assert!(simple > STEPS / 4, "{simple} of {STEPS} steps");
}

fn new_clients(draw: &mut fastrand::Rng, step: usize) -> Vec<Client> {
    let mut terms = || {
        let lease = [SECOND / 5, 10 * SECOND, 30 * SECOND, 600 * SECOND, 7_200 * SECOND][draw.usize(..5)];
        let liveness = [SECOND / 2, 10 * SECOND][draw.usize(..2)];
        Terms { lease, liveness, buffer: SECOND, heartbeat: liveness / 3 }
    };
    (0..2).map(|which| Client::new(format!("c{step}x{which}"), terms(), true)).collect()
}
