//! [`Proxies`]: addresses of the proxies to the hub.

use std::fmt;

/// Proxies to the hub, as addresses such as `http://user:password@proxy.example:3128`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// Proxy of `https` addresses.
    pub https: Option<String>,
    /// Proxy of `http` addresses.
    pub http: Option<String>,
    /// Hosts and domains that are reached directly, separated by commas; `*` means all.
    pub direct: String,
}

impl fmt::Debug for Proxies {
    /// Shows which proxies are set, but not their addresses, which may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxies(https: {}, http: {})", self.https.is_some(), self.http.is_some())
    }
}
