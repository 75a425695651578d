//! The way to the server, through a proxy: what is lost, late, cut in the middle, or delivered when nobody wants it.

use std::time::Duration;

use crate::support::{
    Act, Proxy, Target,
    crew::{Crew, Fault, Struck},
    history::Trouble,
    proxy::Counts,
};

/// Every frame that is about locks: requests, replies, or the messages of grants.
fn any(crew: &mut Crew) -> Target {
    match crew.rng().u32(..4) {
        0 => Target::request("evalsha").command(),
        1 => Target::push(""),
        _ => Target::reply("evalsha").command(),
    }
}

/// A connection ends in the middle of a frame.
pub fn cut(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("cut in the middle of a frame", hits, |crew| {
        let (target, bytes) = (any(crew), crew.rng().usize(1..24));
        strike_once(proxy, target, Act::Cut(bytes))
    })
}

/// A frame is lost, and all that comes after it on its connection, until its client has made another.
pub fn lost(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("frames lost", hits, |crew| strike_once(proxy, any(crew), Act::Swallow))
}

/// One frame is struck, and its client has noticed when this is over.
fn strike_once(proxy: &Proxy, target: Target, act: Act) -> Struck {
    Struck::during(&[Trouble::Silent], || {
        let before = proxy.counts().connections;
        let fault = proxy.fault_times(1, target, act);
        fault.await_struck();
        proxy.wait("a client makes another connection", |counts| counts.connections > before);
        fault.lift();
        fault.struck()
    })
}

/// Frames of all kinds and connections come late, for a while.
pub fn delayed(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("frames delayed", hits, |crew| {
        Struck::during(&[Trouble::Silent], || {
            let (target, delay) = (any(crew), crew.rng().u64(1..300));
            let fault = proxy.fault_times(20, target, Act::Delay(Duration::from_millis(delay)));
            fault.await_struck();
            crew.rest(Duration::from_millis(500));
            fault.lift();
            fault.struck()
        })
    })
}

/// Requests are held, their connections given up, and then they are delivered all the same, when those who sent them have
/// asked anew. A hit is one of them that the server takes, or refuses because it has been told to.
pub fn delivered_late(proxy: &Proxy, hits: u64) -> Fault<'_> {
    Fault::new("requests delivered late", hits, |crew| {
        Struck::during(&[Trouble::Silent], || {
            let before = proxy.counts();
            let fault = proxy.fault_times(3, Target::request("evalsha").command(), Act::Hold);
            fault.await_struck();
            proxy.abandon();
            proxy.wait("requests go through again", |counts| counts.requests >= before.requests + 40);
            let span = crew.rng().u64(..500);
            crew.rest(Duration::from_millis(span));
            fault.lift();
            let late = |counts: &Counts| counts.late + counts.late_refused;
            proxy.wait("the old ones are delivered", |counts| late(counts) > late(&before));
            late(&proxy.counts()) - late(&before)
        })
    })
}
