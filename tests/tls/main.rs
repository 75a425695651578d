//! Encrypted connections, to a server that shows a certificate and demands one.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use fairlock::{Client, ClientBuilder, Tls, error::ConnectError};
use testkit::certificates::{Authority, Certificates, Encrypted, Identity};
use testkit::{Child, Cluster, RedisServer, SOON, child, keys_left, quiet, sentinel::MASTER, sigpipe, soon};

/// The helper process of this file.
#[test]
fn child() {
    child::main(|_, args| {
        let [url, admin_url, authority, certificate, key] = args else { panic!("other arguments: {args:?}") };
        let tls = Tls::new().ca_certificate(&**authority).client_certificate(&**certificate, &**key);
        let client = Client::builder().url(url).tls(tls).connect().blocking().unwrap();
        sigpipe::survive_ends_of_connections(&client, admin_url);
    });
}

/// The settings with which a client trusts these servers, and shows a certificate of its own.
fn tls(certificates: &Certificates) -> Tls {
    let own = certificates.authority.issues("client");
    Tls::new().ca_certificate(certificates.authority.pem()).client_certificate(own.certificate, own.key)
}

async fn refusal(encrypted: &Encrypted, tls: Tls) -> ConnectError {
    soon(Client::builder().url(&encrypted.url()).tls(tls).connect()).await.unwrap_err()
}

/// A holder hands the lock over to a waiter that hears of it by a push: heartbeats are far away.
async fn hand_over(client: ClientBuilder, replicas: u32) {
    let options = quiet().replicas(replicas);
    let client = soon(client.connect()).await.unwrap();
    let lock = client.lock_with("x", options).unwrap();
    let first = soon(lock.acquire()).await.unwrap();
    let second = soon(lock.enqueue()).await.unwrap();
    soon(first.release()).await.unwrap();
    soon(soon(second).await.unwrap().release()).await.unwrap();
}

#[tokio::test]
async fn certificates_on_both_sides_are_believed() {
    let encrypted = Encrypted::start("127.0.0.1");
    hand_over(Client::builder().url(&encrypted.url()).tls(tls(&encrypted.certificates)), 0).await;
    keys_left(&encrypted.server);
}

/// A client of the redis crate says whether its connections are encrypted, not with which certificates.
#[tokio::test]
async fn the_settings_of_an_encrypted_client_of_the_redis_crate_need_certificates() {
    use redis::{ConnectionAddr, IntoConnectionInfo as _};

    let encrypted = Encrypted::start("127.0.0.1");
    let info = encrypted.url().replacen("rediss:", "redis:", 1).into_connection_info().unwrap();
    let ConnectionAddr::Tcp(host, port) = info.addr().clone() else { panic!("{:?}", info.addr()) };
    let at = |insecure| {
        let host = host.clone();
        info.clone().set_addr(ConnectionAddr::TcpTls { host, port, insecure, tls_params: None })
    };
    hand_over(ClientBuilder::from_redis(&at(false)).tls(tls(&encrypted.certificates)), 0).await;
    let careless = soon(ClientBuilder::from_redis(&at(true)).connect()).await.unwrap_err();
    assert!(matches!(careless, ConnectError::Url { .. }), "{careless}");
    let plain = soon(ClientBuilder::from_redis(&info).tls(Tls::new()).connect()).await.unwrap_err();
    assert!(matches!(plain, ConnectError::NotEncrypted { .. }), "{plain}");
    keys_left(&encrypted.server);
}

#[test]
fn a_process_survives_the_ends_of_its_encrypted_connections_without_ignoring_sigpipe() {
    let encrypted = Encrypted::start("127.0.0.1");
    let (url, admin_url) = (encrypted.url(), encrypted.server.admin_url());
    let (authority, own) = (encrypted.certificates.authority.pem(), encrypted.certificates.authority.issues("client"));
    let mut cycles = Child::spawn("cycles", &[&url, &admin_url, &authority, &own.certificate, &own.key]);
    let status = cycles.wait(10 * SOON);
    assert!(status.success(), "{status}");
    keys_left(&encrypted.server);
}

/// The master has another address than the URL, and its replicas are asked over a separate connection.
#[tokio::test]
async fn certificates_are_shown_to_sentinels_and_to_the_master_that_they_name() {
    let certificates = Certificates::of("127.0.0.1");
    let master = certificates.given_to(RedisServer::builder().master()).start();
    let _replica = master.replica();
    let sentinel = certificates.given_to(RedisServer::builder().plain().argument("--sentinel"));
    let sentinel = sentinel.config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", master.port())).start();
    let (address, tls) = (format!("127.0.0.1:{}", sentinel.port()), tls(&certificates));
    let by_url = Client::builder().url(&format!("rediss+sentinel://{address}/{MASTER}")).tls(tls.clone());
    let by_address = Client::builder().tls(tls).sentinel([address], MASTER);
    for client in [by_url, by_address] {
        hand_over(client, 1).await;
    }
    keys_left(&master);
}

/// So has the owner of the slot, and messages come over a separate connection.
#[tokio::test]
async fn certificates_are_shown_to_all_nodes_of_a_cluster() {
    let certificates = Certificates::of("127.0.0.1");
    let cluster = Cluster::builder().node_timeout(100 * SOON).each(|node| certificates.given_to(node)).start();
    let owner = cluster.owner(cluster.slot("x"));
    let node = cluster.another_master(owner);
    let url = cluster.url_of(&[node]).replacen("redis-", "rediss+", 1);
    let by_url = Client::builder().url(&url).tls(tls(&certificates));
    let mut by_address = Client::builder().cluster([format!("127.0.0.1:{}", node.port())]).tls(tls(&certificates));
    if let Some((user, password)) = testkit::run::login() {
        by_address = by_address.login(user, password);
    }
    for client in [by_url, by_address] {
        hand_over(client, 0).await;
    }
    keys_left(owner);
}

#[tokio::test]
async fn a_client_without_the_right_certificate_is_refused() {
    let encrypted = Encrypted::start("127.0.0.1");
    let stranger = Authority::default();
    let own = encrypted.certificates.authority.issues("client");
    let (certificate, key) = (own.certificate, own.key);

    let wrong_authority = Tls::new().ca_certificate(stranger.pem()).client_certificate(&*certificate, &*key);
    let error = refusal(&encrypted, wrong_authority).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
    // This machine does not trust an authority that was made a moment ago.
    let error = refusal(&encrypted, Tls::new().client_certificate(&*certificate, &*key)).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");

    let without = refusal(&encrypted, Tls::new().ca_certificate(encrypted.certificates.authority.pem())).await;
    assert!(matches!(without, ConnectError::Certificate { .. }), "{without:?}");
    let theirs = stranger.issues("client");
    let of_a_stranger = Tls::new()
        .ca_certificate(encrypted.certificates.authority.pem())
        .client_certificate(theirs.certificate, theirs.key);
    let error = refusal(&encrypted, of_a_stranger).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
    let garbled = refusal(&encrypted, Tls::new().ca_certificate("no certificate")).await;
    assert!(matches!(garbled, ConnectError::Certificate { .. }), "{garbled:?}");
}

/// A client listens for half a second to tell these cases apart: it is asked again if the server was slower.
async fn refusal_by_encryption(url: &str) -> ConnectError {
    for _ in 0..4 {
        let error = soon(Client::connect(url)).await.unwrap_err();
        if matches!(error, ConnectError::Encryption { .. }) {
            return error;
        }
    }
    soon(Client::connect(url)).await.unwrap_err()
}

/// Each side would wait for the other, or hang up.
#[tokio::test]
async fn an_error_says_which_side_alone_encrypts() {
    let encrypted = Encrypted::start("127.0.0.1");
    let error = refusal_by_encryption(&encrypted.url().replace("rediss", "redis")).await;
    assert!(matches!(error, ConnectError::Encryption { expected: true, .. }), "{error:?}");
    assert!(error.to_string().contains("begin with rediss"), "{error}");
    let plain = RedisServer::builder().plain().tcp().password("sesame").start();
    let error = refusal_by_encryption(&format!("rediss://127.0.0.1:{}/", plain.port())).await;
    assert!(matches!(error, ConnectError::Encryption { expected: false, .. }), "{error:?}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_server_of_another_name_is_not_believed() {
    let encrypted = Encrypted::start("elsewhere.example");
    let error = refusal(&encrypted, tls(&encrypted.certificates)).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
}

#[test]
fn certificates_without_encryption_are_an_error() {
    for (url, said) in [
        ("redis://127.0.0.1:1/", "redis"),
        ("unix:///socket", "unix"),
        ("redis+cluster://127.0.0.1:1", "redis+cluster"),
    ] {
        let error = Client::builder().url(url).tls(Tls::new()).connect_lazy().unwrap_err();
        assert!(matches!(&error, ConnectError::NotEncrypted { scheme, .. } if scheme == said), "{error:?}");
        assert!(error.to_string().contains("rediss"), "{error}");
    }
}

/// With an empty authority no server would ever be trusted.
#[test]
fn certificates_that_are_not_there_are_refused_before_connecting() {
    let own = Authority::default().issues("client");
    for (tls, says) in [
        (Tls::new().ca_certificate(""), "of the certificate authority"),
        (Tls::new().ca_certificate("no certificate"), "of the certificate authority"),
        (Tls::new().ca_certificate(&*own.key), "of the certificate authority"),
        (Tls::new().client_certificate(&*own.key, &*own.key), "of the client"),
    ] {
        for url in ["rediss://127.0.0.1:1/", "rediss+cluster://127.0.0.1:1", "rediss+sentinel://127.0.0.1:1/m"] {
            let error = Client::builder().url(url).tls(tls.clone()).connect_lazy().unwrap_err();
            assert!(matches!(error, ConnectError::Certificate { .. }) && error.to_string().contains(says), "{error}");
        }
    }
}

/// A certificate that is about to end is renewed in its file, and at the server.
#[tokio::test]
async fn certificates_in_files_are_read_again_at_each_connection() {
    let encrypted = Encrypted::start("127.0.0.1");
    let file = |name: &str| encrypted.certificates.files.path().join(name);
    let write = |identity: &Identity| {
        std::fs::write(file("own.pem"), &identity.certificate).unwrap();
        std::fs::write(file("own.key"), &identity.key).unwrap();
    };
    write(&encrypted.certificates.authority.issues("client"));
    let tls = Tls::new().ca_certificate_file(file("ca.pem")).client_certificate_files(file("own.pem"), file("own.key"));
    let client = Client::builder().url(&encrypted.url()).tls(tls).connect().await.unwrap();
    let lock = client.lock("x").unwrap();
    let cut = || {
        let mut raw = encrypted.server.raw();
        let _: u32 = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").query(&mut raw).unwrap();
    };
    // The file is damaged while it is being written: the waiter waits on, and is back when the file is whole.
    let guard = soon(lock.acquire().into_future()).await.unwrap();
    let waiting = soon(lock.enqueue().into_future()).await.unwrap();
    write(&Authority::default().issues("client"));
    cut();
    testkit::eventually_async("the server refuses the certificate", testkit::SOON, async || {
        lock.trouble().await.unwrap().is_some_and(|trouble| trouble.contains("no encrypted connection"))
    })
    .await;
    write(&encrypted.certificates.authority.issues("client"));
    soon(guard.renew()).await.unwrap();
    // The error says which file is damaged, as it does before the first connection.
    let authority = std::fs::read(file("ca.pem")).unwrap();
    std::fs::write(file("ca.pem"), "no certificate").unwrap();
    cut();
    testkit::eventually_async("the file is told", testkit::SOON, async || {
        lock.trouble().await.unwrap().is_some_and(|trouble| trouble.contains("contains no certificate in PEM form"))
    })
    .await;
    std::fs::write(file("ca.pem"), authority).unwrap();
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}
