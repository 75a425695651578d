//! What a client takes before it does anything: threads, connections, and round trips up to its first grant.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

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
    table.row("threads of a process beside those of its clients", threads_1 - no_threads - of_a_client, "");
    table.row("connections of a client", connections_2 - connections_1, &format!("{connections_1} of the first"));
    helper.end();

    let (port, trips) = counting_proxy(server.port());
    let client = connect(&format!("redis://127.0.0.1:{port}/"));
    let connected = trips.lock().expect("nobody panics with it").count;
    let guard = acquire(&client.lock("first").expect("a name"));
    let trips = trips.lock().expect("nobody panics with it").count;
    table.row("round trips from connect to the first grant", trips as f64, &format!("{connected} of them to connect"));
    release(guard);
}

/// Whether the last bytes came from a client, and how often they did after bytes of the server.
#[derive(Default)]
struct Trips {
    asking: bool,
    count: u64,
}

/// A way to the server that counts round trips, over all its connections.
fn counting_proxy(server: u16) -> (u16, Arc<Mutex<Trips>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let trips = Arc::new(Mutex::new(Trips::default()));
    let counted = Arc::clone(&trips);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", server)).expect("the server");
            for (from, to, asks) in [(&client, &server, true), (&server, &client, false)] {
                let (from, to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
                let counted = Arc::clone(&counted);
                to.set_nodelay(true).expect("TCP_NODELAY");
                std::thread::spawn(move || copy(from, to, asks, &counted));
            }
        }
    });
    (port, trips)
}

fn copy(mut from: TcpStream, mut to: TcpStream, asks: bool, trips: &Mutex<Trips>) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        {
            let mut trips = trips.lock().expect("nobody panics with it");
            trips.count += u64::from(asks && !trips.asking);
            trips.asking = asks;
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// The helper: has as many clients as it is told, each of which has had a lock.
pub fn clients(arguments: &[&str]) {
    let mut clients = Vec::new();
    serve(|count| {
        while clients.len() < count.parse().expect("a number") {
            let client = connect(arguments[0]);
            release(acquire(&client.lock("used").expect("a name")));
            clients.push(client);
        }
        Some("done".to_owned())
    });
}
