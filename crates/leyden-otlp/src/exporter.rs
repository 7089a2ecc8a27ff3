//! [`Exporter`]: the queue of spans and the thread that sends them.

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::json;
use crate::span::{AttributeValue, Span};
use leyden_tls::Authorities;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::header::{HeaderName, HeaderValue};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Maximum number of requests whose spans wait, some kilobytes each.
const QUEUE: usize = 1024;
/// Maximum number of spans in a message.
const BATCH: usize = 512;
/// Time after the first span of a message in which others join it.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Time limit of a message.
const SEND_TIME: Duration = Duration::from_secs(10);
/// Pauses before a message is sent again; after the last one it is dropped.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// Interval at which a pause checks whether the exporter ends.
const TICK: Duration = Duration::from_millis(50);
/// Maximum bytes of the collector's answer that are read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Options of an exporter.
pub struct Options {
    /// Address of the collector.
    pub endpoint: Endpoint,
    /// Headers of each message, such as credentials.
    pub headers: Vec<(String, String)>,
    /// Trusted authorities of an encrypted connection.
    pub authorities: Authorities,
    /// Attributes of this process, such as `service.name`.
    pub resource: Vec<(&'static str, AttributeValue)>,
    /// Function that is told when sending begins to fail, and when it succeeds again.
    pub report: Box<dyn Fn(&str) + Send>,
}

impl fmt::Debug for Options {
    /// Shows no headers, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Shared {
    exported: AtomicU64,
    dropped: AtomicU64,
    /// True if nothing more is sent again.
    ending: AtomicBool,
}

/// Queue of spans, with a thread that sends them.
#[derive(Debug)]
pub struct Exporter {
    queue: Mutex<Option<SyncSender<Vec<Span>>>>,
    ended: Mutex<Receiver<()>>,
    shared: Arc<Shared>,
}

impl Exporter {
    /// Starts the thread; it connects once there are spans.
    ///
    /// # Errors
    /// A header is not valid, an encrypted connection is not possible, or the thread cannot be started.
    pub fn start(options: Options) -> Result<Exporter, Error> {
        let shared = Arc::new(Shared::default());
        let sender = Sender::new(options, Arc::clone(&shared))?;
        let (queue, spans) = mpsc::sync_channel(QUEUE);
        let (end, ended) = mpsc::sync_channel(1);
        let work = move || {
            sender.work(&spans);
            let _ = end.try_send(());
        };
        let spawned = thread::Builder::new().name("traces".to_owned()).spawn(work);
        spawned.map_err(|error| Error::new("traces", format!("no thread can be started: {error}")))?;
        Ok(Exporter { queue: Mutex::new(Some(queue)), ended: Mutex::new(ended), shared })
    }

    /// Queues the spans of a request, or drops them if too many wait. Never waits for the collector.
    pub fn send(&self, spans: Vec<Span>) {
        let n = spans.len() as u64;
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.as_ref().is_none_or(|queue| queue.try_send(spans).is_err()) {
            self.shared.dropped.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Returns the number of spans that the collector has taken.
    #[must_use]
    pub fn exported(&self) -> u64 {
        self.shared.exported.load(Ordering::Relaxed)
    }

    /// Returns the number of spans that were dropped: the queue was full, or the collector did not take them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Sends what waits, within a time, and ends the thread.
    pub fn finish(&self, time: Duration) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.shared.ending.store(true, Ordering::Relaxed);
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time);
    }
}

/// Failure of a message.
enum Failed {
    /// It may succeed later.
    Again(String),
    /// The collector refuses it.
    Never(String),
}

/// Sending side of an exporter, in its thread.
struct Sender {
    agent: Agent,
    options: Options,
    headers: Vec<(HeaderName, HeaderValue)>,
    shared: Arc<Shared>,
}

impl Sender {
    fn new(options: Options, shared: Arc<Shared>) -> Result<Sender, Error> {
        let header = |(name, value): &(String, String)| {
            let wrong = || Error::new(name.as_str(), "not a valid header");
            let name: HeaderName = name.parse().map_err(|_| wrong())?;
            Ok((name, value.parse().map_err(|_| wrong())?))
        };
        let headers = options.headers.iter().map(header).collect::<Result<_, _>>()?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("leyden/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(SEND_TIME));
        if options.endpoint.is_https() {
            config = config.tls_config(tls(&options.endpoint, &options.authorities)?);
        }
        Ok(Sender { agent: config.build().new_agent(), options, headers, shared })
    }

    /// Sends spans until the queue is closed and empty.
    fn work(&self, queue: &Receiver<Vec<Span>>) {
        let mut failing = false;
        let mut open = true;
        while let (true, Ok(mut spans)) = (open, queue.recv()) {
            let deadline = Instant::now() + BATCH_TIME;
            while spans.len() < BATCH {
                match queue.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                    Ok(more) => spans.extend(more),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        open = false;
                        break;
                    }
                }
            }
            let n = spans.len() as u64;
            match self.send(&spans) {
                Ok(refused) => {
                    let refused = refused.min(n);
                    self.shared.exported.fetch_add(n - refused, Ordering::Relaxed);
                    self.shared.dropped.fetch_add(refused, Ordering::Relaxed);
                    if std::mem::take(&mut failing) {
                        (self.options.report)(&format!("{}: traces are sent again", self.options.endpoint));
                    }
                }
                Err(Failed::Again(why) | Failed::Never(why)) => {
                    self.shared.dropped.fetch_add(n, Ordering::Relaxed);
                    if !std::mem::replace(&mut failing, true) {
                        let endpoint = &self.options.endpoint;
                        (self.options.report)(&format!("{endpoint}: traces cannot be sent: {why}"));
                    }
                }
            }
        }
    }

    /// Sends a message, if need be several times. Returns the number of spans that the collector has refused.
    fn send(&self, spans: &[Span]) -> Result<u64, Failed> {
        let body = json::document(&self.options.resource, spans).to_string();
        let mut pauses = PAUSES.iter();
        loop {
            match (self.attempt(&body), pauses.next()) {
                (Err(Failed::Again(_)), Some(pause)) if self.pause(*pause) => {}
                (result, _) => return result,
            }
        }
    }

    /// Waits; returns `false` if the exporter ends meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            if self.shared.ending.load(Ordering::Relaxed) {
                return false;
            }
            thread::sleep(TICK);
        }
        true
    }

    fn attempt(&self, body: &str) -> Result<u64, Failed> {
        let mut request = self.agent.post(self.options.endpoint.to_string()).content_type("application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut response = request.send(body).map_err(|error| Failed::Again(error.to_string()))?;
        let status = response.status().as_u16();
        let answer = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string();
        match status {
            200..=299 => Ok(refused(&answer.unwrap_or_default())),
            429 | 502 | 503 | 504 => Err(Failed::Again(format!("status {status}"))),
            _ => Err(Failed::Never(format!("status {status}"))),
        }
    }
}

/// Returns the number of refused spans in the collector's answer.
fn refused(answer: &str) -> u64 {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    let refused = &answer["partialSuccess"]["rejectedSpans"];
    refused.as_u64().or_else(|| refused.as_str()?.parse().ok()).unwrap_or(0)
}

/// Returns the settings of encrypted connections.
fn tls(endpoint: &Endpoint, authorities: &Authorities) -> Result<TlsConfig, Error> {
    let provider = leyden_tls::provider().map_err(|missing| {
        let missing = missing.join(", ");
        Error::new(endpoint.to_string(), format!("this processor lacks what TLS needs: {missing}"))
    })?;
    let roots: Vec<Certificate<'static>> = match authorities {
        Authorities::System => {
            let found = rustls_native_certs::load_native_certs().certs;
            found.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
        }
        Authorities::File(path) => {
            let at = path.display().to_string();
            let bytes =
                std::fs::read(path).map_err(|error| Error::new(&at, format!("cannot read: {error}")))?;
            let certificate = |item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
                Ok(_) => None,
                Err(error) => Some(Err(Error::new(&at, format!("not PEM: {error}")))),
            };
            parse_pem(&bytes).filter_map(certificate).collect::<Result<_, _>>()?
        }
    };
    if roots.is_empty() {
        let what = "no certificate authority is known, so the collector's certificate cannot be verified";
        return Err(Error::new(endpoint.to_string(), what));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::SpanKind;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::time::UNIX_EPOCH;

    /// Time that only a hanging test reaches.
    const LONG: Duration = Duration::from_secs(600);

    fn span(id: u64) -> Span {
        Span {
            trace: 1 << 100 | 7,
            id,
            parent: (id > 1).then_some(1),
            state: String::new(),
            name: "chat".to_owned(),
            kind: SpanKind::Server,
            times: (UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789), UNIX_EPOCH),
            attributes: vec![("gen_ai.usage.input_tokens", 12_usize.into())],
            failure: (id == 2).then(|| "no \"room\"".to_owned()),
        }
    }

    fn exporter(endpoint: &str, told: &Arc<Mutex<Vec<String>>>) -> Exporter {
        let told = Arc::clone(told);
        Exporter::start(Options {
            endpoint: endpoint.parse().unwrap(),
            headers: vec![("authorization".to_owned(), "Bearer secret".to_owned())],
            authorities: Authorities::System,
            resource: vec![("service.name", "leyden".into())],
            report: Box::new(move |what| told.lock().unwrap().push(what.to_owned())),
        })
        .unwrap()
    }

    /// Reads a request; returns its head and its body.
    fn request(stream: &mut impl Read) -> (String, serde_json::Value) {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        (lower, serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn spans_arrive_after_a_busy_collector() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let told = Arc::default();
        let exporter = exporter(&endpoint, &told);
        exporter.send(vec![span(1)]);
        exporter.send(vec![span(2)]);
        let mut documents = Vec::new();
        for answer in [
            "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 40\r\nconnection: close\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let (head, body) = request(&mut stream);
            assert!(head.starts_with("post /v1/traces ") && head.contains("content-type: application/json"));
            assert!(head.contains("authorization: bearer secret"), "{head}");
            stream.write_all(answer.as_bytes()).unwrap();
            documents.push(body);
        }
        exporter.finish(LONG);
        assert_eq!((exporter.exported(), exporter.dropped()), (1, 1));
        assert_eq!(documents[0], documents[1]);
        let of = &documents[0]["resourceSpans"][0];
        assert_eq!(of["resource"]["attributes"][0]["value"]["stringValue"], "leyden");
        let spans = of["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len(), 2);
        assert_eq!(spans[0]["traceId"], "00000010000000000000000000000007");
        assert_eq!((&spans[0]["spanId"], spans[0].get("parentSpanId")), (&"0000000000000001".into(), None));
        assert_eq!(spans[1]["parentSpanId"], "0000000000000001");
        assert_eq!(spans[1]["status"], serde_json::json!({ "code": 2, "message": "no \"room\"" }));
        assert_eq!(spans[0]["endTimeUnixNano"], "1700000000123456789", "no span ends before it begins");
        assert_eq!(spans[0]["attributes"][0]["value"]["intValue"], "12");
        assert!(told.lock().unwrap().is_empty());
        // After its end nothing is taken.
        exporter.send(vec![span(3)]);
        assert_eq!(exporter.dropped(), 2);
    }

    #[test]
    fn without_a_collector_spans_are_dropped_and_nobody_waits() {
        // The port of a listener that is closed again.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let exporter = exporter(&format!("http://{address}"), &told);
        let n = 3 * QUEUE as u64;
        for id in 1..=n {
            exporter.send(vec![span(id)]);
        }
        exporter.finish(LONG);
        assert_eq!((exporter.exported(), exporter.dropped()), (0, n));
        let told = told.lock().unwrap();
        assert!(told.len() == 1 && told[0].contains("traces cannot be sent"), "{told:?}");
    }

    #[test]
    fn a_collector_that_refuses_is_not_asked_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let told = Arc::default();
        let exporter = exporter(&format!("http://{}", listener.local_addr().unwrap()), &told);
        exporter.send(vec![span(1)]);
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream);
        stream
            .write_all(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
        exporter.finish(LONG);
        assert_eq!((exporter.exported(), exporter.dropped()), (0, 1));
        assert!(told.lock().unwrap()[0].contains("status 302"));
    }
}
