//! Certificates for encrypted connections.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::spots::reach;

/// Which authorities to trust, and which certificate to show, on encrypted connections.
///
/// By default the server's certificate must be one that this machine trusts. Files, and the authorities of the machine,
/// are read again whenever the client connects: a certificate that is renewed in its file needs no new client.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = fairlock::Tls::new().ca_certificate_file("/etc/redis/ca.pem");
/// let client = fairlock::Client::builder().url("rediss://redis.internal/").tls(tls).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Tls {
    ca: Option<Pem>,
    client: Option<(Pem, Pem)>,
}

#[derive(Clone)]
enum Pem {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Whose certificates are in a file.
const AUTHORITY: &str = "the certificate authority";
const CLIENT: &str = "the client";

impl Pem {
    fn read(&self) -> Result<Cow<'_, [u8]>, String> {
        match self {
            Pem::Bytes(bytes) => Ok(bytes.into()),
            Pem::File(path) => {
                let unread = |error| format!("the file {} cannot be read: {error}", path.display());
                std::fs::read(path).map(Cow::from).map_err(unread)
            }
        }
    }

    /// At least one. `of`: whose they are.
    fn certificates(&self, of: &str) -> Result<Vec<CertificateDer<'static>>, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.read()?).collect();
        match found {
            Ok(none) if none.is_empty() => Err(format!("the file of {of} contains no certificate in PEM form")),
            found => found.map_err(|error| format!("the file of {of}: {error}")),
        }
    }
}

impl Tls {
    /// The authorities that the machine trusts, and no client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trust only this certificate authority (PEM).
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = Some(Pem::Bytes(pem.into()));
        self
    }

    /// The same from a file, which is read at each connection.
    pub fn ca_certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca = Some(Pem::File(path.into()));
        self
    }

    /// Show this certificate, with its key, to servers that ask for one (both PEM).
    pub fn client_certificate(mut self, pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.client = Some((Pem::Bytes(pem.into()), Pem::Bytes(key_pem.into())));
        self
    }

    /// The same from files, which are read at each connection.
    pub fn client_certificate_files(mut self, path: impl Into<PathBuf>, key_path: impl Into<PathBuf>) -> Self {
        self.client = Some((Pem::File(path.into()), Pem::File(key_path.into())));
        self
    }

    /// What is missing in the certificates. Without an authority every server would be refused, and its error would not
    /// tell why.
    pub(crate) fn missing(&self) -> Option<String> {
        let authority = self.ca.as_ref().and_then(|ca| ca.certificates(AUTHORITY).err());
        authority.or_else(|| {
            let (own, key) = self.client.as_ref()?;
            own.certificates(CLIENT).err().or_else(|| key.read().err())
        })
    }

    /// The client's side of an encrypted connection to this host. The cryptography is chosen for it alone.
    pub(crate) fn begin(&self, host: &str) -> Result<ClientConnection, String> {
        reach("TLS");
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(pem) => roots.add_parsable_certificates(pem.certificates(AUTHORITY)?),
            None => roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let key = PrivateKeyDer::from_pem_slice(&key.read()?);
                let key = key.map_err(|error| format!("the client's key: {error}"))?;
                config.with_client_auth_cert(chain.certificates(CLIENT)?, key).map_err(|error| error.to_string())?
            }
        };
        let unnamed = |error| format!("no certificate can name the host {host:?} ({error}): use another name for it");
        let name = ServerName::try_from(host.to_owned()).map_err(unnamed)?;
        ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())
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
