//! Hub on the loopback interface: the part of its interface that leyden uses, and every kind of misbehaviour.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Request received by the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) path: String,
    headers: BTreeMap<String, String>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// First byte of the requested range.
    pub(crate) fn range(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// Response, correct unless changed.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Value of `Content-Length`; `None` leaves it out, and the end of the connection ends the body.
    pub(crate) length: Option<usize>,
    /// Number of bytes of the body after which the connection breaks.
    pub(crate) cut: Option<usize>,
    /// Number of bytes of the body after which the server stalls.
    pub(crate) stall: Option<(usize, Duration)>,
    /// Stall before the first byte.
    pub(crate) silence: Duration,
    /// True if the body is repeated until the client closes the connection.
    pub(crate) endless: bool,
    /// Time between single bytes of the body.
    pub(crate) dribble: Option<Duration>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self {
            status,
            length: Some(body.len()),
            body,
            headers: Vec::new(),
            cut: None,
            stall: None,
            silence: Duration::ZERO,
            endless: false,
            dribble: None,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::new(302, "moved").with("Location", to)
    }

    /// Returns a file, or the requested range of it.
    pub(crate) fn file(content: &[u8], request: &Request) -> Self {
        match request.range() {
            Some(first) if first < content.len() => Self::new(206, &content[first..])
                .with("Content-Range", format!("bytes {first}-{}/{}", content.len() - 1, content.len())),
            Some(_) => Self::new(416, "").with("Content-Range", format!("bytes */{}", content.len())),
            None => Self::new(200, content),
        }
    }

    /// Returns whether the connection can be used again.
    fn send(&self, stream: &mut dyn Write) -> std::io::Result<bool> {
        thread::sleep(self.silence);
        let mut head = format!("HTTP/1.1 {} x\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.length {
            Some(length) => head += &format!("Content-Length: {length}\r\n\r\n"),
            None => head += "Connection: close\r\n\r\n",
        }
        stream.write_all(head.as_bytes())?;
        let body = &self.body[..self.cut.unwrap_or(self.body.len())];
        if let Some((at, time)) = self.stall {
            stream.write_all(&body[..at])?;
            stream.flush()?;
            thread::sleep(time);
            stream.write_all(&body[at..])?;
        } else if let Some(pause) = self.dribble {
            for byte in body {
                stream.write_all(&[*byte])?;
                stream.flush()?;
                thread::sleep(pause);
            }
        } else {
            stream.write_all(body)?;
            if self.endless {
                loop {
                    stream.write_all(body)?;
                }
            }
        }
        stream.flush()?;
        Ok(self.cut.is_none() && self.length.is_some())
    }
}

/// Function that prepares a connection for HTTP, for example by a TLS handshake.
type Speak = fn(TcpStream, &mut dyn FnMut(&mut dyn ReadWrite));

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// Server that records its requests. It ends when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(handler, plain)
    }

    /// Starts a server that processes each connection before it uses HTTP.
    pub(crate) fn start_with(
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
        speak: Speak,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let handler: Arc<Handler> = Arc::new(handler);
        let (all, ended) = (Arc::clone(&seen), Arc::clone(&over));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (handler, all) = (Arc::clone(&handler), Arc::clone(&all));
                thread::spawn(move || {
                    speak(stream.unwrap(), &mut |stream| serve(stream, &all, &*handler));
                });
            }
        });
        Self { address, seen, over }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

pub(crate) trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

fn plain(mut stream: TcpStream, serve: &mut dyn FnMut(&mut dyn ReadWrite)) {
    let _ = stream.set_nodelay(true);
    serve(&mut stream);
}

fn serve(stream: &mut dyn ReadWrite, seen: &Mutex<Vec<Request>>, handler: &Handler) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream) {
        seen.lock().unwrap().push(request.clone());
        // The client may have closed the connection, and often does.
        if !handler(&request).send(stream.get_mut()).unwrap_or(false) {
            return;
        }
    }
}

pub(crate) fn read_request(stream: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut request = Request { path: line.split(' ').nth(1)?.to_owned(), ..Request::default() };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { return Some(request) };
        request.headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
}

/// Repository: its files by path. Those with weights are in large-file storage.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    pub(crate) commit: String,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Repository {
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
        Self { commit: "0123456789abcdef0123456789abcdef01234567".to_owned(), files }
    }

    pub(crate) fn is_large(path: &str) -> bool {
        path.ends_with(".gguf") || path.ends_with(".safetensors")
    }

    /// Returns the response to `/api/models/ORG/REPO/revision/REV?blobs=true`.
    pub(crate) fn listing(&self) -> serde_json::Value {
        let file = |(path, content): (&String, &Vec<u8>)| {
            let git = hex(&Sha1::new_with_prefix(format!("blob {}\0", content.len()))
                .chain_update(content)
                .finalize());
            let mut file = json!({ "rfilename": path, "size": content.len(), "blobId": git });
            if Self::is_large(path) {
                file["lfs"] = json!({ "sha256": sha256(content), "size": content.len(), "pointerSize": 134 });
            }
            file
        };
        let siblings: Vec<_> = self.files.iter().map(file).collect();
        json!({ "id": "org/repo", "sha": self.commit, "private": false, "siblings": siblings })
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Hub with one repository, `org/repo`, and the host of its large files. `spoil` may change every response: it gets the
/// request, recognised by its path, and the correct response.
pub(crate) struct Hub {
    pub(crate) api: Server,
    pub(crate) cdn: Server,
}

impl Hub {
    pub(crate) fn start(repository: &Repository) -> Self {
        Self::spoilt(repository, |_, reply| reply)
    }

    pub(crate) fn spoilt(
        repository: &Repository,
        spoil: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let spoil = Arc::new(spoil);
        let (files, also) = (repository.clone(), Arc::clone(&spoil));
        let cdn = Server::start(move |request| {
            let path = request.path.split(['?', '%']).next().unwrap().trim_start_matches("/cdn/");
            let reply = match files.files.get(path) {
                Some(content) => Reply::file(content, request).with("Accept-Ranges", "bytes"),
                None => Reply::new(404, "no such object"),
            };
            also(request, reply)
        });
        let (repository, host) = (repository.clone(), cdn.url());
        let api = Server::start(move |request| spoil(request, answer(&repository, &host, request)));
        Self { api, cdn }
    }

    /// Returns the requests to the host of large files, by path, with their ranges.
    pub(crate) fn fetched(&self) -> Vec<(String, Option<usize>)> {
        let short = |path: &str| path.trim_start_matches("/cdn/").split('?').next().unwrap().to_owned();
        self.cdn.seen().iter().map(|request| (short(&request.path), request.range())).collect()
    }
}

fn answer(repository: &Repository, cdn: &str, request: &Request) -> Reply {
    if request.path.starts_with("/api/models/org/repo/revision/") {
        return Reply::new(200, repository.listing().to_string()).with("Content-Type", "application/json");
    }
    let front = format!("/org/repo/resolve/{}/", repository.commit);
    let found = request.path.strip_prefix(&front).and_then(|path| Some((path, repository.files.get(path)?)));
    match found {
        Some((path, content)) if Repository::is_large(path) => {
            Reply::redirect(&format!("{cdn}/cdn/{path}?signature=x"))
                .with("X-Linked-Size", content.len().to_string())
                .with("X-Linked-Etag", format!("\"{}\"", sha256(content)))
                .with("X-Repo-Commit", repository.commit.clone())
        }
        Some((_, content)) => Reply::file(content, request),
        None => Reply::new(404, r#"{"error": "Entry not found"}"#).with("X-Error-Code", "EntryNotFound"),
    }
}
