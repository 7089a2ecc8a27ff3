//! What encrypted connections rest on: the processor's instructions and the system's certificate authorities.
//!
//! The cryptography is compiled by rustc alone, without a C compiler, and is written for processors with AES and
//! wide-multiplication instructions. It ends the program on others, so their absence is found out first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::error::{Error, ErrorKind, Result};

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

/// The settings of encrypted connections.
pub(crate) fn config(authorities: &Authorities) -> Result<TlsConfig> {
    // Where the file does not exist the system is not Linux, and every processor that it runs on qualifies.
    let missing = std::fs::read_to_string("/proc/cpuinfo").map(|text| missing(&text)).unwrap_or_default();
    if !missing.is_empty() {
        return Err(Error::new("", ErrorKind::Processor(missing)));
    }
    let roots = match authorities {
        Authorities::System => system()?,
        Authorities::File(path) => file(path)?,
    };
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls_graviola::default_provider()))
        .build())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_named() {
        let haswell = "processor\t: 0\nflags\t\t: fpu aes pclmulqdq bmi1 bmi2 avx avx2\nprocessor\t: 1\n";
        assert_eq!(missing(haswell), ["adx"]);
        let broadwell = "flags\t\t: fpu aes pclmulqdq bmi1 bmi2 adx avx avx2\n";
        assert!(missing(broadwell).is_empty());
        let cortex_a72 = "processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 cpuid\n";
        assert_eq!(missing(cortex_a72), ["aes", "pmull", "sha2"]);
        assert!(missing("Features\t: fp asimd aes pmull sha1 sha2 crc32\n").is_empty());
        assert!(missing("").is_empty());
    }
}
