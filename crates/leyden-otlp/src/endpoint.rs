//! [`Endpoint`]: the address of a collector.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;
use ureq::http::Uri;

/// Path of traces below the base address of a collector.
const PATH: &str = "/v1/traces";

/// Address to which spans are sent: the base address of a collector, such as `http://127.0.0.1:4318`, or one that ends
/// with `/v1/traces`.
///
/// ```
/// let endpoint: leyden_otlp::Endpoint = "http://127.0.0.1:4318".parse()?;
/// assert_eq!(endpoint.to_string(), "http://127.0.0.1:4318/v1/traces");
/// # Ok::<(), leyden_otlp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// Returns true if connections are encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Endpoint, Error> {
        let wrong = |what: &str| Error::new(text, format!("not the address of a collector: {what}"));
        let uri: Uri = text.parse().map_err(|_| wrong("not a URL"))?;
        let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
        let scheme = scheme.ok_or_else(|| wrong("it begins neither with http:// nor with https://"))?;
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.host().is_empty() || authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong("it has no host, a user name or a query; use headers for credentials"));
        }
        let path = uri.path().trim_end_matches('/');
        let path = path.strip_suffix(PATH).unwrap_or(path);
        Ok(Endpoint(format!("{scheme}://{authority}{path}{PATH}")))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed_or_refused() {
        for (text, wanted) in [
            ("http://127.0.0.1:4318", Some("http://127.0.0.1:4318/v1/traces")),
            ("http://localhost:4318/", Some("http://localhost:4318/v1/traces")),
            ("https://otlp.example.org/otlp", Some("https://otlp.example.org/otlp/v1/traces")),
            ("https://otlp.example.org/v1/traces", Some("https://otlp.example.org/v1/traces")),
            ("http://[::1]:4318", Some("http://[::1]:4318/v1/traces")),
            ("127.0.0.1:4318", None),
            ("grpc://127.0.0.1:4317", None),
            ("http://user:secret@example.org", None),
            ("http://example.org?x=y", None),
            ("http://", None),
            ("", None),
        ] {
            let endpoint = text.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
            assert_eq!(endpoint.as_deref().ok(), wanted, "{text}");
        }
    }
}
