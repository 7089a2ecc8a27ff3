//! Checks of a request's head: one length, and one host that the server accepts.
//!
//! If the end of a request is ambiguous, a proxy and this server may parse different requests (request smuggling); such
//! a request is always refused. A web page can reach a server on its reader's machine under a host name that resolves to
//! it (DNS rebinding); such a request is refused if the server has no keys.

use crate::connection_limit::ConnectionLimit;
use crate::error::ApiError;
use crate::tls_session::TlsSession;
use crate::traffic::Traffic;
use hyper::header::{HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode, Version};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::watch;

/// Connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) contention_signal: ContentionSignal,
    pub(crate) session: Arc<TlsSession>,
}

/// Signal that other connections wait for the permit of this one.
#[derive(Clone, Debug)]
pub(crate) struct ContentionSignal {
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) address: IpAddr,
    pub(crate) contention: watch::Receiver<()>,
}

impl ContentionSignal {
    /// Returns when another connection waits for the permit.
    pub(crate) async fn wait(&mut self) {
        while self.contention.changed().await.is_ok() {
            if self.limit.is_contended(self.address) {
                return;
            }
        }
        std::future::pending().await
    }
}

/// Checks the headers about length and host of a request. Returns the host, if there is one.
pub(crate) fn check<B>(
    request: &Request<B>,
    context: &ConnectionContext,
) -> Result<Option<String>, ApiError> {
    let headers = request.headers();
    if context.traffic.is_ambiguous() {
        return Err(invalid("the request has two lengths, in Content-Length or Transfer-Encoding"));
    }
    check_codings(headers)?;
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => return Err(invalid("there are several Host headers")),
        (None, _) if request.version() > Version::HTTP_10 => {
            return Err(invalid("the Host header is missing"));
        }
        (None, _) => None,
        (Some(value), None) => Some(authority(value.as_bytes())?),
    };
    // A host in the request line overrides the header (RFC 9112, 3.2.2).
    Ok(request.uri().host().map(str::to_owned).or(host))
}

fn authority(value: &[u8]) -> Result<String, ApiError> {
    let wrong = || invalid("the Host header is not valid");
    let authority = Authority::try_from(value).map_err(|_| wrong())?;
    if authority.host().is_empty() || authority.as_str().contains('@') {
        return Err(wrong());
    }
    Ok(authority.host().to_owned())
}

/// Refuses transfer codings other than `chunked`.
fn check_codings(headers: &HeaderMap) -> Result<(), ApiError> {
    let values = headers.get_all(TRANSFER_ENCODING).iter().map(|v| v.to_str().unwrap_or("?"));
    let codings: Vec<&str> = values.flat_map(|v| v.split(',')).map(str::trim).collect();
    match codings[..] {
        [] => Ok(()),
        [one] if one.eq_ignore_ascii_case("chunked") => Ok(()),
        _ => {
            let message = "the only supported transfer coding is `chunked`";
            Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message))
        }
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_header", message)
}

/// Hosts that a server without keys accepts.
#[derive(Debug)]
pub(crate) struct Hosts {
    any: bool,
    /// Names, and suffixes that begin with a dot, in lower case.
    names: Vec<String>,
}

impl Hosts {
    /// Creates the list; `listens_on` is the host in the server's own address.
    pub(crate) fn new(allowed: &[String], listens_on: &str) -> Hosts {
        let name = |n: &String| normal(n.strip_prefix('*').filter(|n| n.starts_with('.')).unwrap_or(n));
        let names = allowed.iter().map(name).chain([normal(listens_on), ".localhost".to_owned()]).collect();
        Hosts { any: allowed.iter().any(|n| n == "*"), names }
    }

    /// Refuses a host that an attacker's page may have chosen. IP addresses are safe, and so is a name without a dot,
    /// which only resolves in the local network.
    pub(crate) fn check(&self, host: Option<&str>) -> Result<(), ApiError> {
        let Some(host) = host.map(normal) else { return Ok(()) };
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let named = |n: &String| *n == host || (n.starts_with('.') && host.ends_with(n.as_str()));
        let known = self.any
            || !host.contains('.') && !host.contains(':')
            || host.parse::<IpAddr>().is_ok()
            || address.parse::<Ipv6Addr>().is_ok()
            || self.names.iter().any(named);
        if known {
            return Ok(());
        }
        let message =
            "this Host is not allowed on a server without keys; start the server with it in --allowed-hosts";
        Err(ApiError::new(StatusCode::FORBIDDEN, "host_not_allowed", message))
    }
}

fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Detector of requests with two lengths: hyper uses one of them without an error.
///
/// It examines all lines, also those of bodies: no line of JSON begins like a header.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    /// Beginning of the current line, in lower case.
    line: Vec<u8>,
    /// Number of headers about the length since the last empty line.
    lengths: usize,
}

impl Framing {
    const NAMES: [&'static [u8]; 2] = [b"content-length:", b"transfer-encoding:"];
    const LONGEST: usize = 18;

    /// Examines bytes; returns true if a request in them is ambiguous.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> bool {
        let mut ambiguous = false;
        while !bytes.is_empty() {
            let end = bytes.iter().position(|b| *b == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = Self::LONGEST - self.line.len();
            self.line.extend(part.iter().take(room).map(u8::to_ascii_lowercase));
            let Some(end) = end else { break };
            bytes = &bytes[end + 1..];
            if matches!(&self.line[..], b"" | b"\r") {
                self.lengths = 0;
            } else if Self::NAMES.iter().any(|name| self.line.starts_with(name)) {
                self.lengths += 1;
                ambiguous |= self.lengths > 1;
            }
            self.line.clear();
        }
        ambiguous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lengths_are_found_however_they_come() {
        let cases = [
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", false),
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\nTRANSFER-ENCODING: chunked\r\n\r\n", true),
            ("POST / HTTP/1.1\nTransfer-Encoding: chunked\nX: y\ncontent-length: 2\n\n", true),
            ("POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", true),
            ("POST / HTTP/1.1\r\nX-Content-Length: 2\r\nContent-Length: 2\r\n\r\n", false),
            (
                "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n",
                false,
            ),
            ("GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n", true),
        ];
        for (text, wanted) in cases {
            for size in [1, 3, 7, text.len()] {
                let mut framing = Framing::default();
                let found =
                    text.as_bytes().chunks(size).fold(false, |found, part| framing.push(part) | found);
                assert_eq!(found, wanted, "{text:?} in parts of {size}");
            }
        }
    }

    #[test]
    fn hosts_are_those_of_this_server() {
        let hosts = Hosts::new(&["*.Example.org".to_owned(), "api.example.net.".to_owned()], "127.0.0.1");
        for (host, wanted) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("a.localhost", true),
            ("127.0.0.1", true),
            ("192.0.2.7", true),
            ("[::1]", true),
            ("leyden", true),
            ("a.example.org", true),
            ("api.example.net", true),
            ("evil.example", false),
            ("example.org", false),
            ("evilexample.org", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("0x7f.1.evil.example", false),
        ] {
            assert_eq!(hosts.check(Some(host)).is_ok(), wanted, "{host}");
        }
        assert!(Hosts::new(&["*".to_owned()], "::1").check(Some("evil.example")).is_ok());
        assert!(Hosts::new(&[], "box.example").check(Some("box.example")).is_ok());
        assert!(hosts.check(None).is_ok());
    }

    #[test]
    fn a_host_is_a_host() {
        for (value, wanted) in [
            ("localhost:8080", Some("localhost")),
            ("[::1]:80", Some("[::1]")),
            ("a@b", None),
            ("", None),
            ("a, b", None),
            ("a/b", None),
        ] {
            assert_eq!(authority(value.as_bytes()).ok().as_deref(), wanted, "{value}");
        }
    }
}
