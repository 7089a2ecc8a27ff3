//! Sockets: what clients do wrong, by accident or not, costs them their connection and nobody else anything.

use super::{COMPLETIONS, at_rest, emulated, run, start, story, until, worker_options};
use crate::app::App;
use crate::{Limits, ServerOptions, listen};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server on a socket.
struct Server {
    app: Arc<App>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

async fn server(limits: Limits, drain: Duration) -> Server {
    let (app, _) = start(worker_options(), ServerOptions { limits, ..ServerOptions::default() });
    let listener = listen::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(listen::run(Arc::clone(&app), listener, async { drop(stopped.await) }, drain));
    Server { app, address, stop: Some(stop), task }
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

    /// The text of a story, through the socket.
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
            ("OPTIONS /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".into(), &["405"]),
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
        // One byte of a head in a while, however small the pauses are.
        let dribble = async {
            let mut stream = server.connect().await;
            for byte in b"GET /health HTTP/1.1\r\nhost: x\r\nx-long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy".iter().cycle() {
                if stream.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // Nothing at all.
        let silent = async { rest(&mut server.connect().await).await };
        // A body that never comes.
        let hollow = async {
            let head = format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{{"
            );
            server.exchange(head.as_bytes()).await
        };
        // A second request that never comes.
        let idle = async { server.exchange(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await };
        let ((), silent, hollow, idle) = tokio::join!(dribble, silent, hollow, idle);
        assert_eq!(silent, "");
        assert_eq!(status(&hollow), "408", "{hollow}");
        assert_eq!(status(&idle), "200", "{idle}");
        until("no connection is left", || server.app.http.connections.get() == 0).await;
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
        // Those that do nothing make way.
        server.story(1, 4).await;
        assert!(server.app.http.connections_total.get() > 4 && server.app.http.connections.get() <= 4);
        drop(idle);
        // Those that are answered do not.
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
        let mut server = plain().await;
        let mut body = story(2, 60);
        body["stream"] = true.into();
        let mut running = server.connect().await;
        running.write_all(&post(&body, "")).await.unwrap();
        let mut idle = server.connect().await;
        let mut bytes = [0; 16];
        running.read_exact(&mut bytes).await.unwrap();
        server.stop.take().unwrap().send(()).unwrap();
        assert_eq!(rest(&mut idle).await, "");
        assert!(rest(&mut running).await.contains("data: [DONE]"));
        server.task.await.unwrap();
        assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens");
    });
}

#[test]
fn a_server_whose_time_to_close_is_over_says_so_to_those_who_run() {
    run(async {
        let mut server = server(Limits::default(), Duration::ZERO).await;
        let mut body = story(2, 480);
        body["stream"] = true.into();
        body["n"] = 8.into();
        let mut running = server.connect().await;
        running.write_all(&post(&body, "")).await.unwrap();
        let mut bytes = [0; 16];
        running.read_exact(&mut bytes).await.unwrap();
        server.stop.take().unwrap().send(()).unwrap();
        let text = rest(&mut running).await;
        assert!(text.contains("server_closing") && !text.contains("[DONE]"), "{text}");
        server.task.await.unwrap();
    });
}
