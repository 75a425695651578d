//! Connections end in a process that does not ignore SIGPIPE, such as a host program in C or Go, or a Rust program that
//! is to end with `| head`.

use fairlock::Client;
use testkit::{Child, RedisServer, SOON, child, keys_left, sigpipe};

/// The helper process of this file.
#[test]
fn child() {
    child::main(|_, args| {
        let [url, admin_url] = args else { panic!("no URLs: {args:?}") };
        sigpipe::survive_ends_of_connections(&Client::connect(url).blocking().unwrap(), admin_url);
    });
}

fn survives(server: &RedisServer, url: &str) {
    let status = Child::spawn("cycles", &[url, &server.admin_url()]).wait(10 * SOON);
    assert!(status.success(), "{status}");
    keys_left(server);
}

#[test]
fn a_process_survives_the_ends_of_its_unix_sockets() {
    let server = RedisServer::builder().alone().start();
    survives(&server, &server.url());
}

#[test]
fn a_process_survives_the_ends_of_its_tcp_connections() {
    let server = RedisServer::builder().alone().tcp().start();
    survives(&server, &server.tcp_url());
}
