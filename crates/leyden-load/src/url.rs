//! [`Base`]: the base address of a server's interface.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::error::{Error, Result};

/// The base address of a server: `http://127.0.0.1:8080`, with or without a path and with or without `/v1` at its end.
/// `http://` may be left out.
///
/// ```
/// let base: leyden_load::Base = "http://[::1]:8080/v1/".parse()?;
/// assert_eq!(base.to_string(), "http://[::1]:8080");
/// # Ok::<(), leyden_load::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    https: bool,
    /// Host in lower case; an IPv6 address without its brackets.
    host: String,
    port: u16,
    /// Path without a slash at its end; empty or beginning with `/`.
    path: String,
}

impl Base {
    /// Returns true if connections are encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Returns the host, an IPv6 address without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of a request to `path`, which begins with `/`.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.path)
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.https { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for Base {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::setting(text, format!("not the address of a server: {why}"));
        let lower = text.to_ascii_lowercase();
        let https = lower.starts_with("https://");
        let begins = https || lower.starts_with("http://");
        if !begins && text.contains("://") {
            return Err(wrong("it begins neither with http:// nor with https://"));
        }
        // A blank or line break would end up in the head of every request.
        if !text.bytes().all(|b| b.is_ascii_graphic()) || text.len() > 2048 {
            return Err(wrong("it has a character that an address cannot have, or is too long"));
        }
        let rest = if begins { &text[if https { 8 } else { 7 }..] } else { text };
        if rest.contains(['?', '#', '@']) {
            return Err(wrong("it has a query, a fragment or a user name"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']').ok_or_else(|| wrong("`[` without `]`"))?;
                let _: std::net::Ipv6Addr =
                    host.parse().map_err(|_| wrong("not an IPv6 address in brackets"))?;
                (host, after)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let named = |host: &str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        if host.is_empty() || !(authority.starts_with('[') || named(host)) {
            return Err(wrong("its host is neither a name nor an address"));
        }
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("its port is not a number"))?,
            None if port.is_empty() => 80 + 363 * u16::from(https),
            _ => return Err(wrong("its port is not a number")),
        };
        let path = path.trim_end_matches('/');
        let path = path.strip_suffix("/v1").unwrap_or(path).trim_end_matches('/').to_owned();
        Ok(Self { https, host: host.to_ascii_lowercase(), port, path })
    }
}

impl Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, wanted, path) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "/v1/models"),
            ("HTTP://Host/v1", "http://host", "/v1/models"),
            ("https://host:443/", "https://host", "/v1/models"),
            ("https://host:80/api/v1/", "https://host:80/api", "/api/v1/models"),
            ("http://[::1]:1/x", "http://[::1]:1/x", "/x/v1/models"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", "/v1/models"),
            ("localhost:80/x/v1", "http://localhost/x", "/x/v1/models"),
            ("[::1]:9", "http://[::1]:9", "/v1/models"),
        ] {
            let base: Base = text.parse().unwrap();
            assert_eq!((base.to_string().as_str(), base.path("/v1/models").as_str()), (wanted, path));
        }
    }

    #[test]
    fn others_are_refused() {
        for (text, why) in [
            ("ftp://127.0.0.1:8080", "neither with"),
            (":8080", "host"),
            ("http://", "host"),
            ("http://a b", "character"),
            ("http://a\r\nX: y", "character"),
            ("http://user@host", "user name"),
            ("http://host?x", "query"),
            ("http://host:0", "port"),
            ("http://host:", "port"),
            ("http://host:99999", "port"),
            ("http://[::1", "without"),
            ("http://[::1]x", "port"),
            ("http://[host]", "IPv6"),
            ("http://ho$t", "host"),
        ] {
            let error = text.parse::<Base>().unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(why), "{text}: {error}");
        }
    }
}
