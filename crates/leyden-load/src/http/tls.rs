//! Encrypted connections: the processor's instructions, and which certificate authorities are believed.
//!
//! The cryptography is compiled by rustc alone and written for processors with AES and wide multiplications. It ends
//! the program on others, so their absence is found out first.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::{Error, ErrorKind, Result};
use crate::url::Base;

/// Which certificate authorities are believed.
#[derive(Debug, Clone, Default)]
pub enum Authorities {
    /// The system's, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    #[default]
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// Names of features as Linux writes them, by the line of `/proc/cpuinfo` that lists them.
const NEEDED: &[(&str, &[&str])] = &[
    ("flags", &["aes", "pclmulqdq", "bmi1", "bmi2", "adx", "avx", "avx2"]),
    ("Features", &["asimd", "aes", "pmull", "sha2"]),
];

/// What an encrypted connection to one server needs.
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

/// The settings for a server.
pub(crate) fn config(base: &Base, authorities: &Authorities) -> Result<Tls> {
    let failed = |why: String| Error::new(base.to_string(), ErrorKind::Tls(why));
    // Where the file does not exist the system is not Linux, and every processor that it runs on qualifies.
    let missing = std::fs::read_to_string("/proc/cpuinfo").map(|text| missing(&text)).unwrap_or_default();
    if !missing.is_empty() {
        return Err(failed(format!(
            "this processor lacks what encrypted connections need: {}",
            missing.join(", ")
        )));
    }
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
        return Err(failed("no certificate authority is known, so the server cannot be believed".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls_graviola::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(base.host().to_owned()).map_err(|error| failed(error.to_string()))?;
    Ok(Tls { config: Arc::new(config), name })
}

/// What the first processor described lacks.
fn missing(cpuinfo: &str) -> Vec<&'static str> {
    let described = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        let (_, needed) = NEEDED.iter().find(|(name, _)| *name == key.trim())?;
        Some((*needed, value))
    });
    let Some((needed, value)) = described else { return Vec::new() };
    needed.iter().copied().filter(|name| !value.split_whitespace().any(|found| found == *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_named() {
        assert_eq!(missing("flags\t\t: fpu aes pclmulqdq bmi1 bmi2 avx avx2\n"), ["adx"]);
        assert_eq!(missing("Features\t: fp asimd evtstrm crc32 cpuid\n"), ["aes", "pmull", "sha2"]);
        assert!(missing("").is_empty());
    }
}
