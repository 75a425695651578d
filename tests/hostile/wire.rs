//! What a server sends is read as the redis crate reads it, in whatever pieces it comes. The traffic is recorded from a
//! server that answers every request and sends every type of RESP3.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use fairlock::__hooks::{read_by_the_library, read_frames, read_nodes, scripts};
use redis::{Cmd, cmd};
use testkit::RedisServer;
use testkit::run::version;

/// The answers to these commands, as they came. An ECHO marks their end.
fn recorded(server: &RedisServer, commands: &[Cmd]) -> Vec<u8> {
    let mut socket = UnixStream::connect(server.socket()).unwrap();
    let end = "this is the end of what was recorded";
    for command in commands {
        socket.write_all(&command.get_packed_command()).unwrap();
    }
    socket.write_all(&cmd("ECHO").arg(end).get_packed_command()).unwrap();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let end = format!("${}\r\n{end}\r\n", end.len());
    while !bytes.ends_with(end.as_bytes()) {
        let read = socket.read(&mut piece).unwrap();
        assert!(read > 0, "the server hung up after {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..read]);
    }
    bytes.truncate(bytes.len() - end.len());
    bytes
}

fn acquire(name: &str) -> Cmd {
    let (_, text) = scripts("redis.call('TIME')").into_iter().find(|(script, _)| *script == name).unwrap();
    let mut command = cmd("EVAL");
    command.arg(text).arg(0);
    command
}

fn words(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut command = cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command
}

/// From 7.0 on a server takes DEBUG only if its configuration says so.
fn server_that_takes_debug() -> RedisServer {
    let server = RedisServer::builder().alone().plain();
    if version() < (7, 0) { server.start() } else { server.config("enable-debug-command yes").start() }
}

#[test]
fn the_traffic_of_a_server_is_read_as_the_library_reads_it() {
    let server = server_that_takes_debug();
    let mut commands = vec![words("HELLO 3"), words("SUBSCRIBE c"), words("INFO"), words("CONFIG GET *")];
    // Old versions send more digits of a double than the library shows.
    let double = if version() < (7, 0) { "" } else { "double " };
    let debug = format!("{double}string integer null array set map attrib push verbatim true false bignum");
    commands.extend(debug.split(' ').map(|kind| words(&format!("DEBUG PROTOCOL {kind}"))));
    commands.extend(["PUBLISH c grant", "COMMAND INFO get set", "CLIENT LIST", "NOSUCH a", "GET"].map(words));
    // Scripts that fail, that nest, and that publish to the connection that runs them.
    commands.push(acquire("acquire"));
    for body in [
        "return {1, {2, {'three', false}}, redis.status_reply('OK')}",
        "redis.setresp(3); return {map={a=1}}",
        "redis.setresp(3); return {double=1.5}",
        "return redis.error_reply('MOVED 7 host:1')",
        "redis.call('PUBLISH', 'c', 'from a script'); return 'after'",
    ] {
        let mut command = cmd("EVAL");
        command.arg(body).arg(0);
        commands.push(command);
    }
    commands.push(words("UNSUBSCRIBE c"));
    let bytes = recorded(&server, &commands);

    let library = read_by_the_library(&bytes);
    assert!(library.len() > commands.len(), "replies and messages: {library:#?}");
    for size in [1, 2, 3, 5, 7, 64, 1000, usize::MAX] {
        assert_eq!(read_frames(&bytes, size), (library.clone(), None), "in pieces of {size}");
    }
    // All frames except pushes are replies, and the two subscriptions have none.
    let replies = library.iter().filter(|frame| !frame.starts_with("push")).count();
    assert_eq!(replies, commands.len() - 2, "{library:#?}");
    assert!(!library.iter().any(|frame| frame.contains("DEBUG")), "{library:#?}");
}

/// The replies of a node and of a sentinel, and what none of them can mean.
#[test]
fn nodes_are_read_or_refused() {
    let slots = |last: &str, port: &str| {
        let hosts = format!("*3\r\n$1\r\na\r\n:{port}\r\n$2\r\nid\r\n");
        format!("*1\r\n*3\r\n:0\r\n:{last}\r\n{hosts}").into_bytes()
    };
    let node = |host: &str, port| Some((host.to_owned(), port));
    assert_eq!(read_nodes(&slots("99", "7000"), &[0, 99, 100]), Some(vec![node("a", 7000), node("a", 7000), None]));
    assert_eq!(read_nodes(b"*2\r\n$1\r\nb\r\n$4\r\n6379\r\n", &[0]), Some(vec![node("b", 6379)]));
    for reply in [
        &slots("-1", "7000")[..],
        &slots("65536", "7000"),
        &slots("99", "70000"),
        b"$-1\r\n",
        b"*2\r\n$1\r\nb\r\n$1\r\nx\r\n",
    ] {
        assert_eq!(read_nodes(reply, &[0]), None, "{}", String::from_utf8_lossy(reply));
    }
}
