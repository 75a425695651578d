//! Encrypted connections of the command line.

use std::path::PathBuf;

use testkit::certificates::Encrypted;

use crate::shared::fairlock;

#[test]
fn the_command_line_takes_certificates_from_files() {
    let encrypted = Encrypted::start("127.0.0.1");
    let own = encrypted.certificates.authority.issues("client");
    let file = |name: &str, pem: &str| -> PathBuf {
        let path = encrypted.certificates.files.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path
    };
    let (cert, key) = (file("client.pem", &own.certificate), file("client.key", &own.key));
    let with = |ca: &str| {
        fairlock()
            .args(["--redis", &encrypted.url(), "--tls-ca", ca, "--tls-cert"])
            .args([&*cert.to_string_lossy(), "--tls-key", &*key.to_string_lossy(), "run", "x", "--", "echo", "held"])
            .output()
            .unwrap()
    };
    let output = with(&encrypted.certificates.files.path().join("ca.pem").to_string_lossy());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "held\n", "{output:?}");
    let output = with(&key.to_string_lossy());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(125) && said.contains("no certificate in PEM form"), "{output:?}");
    assert_eq!(said.lines().count(), 1, "it is not tried again: {said}");
    let output = with("/nowhere/ca.pem");
    assert!(output.status.code() == Some(125), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(": the file /nowhere/ca.pem cannot be read: No such file"), "{said}");
    assert!(!said.contains("both sides"), "the server has no part in it: {said}");
}
