//! Sockets: faulty clients lose their own connection, and do not affect others.

use super::{COMPLETIONS, at_rest, emulated, patience, run, start, story, until, worker_options};
use crate::app::App;
use crate::listen::{self, Ending};
use crate::signals::Signal;
use crate::{Limits, ServerOptions};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A server on a socket.
struct Server {
    app: Arc<App>,
    address: SocketAddr,
    /// Sends a shutdown signal for each message.
    stop: UnboundedSender<Signal>,
    task: JoinHandle<()>,
}

async fn server(limits: Limits, drain: Duration) -> Server {
    server_that_ends(limits, Ending { lame_duck: Duration::ZERO, drain, tell: None }).await
}

async fn server_that_ends(limits: Limits, times: Ending) -> Server {
    let (app, _) = start(worker_options(), ServerOptions { limits, ..ServerOptions::default() });
    let listener = listen::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, signals) = unbounded_channel();
    let task = tokio::spawn(listen::run(Arc::clone(&app), listener, signals, times));
    Server { app, address, stop, task }
}

async fn plain() -> Server {
    server(Limits::default(), Duration::from_secs(30)).await
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        rest(&mut stream).await
    }

    /// Returns the text of a story, requested through the socket.
    async fn story(&self, i: usize, tokens: usize) -> Value {
        let answer = self.exchange(&post(&story(i, tokens), "connection: close\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        body["choices"][0]["text"].clone()
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn post(body: &Value, headers: &str) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n";

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("closed")
}

#[test]
fn bad_requests_are_answered_or_cut_off() {
    run(async {
        let server = plain().await;
        let wanted = server.story(1, 10).await;
        let many = "x: y\r\n".repeat(65);
        let huge = format!("x: {}\r\n", "y".repeat(64 << 10));
        let long = "x".repeat(32 << 10);
        let cases: &[(String, &[&str])] = &[
            (format!("GET /health HTTP/1.1\r\nhost: x\r\n{many}\r\n"), &["431"]),
            (format!("GET /health HTTP/1.1\r\nhost: x\r\n{huge}\r\n"), &["431"]),
            (format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), &["414", "431"]),
            ("GET /health HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n".into(), &["400"]),
            ("GET /health\r\n\r\n".into(), &["400"]),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), &["400", "closed"]),
            ("\x16\x03\x01\x02\x00\x01\x00\x01".to_owned() + &"\0".repeat(64), &["400"]),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9000000\r\n\r\n"
                ),
                &["413"],
            ),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: 9223372036854775808\r\n\r\n"
                ),
                &["413", "400", "415"],
            ),
            (format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n"), &["400"]),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"
                ),
                &["400"],
            ),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{{}}"
                ),
                &["415"],
            ),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{{}}"
                ),
                &["415"],
            ),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
                ),
                &["400"],
            ),
            (
                format!(
                    "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 4\r\n\r\n\"\u{80}\""
                ),
                &["400"],
            ),
            ("DELETE /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(), &["405"]),
            ("GET /health HTTP/1.1\r\nconnection: close\r\n\r\n".into(), &["400"]),
            ("GET /health HTTP/1.0\r\n\r\n".into(), &["200"]),
            ("GET /health HTTP/1.1\r\nhost: x\r\nhost: x\r\nconnection: close\r\n\r\n".into(), &["400"]),
            ("GET /health HTTP/1.1\r\nhost: a@b\r\nconnection: close\r\n\r\n".into(), &["400"]),
            ("GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n".into(), &["403"]),
            (
                "GET http://evil.example/v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
                    .into(),
                &["403"],
            ),
            (
                "OPTIONS /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n".into(),
                &["403"],
            ),
            ("GET /v1/models HTTP/1.1\r\nhost: [::1]:8080\r\nconnection: close\r\n\r\n".into(), &["200"]),
            ("GET /health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n".into(), &["200"]),
            ("OPTIONS /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(), &["204"]),
        ];
        for (request, wanted) in cases {
            let shown: String = request.chars().take(90).collect();
            let mut stream = server.connect().await;
            let _ = stream.write_all(request.as_bytes()).await;
            let answer = rest(&mut stream).await;
            assert!(wanted.contains(&status(&answer)), "{shown:?}: {answer}");
        }
        assert_eq!(server.story(1, 10).await, wanted);
    });
}

/// A request that two servers could parse differently is refused, and nothing after it is parsed.
#[test]
fn a_request_with_two_ends_is_refused_and_nothing_behind_it_is_read() {
    run(async {
        let server = plain().await;
        let behind = "GET /version HTTP/1.1\r\nhost: x\r\n\r\n";
        for (framing, wanted) in [
            ("content-length: 5\r\ntransfer-encoding: chunked\r\n", "400"),
            ("transfer-encoding: chunked\r\nContent-Length: 5\r\n", "400"),
            ("content-length: 5\r\ncontent-length: 5\r\n", "400"),
            ("content-length: 5, 5\r\n", "400"),
            ("content-length: +5\r\n", "400"),
            ("transfer-encoding: gzip, chunked\r\n", "501"),
            ("transfer-encoding: identity, chunked\r\n", "501"),
            ("transfer-encoding: chunked, chunked\r\n", "501"),
            ("transfer-encoding: xchunked\r\n", "400"),
            ("transfer-encoding: gzip\r\n", "400"),
            ("transfer-encoding : chunked\r\n", "400"),
        ] {
            let head = format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{framing}\r\n"
            );
            let answer = server.exchange(format!("{head}0\r\n\r\n{behind}").as_bytes()).await;
            assert_eq!(status(&answer), wanted, "{framing}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{framing}: {answer}");
        }
    });
}

/// A client that sends everything before it reads can still read the reason of a refusal.
#[test]
fn who_is_refused_early_still_hears_it() {
    run(async {
        let server = plain().await;
        let large = vec![b'x'; 12 << 20];
        for (head, wanted) in [
            (format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"), "413"),
            ("POST /nothing HTTP/1.1\r\nhost: x\r\n".to_owned(), "404"),
            (format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n"), "415"),
        ] {
            let mut stream = server.connect().await;
            let head = format!("{head}content-length: {}\r\n\r\n", large.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&large).await.unwrap();
            let answer = rest(&mut stream).await;
            assert_eq!(status(&answer), wanted, "{head}: {answer}");
        }
    });
}

/// With any number of incomplete bodies, health, metrics and requests are answered.
#[test]
fn slow_bodies_make_way() {
    run(async {
        // A slow client is cut off after an hour: every answer within the time of the test did not wait for that.
        let hour = Duration::from_secs(3600);
        let limits = Limits {
            connections: 32,
            connections_per_peer: 16,
            header_time: hour,
            idle_time: hour,
            body_stall: hour,
            body_time: hour,
            ..Limits::default()
        };
        let server = server(limits, Duration::from_secs(30)).await;
        let wanted = server.story(1, 4).await;
        let head = format!(
            "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 8000000\r\n\r\n{{"
        );
        let mut slow = Vec::new();
        for i in 0..80 {
            let mut stream = server.connect().await;
            // Every fourth connection sends nothing at all.
            if i % 4 > 0 {
                let _ = stream.write_all(head.as_bytes()).await;
            }
            slow.push(stream);
        }
        for path in ["/health", "/health/live", "/metrics"] {
            let get = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            let answer = server.exchange(get.as_bytes()).await;
            assert_eq!(status(&answer), "200", "{path}: {answer}");
        }
        // A connection from another address is not even told to retry.
        let other = tokio::net::TcpSocket::new_v4().unwrap();
        other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut other = other.connect(server.address).await.unwrap();
        other.write_all(&post(&story(1, 4), "connection: close\r\n")).await.unwrap();
        assert_eq!(status(&rest(&mut other).await), "200");
        // The same address may be told to retry in a second.
        let answer = loop {
            let answer = server.exchange(&post(&story(1, 4), "connection: close\r\n")).await;
            if status(&answer) != "503" {
                break answer;
            }
            assert!(answer.contains("retry-after: 1"), "{answer}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        assert_eq!(status(&answer), "200", "{answer}");
        drop(slow);
        assert_eq!(server.story(1, 4).await, wanted);
    });
}

#[test]
fn a_body_has_a_least_pace_and_a_deadline() {
    run(async {
        let body = |limits: Limits, pause: u64, bytes: usize| async move {
            let server = server(limits, Duration::from_secs(30)).await;
            let head = format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 8000000\r\n\r\n"
            );
            let (mut read, mut write) = server.connect().await.into_split();
            write.write_all(head.as_bytes()).await.unwrap();
            let dribble = async {
                while write.write_all(&vec![b' '; bytes]).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut answer = Vec::new();
            tokio::select! {
                () = dribble => {}
                _ = read.read_to_end(&mut answer) => {}
            }
            String::from_utf8_lossy(&answer).into_owned()
        };
        // The pauses are short, but each sends only one byte.
        let stall = Duration::from_millis(400);
        let slow = body(Limits { body_stall: stall, ..Limits::default() }, 50, 1);
        // The rate is sufficient, but the deadline passes.
        let long = body(Limits { body_time: stall, ..Limits::default() }, 50, 2000);
        let (slow, long) = tokio::join!(slow, long);
        assert_eq!((status(&slow), status(&long)), ("408", "408"), "{slow} {long}");
    });
}

#[test]
fn slow_clients_are_cut_off() {
    run(async {
        let limits = Limits {
            header_time: Duration::from_millis(300),
            idle_time: Duration::from_millis(700),
            body_stall: Duration::from_millis(300),
            ..Limits::default()
        };
        let server = server(limits, Duration::from_secs(30)).await;
        // The head arrives slowly, byte by byte.
        let dribble = async {
            let mut stream = server.connect().await;
            for byte in b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy".iter().cycle() {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // The connection sends nothing at all.
        let silent = async { rest(&mut server.connect().await).await };
        // The body never comes.
        let hollow = async {
            let head = format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{{"
            );
            server.exchange(head.as_bytes()).await
        };
        // A second request never comes.
        let idle = async { server.exchange(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await };
        let ((), silent, hollow, idle) = tokio::join!(dribble, silent, hollow, idle);
        assert_eq!(silent, "");
        assert_eq!(status(&hollow), "408", "{hollow}");
        assert_eq!(status(&idle), "200", "{idle}");
        until("no connection is left", || server.app.http.connections.get() == 0).await;
    });
}

#[test]
fn who_reads_a_byte_now_and_then_is_cut_off() {
    run(async {
        let limits = Limits { write_stall: Duration::from_millis(300), ..Limits::default() };
        let server = server(limits, Duration::from_secs(30)).await;
        let mut stream = server.connect().await;
        // More than the system buffers.
        let asks = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(2000);
        let (mut read, mut write) = stream.split();
        let read = async {
            while server.app.http.connections.get() > 0 {
                let _ = read.read(&mut [0]).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let write = async {
            let _ = write.write_all(&asks).await;
            until("it is cut off", || server.app.http.connections.get() == 0).await;
        };
        until("it is open", || server.app.http.connections.get() > 0).await;
        tokio::join!(read, write);
    });
}

#[test]
fn connections_beyond_the_limit_wait() {
    run(async {
        let limits = Limits { connections: 4, ..Limits::default() };
        let server = server(limits, Duration::from_secs(30)).await;
        let mut idle = Vec::new();
        for _ in 0..10 {
            idle.push(server.connect().await);
        }
        // Idle connections are closed for new ones.
        server.story(1, 4).await;
        assert!(server.app.http.connections_total.get() > 4 && server.app.http.connections.get() <= 4);
        drop(idle);
        // Connections with a running answer are not.
        let mut body = story(2, 400);
        body["stream"] = true.into();
        let mut busy = Vec::new();
        for _ in 0..4 {
            let mut stream = server.connect().await;
            stream.write_all(&post(&body, "connection: close\r\n")).await.unwrap();
            stream.read_exact(&mut [0; 16]).await.unwrap();
            busy.push(stream);
        }
        server.story(1, 4).await;
        for stream in &mut busy {
            assert!(rest(stream).await.contains("data: [DONE]"));
        }
    });
}

/// A client that disconnects while it waits for a permit frees its place at once, though its data were not read.
#[test]
fn clients_that_are_gone_hold_no_place_in_the_queue() {
    run(async {
        // Sixteen connections may be silent without a permit, and four of an address wait with a request.
        let limits = Limits { connections: 8, connections_per_peer: 8, ..Limits::default() };
        let server = server(limits, Duration::from_secs(30)).await;
        let mut body = story(2, 480);
        body["stream"] = true.into();
        body["n"] = 8.into();
        let mut busy = Vec::new();
        for _ in 0..8 {
            let mut stream = server.connect().await;
            stream.write_all(&post(&body, "connection: close\r\n")).await.unwrap();
            stream.read_exact(&mut [0; 16]).await.unwrap();
            busy.push(stream);
        }
        for _ in 0..4 {
            let mut stream = server.connect().await;
            stream.write_all(&post(&story(1, 4), "")).await.unwrap();
            busy.push(stream);
        }
        // Returns true if one more request is told to retry; otherwise it waits, and disconnects.
        let refused = async || {
            let request = post(&story(1, 4), "connection: close\r\n");
            let answer = timeout(Duration::from_millis(300), server.exchange(&request)).await;
            answer.is_ok_and(|answer| status(&answer) == "503")
        };
        let begin = std::time::Instant::now();
        while !refused().await {
            assert!(begin.elapsed() < patience(), "four wait");
        }
        busy.truncate(8);
        while refused().await {
            assert!(begin.elapsed() < patience(), "nobody waits");
        }
        assert!(!at_rest(&server.app), "the permits are taken all the time");
        let mut late = server.connect().await;
        late.write_all(&post(&story(1, 4), "connection: close\r\n")).await.unwrap();
        drop(busy);
        assert_eq!(status(&rest(&mut late).await), "200");
    });
}

#[test]
fn a_storm_of_disconnects_leaves_nothing_behind() {
    run(async {
        let server = plain().await;
        let wanted = server.story(1, 10).await;
        let mut body = story(2, 400);
        body["stream"] = true.into();
        for i in 0..if emulated() { 6 } else { 60 } {
            let mut stream = server.connect().await;
            stream.write_all(&post(&body, "")).await.unwrap();
            let mut bytes = [0; 64];
            match i % 3 {
                // Before the answer, after its head, and with half of the connection closed.
                0 => {}
                1 => drop(stream.read(&mut bytes).await),
                _ => drop(stream.shutdown().await),
            }
        }
        until("all is free", || at_rest(&server.app)).await;
        until("all are gone", || server.app.http.connections.get() == 0).await;
        assert_eq!(server.story(1, 10).await, wanted);
    });
}

#[test]
fn requests_follow_each_other_on_a_connection() {
    run(async {
        let server = plain().await;
        let get = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
        let last = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let all = [get.repeat(50), last.to_vec()].concat();
        let answer = server.exchange(&all).await;
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 51);
    });
}

#[test]
fn a_server_that_closes_lets_running_answers_finish() {
    run(async {
        let server = plain().await;
        let mut body = story(2, 60);
        body["stream"] = true.into();
        let mut running = server.connect().await;
        running.write_all(&post(&body, "")).await.unwrap();
        let mut idle = server.connect().await;
        let mut bytes = [0; 16];
        running.read_exact(&mut bytes).await.unwrap();
        server.stop.send(Signal::End).unwrap();
        assert_eq!(rest(&mut idle).await, "");
        assert!(rest(&mut running).await.contains("data: [DONE]"));
        server.task.await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens");
    });
}

/// In the first phase of a shutdown the server reports that it is not ready, and answers as before.
#[test]
fn a_server_that_is_told_to_end_is_a_lame_duck_first() {
    run(async {
        let times =
            Ending { lame_duck: Duration::from_secs(600), drain: Duration::from_secs(600), tell: None };
        let server = server_that_ends(Limits::default(), times).await;
        let mut kept = server.connect().await;
        kept.write_all(HEALTH).await.unwrap();
        let mut bytes = [0; 12];
        kept.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"HTTP/1.1 200");
        server.stop.send(Signal::End).unwrap();
        until("it says so", || server.app.is_retiring()).await;
        let answer = server.exchange(HEALTH).await;
        assert!(status(&answer) == "503" && answer.contains("\"closing\""), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        // A new connection and one that was open are answered.
        server.story(1, 4).await;
        kept.write_all(&post(&story(1, 4), "")).await.unwrap();
        assert!(rest(&mut kept).await.contains("HTTP/1.1 200"));
        assert!(!server.task.is_finished());
    });
}

/// After SIGINT the server only waits for running answers.
#[test]
fn an_interrupted_server_ends_as_soon_as_nothing_is_answered() {
    run(async {
        let hour = Duration::from_secs(3600);
        let waits = Arc::new(std::sync::Mutex::new(Vec::new()));
        let times = || {
            let waits = Arc::clone(&waits);
            let tell: crate::TellEnd = Arc::new(move |w| waits.lock().unwrap().push(w.requests));
            Ending { lame_duck: hour, drain: hour, tell: Some(tell) }
        };
        let server = server_that_ends(Limits::default(), times()).await;
        let idle = server.connect().await;
        assert_eq!(
            status(&server.exchange(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await),
            "200"
        );
        server.stop.send(Signal::Interrupt).unwrap();
        server.task.await.unwrap();
        drop(idle);
        let server = server_that_ends(Limits::default(), times()).await;
        let mut body = story(2, 400);
        body["stream"] = true.into();
        // Two answers are running: one is finished, and the client of the other disconnects.
        let mut running = server.connect().await;
        running.write_all(&post(&body, "")).await.unwrap();
        running.read_exact(&mut [0; 16]).await.unwrap();
        let request = post(&story(1, 4), "");
        let mut waiting = server.connect().await;
        waiting.write_all(&request[..request.len() - 1]).await.unwrap();
        server.story(1, 4).await;
        server.stop.send(Signal::Interrupt).unwrap();
        until("it says so", || server.app.is_retiring()).await;
        assert!(rest(&mut running).await.contains("data: [DONE]"));
        assert!(!server.task.is_finished());
        drop(waiting);
        server.task.await.unwrap();
        assert_eq!(*waits.lock().unwrap(), [0, 2]);
    });
}

/// In the second phase the server refuses new requests, finishes running ones, and ends.
#[test]
fn a_server_that_drains_says_so_until_it_ends() {
    run(async {
        let times =
            Ending { lame_duck: Duration::from_millis(1), drain: Duration::from_secs(600), tell: None };
        let server = server_that_ends(Limits::default(), times).await;
        // The last byte of this request comes later.
        let request = post(&story(1, 4), "");
        let (last, first) = request.split_last().unwrap();
        let mut running = server.connect().await;
        running.write_all(first).await.unwrap();
        until("it has begun", || server.app.http.connections.get() == 1).await;
        // The server must have read its head by now.
        server.story(1, 4).await;
        server.stop.send(Signal::End).unwrap();
        until("it drains", || server.app.is_closing()).await;
        let answer = server.exchange(&post(&story(1, 4), "")).await;
        assert!(status(&answer) == "503" && answer.contains("server_closing"), "{answer}");
        assert_eq!(status(&server.exchange(HEALTH).await), "503");
        running.write_all(&[*last]).await.unwrap();
        assert_eq!(status(&rest(&mut running).await), "200");
        server.task.await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens");
    });
}

#[test]
fn a_second_signal_ends_it_at_once() {
    run(async {
        let times =
            Ending { lame_duck: Duration::from_secs(600), drain: Duration::from_secs(600), tell: None };
        let server = server_that_ends(Limits::default(), times).await;
        let mut body = story(2, 480);
        body["stream"] = true.into();
        body["n"] = 8.into();
        let mut running = server.connect().await;
        running.write_all(&post(&body, "")).await.unwrap();
        running.read_exact(&mut [0; 16]).await.unwrap();
        server.stop.send(Signal::End).unwrap();
        server.stop.send(Signal::End).unwrap();
        let text = rest(&mut running).await;
        assert!(text.contains("server_closing") && !text.contains("[DONE]"), "{text}");
        server.task.await.unwrap();
    });
}

#[test]
fn a_server_whose_time_to_close_is_over_says_so_to_those_who_run() {
    run(async {
        let server = server(Limits::default(), Duration::ZERO).await;
        let mut body = story(2, 480);
        body["stream"] = true.into();
        body["n"] = 8.into();
        let mut running = server.connect().await;
        running.write_all(&post(&body, "")).await.unwrap();
        let mut bytes = [0; 16];
        running.read_exact(&mut bytes).await.unwrap();
        server.stop.send(Signal::End).unwrap();
        let text = rest(&mut running).await;
        assert!(text.contains("server_closing") && !text.contains("[DONE]"), "{text}");
        server.task.await.unwrap();
    });
}
