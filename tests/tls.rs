//! Encrypted connections, to a server that shows a certificate and wants to see one.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::path::PathBuf;

use fairlock::{Client, ConnectError, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use support::{RedisServer, keys_left, soon};

/// A certificate and its key, as PEM.
struct Identity {
    certificate: String,
    key: String,
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issues(&self, host: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        // Of the same name as its issuer it would be taken for an authority itself.
        params.distinguished_name.push(rcgen::DnType::CommonName, host);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A server that calls itself `host`, and where to find it.
struct Encrypted {
    server: RedisServer,
    authority: Authority,
    files: tempfile::TempDir,
    port: u16,
}

impl Encrypted {
    fn start(host: &str) -> Encrypted {
        let authority = Authority::new();
        let files = tempfile::tempdir().unwrap();
        let write = |name: &str, pem: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, pem).unwrap();
            path.display().to_string()
        };
        let identity = authority.issues(host);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = RedisServer::builder()
            .alone()
            .config(&format!("tls-port {port}"))
            .config(&format!("tls-ca-cert-file {}", write("ca.pem", &authority.pem())))
            .config(&format!("tls-cert-file {}", write("server.pem", &identity.certificate)))
            .config(&format!("tls-key-file {}", write("server.key", &identity.key)))
            .config("tls-auth-clients yes")
            .start();
        Encrypted { server, authority, files, port }
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}/", self.port)
    }

    fn tls(&self) -> Tls {
        let own = self.authority.issues("client");
        Tls::new().ca_certificate(self.authority.pem()).client_certificate(own.certificate, own.key)
    }

    async fn refusal(&self, tls: Tls) -> ConnectError {
        soon(Client::builder().url(&self.url()).tls(tls).connect()).await.unwrap_err()
    }
}

#[tokio::test]
async fn certificates_on_both_sides_are_believed() {
    let encrypted = Encrypted::start("127.0.0.1");
    let client = soon(Client::builder().url(&encrypted.url()).tls(encrypted.tls()).connect()).await.unwrap();
    let lock = client.lock("x").unwrap();
    let first = soon(lock.acquire()).await.unwrap();
    let second = soon(lock.enqueue()).await.unwrap();
    soon(first.release()).await.unwrap();
    soon(soon(second).await.unwrap().release()).await.unwrap();
    drop((client, lock));
    keys_left(&encrypted.server);
}

#[tokio::test]
async fn who_cannot_show_the_right_certificate_is_refused() {
    let encrypted = Encrypted::start("127.0.0.1");
    let stranger = Authority::new();
    let own = encrypted.authority.issues("client");
    let (certificate, key) = (own.certificate, own.key);

    let wrong_authority = Tls::new().ca_certificate(stranger.pem()).client_certificate(&*certificate, &*key);
    let error = encrypted.refusal(wrong_authority).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
    // Nobody on this machine trusts an authority that was made a moment ago.
    let error = encrypted.refusal(Tls::new().client_certificate(&*certificate, &*key)).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");

    let without = encrypted.refusal(Tls::new().ca_certificate(encrypted.authority.pem())).await;
    assert!(matches!(without, ConnectError::Certificate { .. }), "{without:?}");
    let theirs = stranger.issues("client");
    let of_a_stranger =
        Tls::new().ca_certificate(encrypted.authority.pem()).client_certificate(theirs.certificate, theirs.key);
    let error = encrypted.refusal(of_a_stranger).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
    let garbled = encrypted.refusal(Tls::new().ca_certificate("no certificate")).await;
    assert!(matches!(garbled, ConnectError::Certificate { .. }), "{garbled:?}");
}

#[tokio::test]
async fn a_server_of_another_name_is_not_believed() {
    let encrypted = Encrypted::start("elsewhere.example");
    let error = encrypted.refusal(encrypted.tls()).await;
    assert!(matches!(error, ConnectError::Certificate { .. }), "{error:?}");
}

#[test]
fn certificates_without_encryption_are_an_error() {
    let error = Client::builder().url("redis://127.0.0.1:1/").tls(Tls::new()).connect_lazy().unwrap_err();
    assert!(error.to_string().contains("rediss"), "{error}");
}

#[cfg(feature = "cli")]
#[test]
fn the_command_line_takes_certificates_from_files() {
    let encrypted = Encrypted::start("127.0.0.1");
    let own = encrypted.authority.issues("client");
    let file = |name: &str, pem: &str| -> PathBuf {
        let path = encrypted.files.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let (cert, key) = (file("client.pem", &own.certificate), file("client.key", &own.key));
    let fairlock = |ca: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_fairlock"))
            .args(["--redis", &encrypted.url(), "--tls-ca", ca, "--tls-cert"])
            .args([&*cert.to_string_lossy(), "--tls-key", &*key.to_string_lossy(), "run", "x", "--", "echo", "held"])
            .output()
            .unwrap()
    };
    let output = fairlock(&encrypted.files.path().join("ca.pem").to_string_lossy());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "held\n", "{output:?}");
    let output = fairlock("/nowhere/ca.pem");
    assert!(output.status.code() == Some(125), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/ca.pem"), "{output:?}");
}
