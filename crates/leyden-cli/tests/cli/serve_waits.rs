//! Waiting times: the long request of one client does not delay another client.
//!
//! The tests compare orders of events and processor time of the server, no waiting times: these depend on what else the
//! machine does.

use leyden_testkit::{emulated, patience};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::program::Files;
use super::serve::{Server, post};

const COMPLETIONS: &str = "/v1/completions";

/// A file with the keys `a` and `b`.
fn keys(files: &Files) -> String {
    let line = |id: &str| {
        let digest: String = Sha256::digest(id).iter().map(|b| format!("{b:02x}")).collect();
        format!("{{\"id\":\"{id}\",\"sha256\":\"{digest}\"}}\n")
    };
    files.add("keys", (line("a") + &line("b")).as_bytes())
}

/// A request of a key.
fn of(key: &str, path: &str, body: &Value) -> Vec<u8> {
    let request = String::from_utf8(post(path, &body.to_string())).unwrap();
    request.replacen("\r\n", &format!("\r\nauthorization: Bearer {key}\r\n"), 1).into_bytes()
}

fn send(address: &str, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may refuse before it has read everything.
    let _ = stream.write_all(request);
    stream
}

/// The whole answer.
fn exchange(address: &str, request: &[u8]) -> String {
    let mut answer = String::new();
    let _ = send(address, request).read_to_string(&mut answer);
    answer
}

/// Sends a small request with key `b`, which is answered.
fn hello(address: &str) {
    let answer = exchange(address, &of("b", COMPLETIONS, &json!({ "prompt": "Hello", "max_tokens": 1 })));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Processor time that a process has had, in milliseconds.
fn busy(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, in hundredths of a second on every Linux.
    10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap())
}

fn megabytes(n: usize) -> usize {
    if emulated() { 20_000 } else { n * 1_000_000 }
}

/// Prompts of megabytes that cannot fit are refused before they are tokenized, as text, as a message and in lists
/// (vLLM's issue 24910).
#[test]
fn prompts_that_cannot_fit_keep_nobody_waiting() {
    let files = Files::new();
    let server = Server::start(&["--api-keys", &keys(&files)]);
    let address = &server.address;
    hello(address);
    let flood = |bytes: usize| {
        thread::scope(|scope| {
            for i in 0..6 {
                scope.spawn(move || {
                    let text = [" ", "a", "."][i % 3].repeat(bytes);
                    let (path, body) = match i {
                        0..4 => (COMPLETIONS, json!({ "prompt": text })),
                        4 => (
                            "/v1/chat/completions",
                            json!({ "messages": [{ "role": "user", "content": text }] }),
                        ),
                        _ => ("/v1/embeddings", json!({ "input": ["x", text] })),
                    };
                    let answer = exchange(address, &of("a", path, &body));
                    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
                    assert!(answer.contains("context_length_exceeded"), "{answer}");
                    assert!(answer.contains("at least"), "{answer}");
                });
            }
        });
    };
    let begun = busy(server.pid());
    flood(megabytes(8) - 1000);
    let taken = busy(server.pid()) - begun;
    eprintln!("six prompts of megabytes take {taken} ms of a processor");
    // Tokenising them would take several seconds each.
    assert!(emulated() || taken < 10_000, "{taken} ms of a processor for prompts that are refused");
    hello(address);
    server.end();
}

/// Long texts are tokenized in turns with other requests (text-embeddings-inference's issue 235).
#[test]
fn counting_the_tokens_of_long_texts_keeps_nobody_waiting() {
    let files = Files::new();
    let server = Server::start(&["--api-keys", &keys(&files)]);
    let address = &server.address;
    hello(address);
    let text = ".".repeat(megabytes(1));
    let request = of("a", "/tokenize", &json!({ "prompt": text }));
    let counted = AtomicUsize::new(0);
    let answered = thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                assert!(exchange(address, &request).starts_with("HTTP/1.1 200"));
                counted.fetch_add(1, Ordering::SeqCst);
            });
        }
        // The number of small requests that were answered before the last of the long ones.
        let mut answered = 0;
        while counted.load(Ordering::SeqCst) < 24 {
            hello(address);
            answered += usize::from(counted.load(Ordering::SeqCst) < 24);
        }
        answered
    });
    eprintln!("{answered} small requests beside 24 long texts");
    assert!(answered > 0, "every small request waited for all long texts");
    server.end();
}

/// Work for clients that have gone is not done (llama.cpp's issue 13262).
#[test]
fn work_ends_with_its_client() {
    let server = Server::start(&[]);
    let address = &server.address;
    let text: String = (0..megabytes(3)).map(|i| char::from(b'a' + (i * i / 7 % 26) as u8)).collect();
    let request = post("/tokenize", &json!({ "prompt": text }).to_string());
    let begun = busy(server.pid());
    assert!(exchange(address, &request).starts_with("HTTP/1.1 200"));
    let one = busy(server.pid()) - begun;
    let begun = busy(server.pid());
    let clients: Vec<TcpStream> = (0..12).map(|_| send(address, &request)).collect();
    thread::sleep(Duration::from_millis(50));
    drop(clients);
    // Until it is at rest.
    let (limit, mut last) = (Instant::now() + patience(Duration::from_secs(60)), busy(server.pid()));
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = busy(server.pid());
        if now <= last + 10 {
            break;
        }
        assert!(Instant::now() < limit, "the server works on for clients that have gone");
        last = now;
    }
    let dropped = last - begun;
    eprintln!("one takes {one} ms, twelve that go {dropped} ms");
    // Some was done before they went, and all bodies were read.
    assert!(dropped < 6 * one + 500, "{dropped} ms for twelve that went, {one} ms for one that stayed");
    server.end();
}

/// A short prompt overtakes long prompts of the same key (vLLM's issue 10774).
#[test]
fn a_short_prompt_passes_long_ones() {
    let server = Server::start(&["--parallel", "4"]);
    let address = &server.address;
    let ask = |i: usize, words: usize| {
        let prompt = format!("{i} ") + &"the king and the fox ".repeat(words / 5);
        let answer =
            exchange(address, &post(COMPLETIONS, &json!({ "prompt": prompt, "max_tokens": 1 }).to_string()));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    let waiting = || {
        let page = exchange(address, b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let line = page.lines().find(|line| line.starts_with("vllm:num_requests_waiting")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    const LONG: usize = 60;
    let answered = AtomicUsize::new(0);
    let before = thread::scope(|scope| {
        for i in 0..LONG {
            let (ask, answered) = (&ask, &answered);
            scope.spawn(move || {
                ask(100 + i, 400);
                answered.fetch_add(1, Ordering::SeqCst);
            });
        }
        let limit = Instant::now() + patience(Duration::from_secs(60));
        while waiting() < 8.0 {
            assert!(Instant::now() < limit, "no prompt waits");
        }
        ask(2, 10);
        answered.load(Ordering::SeqCst)
    });
    eprintln!("{before} of {LONG} long prompts were answered before the short one");
    assert!(before < LONG, "the short prompt waited for all long ones");
    server.end();
}
