//! An encrypted connection behaves like one without encryption, however far the other side has read, and however the
//! bytes were cut into records.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::super::own_socket::tests::raises_sigpipe;
use super::*;

type Theirs = StreamOwned<ServerConnection, UnixStream>;

/// Both ends of a connection that is to be encrypted; the server's is used by a thread of its own and blocks.
fn pair(tls: crate::Tls, certified: &CertifiedKey<rcgen::KeyPair>) -> (Stream, Theirs) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut stream = Stream::new(ours.into());
    stream.encrypt(tls.begin("host.example").unwrap());
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![certified.cert.der().clone()], key).unwrap();
    (stream, StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), theirs))
}

fn believed() -> (crate::Tls, CertifiedKey<rcgen::KeyPair>) {
    let certified = generate_simple_self_signed(["host.example".to_owned()]).unwrap();
    (crate::Tls::new().ca_certificate(certified.cert.pem()), certified)
}

fn soon() -> Time {
    Time::now() + Duration::from_secs(20)
}

fn agree(stream: &mut Stream) {
    stream.converse(soon(), |stream| Ok(!stream.is_handshaking())).unwrap();
}

#[test]
fn much_goes_both_ways_through_a_socket_that_is_full() {
    let (tls, certified) = believed();
    let (mut stream, mut theirs) = pair(tls, &certified);
    let words = "x".repeat(3 << 20);
    let server = thread::spawn(move || {
        // First nothing is read until the client can write no more.
        thread::park();
        let mut request = vec![0; "*1\r\n$3145728\r\n\r\n".len() + (3 << 20)];
        theirs.read_exact(&mut request).unwrap();
        theirs.write_all(&request).unwrap();
        theirs
    });
    put(&mut stream.out, &[&words]);
    let mut waits = 0;
    stream
        .converse(soon(), |stream| {
            if waits == 0 {
                // The handshake needs the other side.
                server.thread().unpark();
            }
            waits += 1;
            Ok(match stream.frames.next()? {
                Some(Value::List(echo)) => echo == [Value::Text(words.as_bytes().into())],
                _ => false,
            })
        })
        .unwrap();
    assert!(waits > 2 && !stream.wants_write());
    // The name tells a server, or a proxy before it, which certificate to show.
    assert_eq!(server.join().unwrap().conn.server_name(), Some("host.example"));
}

/// Whatever came in one record must not stay in the library because the buffer has little room: the socket has nothing
/// more to tell.
#[test]
fn nothing_that_was_decrypted_is_left_behind() {
    let (tls, certified) = believed();
    let (mut stream, mut theirs) = pair(tls, &certified);
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let (room, rest) = (stream.frames.space().len(), 8000);
    let header = format!("${}\r\n", room + rest);
    let server = thread::spawn(move || {
        // All but ten bytes of the client's buffer are full.
        let first = room - 10 - header.len();
        theirs.write_all(format!("{header}{}", "x".repeat(first)).as_bytes()).unwrap();
        told.recv().unwrap();
        theirs.write_all(format!("{}\r\n", "x".repeat(room + rest - first)).as_bytes()).unwrap();
        // Until the client hangs up.
        let _ = theirs.read(&mut [0]);
    });
    agree(&mut stream);
    while stream.frames.space().len() > 10 {
        stream.fill().unwrap();
    }
    go_on.send(()).unwrap();
    let complete = |stream: &mut Stream| {
        assert!(!await_any([&*stream], PollFlags::IN, soon()).unwrap().is_empty(), "the rest is not told");
        stream.fill().unwrap();
        stream.frames.next().unwrap().is_some()
    };
    while !complete(&mut stream) {}
    drop(stream);
    server.join().unwrap();
}

#[test]
fn an_end_with_and_without_a_farewell_is_an_end() {
    for farewell in [true, false] {
        let (tls, certified) = believed();
        let (mut stream, mut theirs) = pair(tls, &certified);
        let server = thread::spawn(move || {
            theirs.write_all(b"+last\r\n").unwrap();
            if farewell {
                theirs.conn.send_close_notify();
                theirs.flush().unwrap();
            }
        });
        agree(&mut stream);
        server.join().unwrap();
        let end = loop {
            if let Err(end) = stream.fill() {
                break end;
            }
        };
        assert!(matches!(end.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{end:?}");
        assert_eq!(stream.frames.next().unwrap(), Some(Value::Text(b"last".into())));
    }
}

#[test]
fn a_certificate_that_is_not_believed_ends_the_handshake_on_both_sides() {
    let (_, certified) = believed();
    let (others, _) = believed();
    let (mut stream, mut theirs) = pair(others, &certified);
    let server = thread::spawn(move || theirs.read(&mut [0]).unwrap_err());
    let broken = stream.converse(soon(), |stream| Ok(!stream.is_handshaking())).unwrap_err();
    assert!(broken.to_string().contains("certificate"), "{broken}");
    let told = server.join().unwrap();
    assert!(told.to_string().contains("alert"), "{told}");
}

/// The deadline of a conversation is kept, and no byte is lost by it.
#[test]
fn a_deadline_ends_a_conversation() {
    let (tls, certified) = believed();
    let (mut stream, theirs) = pair(tls, &certified);
    let early = stream.converse(Time::now() + Duration::from_millis(10), |stream| Ok(!stream.is_handshaking()));
    assert!(early.unwrap_err().is_silence());
    let server = thread::spawn(move || {
        let mut theirs = theirs;
        theirs.write_all(b"+a\r\n").unwrap();
        theirs
    });
    agree(&mut stream);
    let mut heard = None;
    let hear = |stream: &mut Stream| {
        heard = stream.frames.next()?.map(Value::into_owned);
        Ok(heard.is_some())
    };
    stream.converse(soon(), hear).unwrap();
    assert_eq!(heard, Some(Value::Text(b"a".into())));
    drop(server.join().unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_after_the_end_raises_no_signal() {
    let (tls, certified) = believed();
    let (mut stream, mut theirs) = pair(tls, &certified);
    let server = thread::spawn(move || theirs.write_all(b"+last\r\n").unwrap());
    agree(&mut stream);
    server.join().unwrap();
    put(&mut stream.out, &["PING"]);
    let raises = raises_sigpipe(|| assert_eq!(stream.flush().unwrap_err().kind(), ErrorKind::BrokenPipe));
    assert!(!raises);
}
