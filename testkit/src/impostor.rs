//! A listener that answers as a test says: another program than Redis, or a Redis version that is not available.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// Answers every command with the result of this function of its words.
pub fn answering(answer: impl Fn(&[String]) -> String + Clone + Send + 'static) -> SocketAddr {
    serving(move |stream| {
        let answer = answer.clone();
        thread::spawn(move || {
            let mut out = stream.try_clone().unwrap();
            let mut input = BufReader::new(stream);
            while let Some(words) = request(&mut input) {
                if out.write_all(answer(&words).as_bytes()).is_err() {
                    break;
                }
            }
        });
    })
}

/// One command in RESP: an array of bulk strings.
fn request(input: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |input: &mut dyn BufRead| -> Option<usize> {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse().ok()
    };
    let words = number(input)?;
    (0..words)
        .map(|_| {
            let mut word = vec![0; number(input)? + 2];
            input.read_exact(&mut word).ok()?;
            Some(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned())
        })
        .collect()
}

/// A server that has too many clients. What it says to a client that sends a request at once is lost with the
/// connection, so only one that listens first hears it.
pub fn too_busy() -> SocketAddr {
    serving(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let listens = stream.read(&mut [0]).is_err();
        if listens {
            let _ = stream.write_all(b"-ERR max number of clients reached\r\n");
        }
    })
}

/// A web server: it answers any input.
pub fn web_server() -> SocketAddr {
    serving(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    })
}

/// Hands each connection to this function, one after the other.
fn serving(mut serve: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(&mut serve));
    address
}
