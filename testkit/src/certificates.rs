//! Certificates, and servers that show and demand them.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::{server, server::RedisServer};

/// A certificate and its key, as PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }
}

impl Authority {
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn issues(&self, host: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        // With the same name as its issuer it would count as an authority itself.
        params.distinguished_name.push(rcgen::DnType::CommonName, host);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// For servers that all call themselves `host`.
pub struct Certificates {
    pub authority: Authority,
    /// `ca.pem`, `server.pem` and `server.key`.
    pub files: tempfile::TempDir,
}

impl Certificates {
    pub fn of(host: &str) -> Self {
        let (authority, files) = (Authority::default(), tempfile::tempdir().unwrap());
        let own = authority.issues(host);
        for (name, pem) in [("ca.pem", &authority.pem()), ("server.pem", &own.certificate), ("server.key", &own.key)] {
            std::fs::write(files.path().join(name), pem).unwrap();
        }
        Self { authority, files }
    }

    pub fn given_to(&self, server: server::Builder) -> server::Builder {
        let [authority, certificate, key] =
            ["ca.pem", "server.pem", "server.key"].map(|name| self.files.path().join(name));
        server.encrypted(&authority, &certificate, &key)
    }
}

/// A server that calls itself `host`.
pub struct Encrypted {
    pub server: RedisServer,
    pub certificates: Certificates,
}

impl Encrypted {
    pub fn start(host: &str) -> Self {
        let certificates = Certificates::of(host);
        Self { server: certificates.given_to(RedisServer::builder().alone()).start(), certificates }
    }

    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}/", self.server.port())
    }
}
