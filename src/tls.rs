//! Certificates for connections that are encrypted.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

/// Whom to believe, and what to show, where a URL says `rediss://`.
///
/// Without any of this, the certificate of the server must be one that this machine trusts.
#[derive(Clone, Default)]
#[must_use]
pub struct Tls {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// What the machine trusts, and no certificate of our own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trust this certificate authority (PEM), and none besides.
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

    /// The client's side of an encrypted connection to this host. The cryptography is chosen for it alone.
    pub(crate) fn begin(&self, host: &str) -> Result<ClientConnection, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(pem) => roots.add_parsable_certificates(read_certificates(pem)?),
            None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the client's key: {error}"))?;
                config.with_client_auth_cert(read_certificates(chain)?, key).map_err(|error| error.to_string())?
            }
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())
    }

    pub(crate) fn certificates(&self) -> redis::TlsCertificates {
        let client_tls =
            self.client.clone().map(|(cert, key)| redis::ClientTlsConfig { client_cert: cert, client_key: key });
        redis::TlsCertificates { client_tls, root_cert: self.ca.clone() }
    }
}

fn read_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

impl std::fmt::Debug for Tls {
    /// Without what is in them.
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
