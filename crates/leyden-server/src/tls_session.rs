//! [`TlsSession`]: what the handshake of a connection has shown, for its requests.

use std::sync::OnceLock;

/// Result of a connection's handshake.
#[derive(Debug, Default)]
pub(crate) struct TlsSession {
    result: OnceLock<Handshake>,
}

#[derive(Debug)]
enum Handshake {
    /// Encrypted connection with the identities of the client's certificate, none without one.
    Done(Vec<String>),
    /// HTTP without TLS on a port with TLS.
    Plain,
}

impl TlsSession {
    /// Records the identities of the client's verified certificate.
    pub(crate) fn set_identities(&self, identities: Vec<String>) {
        let _ = self.result.set(Handshake::Done(identities));
    }

    /// Records that the client speaks HTTP without TLS.
    pub(crate) fn set_plain(&self) {
        let _ = self.result.set(Handshake::Plain);
    }

    /// Returns the identities of the client's verified certificate; empty without one.
    pub(crate) fn identities(&self) -> &[String] {
        match self.result.get() {
            Some(Handshake::Done(identities)) => identities,
            Some(Handshake::Plain) | None => &[],
        }
    }

    /// Returns true if the client speaks HTTP without TLS on a port with TLS.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.result.get(), Some(Handshake::Plain))
    }
}
