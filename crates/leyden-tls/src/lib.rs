//! Basis of encrypted connections: the cryptography, its processor requirements, the certificate authorities of clients,
//! and the certificate, key and client authorities of a server.
//!
//! The cryptography is compiled by rustc alone, without a C compiler, and is written for processors with AES and
//! wide-multiplication instructions. It ends the program on others, so missing instructions are detected first.
#![forbid(unsafe_code)]

mod certificate;
mod client;
mod error;
mod pem;
mod server;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use certificate::{Validity, identities};
pub use client::ClientFiles;
pub use error::Error;
pub use server::{ClientCertificates, Reload, ServerFiles, ServerTls};

/// Trusted certificate authorities.
#[derive(Debug, Clone, Default)]
pub enum Authorities {
    /// Authorities of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    #[default]
    System,
    /// Authorities in a PEM file.
    File(PathBuf),
}

/// Required processor features as Linux spells them, by the line of `/proc/cpuinfo` that lists them.
const NEEDED: &[(&str, &[&str])] = &[
    ("flags", &["aes", "pclmulqdq", "bmi1", "bmi2", "adx", "avx", "avx2"]),
    ("Features", &["asimd", "aes", "pmull", "sha2"]),
];

/// Returns the cryptography provider.
///
/// # Errors
/// If this processor lacks features; returns their names.
pub fn provider() -> Result<Arc<CryptoProvider>, Vec<&'static str>> {
    // If the file does not exist, the system is not Linux, and all its processors have the features.
    let missing = std::fs::read_to_string("/proc/cpuinfo").map(|text| missing(&text)).unwrap_or_default();
    if missing.is_empty() { Ok(Arc::new(rustls_graviola::default_provider())) } else { Err(missing) }
}

/// Returns the features that the first processor in `cpuinfo` lacks.
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
