//! [`Client`]: blocking requests to the hub and to the hosts that it redirects to.
//!
//! Redirects are followed here rather than in the HTTP library, for one rule: the token is sent to the endpoint only,
//! and once a request has left the endpoint, the token is not sent again, whatever the next host.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::HeaderMap;
use ureq::{Agent, BodyReader, Proxy, Timeout};

use crate::address::{Address, is_listed};
use crate::error::{Error, ErrorKind, Missing, Result};
use crate::names;
use crate::options::Options;
use crate::tls;

/// Beginning of the standard library's message for a host without an address.
const LOOKUP: &str = "failed to lookup address information";
/// Time limit of a name resolution; without a network it does not succeed.
const RESOLVE: Duration = Duration::from_secs(2);
/// Maximum number of redirects. The hub needs one or two: a renamed repository, the host of the files.
const MAX_REDIRECTS: usize = 6;
/// Maximum number of bytes of an error response that are read for the reason.
const REFUSAL_BYTES: usize = 8 << 10;
/// Time limit for reading the reason.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// Interval at which a wait checks whether it should end.
const TICK: Duration = Duration::from_millis(20);

/// Client of one hub.
#[derive(Debug)]
pub struct Client {
    options: Options,
    endpoint: Address,
    shared: Arc<Shared>,
}

/// Handle that stops a client from another thread, for instance from a handler of Ctrl-C.
#[derive(Debug, Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    agents: Mutex<Vec<(Route, Agent)>>,
}

/// Way to reach a host; each has connections of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    https: bool,
    proxy: Option<String>,
}

/// Response whose body is not read yet.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Statement of the endpoint about the file, before it redirected to the file's host.
    pub(crate) linked: Linked,
    pub(crate) body: Body,
}

/// Length and checksum of a file, from the endpoint's response headers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Linked {
    pub(crate) size: Option<u64>,
    pub(crate) sha256: Option<String>,
}

/// Body of a response.
pub(crate) struct Body {
    reader: BodyReader<'static>,
    host: String,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Stopper {
    /// Ends every request, running or future. Downloaded data stays and can be resumed.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let agents = self.shared.agents.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, agent) in agents.iter() {
            agent.clone().shutdown();
        }
    }
}

impl Client {
    /// Creates a client. Opens no connection yet.
    ///
    /// # Errors
    /// If the endpoint is not an address.
    pub fn new(options: Options) -> Result<Self> {
        let setting = |why: &str| {
            Error::new(
                crate::knobs::ENDPOINT.name,
                ErrorKind::Setting(format!("not the address of a hub: {why}")),
            )
        };
        let endpoint = Address::parse(&options.endpoint).map_err(setting)?;
        if endpoint.has_query() {
            return Err(setting("it has a query"));
        }
        Ok(Self { options, endpoint, shared: Arc::default() })
    }

    /// Returns a handle that stops this client.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared) }
    }

    /// Returns the client's options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Fails if the client has been stopped.
    pub(crate) fn check_stopped(&self) -> Result<()> {
        self.shared.check_stopped()
    }

    /// Waits, unless the client is stopped.
    pub(crate) fn wait(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check_stopped()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// Runs `request` until it succeeds, fails permanently, or has failed too often; calls `on_retry` before each wait.
    pub(crate) fn retrying<T>(
        &self,
        on_retry: &mut dyn FnMut(&Error, Duration),
        mut request: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut attempt = 1;
        loop {
            match request() {
                // A network that is missing at the start does not appear by waiting.
                Err(error) if attempt == 1 && error.is_unreachable() => return Err(error),
                Err(error) if error.is_passing() => {
                    let (wait, error) = self.pause(attempt, error)?;
                    on_retry(&error, wait);
                    self.wait(wait)?;
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    /// Returns the wait after the given number of failures in a row, and the error; `Err` if the error is final.
    pub(crate) fn pause(&self, failures: u32, error: Error) -> Result<(Duration, Error)> {
        match self.patience(failures, &error) {
            Some(wait) => Ok((wait, error)),
            None => Err(error),
        }
    }

    fn patience(&self, failures: u32, error: &Error) -> Option<Duration> {
        let retries = &self.options.retries;
        if failures >= retries.attempts || !error.is_passing() {
            return None;
        }
        let usual = retries.first_wait.saturating_mul(1 << (failures - 1).min(16)).min(retries.longest_wait);
        match error.kind() {
            ErrorKind::RateLimited { wait: Some(asked) } if *asked > retries.longest_wait => None,
            ErrorKind::RateLimited { wait: Some(asked) } => Some((*asked).max(usual)),
            _ => Some(usual),
        }
    }

    /// Requests `path` of the endpoint, which begins with `/`; from byte `from` on if that is not 0.
    ///
    /// The response has status 200, 206 or 416. Any other is an error.
    pub(crate) fn get(&self, path: &str, from: u64) -> Result<Answer> {
        let mut address = self.endpoint.with(path);
        let mut at_endpoint = true;
        let mut linked = Linked::default();
        for _ in 0..=MAX_REDIRECTS {
            self.check_stopped()?;
            let mut request = self.agent(&address)?.get(address.to_string());
            let token = self.options.token.as_ref().filter(|_| at_endpoint);
            if let Some(token) = token {
                request = request.header("Authorization", token.header());
            }
            if from > 0 {
                request = request.header("Range", format!("bytes={from}-"));
            }
            let host = address.authority();
            let response = request.call().map_err(|error| self.shared.failed(error, &host))?;
            let (head, body) = response.into_parts();
            let status = head.status.as_u16();
            if at_endpoint {
                linked.read(&head.headers);
            }
            let body = Body { reader: body.into_reader(), host, shared: Arc::clone(&self.shared) };
            match status {
                200 | 206 | 416 => return Ok(Answer { status, headers: head.headers, linked, body }),
                301 | 302 | 303 | 307 | 308 => {
                    let next = follow(&address, &head.headers)?;
                    at_endpoint &= next.same_origin(&self.endpoint);
                    address = next;
                }
                _ => return Err(refusal(status, &head.headers, body, token.is_some(), at_endpoint)),
            }
        }
        let why = "too many redirects";
        Err(Error::new("", ErrorKind::Redirect { to: address.authority(), why }))
    }

    /// Requests a document and reads all of it, at most `limit` bytes.
    pub(crate) fn document(&self, path: &str, limit: u64) -> Result<Vec<u8>> {
        let mut answer = self.get(path, 0)?;
        if answer.status != 200 {
            return Err(Error::new(
                "",
                ErrorKind::Protocol(format!("status {} for a document", answer.status)),
            ));
        }
        let end = Instant::now() + self.options.timeouts.answer;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = answer.body.read(&mut buffer)?;
            if n == 0 {
                return Ok(bytes);
            }
            if bytes.len() as u64 + n as u64 > limit {
                return Err(Error::new("", ErrorKind::TooLarge { limit }));
            }
            bytes.extend_from_slice(&buffer[..n]);
            if Instant::now() > end {
                let host = answer.body.host;
                return Err(Error::new("", ErrorKind::Timeout { host, what: "complete answer" }));
            }
        }
    }

    /// Returns the agent for an address, created when first needed: a mirror over `http` needs no certificates.
    fn agent(&self, address: &Address) -> Result<Agent> {
        let proxies = &self.options.proxies;
        let proxy = if address.is_https() { &proxies.https } else { &proxies.http };
        let proxy = proxy.clone().filter(|_| !is_listed(address.host(), &proxies.direct));
        let route = Route { https: address.is_https(), proxy };
        let mut agents = self.shared.agents.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that `Stopper::stop` also sees an agent created now.
        self.check_stopped()?;
        if let Some((_, agent)) = agents.iter().find(|(known, _)| *known == route) {
            return Ok(agent.clone());
        }
        let agent = self.make_agent(&route)?;
        agents.push((route, agent.clone()));
        Ok(agent)
    }

    fn make_agent(&self, route: &Route) -> Result<Agent> {
        let timeouts = &self.options.timeouts;
        let mut encrypted = route.https;
        let proxy = match &route.proxy {
            Some(text) => {
                let proxy = Proxy::new(text).ok().filter(|proxy| !proxy.host().is_empty());
                let scheme = proxy.as_ref().map(Proxy::protocol);
                encrypted |= scheme == Some(ureq::ProxyProtocol::Https);
                if !matches!(scheme, Some(ureq::ProxyProtocol::Http | ureq::ProxyProtocol::Https)) {
                    // Not its value, which may hold a password.
                    let why = "only proxies with http or https addresses are supported".to_owned();
                    let at = if route.https { "https_proxy" } else { "http_proxy" };
                    return Err(Error::new(at, ErrorKind::Setting(why)));
                }
                proxy
            }
            None => None,
        };
        let mut config = Agent::config_builder()
            .proxy(proxy)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .https_only(route.https)
            .user_agent(concat!("leyden/", env!("CARGO_PKG_VERSION")))
            // A compressed file would have neither the length nor the ranges that the hub lists.
            .accept_encoding("identity")
            .timeout_resolve(Some(timeouts.connect.min(RESOLVE)))
            .timeout_connect(Some(timeouts.connect))
            .timeout_send_request(Some(timeouts.response))
            .timeout_recv_response(Some(timeouts.response))
            .timeout_per_read(Some(timeouts.stall))
            .timeout_per_write(Some(timeouts.stall));
        if encrypted {
            config = config.tls_config(tls::config(&self.options.authorities)?);
        }
        Ok(config.build().new_agent())
    }
}

impl Shared {
    fn check_stopped(&self) -> Result<()> {
        if self.stopped.load(Ordering::SeqCst) {
            return Err(Error::new("", ErrorKind::Stopped));
        }
        Ok(())
    }

    /// Converts the error of a failed request.
    fn failed(&self, error: ureq::Error, host: &str) -> Error {
        if let Err(stopped) = self.check_stopped() {
            return stopped;
        }
        let host = host.to_owned();
        let kind = match error {
            ureq::Error::Timeout(Timeout::Resolve) => {
                ErrorKind::Unreachable { host, why: "no name server answered".to_owned() }
            }
            ureq::Error::Timeout(which) => {
                let what = match which {
                    Timeout::Connect => "connection",
                    Timeout::RecvBody | Timeout::PerRead => "data",
                    _ => "answer",
                };
                ErrorKind::Timeout { host, what }
            }
            ureq::Error::HostNotFound => {
                ErrorKind::Unreachable { host, why: "its name is not known here".to_owned() }
            }
            // The standard library has no error kind for a failed name resolution.
            ureq::Error::Io(error) if error.to_string().starts_with(LOOKUP) => {
                ErrorKind::Unreachable { host, why: "its name is not known here".to_owned() }
            }
            ureq::Error::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
                ) =>
            {
                ErrorKind::Unreachable { host, why: error.to_string() }
            }
            // Errors of the TLS library arrive as invalid data of the connection.
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                ErrorKind::Tls { host, why: error.to_string() }
            }
            ureq::Error::Rustls(error) => ErrorKind::Tls { host, why: error.to_string() },
            ureq::Error::Io(error) => ErrorKind::Connection { host, why: error.to_string() },
            ureq::Error::Protocol(error) => ErrorKind::Connection { host, why: error.to_string() },
            other => ErrorKind::Connection { host, why: other.to_string() },
        };
        Error::new("", kind)
    }
}

impl Body {
    /// Reads some bytes; none at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let n = self
            .reader
            .read(buffer)
            .map_err(|error| self.shared.failed(ureq::Error::from(error), &self.host))?;
        if n == 0 {
            // A connection that was closed to stop it can look like one that has ended.
            self.shared.check_stopped()?;
        }
        Ok(n)
    }

    /// Returns the host of the response.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl Linked {
    fn read(&mut self, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(size) = text("x-linked-size").and_then(|size| size.parse().ok()) {
            self.size = Some(size);
        }
        let etag = text("x-linked-etag").map(|etag| etag.trim_start_matches("W/").trim_matches('"'));
        if let Some(sha256) = etag.filter(|etag| names::is_hex(etag, 32)) {
            self.sha256 = Some(sha256.to_owned());
        }
    }
}

/// Returns the target of a redirect, if it may be followed.
fn follow(from: &Address, headers: &HeaderMap) -> Result<Address> {
    let refused = |to: &str, why| Error::new("", ErrorKind::Redirect { to: to.to_owned(), why });
    let location = headers.get("location").ok_or_else(|| refused("nowhere", "it has no `Location`"))?;
    let location = location.to_str().map_err(|_| refused("?", "its `Location` is not ASCII"))?;
    let next = from.join(location).map_err(|why| refused(location, why))?;
    if from.is_https() && !next.is_https() {
        return Err(refused(&next.authority(), "it leads from an encrypted to an open connection"));
    }
    Ok(next)
}

/// Converts a status that is neither success nor a redirect to an error.
fn refusal(status: u16, headers: &HeaderMap, mut body: Body, token: bool, at_endpoint: bool) -> Error {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let code = header("x-error-code").unwrap_or("");
    let mut said = || header("x-error-message").map(str::to_owned).or_else(|| reason(&mut body));
    let kind = match (status, code) {
        (429, _) => {
            let seconds = header("retry-after").and_then(|value| value.trim().parse().ok());
            ErrorKind::RateLimited { wait: seconds.map(Duration::from_secs) }
        }
        // The host of the files has no accounts, so its refusal says nothing about the token.
        _ if !at_endpoint => ErrorKind::Status { status, host: body.host.clone(), said: None },
        (401 | 403, "GatedRepo") | (403, _) => ErrorKind::Forbidden { token, said: said() },
        (401, _) => ErrorKind::Unauthorized { token, said: said() },
        (404, "RepoNotFound") => ErrorKind::NotFound { what: Missing::Repository, token },
        (404, "RevisionNotFound") => ErrorKind::NotFound { what: Missing::Revision, token },
        (404, "EntryNotFound") => ErrorKind::NotFound { what: Missing::File, token },
        (404, _) => ErrorKind::NotFound { what: Missing::Unknown, token },
        _ => {
            let said = said();
            ErrorKind::Status { status, host: body.host.clone(), said }
        }
    };
    Error::new("", kind)
}

/// Returns the reason in the body of an error response, if it is the hub's `{"error": …}`.
fn reason(body: &mut Body) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: String,
    }
    let end = Instant::now() + REFUSAL_TIME;
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while bytes.len() < REFUSAL_BYTES && Instant::now() < end {
        match body.read(&mut buffer).ok()? {
            0 => break,
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
    serde_json::from_slice::<Refusal>(&bytes).ok().map(|refusal| refusal.error)
}
