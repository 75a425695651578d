//! Encrypted connections of the command line.

use testkit::certificates::Encrypted;

use crate::shared::fairlock;

/// A server that asks for certificates, and the options of a client that has one; without that of the authority.
fn encrypted() -> (Encrypted, [String; 6]) {
    let encrypted = Encrypted::start("127.0.0.1");
    let own = encrypted.certificates.authority.issues("client");
    let file = |name: &str, pem: &str| -> String {
        let path = encrypted.certificates.files.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.to_string_lossy().into_owned()
    };
    let (cert, key) = (file("client.pem", &own.certificate), file("client.key", &own.key));
    let url = encrypted.url();
    (encrypted, ["--redis".into(), url, "--tls-cert".into(), cert, "--tls-key".into(), key])
}

#[test]
fn the_command_line_takes_certificates_from_files() {
    let (encrypted, options) = encrypted();
    let with =
        |ca: &str| fairlock().args(&options).args(["--tls-ca", ca, "run", "x", "--", "echo", "held"]).output().unwrap();
    let output = with(&encrypted.certificates.files.path().join("ca.pem").to_string_lossy());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "held\n", "{output:?}");
    let output = with(&options[5]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(125) && said.contains("no certificate in PEM form"), "{output:?}");
    assert_eq!(said.lines().count(), 1, "it is not tried again: {said}");
    let output = with("/nowhere/ca.pem");
    assert!(output.status.code() == Some(125), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(": the file /nowhere/ca.pem cannot be read: No such file"), "{said}");
    assert!(!said.contains("both sides"), "the server has no part in it: {said}");
}

#[test]
fn the_lines_that_doctor_proposes_are_for_an_encrypted_server() {
    let (encrypted, options) = encrypted();
    let ca = encrypted.certificates.files.path().join("ca.pem");
    let mut doctor = fairlock();
    doctor.args(&options).arg("--tls-ca").arg(ca).arg("doctor");
    let report = String::from_utf8(doctor.output().unwrap().stdout).unwrap();
    assert!(report.contains("fix: redis-cli --tls -h 127.0.0.1 -p "), "{report}");
    assert!(report.contains("--cacert"), "{report}");
}
