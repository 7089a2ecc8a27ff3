//! Pages of other origins (CORS, as in the Fetch standard): which of them may read answers in a browser.
//!
//! By default pages of this machine may: those of a development server, and programs that consist of pages, such as
//! those made with Tauri and the views of VS Code. Origins on the web are allowed one by one. A browser sends a
//! preflight request first, without a key, so it is answered without one.

use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};

/// Seconds for which a browser may cache the answer to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Response headers that scripts may read in addition to those that are always readable.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, x-leyden-ignored, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, \
     x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens",
);

/// Prefixes of origins that are programs on this machine.
const PROGRAMS: [&str; 2] = ["tauri://", "vscode-webview://"];

/// Returns true if an origin, in lower case, is on this machine.
fn is_local(origin: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    let name = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
        _ => host.to_owned(),
    };
    let local = |host: &str| ["localhost", "127.0.0.1", "[::1]"].contains(&name(host).as_str());
    PROGRAMS.iter().any(|scheme| origin.starts_with(scheme)) || host.is_some_and(local)
}

/// Origins whose pages may read answers.
#[derive(Debug)]
pub(crate) struct Origins(Vec<String>);

impl Origins {
    pub(crate) fn new(allowed: &[String]) -> Origins {
        Origins(allowed.iter().map(|o| o.trim_end_matches('/').to_ascii_lowercase()).collect())
    }

    /// Returns the header value that allows the origin of a request to read the answer; `None` if the origin is not
    /// allowed.
    pub(crate) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.0.iter().any(|o| o == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        (is_local(&text) || self.0.contains(&text)).then(|| origin.clone())
    }
}

/// Returns true if a request is a browser's preflight request.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Adds the headers of the answer to a preflight request.
pub(crate) fn answer_preflight(asked: &HeaderMap, methods: &str, answer: &mut HeaderMap) {
    if let Ok(methods) = HeaderValue::from_str(methods) {
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    // All request headers are allowed: none of them gives a page more than the others.
    if let Some(headers) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
    }
    answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
}

/// Adds the headers that let a page read an answer.
pub(crate) fn open(answer: &mut HeaderMap, origin: HeaderValue) {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    answer.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_are_known() {
        for origin in [
            "http://localhost",
            "http://localhost:5173",
            "https://127.0.0.1:8443",
            "http://[::1]:3000",
            "tauri://localhost",
            "vscode-webview://1f2e",
        ] {
            assert!(is_local(origin), "{origin}");
        }
        for origin in [
            "http://localhost.evil.example",
            "http://evil.example:80",
            "null",
            "http://127.0.0.1.nip.io",
            "http://localhost:80.evil.example",
            "ftp://localhost",
            "https://evil.example/tauri://",
        ] {
            assert!(!is_local(origin), "{origin}");
        }
    }
}
