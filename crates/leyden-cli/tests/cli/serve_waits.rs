//! Waiting times: the long request of one client does not delay another client.
//!
//! Bounds are multiples of what an undisturbed request of the same run takes, and generous: a machine that does other
//! things besides must not fail them, only waiting for the whole of somebody else's work.

use leyden_testkit::emulated;
use std::io::{Read, Write};
use std::net::TcpStream;
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

/// Measures the time of a small request with key `b`.
fn hello(address: &str) -> Duration {
    let begun = Instant::now();
    let answer = exchange(address, &of("b", COMPLETIONS, &json!({ "prompt": "Hello", "max_tokens": 1 })));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    begun.elapsed()
}

/// The longest of such waits while `work` goes on, and how often there was one.
fn waits_beside(address: &str, work: impl FnOnce() + Send) -> Duration {
    thread::scope(|scope| {
        let work = scope.spawn(work);
        let mut longest = Duration::ZERO;
        loop {
            longest = longest.max(hello(address));
            if work.is_finished() {
                work.join().unwrap();
                return longest;
            }
        }
    })
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

/// Prompts of megabytes that cannot fit are refused at once, as text, as a message and in lists (vLLM's issue 24910).
#[test]
fn prompts_that_cannot_fit_keep_nobody_waiting() {
    let files = Files::new();
    let server = Server::start(&["--api-keys", &keys(&files)]);
    let address = &server.address;
    hello(address);
    let alone = (0..5).map(|_| hello(address)).max().unwrap();
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
    let begun = Instant::now();
    let longest = waits_beside(address, || flood(megabytes(8) - 1000));
    eprintln!("alone {alone:?}, beside {longest:?}, all in {:?}", begun.elapsed());
    // Tokenising them would take a processor several seconds each.
    let bound = (alone * 20).max(Duration::from_secs(if emulated() { 100 } else { 2 }));
    assert!(longest < bound, "{longest:?} beside prompts of megabytes, {alone:?} alone");
    server.end();
}

/// Long texts are tokenized in turns with other requests (text-embeddings-inference's issue 235).
#[test]
fn counting_the_tokens_of_long_texts_keeps_nobody_waiting() {
    let files = Files::new();
    let server = Server::start(&["--api-keys", &keys(&files)]);
    let address = &server.address;
    hello(address);
    let alone = (0..5).map(|_| hello(address)).max().unwrap();
    let text = ".".repeat(megabytes(1));
    let request = of("a", "/tokenize", &json!({ "prompt": text }));
    let begun = Instant::now();
    let longest = waits_beside(address, || {
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| assert!(exchange(address, &request).starts_with("HTTP/1.1 200")));
            }
        });
    });
    let all = begun.elapsed();
    eprintln!("alone {alone:?}, beside {longest:?}, all in {all:?}");
    let bound = (alone * 20).max(all / 3).max(Duration::from_millis(500));
    assert!(longest < bound, "{longest:?} beside texts that took {all:?}, {alone:?} alone");
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
    let mut last = busy(server.pid());
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = busy(server.pid());
        if now <= last + 10 {
            break;
        }
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
        let begun = Instant::now();
        let answer =
            exchange(address, &post(COMPLETIONS, &json!({ "prompt": prompt, "max_tokens": 1 }).to_string()));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        begun.elapsed()
    };
    ask(0, 100);
    let alone = ask(1, 10);
    let (long, short, waited) = thread::scope(|scope| {
        let long: Vec<_> = (0..60).map(|i| scope.spawn(move || ask(100 + i, 400))).collect();
        thread::sleep(alone);
        let begun = Instant::now();
        let short = ask(2, 10);
        let waited = begun.elapsed();
        (long.into_iter().map(|t| t.join().unwrap()).max().unwrap(), short, waited)
    });
    eprintln!("alone {alone:?}, beside {short:?}, the long ones {long:?}");
    let bound = (alone * 20).max(long / 2);
    assert!(waited < bound, "{waited:?} beside prompts that took {long:?}, {alone:?} alone");
    server.end();
}
