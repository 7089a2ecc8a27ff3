//! Certificates, private keys and lists of revoked certificates from PEM files.

use std::fs;
use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::Error;

/// Maximum bytes of a file: thousands of certificates, or tens of thousands of revoked ones.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a file of limited size.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let cannot = |error: std::io::Error| Error::new(file, format!("cannot read: {error}"));
    let metadata = fs::metadata(file).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Error::new(file, "not a regular file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        let what = format!("the file has {} bytes; the maximum is {MAX_FILE_BYTES}", metadata.len());
        return Err(Error::new(file, what));
    }
    fs::read(file).map_err(cannot)
}

/// Returns the certificates, in the order of the file; at least one.
///
/// # Errors
/// The text is no PEM, or has no certificate.
pub(crate) fn certificates(file: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let mut certificates = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(bytes) {
        let number = certificates.len() + 1;
        let broken = |error| Error::new(file, format!("certificate {number}: {}", reason(&error)));
        certificates.push(certificate.map_err(broken)?);
    }
    match certificates.is_empty() {
        true => Err(missing(file, bytes, "certificate", "CERTIFICATE")),
        false => Ok(certificates),
    }
}

/// Returns the lists of revoked certificates; at least one.
pub(crate) fn revocation_lists(
    file: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, Error> {
    let mut lists = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(bytes) {
        let broken = |error| Error::new(file, format!("list {}: {}", lists.len() + 1, reason(&error)));
        lists.push(list.map_err(broken)?);
    }
    match lists.is_empty() {
        true => Err(missing(file, bytes, "list of revoked certificates", "X509 CRL")),
        false => Ok(lists),
    }
}

/// Returns the first private key.
///
/// # Errors
/// The text is no PEM, has no key, or an encrypted one.
pub(crate) fn private_key(file: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    if has("BEGIN ENCRYPTED PRIVATE KEY") || has("Proc-Type: 4,ENCRYPTED") {
        let what = "the private key is encrypted, and there is no prompt for its passphrase; \
                    `openssl pkey -in KEY -out PLAIN` writes it without one";
        return Err(Error::new(file, what));
    }
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => missing(file, bytes, "private key", "PRIVATE KEY"),
        error => Error::new(file, format!("private key: {}", reason(&error))),
    })
}

/// Returns the error of a file without the wanted item.
fn missing(file: &Path, bytes: &[u8], item: &str, label: &str) -> Error {
    let sections: Vec<String> = String::from_utf8_lossy(bytes)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----").map(str::to_owned))
        .filter(|label| label.len() <= 40 && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b' '))
        .take(4)
        .collect();
    // DER begins with the byte of a sequence.
    let found = match bytes.first() {
        None => "the file is empty".to_owned(),
        Some(0x30) => "the file seems to be DER, which `openssl` converts to PEM".to_owned(),
        Some(_) if sections.is_empty() => "the file is not PEM".to_owned(),
        Some(_) => format!("the file has {}", sections.join(", ")),
    };
    Error::new(file, format!("no {item} (-----BEGIN {label}-----): {found}"))
}

fn reason(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "its -----END …----- line is missing".to_owned(),
        pem::Error::Base64Decode(_) => "its text is not base64".to_owned(),
        other => format!("{other}"),
    }
}
