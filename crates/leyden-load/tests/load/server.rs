//! A server on the loopback interface with the interface under test, which can misbehave in every way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A request as the server received it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Value,
    /// Number on its connection, from 0.
    pub(crate) nth: usize,
}

/// Actions of a server, in order.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    Pause(Duration),
    /// Ends the connection.
    Close,
}

type Handler = dyn Fn(&Request) -> Vec<Step> + Send + Sync;

/// A running server; its threads end with the test's process.
#[derive(Clone)]
pub(crate) struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Request>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server with `handler`; if that returns nothing, it answers correctly.
    pub(crate) fn start(handler: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_with(handler, |stream| Box::new(stream))
    }

    /// Starts a server on connections that `wrap` makes of TCP's.
    pub(crate) fn start_with(
        handler: impl Fn(&Request) -> Vec<Step> + Send + Sync + 'static,
        wrap: impl Fn(TcpStream) -> Box<dyn Connection> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, seen: Arc::default(), connections: Arc::default() };
        let (shared, handler, wrap) = (server.clone(), Arc::new(handler), Arc::new(wrap));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let (shared, handler, wrap) = (shared.clone(), Arc::clone(&handler), Arc::clone(&wrap));
                thread::spawn(move || shared.serve(wrap(stream), &*handler));
            }
        });
        server
    }

    /// Starts a server that answers correctly.
    pub(crate) fn good() -> Self {
        Self::start(|_| Vec::new())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the requests to paths that end in `end`.
    pub(crate) fn seen(&self, end: &str) -> Vec<Request> {
        self.seen.lock().unwrap().iter().filter(|request| request.path.ends_with(end)).cloned().collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn serve(&self, connection: Box<dyn Connection>, handler: &Handler) {
        let mut connection = BufReader::new(connection);
        for nth in 0.. {
            let Some(request) = read(&mut connection, nth) else { return };
            self.seen.lock().unwrap().push(request.clone());
            let mut steps = handler(&request);
            if steps.is_empty() {
                steps = good(&request);
            }
            for step in steps {
                let stream = connection.get_mut();
                // The client may have closed the connection.
                match step {
                    Step::Bytes(bytes) if stream.write_all(&bytes).and_then(|()| stream.flush()).is_ok() => {}
                    Step::Pause(time) => thread::sleep(time),
                    Step::Bytes(_) | Step::Close => return,
                }
            }
        }
    }
}

/// Operations of a connection.
pub(crate) trait Connection: Read + Write {}

impl<T: Read + Write> Connection for T {}

fn read(connection: &mut BufReader<Box<dyn Connection>>, nth: usize) -> Option<Request> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        connection.read_line(&mut head).ok().filter(|n| *n > 0)?;
        let line = head[start..].trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).ok()?;
    let path = head.split(' ').nth(1).unwrap().to_owned();
    Some(Request { path, head, body: serde_json::from_slice(&body).unwrap_or(Value::Null), nth })
}

/// Returns a document with its length.
pub(crate) fn document(status: u16, more: &str, body: &Value) -> Vec<Step> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    vec![Step::Bytes((head + &body).into_bytes())]
}

pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Encodes a chunk.
pub(crate) fn chunk(content: &str) -> Vec<u8> {
    format!("{:x}\r\n{content}\r\n", content.len()).into_bytes()
}

/// Returns an event with a token.
pub(crate) fn token(text: &str) -> String {
    let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text }, "text": text }] });
    format!("data: {delta}\n\n")
}

/// Returns the end of a stream: the finish reason, usage, and `[DONE]`.
pub(crate) fn last(prompt: usize, output: usize) -> String {
    let finish = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "length" }] });
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": prompt, "completion_tokens": output } });
    format!("data: {finish}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
}

/// Counts the words of a request's prompt, the system prompt included.
pub(crate) fn words(request: &Request) -> usize {
    let count = |text: &Value| text.as_str().unwrap_or("").split_whitespace().count();
    let messages = request.body["messages"].as_array().into_iter().flatten();
    messages.map(|message| count(&message["content"])).sum::<usize>() + count(&request.body["prompt"])
}

/// Returns an answer of `n` tokens, whose usage counts 3 prompt tokens more than the request has words.
pub(crate) fn answer(request: &Request, n: usize) -> Vec<Step> {
    let mut steps = vec![Step::Bytes(STREAM.into())];
    steps.extend((0..n).map(|i| Step::Bytes(chunk(&token(&format!(" t{i}"))))));
    steps.push(Step::Bytes([chunk(&last(words(request) + 3, n)), b"0\r\n\r\n".to_vec()].concat()));
    steps
}

/// Answers a request correctly.
pub(crate) fn good(request: &Request) -> Vec<Step> {
    match request.path.as_str() {
        "/v1/models" => document(200, "", &json!({ "object": "list", "data": [{ "id": "tiny" }] })),
        "/tokenize" => {
            // Two tokens for every word.
            let n = request.body["content"].as_str().map_or(0, |text| text.split_whitespace().count() * 2);
            document(200, "", &json!({ "tokens": vec![7; n] }))
        }
        "/v1/chat/completions" | "/v1/completions" => {
            let n = request.body["max_tokens"].as_u64().unwrap();
            answer(request, usize::try_from(n).unwrap())
        }
        _ => document(404, "", &json!({ "error": { "message": "no such path" } })),
    }
}
