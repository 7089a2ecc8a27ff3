//! [`Server`]: address and credentials of the server under test.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::error::{Error, ErrorKind, Result};
use crate::http::{Authorities, ClientFiles, Tls, config};
use crate::url::Base;

/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 4096;

/// An API key; not shown by `Debug`.
#[derive(Clone)]
pub struct ApiKey {
    value: String,
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

impl ApiKey {
    /// Makes a key from text; white space around it is removed. `at` names its source in errors.
    ///
    /// # Errors
    /// It is empty, too long, or has a character that a header may not have.
    pub fn new(text: &str, at: &str) -> Result<Self> {
        let value = text.trim();
        if value.is_empty() || value.len() > MAX_KEY_BYTES || !value.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Error::setting(
                at,
                "the key is empty, too long, or holds a blank or a character that is not ASCII",
            ));
        }
        Ok(Self { value: value.to_owned() })
    }
}

/// A server under test.
#[derive(Debug)]
pub struct Server {
    base: Base,
    addresses: Vec<SocketAddr>,
    tls: Option<Tls>,
    key: Option<ApiKey>,
}

impl Server {
    /// Resolves the addresses of a server; opens no connection.
    ///
    /// # Errors
    /// Its name cannot be resolved, or encrypted connections are not possible.
    pub fn new(base: Base, key: Option<ApiKey>, authorities: &Authorities) -> Result<Self> {
        Self::with_certificate(base, key, authorities, None)
    }

    /// As [`new`](Self::new), with a certificate of this side.
    ///
    /// # Errors
    /// As [`new`](Self::new), or a file of the certificate is wrong.
    pub fn with_certificate(
        base: Base,
        key: Option<ApiKey>,
        authorities: &Authorities,
        client: Option<&ClientFiles>,
    ) -> Result<Self> {
        let failed = |why: String| Error::new(base.to_string(), ErrorKind::Server(why));
        let found = (base.host(), base.port()).to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            found.map_err(|error| failed(format!("cannot resolve the host's name: {error}")))?.collect();
        let tls = if base.is_https() { Some(config(&base, authorities, client)?) } else { None };
        Ok(Self { base, addresses, tls, key })
    }

    /// Returns the base address.
    #[must_use]
    pub fn base(&self) -> &Base {
        &self.base
    }

    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the bytes of an HTTP request; with a body it is a POST.
    pub(crate) fn request(&self, path: &str, body: Option<&[u8]>) -> Vec<u8> {
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: leyden-load/{}\r\nAccept: text/event-stream, application/json\r\n",
            self.base.path(path),
            self.base.authority(),
            env!("CARGO_PKG_VERSION"),
        );
        if let Some(key) = &self.key {
            head += &format!("Authorization: Bearer {}\r\n", key.value);
        }
        if let Some(body) = body {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_checked_and_not_shown() {
        assert!(ApiKey::new(" sk-1\n", "file").is_ok());
        for text in ["", "a b", "a\r\nX: y", "schl\u{fc}ssel"] {
            assert!(ApiKey::new(text, "KEY").unwrap_err().to_string().starts_with("KEY: the key"));
        }
        assert_eq!(format!("{:?}", ApiKey::new("secret", "").unwrap()), "ApiKey(…)");
    }
}
