//! TLS settings: the cryptography and the certificate authorities.

use std::path::Path;
use std::sync::Arc;

use leyden_tls::Authorities;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{Error, ErrorKind, Result};

/// Returns the TLS settings.
pub(crate) fn config(authorities: &Authorities) -> Result<TlsConfig> {
    let provider = leyden_tls::provider().map_err(|missing| Error::new("", ErrorKind::Processor(missing)))?;
    let roots = match authorities {
        Authorities::System => system()?,
        Authorities::File(path) => file(path)?,
    };
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

fn system() -> Result<Vec<Certificate<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(Error::new("", ErrorKind::NoRootCertificates(why)));
    }
    Ok(found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}

fn file(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let bytes = std::fs::read(path).map_err(Error::io("read the certificates", path))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&bytes) {
        let bad = |error: ureq::Error| {
            Error::new(path.display().to_string(), ErrorKind::NoRootCertificates(format!(": {error}")))
        };
        if let PemItem::Certificate(certificate) = item.map_err(bad)? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        let why = ": the file holds none".to_owned();
        return Err(Error::new(path.display().to_string(), ErrorKind::NoRootCertificates(why)));
    }
    Ok(certificates)
}
