//! Pages of other origins (CORS, as the Fetch standard has it): which of them may read answers in a browser.
//!
//! By default those of this machine: what a developer tries out, and programs that are pages, such as those made with Tauri
//! and the views of VS Code. Pages of the web are named one by one. A browser asks first (preflight), without a key, and that question has to be answered to anybody.

use hyper::Method;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};

/// How many seconds a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// What scripts may read beside what they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, x-leyden-ignored, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, \
     x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens",
);

/// Beginnings of origins that are programs on this machine.
const PROGRAMS: [&str; 2] = ["tauri://", "vscode-webview://"];

/// Whether an origin is of this machine, in lower case.
fn is_local(origin: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
    let name = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
        _ => host.to_owned(),
    };
    let local = |host: &str| ["localhost", "127.0.0.1", "[::1]"].contains(&name(host).as_str());
    PROGRAMS.iter().any(|scheme| origin.starts_with(scheme)) || host.is_some_and(local)
}

/// The origins whose pages may ask.
#[derive(Debug)]
pub(crate) struct Origins(Vec<String>);

impl Origins {
    pub(crate) fn new(allowed: &[String]) -> Origins {
        Origins(allowed.iter().map(|o| o.trim_end_matches('/').to_ascii_lowercase()).collect())
    }

    /// What is said of the origin of a request: that it may read the answer. Nothing where it may not.
    pub(crate) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        if self.0.iter().any(|o| o == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        (is_local(&text) || self.0.contains(&text)).then(|| origin.clone())
    }
}

/// Whether a request is a browser's question.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a browser is told when it asks.
pub(crate) fn answer_preflight(asked: &HeaderMap, methods: &str, answer: &mut HeaderMap) {
    if let Ok(methods) = HeaderValue::from_str(methods) {
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    // No header of a request does anything that a page could not do with the others.
    if let Some(headers) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers.clone());
    }
    answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
}

/// Lets a page read an answer.
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
