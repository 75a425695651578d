//! The library's threads and the signals of the program.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::net::TcpListener;
use std::path::Path;

use fairlock::Client;
use futures_util::FutureExt as _;
use testkit::{RedisServer, SOON, eventually};

/// The numbers of the signals of a thread's own errors (ILL, TRAP, BUS, FPE, SEGV, SYS), and of KILL and STOP, which
/// nobody can block.
const NOT_BLOCKED: [u32; 8] = [4, 5, 7, 8, 11, 31, 9, 19];

/// The signals that a thread blocks, as bits from 1 on. None if it has ended.
fn blocked(thread: &Path) -> Option<u64> {
    let status = read_to_string(thread.join("status")).ok()?;
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    Some(u64::from_str_radix(blocked.trim(), 16).unwrap() << 1)
}

#[test]
fn signals_are_handled_on_the_threads_of_the_program() {
    let before = blocked(Path::new("/proc/thread-self"));
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking().unwrap();
    client.lock("x").unwrap().acquire().blocking().unwrap().release().blocking().unwrap();
    // It takes connections and answers nothing, so there is a thread that connects.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let waits = Client::connect_lazy(&format!("redis://{}/", silent.local_addr().unwrap())).unwrap();
    let mut acquire = Box::pin(waits.lock("x").unwrap().acquire().into_future());
    assert!(acquire.as_mut().now_or_never().is_none());

    let not_blocked = NOT_BLOCKED.iter().fold(0, |bits, number| bits | 1 << number);
    let mut seen = BTreeSet::new();
    eventually("the threads are there", SOON, || {
        for thread in read_dir("/proc/self/task").unwrap() {
            let thread = thread.unwrap().path();
            let (Ok(name), Some(blocked)) = (read_to_string(thread.join("comm")), blocked(&thread)) else { continue };
            if name.starts_with("fairlock-") {
                // The C library blocks the others, too, where a thread starts or ends.
                let standard = (1 << 32) - 2;
                assert_eq!(blocked & standard | not_blocked, standard, "{name}");
                seen.insert(name.trim().to_owned());
            }
        }
        // The kernel cuts names after fifteen bytes.
        ["fairlock-connec", "fairlock-keeper", "fairlock-wakers"].iter().all(|name| seen.contains(*name))
    });
    assert_eq!(blocked(Path::new("/proc/thread-self")), before, "a thread of the program");
}
