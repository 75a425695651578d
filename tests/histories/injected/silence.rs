//! A server that does not answer for a while and has lost nothing afterwards.

use std::time::Duration;

use redis::cmd;

use testkit::{
    RedisServer, SOON,
    crew::{
        Crew, Fault, Struck,
        fault::{concerned, long_hold},
    },
    eventually,
    history::{Trouble, Wait, now_ns},
};

/// Shorter than the patience of a heartbeat, and than the shortest claim: it must cost nobody a turn. The silence also
/// lasts as long as the machine takes to begin and to end it.
pub fn briefly(crew: &mut Crew) -> Duration {
    let liveness = crew.terms().liveness;
    liveness.mul_f64(0.05 + 0.15 * crew.rng().f64())
}

/// Longer than a lease and than what costs a place; it strikes just after a grant for a hold that is longer than a
/// lease.
pub fn for_long(crew: &mut Crew) -> Duration {
    assert!(long_hold(crew), "nobody holds the lock for long: set `Setup::long_of`");
    let terms = crew.terms();
    terms.lease.max(terms.liveness + terms.buffer) + terms.liveness / 2
}

/// How long it lasts.
pub type Span = fn(&mut Crew) -> Duration;

/// A silence longer than a lease hits a holder that loses its lease; a shorter one hits any process.
fn silence(crew: &mut Crew, span: Span, keep_silent: impl FnOnce(&mut Crew, Duration)) -> Struck {
    let span = span(crew);
    let (concerned, from) = (concerned(crew).min(1), now_ns());
    let lost = |wait: &Wait| wait.lost_ns.is_some_and(|at| at >= from);
    Struck::during(&[Trouble::Silent], || {
        keep_silent(crew, span);
        if span > crew.terms().lease { u64::from(crew.recent().waits().iter().any(lost)) } else { concerned }
    })
}

/// SIGSTOP, and SIGCONT.
pub fn stopped(server: &RedisServer, span: Span, hits: u64) -> Fault<'_> {
    Fault::new("the server was stopped", hits, move |crew| {
        silence(crew, span, |crew, span| {
            server.stop();
            crew.rest(span);
            server.cont();
        })
    })
}

/// The same, and everybody has the time to be heard before the next fault strikes: two outages at once may cost a turn.
pub fn stopped_apart(server: &RedisServer, span: Span, hits: u64) -> Fault<'_> {
    let mut stopped = stopped(server, span, hits).strike;
    Fault::new("the server was stopped", hits, move |crew| {
        let struck = stopped(crew);
        crew.rest(2 * crew.terms().shortest);
        struck
    })
}

/// CLIENT PAUSE: the server accepts requests and executes them later.
pub fn paused(server: &RedisServer, span: Span, hits: u64) -> Fault<'_> {
    Fault::new("the server was paused", hits, move |crew| {
        silence(crew, span, |_, span| {
            let mut raw = server.raw();
            let () = cmd("CLIENT").arg("PAUSE").arg(span.as_millis() as u64).query(&mut raw).unwrap();
            // It answers when the pause is over.
            let () = cmd("PING").exec(&mut raw).unwrap();
        })
    })
}

/// A slow script blocks the server, which answers BUSY to all clients; the script is killed at the end. The server
/// needs the configuration [`SOON_BUSY`].
pub fn busy(server: &RedisServer, span: Span, hits: u64) -> Fault<'_> {
    Fault::new("the server was busy", hits, move |crew| {
        silence(crew, span, |crew, span| {
            let mut raw = server.raw();
            std::thread::scope(|scope| {
                let script = scope.spawn(|| cmd("EVAL").arg("while true do end").arg(0).exec(&mut server.raw()));
                eventually("the server is busy", SOON, || {
                    cmd("PING").exec(&mut raw).is_err_and(|error| error.code() == Some("BUSY"))
                });
                crew.rest(span);
                let () = cmd("SCRIPT").arg("KILL").query(&mut raw).unwrap();
                assert!(script.join().unwrap().is_err(), "a script without an end ended");
            });
        })
    })
}

/// The configuration line for a server that shall be [`busy`].
pub const SOON_BUSY: &str = "lua-time-limit 20";

/// SIGKILL, and another start with all its data. The server must write an append-only file.
pub fn restarted(server: &RedisServer, span: Span, hits: u64) -> Fault<'_> {
    Fault::new("the server was restarted", hits, move |crew| {
        silence(crew, span, |crew, span| {
            server.kill();
            crew.rest(span);
            server.restart();
        })
    })
}

/// An orderly end, at which it saves its data, and another start. For a server without an append-only file.
pub fn shut_down(server: &RedisServer, span: Span, hits: u64) -> Fault<'_> {
    Fault::new("the server was shut down", hits, move |crew| {
        silence(crew, span, |crew, span| {
            // Its answer is that the connection ends.
            let _ = cmd("SHUTDOWN").arg("SAVE").exec(&mut server.raw());
            eventually("the server has ended", SOON, || !server.is_up());
            crew.rest(span);
            server.restart();
        })
    })
}
