//! An acquire that is granted at once, and its release, awaited: by a blocking caller and by tasks, compared with a bare socket that
//! runs the same scripts, and with the least that any lock on Redis sends.

use std::time::Instant;

use fairlock::Lock;
use tokio::runtime::{Builder, Runtime};

use crate::kit::{
    bare::Bare,
    client::{self, acquire, release},
    place::{PLACEMENTS, Placement},
    stats::{each, median, ratio, us},
    table::Table,
    wire::{Wire, encode},
};
use testkit::RedisServer;

const CYCLES: usize = 600;

/// Times of a cycle in microseconds, a value for each round.
#[derive(Default)]
struct Times {
    scripts: Vec<f64>,
    set_del: Vec<f64>,
    blocking: Vec<f64>,
    current_thread: Vec<f64>,
    multi_thread: Vec<f64>,
}

pub fn measure(rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let mut bare = Bare::connect(server.port(), "bare");
    let mut least = SetDel::new(server.port());
    let client = client::connect(&server.tcp_url());
    let [blocking, current, multi] = ["blocking", "current", "multi"].map(|name| client.lock(name).expect("a name"));
    let current_thread = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let multi_thread = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // The threads of all of them are there before they are placed.
    on(&multi_thread, multi.clone());

    for placement in PLACEMENTS {
        placement.put(server.pid(), &[std::process::id()]);
        let mut times = Times::default();
        let warm_up = 1;
        for round in 0..rounds + warm_up {
            let measured = [
                each(CYCLES, || bare.cycle()),
                each(CYCLES, || least.cycle()),
                each(CYCLES, || release(acquire(&blocking))),
                on(&current_thread, current.clone()),
                on(&multi_thread, multi.clone()),
            ];
            if round >= warm_up {
                let Times { scripts, set_del, blocking, current_thread, multi_thread } = &mut times;
                let series = [scripts, set_del, blocking, current_thread, multi_thread];
                series.into_iter().zip(measured).for_each(|(series, time)| series.push(time));
            }
        }
        times.report(placement, table);
    }
}

/// Cycles by a task of a runtime.
fn on(runtime: &Runtime, lock: Lock) -> f64 {
    let task = async move {
        let mut times = Vec::new();
        for _ in 0..CYCLES {
            let start = Instant::now();
            client::cycle(&lock).await;
            times.push(us(start.elapsed()));
        }
        median(&times)
    };
    runtime.block_on(runtime.spawn(task)).expect("a task that does not panic")
}

impl Times {
    fn report(&self, placement: Placement, table: &mut Table) {
        let Times { scripts, set_del, blocking, current_thread, multi_thread } = self;
        let name = placement.name();
        let vs = |times: &[f64], floor: &[f64]| format!("{:.0} µs vs {:.0}", median(times), median(floor));
        let kinds = [
            ("blocking caller", blocking),
            ("current-thread task", current_thread),
            ("multi-thread task", multi_thread),
        ];
        for (caller, times) in kinds {
            let row = format!("cycle, {caller}, {name}");
            let (slower, made) = (ratio(times, scripts), vs(times, scripts));
            match placement {
                Placement::Free => table.note(&row, &format!("{slower:.2} ({made})")),
                _ => table.row(&row, slower, &made),
            }
        }
        let row = format!("cycle vs SET NX PX + DEL, {name}");
        match placement {
            Placement::Split => table.row(&row, ratio(blocking, set_del), &vs(blocking, set_del)),
            _ => table.note(&row, &format!("{:.2}", ratio(blocking, set_del))),
        }
        table.note(&format!("bare scripts vs SET NX PX + DEL, {name}"), &format!("{:.2}", ratio(scripts, set_del)));
    }
}

/// A lock that promises nothing.
struct SetDel {
    wire: Wire,
    set: Vec<u8>,
    del: Vec<u8>,
}

impl SetDel {
    fn new(port: u16) -> SetDel {
        let set = encode(&["SET", "least", "0123456789abcdef", "NX", "PX", "30000"]);
        SetDel { wire: Wire::connect(port), set, del: encode(&["DEL", "least"]) }
    }

    fn cycle(&mut self) {
        assert_eq!(self.wire.call(&self.set).text(), "OK");
        assert_eq!(self.wire.call(&self.del).number(), 1);
    }
}
