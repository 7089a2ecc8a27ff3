//! [`ClientFiles`]: the certificate with which a client shows who it is.

use std::path::PathBuf;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;
use crate::pem;

/// PEM files of a client's certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// Certificate, and after it the intermediate ones.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

impl ClientFiles {
    /// Reads both files.
    ///
    /// # Errors
    /// A file cannot be read, or has no certificate or no key that is not encrypted.
    pub fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let chain = pem::certificates(&self.certificate, &pem::read(&self.certificate)?)?;
        Ok((chain, pem::private_key(&self.key, &pem::read(&self.key)?)?))
    }
}
