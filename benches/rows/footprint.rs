//! What a client takes before it does anything: threads, connections, and round trips up to its first grant.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::kit::{
    client::{acquire, connect, release},
    place::threads,
    roles::{Helper, serve},
    table::Table,
    wire::Wire,
};
use testkit::RedisServer;

pub fn measure(_rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let mut wire = Wire::connect(server.port());
    let mut connections = || wire.command(&["CLIENT", "LIST"]).text().lines().count() - 1;

    let mut helper = Helper::start("footprint", &[&server.tcp_url()]);
    let clients = [0, 1, 2].map(|count| {
        helper.ask(&count.to_string());
        (threads(helper.pid()).len() as f64, connections() as f64)
    });
    let [(no_threads, _), (threads_1, connections_1), (threads_2, connections_2)] = clients;
    let of_a_client = threads_2 - threads_1;
    table.row("threads of a client", of_a_client, "the second client of a process");
    table.row("threads of a process that belong to no client", threads_1 - no_threads - of_a_client, "");
    table.row("connections of a client", connections_2 - connections_1, &format!("{connections_1} of the first"));
    helper.end();

    let url = format!("redis://127.0.0.1:{}/", far_away(server.port()));
    let start = Instant::now();
    let client = connect(&url);
    let to_connect = trips_since(start);
    let guard = acquire(&client.lock("first").expect("a name"));
    let trips = trips_since(start);
    table.row("round trips from connect to the first grant", trips, &format!("{to_connect} of them to connect"));
    release(guard);
}

/// So long takes a reply of a server that is far away. The rest of a round trip takes next to nothing in comparison.
const FAR: Duration = Duration::from_millis(250);

/// The round trips that one had to wait for. What goes on at the same time counts once.
fn trips_since(start: Instant) -> f64 {
    (start.elapsed().as_secs_f64() / FAR.as_secs_f64()).floor()
}

/// A way to the server on which each reply takes its time; the port at which it begins.
fn far_away(server: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", server)).expect("the server");
            for (from, to, delay) in [(&client, &server, Duration::ZERO), (&server, &client, FAR)] {
                let (from, to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
                to.set_nodelay(true).expect("TCP_NODELAY");
                copy(from, to, delay);
            }
        }
    });
    port
}

/// Hands on what comes, each a while after it came.
fn copy(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (came, coming) = channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if came.send((Instant::now() + delay, bytes[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in coming {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// So many acquires in a row use every connection that a client may have.
const ACQUIRES: usize = 20;

/// The helper: has as many clients as it is told, each of which has had a lock.
pub fn clients(arguments: &[&str]) {
    let mut clients = Vec::new();
    serve(|count| {
        while clients.len() < count.parse().expect("a number") {
            let client = connect(arguments[0]);
            let lock = client.lock("used").expect("a name");
            (0..ACQUIRES).for_each(|_| release(acquire(&lock)));
            clients.push(client);
        }
        Some("done".to_owned())
    });
}
