//! The fault proxy, tested: a fault that does not strike, or strikes something else, would prove nothing.

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use redis::cmd;
use testkit::{Act, Proxy, RedisServer, SOON, Target, eventually, resp::Frames};

/// A client without a library: it sees exactly the bytes that arrive.
struct Plain(UnixStream);

impl Plain {
    fn connect(proxy: &Proxy) -> Plain {
        let stream = UnixStream::connect(proxy.socket()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Plain(stream)
    }

    fn send(&mut self, text: &str) -> &mut Plain {
        for line in text.split(';') {
            let words: Vec<&str> = line.split(' ').collect();
            let request: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
            self.0.write_all(format!("*{}\r\n{request}", words.len()).as_bytes()).unwrap();
        }
        self
    }

    #[track_caller]
    fn expect(&mut self, bytes: &str) {
        let mut read = vec![0; bytes.len()];
        self.0.read_exact(&mut read).unwrap();
        assert_eq!(String::from_utf8_lossy(&read), bytes);
    }

    #[track_caller]
    fn expect_end(mut self) {
        let mut rest = Vec::new();
        // If the connection is cut while requests are unread, its end is an error.
        let _ = self.0.read_to_end(&mut rest);
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    /// Asserts that no reply has come, although the request was executed.
    #[track_caller]
    fn expect_nothing(&mut self) {
        self.0.set_nonblocking(true).unwrap();
        assert!(self.0.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
        self.0.set_nonblocking(false).unwrap();
    }
}

fn number(server: &RedisServer, key: &str) -> i64 {
    cmd("GET").arg(key).query::<Option<i64>>(&mut server.raw()).unwrap().unwrap_or(0)
}

/// All frames that crossed the proxy before this returns have been counted.
fn quiet(proxy: &Proxy) {
    proxy.wait("all connections have ended", |counts| counts.open == 0);
}

#[test]
fn a_held_reply_comes_later_and_what_is_behind_it_too() {
    let (server, proxy) = Proxy::of_a_server();
    let mut client = Plain::connect(&proxy);
    let fault = proxy.fault(Target::reply("first"), Act::Hold);
    client.send("INCR zeroth;INCR first;INCR second").expect(":1\r\n");
    fault.await_struck();
    eventually("both are done", SOON, || number(&server, "second") == 1);
    assert_eq!(number(&server, "first"), 1);
    client.expect_nothing();
    fault.lift();
    client.send("INCR first").expect(":1\r\n:1\r\n:2\r\n");
    assert_eq!(fault.struck(), 1);
}

#[test]
fn a_held_request_is_not_executed_until_it_is_let_go() {
    let (server, proxy) = Proxy::of_a_server();
    let (mut client, mut other) = (Plain::connect(&proxy), Plain::connect(&proxy));
    // A target matches in upper and lower case, and in the middle of a word.
    let fault = proxy.fault(Target::request("IRs"), Act::Hold);
    client.send("INCR zeroth;INCR first;INCR second").expect(":1\r\n");
    fault.await_struck();
    other.send("INCR other").expect(":1\r\n");
    assert_eq!((number(&server, "first"), number(&server, "second")), (0, 0));
    assert_eq!(proxy.abandoned(), 0);
    proxy.heal();
    client.expect(":1\r\n:1\r\n");
}

#[test]
fn a_swallowed_frame_never_comes_nor_do_the_frames_behind_it() {
    let (server, proxy) = Proxy::of_a_server();
    let (mut deaf, mut mute) = (Plain::connect(&proxy), Plain::connect(&proxy));
    let lost = proxy.fault_times(1, Target::request("lost"), Act::Swallow);
    let unheard = proxy.fault_times(1, Target::reply("unheard"), Act::Swallow);
    deaf.send("INCR a;INCR lost;INCR b").expect(":1\r\n");
    mute.send("INCR c;INCR unheard;INCR d").expect(":1\r\n");
    eventually("what is behind a lost reply is done", SOON, || number(&server, "d") == 1);
    lost.await_struck();
    unheard.await_struck();
    proxy.heal();
    deaf.send("INCR b");
    mute.send("INCR d");
    eventually("nothing is lost in the other direction", SOON, || number(&server, "d") == 2);
    deaf.expect_nothing();
    mute.expect_nothing();
    assert_eq!((number(&server, "lost"), number(&server, "b"), number(&server, "unheard")), (0, 0, 1));
    // Another connection is not affected.
    Plain::connect(&proxy).send("INCR lost;INCR unheard").expect(":1\r\n:2\r\n");
}

#[test]
fn an_error_in_the_servers_place_keeps_its_turn() {
    let (_server, proxy) = Proxy::of_a_server();
    let mut client = Plain::connect(&proxy);
    // Such a target matches the command alone, and only all of it.
    let misses = [Target::request("no").command(), Target::request("INC").command(), Target::push("a").command()];
    let misses = misses.map(|target| proxy.fault(target, Act::Cut(0)));
    let command = proxy.fault_times(1, Target::request("echo").command(), Act::Answer("ERR no echo"));
    client.send("INCR echo;ECHO a;ECHO a").expect(":1\r\n-ERR no echo\r\n$1\r\na\r\n");
    assert_eq!(command.struck(), 1);
    let refused = proxy.fault_times(2, Target::request("no"), Act::Answer("LOADING not yet"));
    let replaced = proxy.fault_times(1, Target::reply("done"), Act::Answer("ERR but done"));
    client.send("INCR no;INCR a;INCR no;INCR done;INCR done;INCR no");
    client.expect("-LOADING not yet\r\n:1\r\n-LOADING not yet\r\n-ERR but done\r\n:2\r\n:1\r\n");
    assert_eq!((refused.struck(), replaced.struck()), (2, 1));
    assert_eq!(misses.map(|miss| miss.struck()), [0, 0, 0]);
    // While the reply of the one before is held back, an answer from here waits too.
    let held = proxy.fault(Target::reply("a"), Act::Hold);
    let refused = proxy.fault(Target::request("no"), Act::Answer("LOADING not yet"));
    client.send("INCR a;INCR no;INCR no");
    held.await_struck();
    refused.await_struck();
    client.expect_nothing();
    held.lift();
    client.expect(":2\r\n-LOADING not yet\r\n-LOADING not yet\r\n");
}

#[test]
fn a_connection_is_cut_in_the_middle_of_a_reply_or_request() {
    let (server, proxy) = Proxy::of_a_server();
    let _: () = cmd("SET").arg("long").arg("0123456789").query(&mut server.raw()).unwrap();
    for bytes in [0, 1, 7, 15] {
        let fault = proxy.fault_times(1, Target::reply("long"), Act::Cut(bytes));
        let mut client = Plain::connect(&proxy);
        client.send("GET long").expect(&"$10\r\n0123456789\r\n"[..bytes]);
        client.expect_end();
        assert_eq!(fault.struck(), 1);
    }
    // A frame without its last byte is no request.
    for bytes in [0, 5, "*2\r\n$4\r\nINCR\r\n$4\r\ncuts\r\n".len() - 1] {
        proxy.fault_times(1, Target::request("cuts"), Act::Cut(bytes));
        let mut client = Plain::connect(&proxy);
        client.send("INCR cuts");
        client.expect_end();
    }
    quiet(&proxy);
    assert_eq!(number(&server, "cuts"), 0);

    // Counted over all frames: the first two pass, and a byte of the third.
    let fault = proxy.fault_times(1, Target::reply(""), Act::CutAfter(9));
    let mut client = Plain::connect(&proxy);
    client.send("INCR a;INCR a;INCR a").expect(":1\r\n:2\r\n:");
    client.expect_end();
    assert_eq!(fault.struck(), 1);
}

#[test]
fn requests_of_a_client_that_is_gone_arrive_late() {
    let (server, proxy) = Proxy::of_a_server();
    let mut client = Plain::connect(&proxy);
    let fault = proxy.fault(Target::request("late"), Act::Hold);
    client.send("INCR late;INCR later");
    fault.await_struck();
    assert_eq!(proxy.abandoned(), 0);
    drop(client);
    eventually("the client is gone", SOON, || proxy.abandoned() == 1);
    assert_eq!((number(&server, "late"), proxy.counts().open), (0, 1));
    proxy.heal();
    quiet(&proxy);
    eventually("they were executed", SOON, || number(&server, "later") == 1);
    assert_eq!((number(&server, "late"), proxy.counts().late, proxy.counts().late_refused), (1, 2, 0));

    // The proxy may also part client and server by itself.
    let mut client = Plain::connect(&proxy);
    let fault = proxy.fault(Target::request("late"), Act::Hold);
    client.send("INCR late");
    fault.await_struck();
    proxy.abandon();
    client.expect_end();
    assert_eq!((proxy.abandoned(), proxy.counts().open, number(&server, "late")), (1, 1, 1));
    proxy.heal();
    quiet(&proxy);
    eventually("it was executed", SOON, || number(&server, "late") == 2);

    // A late request is not executed if the server was told to end its connection.
    let mut client = Plain::connect(&proxy);
    proxy.fault(Target::request("late"), Act::Hold);
    client.send("CLIENT ID");
    let reply = Frames::new(&client.0).next().unwrap();
    let id = String::from_utf8(reply[1..reply.len() - 2].to_vec()).unwrap();
    client.send("INCR late");
    drop(client);
    eventually("the client is gone", SOON, || proxy.abandoned() == 1);
    assert_eq!(proxy.held_in_vain(), 0);
    let _: u32 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut server.raw()).unwrap();
    eventually("the proxy sees it", SOON, || proxy.held_in_vain() == 1);
    proxy.heal();
    quiet(&proxy);
    assert_eq!((number(&server, "late"), proxy.counts().late, proxy.counts().late_refused), (2, 3, 1));
}

#[test]
fn a_delay_delays() {
    let (_server, proxy) = Proxy::of_a_server();
    let mut client = Plain::connect(&proxy);
    let delay = Duration::from_millis(60);
    let faults = [Target::request(""), Target::reply("")].map(|target| proxy.fault(target, Act::Delay(delay)));
    let start = Instant::now();
    client.send("ECHO x").expect("$1\r\nx\r\n");
    assert!(start.elapsed() >= 2 * delay);
    assert_eq!(faults.each_ref().map(|fault| fault.struck()), [1, 1]);
    // A hundred that are sent together are late together.
    faults.iter().for_each(|fault| fault.lift());
    proxy.far(2 * delay);
    let start = Instant::now();
    client.send(&["ECHO x"; 200].join(";")).expect(&"$1\r\nx\r\n".repeat(200));
    let took = start.elapsed();
    assert!((2 * delay..200 * delay).contains(&took), "{took:?}");
    client.0.shutdown(Shutdown::Both).unwrap();
}
