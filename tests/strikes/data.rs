//! A server that loses data: all of it, or the latest.

use redis::cmd;

use super::tell;
use crate::support::{
    RedisServer,
    crew::{Fault, Struck, fault::concerned},
    history::Trouble,
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

/// SIGKILL, and another start without any data. The server must keep none on its disk.
pub fn restarted_empty(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("the server was restarted empty", hits, move |crew| {
        Struck::during(&GONE_AND_EMPTY, || {
            server.kill();
            let concerned = concerned(crew).min(1);
            let _ = std::fs::remove_file(server.dir().join("dump.rdb"));
            server.restart();
            concerned
        })
    })
}

/// SIGKILL, and another start with the data of an earlier moment, since when the lock was granted to others. The server
/// must not write an append-only file.
pub fn rolled_back(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("the server was rolled back", hits, move |crew| {
        tell(server, &["SAVE"]);
        crew.work(5);
        Struck::during(&GONE_AND_EMPTY, || {
            server.kill();
            let concerned = concerned(crew).min(1);
            server.restart();
            concerned
        })
    })
}
