//! Options for the certificate with which a command shows a server who it is.

use std::path::PathBuf;

use leyden_load::ClientFiles;

/// Options for a client certificate.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClientCertificate {
    /// PEM file with a client certificate for the server, such as one started with --tls-client-ca
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// PEM file with its private key
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

impl ClientCertificate {
    /// Returns the files, if they are given.
    pub(super) fn files(&self) -> Option<ClientFiles> {
        let (certificate, key) = (self.client_cert.clone()?, self.client_key.clone()?);
        Some(ClientFiles { certificate, key })
    }
}
