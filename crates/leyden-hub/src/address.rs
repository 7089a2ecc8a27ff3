//! [`Address`]: an `http` or `https` URL, its origin, and the resolution of redirects.

use std::fmt::{self, Display};

use ureq::http::Uri;

/// Absolute URL without user information and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    https: bool,
    /// Host in lower case; an IPv6 address keeps its brackets.
    host: String,
    port: u16,
    /// Path and query; begins with `/`.
    path_and_query: String,
}

impl Address {
    /// Parses a URL.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "it is not a URL")?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("it is neither https nor http"),
        };
        let authority = uri.authority().ok_or("it has no host")?;
        if authority.as_str().contains('@') {
            return Err("it holds a user name, which does not belong there");
        }
        if authority.host().is_empty() {
            return Err("it has no host");
        }
        let port = match authority.port_u16() {
            Some(port) => port,
            // The parser ignores characters after the colon that are not a number.
            None if authority.as_str().len() > authority.host().len() => return Err("its port is no number"),
            None if https => 443,
            None => 80,
        };
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
        // `http://h?q` has a query but no path.
        let slash = if path_and_query.starts_with('/') { "" } else { "/" };
        Ok(Self {
            https,
            host: authority.host().to_ascii_lowercase(),
            port,
            path_and_query: format!("{slash}{path_and_query}"),
        })
    }

    /// Resolves a `Location` header received from this address.
    pub(crate) fn join(&self, location: &str) -> Result<Self, &'static str> {
        let scheme = if self.https { "https" } else { "http" };
        let scheme_end = location.find(':').filter(|&end| !location[..end].contains(['/', '?', '#']));
        if scheme_end.is_some() {
            return Self::parse(location);
        }
        if location.starts_with("//") {
            return Self::parse(&format!("{scheme}:{location}"));
        }
        let path = self.path_and_query.split('?').next().unwrap_or("/");
        let path = match location.chars().next() {
            None => return Err("it is empty"),
            Some('/') => location.to_owned(),
            Some('?') => format!("{path}{location}"),
            Some(_) => format!("{}{location}", &path[..=path.rfind('/').unwrap_or(0)]),
        };
        Self::parse(&format!("{scheme}://{}:{}{path}", self.host, self.port))
    }

    /// Returns this address with `path` appended.
    pub(crate) fn with(&self, path: &str) -> Self {
        let base = self.path_and_query.trim_end_matches('/');
        Self { path_and_query: format!("{base}{path}"), ..self.clone() }
    }

    /// Returns true if scheme, host and port are the same, so that a secret for one may be sent to the other.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        (self.https, &self.host, self.port) == (other.https, &other.host, other.port)
    }

    /// Returns true if the scheme is `https`.
    pub(crate) fn is_https(&self) -> bool {
        self.https
    }

    /// Returns the host without port.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true if the address has a query.
    pub(crate) fn has_query(&self) -> bool {
        self.path_and_query.contains('?')
    }

    /// Returns the host and, unless it is the default, the port: for messages, which must not show signatures in a
    /// query.
    pub(crate) fn authority(&self) -> String {
        match (self.https, self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path_and_query)
    }
}

/// Returns true if a list such as `localhost,.corp.example,10.0.0.1` contains the host: exactly, or as a domain above
/// it.
pub(crate) fn is_listed(host: &str, list: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let domain = entry.trim_start_matches("*.").trim_start_matches('.');
        let above = || host.strip_suffix(domain).is_some_and(|front| front.ends_with('.'));
        entry == "*" || (!domain.is_empty() && (host == domain || above()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_normalises() {
        for (text, wanted) in [
            ("https://Hub.example", "https://hub.example/"),
            ("http://h:80/a?b=c", "http://h/a?b=c"),
            ("https://h:8443/a", "https://h:8443/a"),
            ("http://[::1]:9/a", "http://[::1]:9/a"),
            ("http://h?q", "http://h/?q"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), wanted);
        }
        for bad in [
            "",
            "h",
            "/a",
            "ftp://h/",
            "file:///etc/passwd",
            "http://",
            "http://u:p@h/",
            "http://h:x/",
            "https://a b/",
            "http://h:70000/",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn join_follows_every_form() {
        let base = Address::parse("https://h:8443/a/b?c=d").unwrap();
        for (location, wanted) in [
            ("http://x/y", "http://x/y"),
            ("//x/y", "https://x/y"),
            ("/y?z", "https://h:8443/y?z"),
            ("y", "https://h:8443/a/y"),
            ("?z", "https://h:8443/a/b?z"),
            ("/y?u=http://x", "https://h:8443/y?u=http://x"),
        ] {
            assert_eq!(base.join(location).unwrap().to_string(), wanted, "{location}");
        }
        for bad in ["", "javascript:alert(1)", "http://u@x/", "/a b", "//"] {
            assert!(base.join(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn origins() {
        let hub = Address::parse("https://hub.example/x").unwrap();
        let same = |text: &str| hub.same_origin(&Address::parse(text).unwrap());
        assert!(same("https://HUB.example:443/y"));
        for other in [
            "http://hub.example/",
            "https://hub.example:8443/",
            "https://cdn.hub.example/",
            "https://hub.example.org/",
        ] {
            assert!(!same(other), "{other}");
        }
    }

    #[test]
    fn lists_of_hosts() {
        for (host, list, wanted) in [
            ("a.corp", "a.corp", true),
            ("x.a.corp", "a.corp", true),
            ("x.a.corp", ".a.corp, b", true),
            ("x.a.corp", "*.a.corp", true),
            ("xa.corp", "a.corp", false),
            ("127.0.0.1", "localhost,127.0.0.1", true),
            ("[::1]", "::1", true),
            ("h", "*", true),
            ("h", ",", false),
            ("h", "", false),
        ] {
            assert_eq!(is_listed(host, list), wanted, "{host} in {list}");
        }
    }
}
