//! What the test kit has, for tests in other languages: servers, proxies, clocks, Sentinel and clusters, by lines of
//! JSON. `cargo build -p fairlock-testkit` makes the program, which takes no arguments.
//!
//! Each line of its input is a request, and has one line of its output as the answer, in the order of the requests:
//! `{"ok": {…}}`, or `{"error": "…"}`, which says what was wrong or did not happen in time. A request says in `do` what
//! to do. What it starts gets an `id`, by which later requests name it, mostly in `of`.
//!
//! ```json
//! {"do": "server", "tcp": true}
//! {"ok": {"id": 1, "pid": 4711, "folder": "/tmp/fairlock-x", "socket": "/tmp/fairlock-x/redis.sock", "port": 14142}}
//! {"do": "kill", "of": 1}
//! {"ok": {}}
//! ```
//!
//! Everything that was started ends with the input, or when this process is killed: where
//! its input is a pipe from the process of the tests, it ends with that process, and leaves nothing behind. An answer is awaited before
//! the next request is looked at, so tests that run side by side start one process each.
//!
//! | request | fields (those with `?` may be left out) | then | answer |
//! |---|---|---|---|
//! | `server` | what is [below](#servers) | starts a server, and waits until it answers | a server |
//! | `replica` | `of`: a server with a port | starts one that follows it | a server |
//! | `kill` | `of`: a server | SIGKILL: what it has not written down is lost | |
//! | `shutdown` | `of`: a server | SIGTERM, and waits for its end | |
//! | `restart` | `of`: a server | starts it again, in its folder, at its socket and port | `pid` |
//! | `stop`, `cont` | `of`: a server | SIGSTOP, SIGCONT | |
//! | `flush` | `of`: a server | it loses all data | |
//! | `await_copies` | `of`: a master; `replicas`; `key?`, in a cluster one of its slots | waits until so many have all that was written | |
//! | `nothing_left` | `of`: a server | waits until all locks there are free, and no waiter or session is left | |
//! | `clock` | | makes a wall clock, which is on time, for servers | |
//! | `step` | `of`: a clock; `seconds`; `seen_by?`: servers | sets it forward, or back, and waits until these show it | |
//! | `certificates` | `host` | issues them for servers that call themselves so | `authority`, `certificate`, `key`: files |
//! | `proxy` | `of`: a server; `tcp?` | starts a [proxy](crate::proxy) before it | `socket`, `port` |
//! | `fault` | `of`: a proxy; `side`: `request`, `reply`, `push`; `word?`, `command?`, `act`, `times?` | strikes such frames, as [below](#faults) | |
//! | `await_struck` | `of`: a fault | waits until it has struck | |
//! | `struck` | `of`: a fault | | `times` |
//! | `lift` | `of`: a fault | it strikes no more, and frames that it held go on | |
//! | `heal` | `of`: a proxy | lifts all faults, and accepts connections again | |
//! | `refuse` | `of`: a proxy | refuses new connections | |
//! | `cut` | `of`: a proxy | ends all connections at both ends | |
//! | `abandon` | `of`: a proxy | ends them at the clients' end; held requests still arrive | |
//! | `lead_to` | `of`: a proxy; `to`: a server | new connections lead there | |
//! | `counts` | `of`: a proxy | | `connections`, `refused`, `open`; `requests`, `replies`, `pushes`: frames that went through |
//! | `sentinels` | `replicas?`: 2; `down_after_ms?`: 1200; `password?`, `config?`: of the servers | starts a master, its replicas, three sentinels | `servers`: the master first; `sentinels`; `master`: their name of it |
//! | `cluster` | `replicas?`: `true`; `node_timeout_ms?`: 1000, `node?`: what is [below](#servers) | starts three masters, on request each with a replica | `servers`: the masters first |
//! | `master` | `of`: sentinels, or a cluster; `key` of a cluster | waits until all agree | `id` of the server |
//! | `fail_over` | `of`: sentinels | makes another server the master, without a fault | `id` of the new one |
//! | `await_promotion` | `of`, `key` as with `master`; `old`: a server | waits until another one is the master | its `id` |
//! | `await_replica` | `of`: sentinels, or a cluster; `server` | waits until it follows a master: an old one that is back | |
//! | `migrate` | `of`: a cluster; `key`, `to?`: a server, `keys?` | moves the slot of this key to another master: only so many keys, and the slot stays between both; or everything | `to`, and `moved`: the keys |
//! | `end` | `of`: what was started, but no part of it | ends it | |
//!
//! # Servers
//!
//! A server listens at a unix socket. Each field may be left out:
//!
//! | field | what |
//! |---|---|
//! | `tcp` | `true`: also at a port of 127.0.0.1 |
//! | `password` | of all clients |
//! | `appendonly` | `true`: writes all down at once, so that `kill` and `restart` lose nothing |
//! | `config` | a list of lines for redis.conf |
//! | `arguments` | a list of arguments, as `--sentinel` |
//! | `clock` | one that was made before |
//! | `certificates` | those that were issued before: its port is encrypted, and demands certificates |
//!
//! The answer has `id`, `pid`, `folder`, `socket`, and `port` if it has one. That of several servers has a list of these.
//!
//! # Faults
//!
//! A fault is for requests with a word that contains `word`, for replies to them, or for pushes with such a word; for all
//! of them if it is left out. With `"command": true` it must be the whole command. It strikes each, or `times` of them:
//!
//! | act | what |
//! |---|---|
//! | `"hold"` | the frame waits until the fault is lifted, with all behind it |
//! | `"swallow"` | it is lost, with all behind it |
//! | `{"delay_ms": N}` | it is late |
//! | `{"cut": N}` | the connection ends after N bytes of it |
//! | `{"cut_after": N}` | the connection ends after N bytes of all frames that the fault is for |
//! | `{"answer": "ERR …"}` | the proxy answers in the place of the server |
//! | `{"repeat": N}` | a reply comes so often, or never |

mod answers;
mod request;
mod started;

use std::{
    any::Any,
    io::{self, BufRead, Write},
    panic::{self, AssertUnwindSafe, catch_unwind},
    thread,
};

use serde_json::{Value, json};

use self::{request::Request, started::Started};

/// Reads requests, and writes an answer for each, until the requests end.
pub fn serve(requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    silence_this_thread();
    let mut started = Started::default();
    for line in requests.lines() {
        let answer = match answer(&mut started, &line?) {
            Ok(answer) => json!({ "ok": answer }),
            Err(error) => json!({ "error": error }),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

fn answer(started: &mut Started, line: &str) -> Result<Value, String> {
    let request: Request = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    // Whatever does not happen in time, or does not work, is a panic in the test kit.
    catch_unwind(AssertUnwindSafe(|| started.answer(request))).unwrap_or_else(|panic| Err(said(&*panic)))
}

/// Its answers say what a panic of it says.
fn silence_this_thread() {
    let (others, this) = (panic::take_hook(), thread::current().id());
    panic::set_hook(Box::new(move |panic| {
        if thread::current().id() != this {
            others(panic);
        }
    }));
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
