//! The network, through a proxy: frames that are lost, late, cut, or delivered long after they were sent.

use std::time::Duration;

use redis::cmd;

use testkit::{
    Act, Proxy, RedisServer, SOON, Target,
    crew::{Crew, Fault, Struck},
    eventually,
    history::Trouble,
    proxy::Counts,
};

/// Frames that name a lock. The set-up of a connection has none, though it tests whether scripts can be called.
const OF_LOCKS: &str = ":lock";

/// Every frame that is about locks: requests, replies, or the messages of grants.
fn any(crew: &mut Crew) -> Target {
    match crew.rng().u32(..4) {
        0 => Target::request(OF_LOCKS),
        1 => Target::push(OF_LOCKS),
        _ => Target::reply(OF_LOCKS),
    }
}

/// A connection ends in the middle of a frame.
pub fn cut(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("cut in the middle of a frame", hits, |crew| {
        let (target, bytes) = (any(crew), crew.rng().usize(1..24));
        strike_once(crew, proxy, target, Act::Cut(bytes))
    })
}

/// A frame is lost, and all that comes after it on its connection, until its client has made another.
pub fn lost(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("frames lost", hits, |crew| {
        let target = any(crew);
        strike_once(crew, proxy, target, Act::Swallow)
    })
}

/// One frame is struck, and a client has noticed when this returns.
fn strike_once(crew: &mut Crew, proxy: &Proxy, target: Target, act: Act) -> Struck {
    heard_of_between(crew, |crew| {
        let before = proxy.counts().connections;
        let fault = proxy.fault_times(1, target, act);
        fault.await_struck();
        resting(crew, "a client makes another connection", || proxy.counts().connections > before);
        fault.lift();
        fault.struck()
    })
}

/// Waits for the client whose frame was struck. Its process may have been paused just after it sent the frame: it is
/// continued in time.
fn resting(crew: &mut Crew, what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, SOON, || {
        crew.rest(Duration::from_millis(5));
        holds()
    });
}

/// All waiters get a heartbeat through before the next fault strikes: no single one costs a place in the queue, but
/// several in a row can keep the server from hearing of a client for its whole liveness.
fn heard_of_between(crew: &mut Crew, strike: impl FnOnce(&mut Crew) -> u64) -> Struck {
    let struck = Struck::during(&[Trouble::Silent], || strike(crew));
    crew.rest(crew.terms().liveness / 3);
    struck
}

/// Frames of all kinds on all connections are late for a while.
pub fn delayed(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("frames delayed", hits, |crew| {
        heard_of_between(crew, |crew| {
            let (target, delay) = (any(crew), crew.rng().u64(1..300));
            let fault = proxy.fault_times(20, target, Act::Delay(Duration::from_millis(delay)));
            fault.await_struck();
            crew.rest(Duration::from_millis(500));
            fault.lift();
            fault.struck()
        })
    })
}

/// A request is held, with those behind it; all clients give up their connections; then the requests are delivered
/// after their senders have asked again. `taken`: whether the server executes them, because its clients may not kill
/// their old connections. A hit is a request that was delivered so.
pub fn delivered_late(proxy: &Proxy, taken: bool, hits: u64) -> Fault<'_> {
    Fault::new("requests delivered late", hits, move |crew| {
        Struck::during(&[Trouble::Silent], || {
            let members = crew.awake().len() as u64;
            let fault = proxy.fault_times(1, Target::request(OF_LOCKS), Act::Hold);
            fault.await_struck();
            // Only now, since some clients may have been on their way back from the previous fault.
            let before = proxy.counts();
            proxy.abandon();
            proxy.wait("all are back", |counts| counts.connections >= before.connections + members);
            if !taken {
                resting(crew, "the client has killed what there was", || proxy.held_in_vain() == 1);
            }
            let back = proxy.counts();
            proxy.wait("requests go through again", |counts| counts.requests >= back.requests + 40);
            let lifted = proxy.counts();
            fault.lift();
            let delivered = |counts: &Counts| counts.late + counts.late_refused;
            proxy.wait("the old ones are delivered", |counts| delivered(counts) > delivered(&lifted));
            let counts = proxy.counts();
            let (late, refused) = (counts.late - lifted.late, counts.late_refused - lifted.late_refused);
            if taken {
                return late;
            }
            assert!(late == 0, "the server has taken what was given up: {lifted:?} {counts:?}");
            refused
        })
    })
}

/// All clients lose their connections to the master, and their questions for it, or the answers, are cut, lost, late or
/// refused on the way to the only sentinel. A hit is such a question.
pub fn asked_in_vain<'a>(to_sentinel: &'a Proxy, master: &'a RedisServer, hits: u64) -> Fault<'a> {
    const QUESTION: &str = "get-master-addr-by-name";
    Fault::new("sentinels asked in vain", hits, |crew| {
        let (target, act) = match crew.rng().u64(..5) {
            0 => (Target::request(QUESTION), Act::Swallow),
            1 => (Target::reply(QUESTION), Act::Swallow),
            2 => (Target::reply(QUESTION), Act::Cut(crew.rng().usize(1..24))),
            3 => (Target::reply(QUESTION), Act::Delay(Duration::from_millis(crew.rng().u64(1..300)))),
            _ => (Target::request(QUESTION), Act::Answer("ERR not now")),
        };
        Struck::during(&[Trouble::Silent], || {
            let fault = to_sentinel.fault_times(2, target, act);
            for kind in ["normal", "pubsub"] {
                let () = cmd("CLIENT").arg(&["KILL", "TYPE", kind]).query(&mut master.raw()).unwrap();
            }
            fault.await_struck();
            // A client that is granted the lock from now on has found the master.
            crew.work(2);
            fault.lift();
            fault.struck()
        })
    })
}
