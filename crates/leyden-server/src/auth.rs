//! API keys: the scopes and the rate limits of callers.
//!
//! A file has the digests of the keys, never the keys. A key in a request is hashed and its digest compared with all
//! known digests in constant time. On a server with TLS a client can have a certificate instead of a key, or beside it.

use crate::error::ApiError;
use crate::failure::{Error, ErrorKind};
use crate::fields::Fields;
use crate::json;
use crate::schema;
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};
use leyden_engine::schedule::KeyId;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::hint::black_box;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Scope of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Generating, embedding, tokenizing, and the list of models.
    Inference,
    /// Reading the counters.
    Metrics,
    /// Changing the answers to other keys and the models of the server, and reading the server's file paths.
    Admin,
}

/// Scopes by their names in the file of keys.
const SCOPES: &[(&str, Scope)] =
    &[("inference", Scope::Inference), ("metrics", Scope::Metrics), ("admin", Scope::Admin)];

impl Scope {
    /// Returns the name of the scope.
    fn name(self) -> &'static str {
        SCOPES.iter().find(|(_, scope)| *scope == self).map_or("", |(name, _)| name)
    }
}

/// Authorization that an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No key.
    Open,
    /// Any key.
    AnyKey,
    /// Key with this scope.
    Needs(Scope),
}

impl Access {
    /// Returns its name in documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Access::Open => "open",
            Access::AnyKey => "any key",
            Access::Needs(scope) => scope.name(),
        }
    }
}

/// Token bucket of a rate limit: it refills evenly, up to one minute's amount.
#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_minute: u32, now: Instant) -> Bucket {
        Bucket { per_minute: f64::from(per_minute), left: f64::from(per_minute), at: now }
    }

    fn refill(&mut self, now: Instant) {
        let minutes = now.saturating_duration_since(self.at).as_secs_f64() / 60.0;
        self.left = (self.left + minutes * self.per_minute).min(self.per_minute);
        self.at = now;
    }

    /// Returns the time until `wanted` units are left.
    fn wait(&self, wanted: f64) -> Duration {
        Duration::from_secs_f64(((wanted - self.left).max(0.0) / self.per_minute * 60.0).min(3600.0))
    }

    fn left(&self) -> u64 {
        // The conversion rounds down and turns negative numbers into 0.
        self.left as u64
    }
}

/// Rate limits of a key: requests and tokens per minute.
#[derive(Debug)]
struct Budget {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// API key with its rights and limits.
#[derive(Debug)]
struct Key {
    id: String,
    /// SHA-256 digest of the key; `None` for a client that has a certificate alone.
    digest: Option<[u8; 32]>,
    /// Identities in the client's certificate, such as `dns:client.example.org`.
    certificates: Vec<String>,
    scopes: Vec<Scope>,
    priority: i32,
    budget: Mutex<Budget>,
}

impl Key {
    /// Returns true if a caller could be both of them.
    fn collides(&self, other: &Key) -> bool {
        let same_key = self.digest.is_some() && self.digest == other.digest;
        self.id == other.id || same_key || self.certificates.iter().any(|c| other.certificates.contains(c))
    }
}

/// Keys of a server.
#[derive(Debug, Default)]
pub struct ApiKeys {
    keys: Vec<Key>,
}

/// Maximum bytes of a key in a request.
const MAX_KEY_BYTES: usize = 1024;
/// Maximum bytes of a file of keys.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Caller of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Index of the key; `None` without keys.
    pub(crate) key: Option<usize>,
    /// Name of the key, for logs and as the owner of cached prompts.
    pub(crate) id: String,
    pub(crate) priority: i32,
    /// True if the key has the scope `admin`.
    pub(crate) admin: bool,
}

impl Caller {
    /// Returns the caller of a server without keys, where all callers have the same rights.
    pub(crate) fn anybody() -> Caller {
        Caller { key: None, id: String::new(), priority: 0, admin: true }
    }

    /// Returns the group for fair scheduling: one per key.
    pub(crate) fn fairness(&self) -> KeyId {
        KeyId(self.key.map_or(0, |k| u32::try_from(k).unwrap_or(u32::MAX)))
    }
}

impl ApiKeys {
    /// Reads a file with a JSON object per line: `id`, `sha256` (the key's digest in hexadecimal) or `certificates`
    /// (identities in the client's certificate: `dns:…`, `uri:…`, `email:…`, `cn:…`) or both, and optionally `scopes` (of `inference`, `metrics` and `admin`; the first by default), `requests_per_minute`,
    /// `tokens_per_minute` and `priority`. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The file cannot be read, has no key, or a line is wrong.
    pub fn read(file: &Path) -> Result<ApiKeys, Error> {
        let fail = |line, what: String| Error::from(ErrorKind::Keys { file: file.to_owned(), line, what });
        let size = std::fs::metadata(file).map_err(|e| fail(0, format!("cannot read: {e}")))?.len();
        if size > MAX_FILE_BYTES {
            return Err(fail(0, format!("the file has {size} bytes; the maximum is {MAX_FILE_BYTES}")));
        }
        let text = std::fs::read_to_string(file).map_err(|e| fail(0, format!("cannot read: {e}")))?;
        ApiKeys::parse(&text).map_err(|(line, what)| fail(line, what))
    }

    /// Adds keys in plain text, named `key-1`, `key-2`, and so on, without limits and with the scopes `inference` and
    /// `metrics`.
    ///
    /// # Errors
    /// A key is empty, too long or already present, or has characters other than visible ASCII.
    pub fn with(mut self, keys: &[String]) -> Result<ApiKeys, String> {
        for (i, key) in keys.iter().enumerate() {
            let name = format!("key-{}", i + 1);
            if key.is_empty() {
                return Err(format!("{name} is empty"));
            }
            if key.len() > MAX_KEY_BYTES {
                return Err(format!("{name} has {} bytes; the maximum is {MAX_KEY_BYTES}", key.len()));
            }
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!("{name} has characters that are not allowed in a header"));
            }
            let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
            if self.keys.iter().any(|known| known.id == name || known.digest == Some(digest)) {
                return Err(format!("{name}, or its name, occurs twice"));
            }
            let budget = Mutex::new(Budget { requests: None, tokens: None });
            let scopes = vec![Scope::Inference, Scope::Metrics];
            let digest = Some(digest);
            self.keys.push(Key { id: name, digest, certificates: Vec::new(), scopes, priority: 0, budget });
        }
        Ok(self)
    }

    /// Parses the text of a file of keys.
    ///
    /// # Errors
    /// The number of the first wrong line, 0 if there is no key at all, and the reason.
    pub(crate) fn parse(text: &str) -> Result<ApiKeys, (usize, String)> {
        let now = Instant::now();
        let mut keys: Vec<Key> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = key(line, now).map_err(|e| (i + 1, e.message))?;
            if keys.iter().any(|k| k.collides(&key)) {
                return Err((
                    i + 1,
                    format!("`{}`, its key, or an identity of its certificate occurs twice", key.id),
                ));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err((0, "the file has no key".to_owned()));
        }
        Ok(ApiKeys { keys })
    }

    /// Adds the keys of another file.
    ///
    /// # Errors
    /// A name, a key or an identity is in both.
    pub fn and(mut self, others: ApiKeys) -> Result<ApiKeys, String> {
        for other in others.keys {
            if self.keys.iter().any(|key| key.collides(&other)) {
                return Err(format!(
                    "`{}`, its key, or an identity of its certificate is already in the file of keys",
                    other.id
                ));
            }
            self.keys.push(other);
        }
        Ok(self)
    }

    /// Returns true if clients can be known by their certificates.
    #[must_use]
    pub fn has_certificates(&self) -> bool {
        self.keys.iter().any(|key| !key.certificates.is_empty())
    }

    /// Returns the index of the key of a certificate with these identities: that of the first one that has a key.
    pub(crate) fn find_certificate(&self, identities: &[String]) -> Option<usize> {
        let of = |identity: &String| self.keys.iter().position(|key| key.certificates.contains(identity));
        identities.iter().find_map(of)
    }

    /// Returns the index of a key.
    ///
    /// # Errors
    /// 401 if it is not valid.
    pub(crate) fn find(&self, key: &[u8]) -> Result<usize, ApiError> {
        let digest: [u8; 32] = Sha256::digest(key).into();
        let mut found = None;
        for (i, k) in self.keys.iter().enumerate() {
            // All bytes of all digests are compared, so that the time does not depend on them.
            let known = k.digest.unwrap_or_default();
            let differs = known.iter().zip(&digest).fold(0, |d, (a, b)| black_box(d | (a ^ b)));
            found = if differs == 0 && k.digest.is_some() { Some(i) } else { found };
        }
        found.ok_or_else(|| unauthorized("the API key is not valid"))
    }

    /// Returns the caller with this key.
    ///
    /// # Errors
    /// 401 if the key is not valid, 403 if it lacks the scope.
    pub(crate) fn check(&self, key: &[u8], access: Access) -> Result<Caller, ApiError> {
        self.caller(self.find(key)?, access)
    }

    /// Returns the caller with the key of an index.
    ///
    /// # Errors
    /// 403 if the key lacks the scope.
    pub(crate) fn caller(&self, i: usize, access: Access) -> Result<Caller, ApiError> {
        let key = &self.keys[i];
        if let Access::Needs(scope) = access
            && !key.scopes.contains(&scope)
        {
            let what = match key.digest {
                Some(_) => format!("this API key lacks the scope `{}`", access.name()),
                None => format!("the client of this certificate lacks the scope `{}`", access.name()),
            };
            return Err(ApiError::new(StatusCode::FORBIDDEN, "missing_scope", what));
        }
        let admin = key.scopes.contains(&Scope::Admin);
        Ok(Caller { key: Some(i), id: key.id.clone(), priority: key.priority, admin })
    }

    /// Returns the caller with the key of this name; `None` if there is none or it may not do this.
    pub(crate) fn named(&self, id: &str, access: Access) -> Option<Caller> {
        let i = self.keys.iter().position(|key| key.id == id)?;
        self.caller(i, access).ok()
    }

    /// Takes a request from the rate limits of the caller's key.
    ///
    /// # Errors
    /// 429: requests or tokens are used up.
    pub(crate) fn begin(&self, caller: &Caller, now: Instant) -> Result<(), ApiError> {
        let Some(key) = caller.key.and_then(|i| self.keys.get(i)) else { return Ok(()) };
        let mut budget = key.budget.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tokens) = &mut budget.tokens {
            tokens.refill(now);
            if tokens.left < 1.0 {
                return Err(no_tokens(tokens));
            }
        }
        if let Some(requests) = &mut budget.requests {
            requests.refill(now);
            if requests.left < 1.0 {
                let message = "rate limit exceeded: requests per minute of this API key";
                return Err(ApiError::too_many("rate_limit_exceeded", message, requests.wait(1.0)));
            }
            requests.left -= 1.0;
        }
        Ok(())
    }

    /// Reserves the maximum number of tokens of a request. It may exceed the tokens that are left: the bucket then
    /// becomes negative, and the key has to wait until it is positive again. So the requests in progress exceed the
    /// limit by at most one of them.
    ///
    /// # Errors
    /// 429: no tokens are left.
    pub(crate) fn reserve(&self, caller: &Caller, tokens: usize, now: Instant) -> Result<(), ApiError> {
        let Some(key) = caller.key.and_then(|i| self.keys.get(i)) else { return Ok(()) };
        let mut budget = key.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bucket) = &mut budget.tokens else { return Ok(()) };
        bucket.refill(now);
        if bucket.left < 1.0 {
            return Err(no_tokens(bucket));
        }
        bucket.left -= tokens as f64;
        Ok(())
    }

    /// Returns the tokens that were reserved and not used.
    pub(crate) fn settle(&self, caller: &Caller, reserved: usize, taken: usize) {
        let Some(key) = caller.key.and_then(|i| self.keys.get(i)) else { return };
        let mut budget = key.budget.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = &mut budget.tokens {
            bucket.left = (bucket.left + reserved as f64 - taken as f64).min(bucket.per_minute);
        }
    }

    /// Returns the names and values of the `x-ratelimit-…` headers.
    pub(crate) fn headers(&self, caller: &Caller, now: Instant) -> Vec<(&'static str, String)> {
        let Some(key) = caller.key.and_then(|i| self.keys.get(i)) else { return Vec::new() };
        let mut budget = key.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let Budget { requests, tokens } = &mut *budget;
        let mut headers = Vec::new();
        let rows = [
            (
                requests,
                "x-ratelimit-limit-requests",
                "x-ratelimit-remaining-requests",
                "x-ratelimit-reset-requests",
            ),
            (tokens, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
        ];
        for (bucket, limit, left, reset) in rows {
            let Some(bucket) = bucket else { continue };
            bucket.refill(now);
            headers.push((limit, bucket.per_minute.to_string()));
            headers.push((left, bucket.left().to_string()));
            headers.push((reset, format!("{:.3}s", bucket.wait(bucket.per_minute).as_secs_f64())));
        }
        headers
    }
}

/// Returns the error of a request without a valid key.
fn unauthorized(what: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", what)
}

/// Returns the key in an Authorization header of the form `Bearer KEY`.
///
/// # Errors
/// 401: there is no such header, or more than one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&[u8], ApiError> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = shown.next() else {
        return Err(unauthorized("there is no API key; send `Authorization: Bearer KEY`"));
    };
    if shown.next().is_some() {
        return Err(unauthorized("there is more than one Authorization header"));
    }
    match value.as_bytes().split_at_checked(7) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(b"bearer ") && key.len() <= MAX_KEY_BYTES => {
            Ok(key)
        }
        _ => Err(unauthorized("the Authorization header is not `Bearer KEY`")),
    }
}

/// Returns the key in an `x-api-key` header, or else in an Authorization header.
///
/// # Errors
/// As [`bearer`].
pub(crate) fn x_api_key(headers: &HeaderMap) -> Result<&[u8], ApiError> {
    let mut shown = headers.get_all("x-api-key").iter();
    match (shown.next(), shown.next()) {
        (None, _) => bearer(headers).map_err(|error| match headers.contains_key(AUTHORIZATION) {
            true => error,
            false => {
                unauthorized("there is no API key; send `x-api-key: KEY` or `Authorization: Bearer KEY`")
            }
        }),
        (Some(key), None) if key.len() <= MAX_KEY_BYTES => Ok(key.as_bytes()),
        (Some(_), None) => Err(unauthorized("the API key is not valid")),
        (Some(_), Some(_)) => Err(unauthorized("there is more than one x-api-key header")),
    }
}

fn no_tokens(bucket: &Bucket) -> ApiError {
    let message = "rate limit exceeded: tokens per minute of this API key, including those reserved by its running requests";
    ApiError::too_many("rate_limit_exceeded", message, bucket.wait(1.0))
}

fn key(line: &str, now: Instant) -> Result<Key, ApiError> {
    let mut line = json::parse(line.as_bytes(), 3, 64)?;
    schema::check(&line_schema(), &mut line, true)?;
    let mut fields = Fields::from(line);
    let id = fields.text("id").unwrap_or_default();
    let of_hex = |hex: String| {
        let wrong = || ApiError::field("sha256", "`sha256` is not 64 hexadecimal digits".to_owned());
        digest(&hex).ok_or_else(wrong)
    };
    let digest = fields.text("sha256").map(of_hex).transpose()?;
    let certificates = fields.list("certificates").unwrap_or_default();
    let certificates = certificates
        .iter()
        .map(|value| identity(value.as_str().unwrap_or_default()))
        .collect::<Result<Vec<_>, _>>()?;
    if digest.is_none() && certificates.is_empty() {
        let what = "`sha256` is missing: the digest of the key, or else `certificates`".to_owned();
        return Err(ApiError::field("sha256", what));
    }
    let scope = |name: Value| {
        SCOPES.iter().find(|(known, _)| name == *known).map_or(Scope::Inference, |(_, scope)| *scope)
    };
    let scopes =
        fields.list("scopes").unwrap_or_else(|| vec!["inference".into()]).into_iter().map(scope).collect();
    let rate = |n: Option<i64>| n.map(|n| Bucket::new(u32::try_from(n).unwrap_or(u32::MAX), now));
    let requests = rate(fields.integer("requests_per_minute"));
    let tokens = rate(fields.integer("tokens_per_minute"));
    let priority = fields.integer("priority").unwrap_or(0);
    let priority = i32::try_from(priority).unwrap_or(0);
    Ok(Key { id, digest, certificates, scopes, priority, budget: Mutex::new(Budget { requests, tokens }) })
}

/// Returns the schema of a line in the file of keys.
fn line_schema() -> Value {
    let rate = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    let scopes: Vec<&str> = SCOPES.iter().map(|(name, _)| *name).collect();
    json!({
        "type": "object", "additionalProperties": false, "required": ["id"],
        "properties": {
            "id": { "type": "string", "minLength": 1, "maxLength": 128 },
            "sha256": { "type": "string", "maxLength": 64 },
            "certificates": {
                "type": "array", "minItems": 1, "maxItems": 64, "items": { "type": "string", "maxLength": 512 }
            },
            "scopes": { "type": "array", "minItems": 1, "maxItems": 8, "items": { "enum": scopes } },
            "requests_per_minute": rate, "tokens_per_minute": rate,
            "priority": { "type": "integer", "minimum": -100, "maximum": 100 }
        }
    })
}

/// Returns an identity in the form of those of certificates.
fn identity(text: &str) -> Result<String, ApiError> {
    match text.split_once(':') {
        Some(("dns", host)) if !host.is_empty() => Ok(format!("dns:{}", host.to_ascii_lowercase())),
        Some(("uri" | "email" | "cn", name)) if !name.is_empty() => Ok(text.to_owned()),
        _ => {
            let what = "`certificates` must have texts such as `dns:client.example.org`, `uri:spiffe://example.org/batch`, \
                        `email:ada@example.org` or `cn:Ada`";
            Err(ApiError::field("certificates", what.to_owned()))
        }
    }
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let pairs = hex.as_bytes().chunks_exact(2);
    if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // printf %s secret-a | sha256sum
    const A: &str = "c65bf10b6ac5ae83bcec1bf7fba2fcbab6a4bd5bc3ab10387af8a1b9e5ab0ba2";

    fn hex(key: &str) -> String {
        Sha256::digest(key.as_bytes()).iter().map(|b| format!("{b:02x}")).collect()
    }

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    fn keys() -> ApiKeys {
        let text = format!(
            "# comment\n\n{{\"id\":\"a\",\"sha256\":\"{}\",\"requests_per_minute\":2,\"tokens_per_minute\":100}}\n\
             {{\"id\":\"b\",\"sha256\":\"{}\",\"scopes\":[\"metrics\"],\"priority\":-1}}\n",
            hex("key a"),
            hex("key b")
        );
        ApiKeys::parse(&text).unwrap()
    }

    #[test]
    fn keys_are_told_apart() {
        let keys = keys();
        let inference = Access::Needs(Scope::Inference);
        let a = keys.check(b"key a", inference).unwrap();
        assert_eq!((a.id.as_str(), a.key, a.fairness()), ("a", Some(0), KeyId(0)));
        let check = |headers: &HeaderMap, access| {
            bearer(headers).and_then(|key| keys.check(key, access)).map_err(|e| e.status.as_u16())
        };
        let status = |value: &str, access| check(&headers(value), access);
        assert_eq!(status("bearer key b", Access::AnyKey).unwrap().priority, -1);
        assert_eq!(status("Bearer key b", inference), Err(403));
        assert_eq!(status("Bearer key b", Access::Needs(Scope::Metrics)).unwrap().id, "b");
        for wrong in ["Bearer key A", "Bearer ", "key a", "Basic key a", "Bearer  key a", "Bearer key a "] {
            assert_eq!(status(wrong, inference), Err(401), "{wrong}");
        }
        assert_eq!(check(&HeaderMap::new(), Access::AnyKey), Err(401));
        let mut two = headers("Bearer key a");
        two.append(AUTHORIZATION, "Bearer key b".parse().unwrap());
        assert_eq!(check(&two, inference), Err(401));
        // Anthropic's header has precedence over the other.
        assert_eq!(x_api_key(&headers("Bearer key b")).unwrap(), b"key b");
        let mut both = headers("Bearer key b");
        both.append("x-api-key", "key a".parse().unwrap());
        assert_eq!(x_api_key(&both).unwrap(), b"key a");
        both.append("x-api-key", "key b".parse().unwrap());
        assert_eq!(x_api_key(&both).unwrap_err().status.as_u16(), 401);
        assert!(x_api_key(&HeaderMap::new()).unwrap_err().message.contains("x-api-key"));
    }

    #[test]
    fn keys_are_given_one_by_one() {
        let given = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            ApiKeys::default().with(&keys)
        };
        let keys = given(&["one", "two"]).unwrap();
        for (key, id) in [("one", "key-1"), ("two", "key-2")] {
            for access in [Access::AnyKey, Access::Needs(Scope::Inference), Access::Needs(Scope::Metrics)] {
                assert_eq!(keys.check(key.as_bytes(), access).unwrap().id, id);
            }
        }
        assert_eq!(keys.check(b"three", Access::AnyKey).unwrap_err().status.as_u16(), 401);
        assert_eq!(keys.check(b"", Access::AnyKey).unwrap_err().status.as_u16(), 401);
        let long = "x".repeat(MAX_KEY_BYTES + 1);
        for (keys, wanted) in [
            (&[""][..], "key-1 is empty"),
            (&["a", ""], "key-2 is empty"),
            (&["a", "a"], "key-2, or its name, occurs twice"),
            (&["a b"], "key-1 has characters"),
            (&["schlüssel"], "key-1 has characters"),
            (&[&long], "key-1 has 1025 bytes"),
        ] {
            assert!(given(keys).unwrap_err().starts_with(wanted), "{keys:?}");
        }
        // Such keys are added to those of a file, which may already have one of them.
        let file = || ApiKeys::parse(&format!("{{\"id\":\"a\",\"sha256\":\"{}\"}}", hex("one"))).unwrap();
        assert_eq!(file().with(&["two".to_owned()]).unwrap().check(b"one", Access::AnyKey).unwrap().id, "a");
        assert!(file().with(&["one".to_owned()]).is_err());
    }

    #[test]
    fn budgets_run_out_and_fill_again() {
        let keys = keys();
        let a = keys.check(b"key a", Access::AnyKey).unwrap();
        let now = Instant::now();
        assert!(keys.begin(&a, now).is_ok() && keys.begin(&a, now).is_ok());
        let error = keys.begin(&a, now).unwrap_err();
        assert_eq!((error.status.as_u16(), error.retry_seconds()), (429, Some(30)));
        let later = now + Duration::from_secs(31);
        keys.reserve(&a, 250, now).unwrap();
        assert_eq!(keys.begin(&a, later).unwrap_err().status.as_u16(), 429, "tokens");
        let names: Vec<_> = keys.headers(&a, later).into_iter().collect();
        assert_eq!((names[1].1.as_str(), names[4].1.as_str()), ("1", "0"));
        assert!(keys.begin(&a, now + Duration::from_secs(95)).is_ok());
    }

    #[test]
    fn what_is_set_aside_is_settled() {
        let keys = keys();
        let a = keys.check(b"key a", Access::AnyKey).unwrap();
        let now = Instant::now();
        let left = || keys.headers(&a, now)[4].1.clone();
        keys.reserve(&a, 60, now).unwrap();
        keys.reserve(&a, 60, now).unwrap();
        // Concurrent requests exceed the limit by at most one request.
        assert_eq!(keys.reserve(&a, 1, now).unwrap_err().retry_seconds(), Some(13));
        keys.settle(&a, 60, 10);
        assert_eq!(left(), "30");
        keys.settle(&a, 60, 0);
        assert_eq!(left(), "90");
        keys.settle(&a, 60, 0);
        assert_eq!(left(), "100", "never more than a minute's worth");
        assert!(keys.reserve(&Caller::anybody(), usize::MAX, now).is_ok());
    }

    #[test]
    fn files_are_checked() {
        let good = format!("{{\"id\":\"a\",\"sha256\":\"{A}\"}}");
        assert!(ApiKeys::parse(&good).is_ok());
        let cases = [
            (String::new(), 0, "no key"),
            (format!("{good}\n{good}"), 2, "twice"),
            ("{".to_owned(), 1, "it is incomplete"),
            ("{\"id\":\"a\"}".to_owned(), 1, "`sha256` is missing"),
            (format!("{{\"id\":\"a\",\"sha256\":\"{}\"}}", "é".repeat(32)), 1, "hexadecimal"),
            (good.replace('}', ",\"scopes\":[\"all\"]}"), 1, "scope"),
            (good.replace('}', ",\"key\":\"x\"}"), 1, "`key` is not supported"),
            (good.replace('}', ",\"requests_per_minute\":0}"), 1, "not between"),
        ];
        for (text, line, wanted) in cases {
            let (at, what) = ApiKeys::parse(&text).unwrap_err();
            assert!(at == line && what.contains(wanted), "{text}: {at} {what}");
        }
    }
}
