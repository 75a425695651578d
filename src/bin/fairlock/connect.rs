//! Which server the arguments and the environment name.

use std::ffi::OsString;

use fairlock::{Client, ClientBuilder, Tls};

use crate::args::Server;
use crate::exit::Failure;
use crate::local;

/// A client of that server, not connected yet. With `--local` the private server runs when this returns.
pub(crate) fn client(server: &Server) -> Result<ClientBuilder, Failure> {
    let builder = Client::builder().url(&url(server)?).prefix(&server.prefix);
    if server.tls_ca.is_none() && server.tls_cert.is_none() {
        return Ok(builder);
    }
    let mut tls = Tls::new();
    if let Some(ca) = &server.tls_ca {
        tls = tls.ca_certificate_file(ca);
    }
    if let (Some(cert), Some(key)) = (&server.tls_cert, &server.tls_key) {
        tls = tls.client_certificate_files(cert, key);
    }
    Ok(builder.tls(tls))
}

fn url(server: &Server) -> Result<String, Failure> {
    if server.local {
        return local::share_or_start().map(|folder| folder.url());
    }
    if let Some(url) = &server.redis {
        return Ok(url.clone());
    }
    match std::env::var_os("REDIS_URL").map(OsString::into_string) {
        Some(Ok(url)) if !url.is_empty() => Ok(url),
        Some(Err(_)) => Err(Failure::own("REDIS_URL is not valid UTF-8")),
        _ => Ok("redis://127.0.0.1/".to_owned()),
    }
}
