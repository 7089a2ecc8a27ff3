//! Encrypted connections: their cryptography and the certificate authorities.

use std::sync::Arc;

use leyden_tls::{Authorities, ClientFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Error, ErrorKind, Result};
use crate::url::Base;

/// TLS configuration and name of a server.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    pub(crate) fn connection(&self) -> std::result::Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// Makes the configuration for a server; `client` is the certificate of this side, if it has one.
pub(crate) fn config(base: &Base, authorities: &Authorities, client: Option<&ClientFiles>) -> Result<Tls> {
    let failed = |why: String| Error::new(base.to_string(), ErrorKind::Tls(why));
    let provider = leyden_tls::provider().map_err(|missing| {
        failed(format!("this processor lacks what encrypted connections need: {}", missing.join(", ")))
    })?;
    let mut roots = RootCertStore::empty();
    match authorities {
        Authorities::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Authorities::File(path) => {
            let bad = |why: String| Error::setting(path.display().to_string(), why);
            let certificates = CertificateDer::pem_file_iter(path)
                .map_err(|error| bad(format!("cannot read the certificates: {error}")))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| bad(format!("not a PEM file: {error}")))?;
                roots.add(certificate).map_err(|error| bad(format!("not a certificate: {error}")))?;
            }
        }
    }
    if roots.is_empty() {
        return Err(failed(
            "no certificate authority is known, so the server's certificate cannot be verified".to_owned(),
        ));
    }
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots);
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let (chain, key) = client.read().map_err(|error| {
                Error::setting(error.file().display().to_string(), error.what().to_owned())
            })?;
            let wrong = |error| Error::setting(client.key.display().to_string(), format!("{error}"));
            config.with_client_auth_cert(chain, key).map_err(wrong)?
        }
    };
    let name = ServerName::try_from(base.host().to_owned()).map_err(|error| failed(error.to_string()))?;
    Ok(Tls { config: Arc::new(config), name })
}
