//! What `acquire` and `release` do first, in the common case (`lua/lib/simple.lua`), is what the rest of them does.

use super::clients::Client;
use super::driver::Driver;
use super::events::SECOND;
use super::{Request, Terms, UNBOUNDED};

/// Runs both roads at a lock that is mostly free: two clients, and seldom a loss, a history, or a clock that was set. How
/// many steps were the common case, or how the roads differ. The scripts may be changed on purpose.
pub fn two_roads(steps: usize, change: impl Fn(&str, &str) -> String) -> Result<usize, String> {
    let simple = |file: &str, text: &str, from: &str, to: &str| match file {
        "lua/lib/simple.lua" => change(file, text).replace(from, to),
        _ => change(file, text),
    };
    let mut driver = Driver::with(|file, text| {
        simple(file, text, "local spare_us", "if simple then call('ECHO', '') end local spare_us")
    });
    driver.compare_with(|file, text| simple(file, text, "local simple = ", "local simple = false and "));
    let mut draw = fastrand::Rng::with_seed(28);
    let mut now = 1_700_000_000 * SECOND;
    let mut saved = None;
    let mut clients = new_clients(&mut draw, 0);
    for step in 0..steps {
        let by = [0, 1, 2, draw.u64(..2_000), draw.u64(..SECOND), draw.u64(..30 * SECOND)];
        now += by[draw.usize(..by.len())];
        match draw.u16(..1_000) {
            0..3 => driver.flush_all(),
            3..20 => saved = Some(driver.save()),
            20..35 => saved.iter().for_each(|saved| driver.restore(saved)),
            35..38 => driver.delete(draw.usize(..2)),
            38..45 => now -= draw.u64(..20) * SECOND,
            45..50 => clients = new_clients(&mut draw, step),
            _ => {}
        }
        let client = draw.usize(..clients.len());
        let client = &mut clients[client];
        let (waiters, holds) = (client.waiters.len(), client.holds.len());
        let mut request = match draw.u8(..100) {
            0..2 if testkit::run::version() >= (6, 2) => Request::History { switch: Some(draw.u8(..4) == 0), count: 1 },
            2..4 => Request::Break { token: 0, force: true },
            4..10 if holds > 0 => client.renew(now, 0),
            _ if holds > 0 => client.release(now, draw.usize(..holds)),
            10..60 if waiters > 0 => client.leave(now, 0, waiters, false),
            _ if waiters > 0 => client.heartbeat(now),
            _ => client.acquire(now, [UNBOUNDED, UNBOUNDED, 0][draw.usize(..3)], draw.u8(..10) == 0),
        };
        if let Request::Release { seat, .. } = &mut request
            && draw.u8(..30) == 0
        {
            // A seat that no reply has given proves a loss.
            let numbers = [&mut seat.epoch, &mut seat.ticket, &mut seat.token];
            numbers.into_iter().skip(draw.usize(..3)).take(1).for_each(|number| *number += 1);
        }
        let answer = driver.run(now, 100, &request).map_err(|wrong| format!("{request:?} at {now}: {wrong}"))?.answer;
        if draw.u8(..20) > 0 {
            client.learn(now, &request, &answer);
        }
    }
    Ok(driver.calls("echo"))
}

fn new_clients(draw: &mut fastrand::Rng, step: usize) -> Vec<Client> {
    let mut terms = || {
        let lease = [SECOND / 5, 10 * SECOND, 30 * SECOND, 600 * SECOND, 7_200 * SECOND][draw.usize(..5)];
        let liveness = [SECOND / 2, 10 * SECOND][draw.usize(..2)];
        Terms { lease, liveness, buffer: SECOND, heartbeat: liveness / 3 }
    };
    (0..2).map(|which| Client::new(format!("c{step}x{which}"), terms(), true)).collect()
}
