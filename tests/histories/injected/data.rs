//! A server that loses all data, or the latest writes.

use std::time::Duration;

use redis::cmd;

use super::{subscribers, tell};
use testkit::{
    RedisServer, SOON,
    crew::{
        Crew, Fault, Struck,
        fault::{concerned, crowded_hold, long_hold},
    },
    eventually,
    history::{Trouble, now_ns},
};

const GONE_AND_EMPTY: [Trouble; 2] = [Trouble::Silent, Trouble::LostData];

/// FLUSHALL.
pub fn flushed(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("all data flushed", hits, move |crew| {
        let concerned = concerned(crew).min(1);
        let mut raw = server.raw();
        Struck::during(&[Trouble::LostData], || {
            let keys: u64 = cmd("DBSIZE").query(&mut raw).unwrap();
            let () = cmd("FLUSHALL").query(&mut raw).unwrap();
            concerned.min(keys)
        })
    })
}

/// FLUSHALL three times within a second: while some clients are back after one loss, and others have not noticed it,
/// all data is lost again. It strikes during a long hold, when all other waiters had the time to queue.
pub fn flushed_thrice(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("all data flushed three times within a second", hits, move |crew| {
        if !long_hold(crew) {
            return Struck::hits(0);
        }
        crew.rest(Duration::from_secs(1));
        let mut raw = server.raw();
        let mut struck = Struck::hits(1);
        for _ in 0..3 {
            let Struck { hits, admits } = Struck::during(&[Trouble::LostData], || {
                let keys: u64 = cmd("DBSIZE").query(&mut raw).unwrap();
                let () = cmd("FLUSHALL").query(&mut raw).unwrap();
                keys.min(1)
            });
            struck.hits = struck.hits.min(hits);
            struck.admits.extend(admits);
            let rest = crew.rng().u64(100..450);
            crew.rest(Duration::from_millis(rest));
        }
        struck
    })
}

/// SIGKILL, and another start without data. The server must keep none on its disk.
pub fn restarted_empty(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("the server was restarted empty", hits, move |crew| {
        restarted(crew, server, || {
            let _ = std::fs::remove_file(server.dir().join("dump.rdb"));
        })
    })
}

/// SIGKILL, and another start with the data of an earlier moment, after which the lock was granted to others. The
/// server must not write an append-only file.
pub fn rolled_back(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("the server was rolled back", hits, move |crew| {
        let lost_since = now_ns();
        tell(server, &["SAVE"]);
        crew.work(5);
        restarted(crew, server, || {}).lost_since(lost_since)
    })
}

/// It strikes during a long hold with many waiters. The holder's process is paused until all other clients are back,
/// which would be granted the lock if nothing kept the server from it.
fn restarted(crew: &mut Crew, server: &RedisServer, between: impl FnOnce()) -> Struck {
    let holder = crowded_hold(crew);
    let struck = Struck::during(&GONE_AND_EMPTY, || {
        // Until the next rest.
        crew.pause(&holder, Duration::ZERO);
        server.kill();
        let concerned = concerned(crew).min(1);
        between();
        server.restart();
        concerned
    });
    let others = crew.awake().len();
    eventually("all but the holder are back", SOON, || subscribers(server).len() >= others);
    crew.rest(Duration::from_millis(20));
    struck
}
