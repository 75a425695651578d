//! Certificates for encrypted connections.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Which authorities to trust, and which certificate to show, on encrypted connections.
///
/// By default the server's certificate must be one that this machine trusts.
#[derive(Clone, Default)]
#[must_use]
pub struct Tls {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// The authorities that the machine trusts, and no client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trust only this certificate authority (PEM).
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(pem.into());
        self
    }

    /// Show this certificate, with its key, to servers that ask for one (both PEM).
    pub fn client_certificate(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.client = Some((pem.into(), key_pem.into()));
        self
    }

    /// What is missing in them. Without any authority no server would be believed, and nobody would know why.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        let none = |pem: &[u8]| CertificateDer::pem_slice_iter(pem).next().is_none();
        if self.ca.as_deref().is_some_and(none) {
            return Some("the file of the certificate authority contains no certificate in PEM form");
        }
        let own = self.client.as_ref().is_some_and(|(certificate, _)| none(certificate));
        own.then_some("the file of the client's certificate contains none in PEM form")
    }

    pub(crate) fn certificates(&self) -> redis::TlsCertificates {
        let client_tls =
            self.client.clone().map(|(cert, key)| redis::ClientTlsConfig { client_cert: cert, client_key: key });
        redis::TlsCertificates { client_tls, root_cert: self.ca.clone() }
    }
}

impl std::fmt::Debug for Tls {
    /// Without the contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("ca_certificate", &self.ca.is_some())
            .field("client_certificate", &self.client.is_some())
            .finish()
    }
}

/// The redis crate takes the cryptography that the process has chosen, and panics where it has chosen none.
pub(crate) fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may have been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
