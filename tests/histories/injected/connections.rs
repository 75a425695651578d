//! Killed connections and forgotten scripts, which a server may cause at any time without being faulty.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use redis::cmd;

use testkit::{
    RedisServer,
    crew::{Fault, Struck},
    history::Trouble,
    watch::Counter,
};

/// Kills all connections every 100 ms, ten times. A hit is a connection that had subscribed, and so certainly belongs
/// to the crew.
pub fn killed(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("connections killed", hits, move |crew| {
        // A client that is cut off again and again gets no answers for that time.
        Struck::during(&[Trouble::Silent], || {
            let mut raw = server.raw();
            let mut kill = |kind: &str| -> u64 { cmd("CLIENT").arg(&["KILL", "TYPE", kind]).query(&mut raw).unwrap() };
            let mut killed = 0;
            for _ in 0..10 {
                kill("normal");
                killed += kill("pubsub");
                crew.rest(Duration::from_millis(100));
            }
            killed
        })
    })
}

/// Makes the server forget its scripts as often as it can, during this many grants. A hit is a call that had to be
/// repeated with the text of its script.
pub fn scripts_flushed(server: &RedisServer, grants: usize, hits: u64) -> Fault<'_> {
    Fault::new("scripts flushed", hits, move |crew| {
        let mut counter = Counter::start(server);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // The thread ends in any case.
            let _ends = Ends(&ended);
            scope.spawn(|| {
                let mut raw = server.raw();
                while !ended.load(Ordering::Acquire) {
                    let () = cmd("SCRIPT").arg("FLUSH").query(&mut raw).unwrap();
                }
            });
            crew.work(grants);
        });
        Struck::hits(counter.so_far().get("eval").copied().unwrap_or_default())
    })
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
