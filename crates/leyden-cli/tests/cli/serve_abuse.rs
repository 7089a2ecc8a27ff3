//! Abusive clients, by accident or intent, beside regular ones: a client of another address is not affected, one of the same
//! address may be told to retry, and afterwards the server is unchanged, memory included.

use leyden_testkit::emulated;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::serve::{Server, post};

/// So many natively, few behind an emulator.
fn many(n: usize) -> usize {
    if emulated() { (n / 100).max(2) } else { n }
}

/// A limit that only something that hangs reaches.
fn patience() -> Duration {
    Duration::from_secs(if emulated() { 6000 } else { 60 })
}

/// An address of this machine that is not the one that its connections have by default.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A connection from [`ELSEWHERE`].
fn connect_from_elsewhere(address: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddrV4::new(ELSEWHERE, 0).into()).unwrap();
    socket.connect(&address.parse::<SocketAddrV4>().unwrap().into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(patience())).unwrap();
    stream
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    stream
}

/// Sends bytes and reads to the end; what came, however it ended.
fn exchange(address: &str, bytes: &[u8]) -> String {
    exchange_on(connect(address), bytes)
}

fn exchange_on(mut stream: TcpStream, bytes: &[u8]) -> String {
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Does something with the numbers up to `n`, some at a time.
fn each(n: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        return;
                    }
                    work(i);
                }
            });
        }
    });
}

fn story(i: usize, tokens: usize, stream: bool) -> String {
    json!({
        "prompt": format!("Once upon a time there was a king who had {i} daughters"), "seed": i,
        "max_tokens": tokens, "stream": stream, "ignore_eos": true,
    })
    .to_string()
}

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// Anonymous memory and swap of a process in MiB.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |name: &str| -> usize {
        let line = status.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (of("RssAnon:") + of("VmSwap:")) >> 10
}

/// A gauge or a counter.
fn metric(address: &str, name: &str) -> usize {
    let page = exchange(address, b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let line = page.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
    line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize
}

/// Waits until nobody waits or runs and only the connection that asks is open.
fn rest(address: &str) {
    let deadline = Instant::now() + patience();
    for name in ["vllm:num_requests_running", "vllm:num_requests_waiting", "leyden_kv_blocks_held"] {
        while metric(address, name) > 0 {
            assert!(Instant::now() < deadline, "{name}");
            thread::sleep(Duration::from_millis(20));
        }
    }
    while metric(address, "leyden_http_connections ") > 1 {
        assert!(Instant::now() < deadline, "connections");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Another client: asks the same again and again, and must get the same.
struct Other {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<usize>,
}

impl Other {
    /// One of the address that everybody has, which tries again where the server asks for that, or one of an address of its
    /// own, which is never asked to.
    fn start(address: &str, elsewhere: bool) -> Other {
        let (address, stop) = (address.to_owned(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let request = post(COMPLETIONS, &story(7, 8, false));
            let ask = || {
                let answer = match elsewhere {
                    true => exchange_on(connect_from_elsewhere(&address), &request),
                    false => answered(&address, &request).1,
                };
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
                body["choices"].clone()
            };
            let wanted = ask();
            let mut asked = 0;
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(ask(), wanted);
                asked += 1;
                thread::sleep(Duration::from_millis(5));
            }
            asked
        });
        Other { stop, thread }
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn answered_with(address: &str, request: &[u8], statuses: &[&str]) {
    let answer = exchange(address, request);
    let status = answer.split(' ').nth(1).unwrap_or("closed");
    let shown: String = String::from_utf8_lossy(request).chars().take(120).collect();
    assert!(statuses.contains(&status), "{shown}: {answer}");
}

/// Heads, bodies and JSON of any size and form.
fn shapeless(address: &str) {
    let head = format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    );
    let get = "GET /health HTTP/1.1\r\nhost: x\r\n";
    let chunks = "fff\r\n".to_owned() + &"x".repeat(4095) + "\r\n";
    let cases: Vec<(Vec<u8>, &[&str])> = vec![
        (format!("{get}x: {}\r\n\r\n", "y".repeat(1 << 20)).into(), &["431", "closed"]),
        (format!("{get}{}\r\n", "x: y\r\n".repeat(10_000)).into(), &["431", "closed"]),
        (
            format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(1 << 20)).into(),
            &["414", "431", "closed"],
        ),
        (format!("{head}content-length: {}\r\n\r\n", 1_u64 << 40).into(), &["413"]),
        (
            format!("{head}content-length: 9000000\r\n\r\n{}", "x".repeat(9_000_000)).into(),
            &["413", "closed"],
        ),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n{}", chunks.repeat(3000)).into(),
            &["413", "closed"],
        ),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n{}", "1\r\n{\r\n".repeat(100_000) + "0\r\n\r\n")
                .into(),
            &["400", "closed"],
        ),
        (format!("{head}transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n").into(), &["400"]),
        (format!("{head}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n").into(), &["400"]),
        (post(COMPLETIONS, &"[".repeat(1 << 20)), &["400"]),
        (post(COMPLETIONS, &format!("{{\"prompt\":{}", "{\"a\":".repeat(200_000))), &["400"]),
        (post(COMPLETIONS, &format!("{{\"prompt\":[{}1]}}", "1,".repeat(1 << 21))), &["400"]),
        (post(COMPLETIONS, &format!("{{\"prompt\":\"{}\"}}", "word ".repeat(1 << 20))), &["400"]),
        (post(COMPLETIONS, &format!("{{\"seed\":{}}}", "1".repeat(1 << 20))), &["400"]),
        (
            [head.as_bytes(), b"content-length: 14\r\nconnection: close\r\n\r\n{\"prompt\":\"\xff\"}"]
                .concat(),
            &["400"],
        ),
        (b"\x16\x03\x01\x02\x00".repeat(100), &["400", "closed"]),
        (b"\0".repeat(100_000), &["400", "431", "closed"]),
        (post("/detokenize", &format!("{{\"tokens\":[{}1]}}", "1,".repeat(150_000))), &["200"]),
        (post("/tokenize", &json!({ "prompt": "usus ".repeat(400_000) }).to_string()), &["200"]),
    ];
    each(cases.len(), |i| answered_with(address, &cases[i].0, cases[i].1));
}

/// Grammars and schemas made to take time or memory.
fn bombs(address: &str) {
    let grammar = |kind: &str, value: String| json!({ "grammar": { "type": kind, "value": value } });
    let schema = |schema: Value| json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": schema } } });
    let words = |n: usize| (0..n).map(|i| format!("{i}x*")).collect::<Vec<_>>().join("|");
    let enums = |n: usize| (0..n).map(|i| json!(format!("v{i}"))).collect::<Vec<_>>();
    let bombs = [
        grammar("regex", "((((a{1,100}){1,100}){1,100}){1,100}){1,100}".into()),
        grammar("regex", "(a|b)*a(a|b){60}".into()),
        grammar("regex", words(1_000)),
        grammar("regex", "[\\p{L}\\p{N}]{1,500}\\p{Greek}+".into()),
        grammar("lark", format!("start: {}", "(".repeat(30_000))),
        grammar("lark", "start: (((\"a\"{1,1000}){1,1000}){1,1000})".into()),
        grammar("lark", "start: start start | \"a\" | \"b\" | \"\"".into()),
        grammar("gbnf", "root ::= ((\"a\"{1,10000}){1,10000}){1,10000}".into()),
        grammar("gbnf", "root ::= x{1,10000}\nx ::= \"(\" x \")\" | \"y\"".into()),
        grammar("gbnf", format!("root ::= \"a\"{}", "*".repeat(10_000))),
        schema(json!({ "type": "array", "minItems": 5_000, "items": { "enum": ["a", "b"] } })),
        schema(json!({ "type": "string", "maxLength": 1_000_000_000_u64 })),
        schema(json!({ "enum": enums(5_000) })),
        schema(json!({ "type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$" })),
        schema(json!({ "$ref": "#" })),
        schema(
            (0..8)
                .fold(json!({ "type": "null" }), |inner, _| json!({ "anyOf": [inner, { "items": inner }] })),
        ),
    ];
    each(bombs.len() * 4, |i| {
        let mut body = bombs[i % bombs.len()].clone();
        body["messages"] = json!([{ "role": "user", "content": "x" }]);
        body["max_tokens"] = 20.into();
        body["n"] = (1 + i / bombs.len()).into();
        // Every one is another grammar to the server.
        if let Some(value) = body["grammar"]["value"].as_str().map(|v| format!("{v}{}", " ".repeat(i))) {
            body["grammar"]["value"] = value.into();
        } else {
            body.as_object_mut().unwrap().remove("grammar");
        }
        answered_with(address, &post(CHAT, &body.to_string()), &["200", "400", "422"]);
    });
}

/// Clients that go at any time.
fn deserters(address: &str, n: usize) {
    each(n, |i| {
        let mut stream = connect(address);
        let body = story(i, 100, i % 4 != 3);
        let _ = stream.write_all(&post(COMPLETIONS, &body));
        match i % 4 {
            // Mid-stream.
            0 => drop(stream.read(&mut vec![0; 200 + i % 1000])),
            // Half closed, and then altogether.
            1 => {
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read(&mut [0; 200]);
            }
            // Before anything came.
            2 => thread::sleep(Duration::from_millis(i as u64 % 10)),
            // A whole answer that nobody waits for.
            _ => {}
        }
    });
}

/// One round of everything. Says how long each part took where output is shown.
fn round(address: &str) {
    let start = Instant::now();
    let done = |what: &str| eprintln!("{what}: {:?}", start.elapsed());
    // Slow ones stay open until the others are through.
    let dribble = format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    let mut slow: Vec<TcpStream> = Vec::new();
    for i in 0..many(200) {
        let mut stream = connect(address);
        // A part of a head, or a head and a part of a body.
        let part = if i % 2 == 0 { &dribble[..20 + i % 40] } else { &dribble };
        let _ = stream.write_all(part.as_bytes());
        slow.push(stream);
    }
    shapeless(address);
    done("shapeless");
    bombs(address);
    done("bombs");
    deserters(address, many(1000));
    done("deserters");
    let idle: Vec<TcpStream> = (0..many(2000)).map(|_| connect(address)).collect();
    // A client that comes behind all these.
    answered(address, &post(COMPLETIONS, &story(1, 4, false)));
    deserters(address, many(400));
    drop(idle);
    for stream in &mut slow {
        let _ = stream.write_all(b"x");
    }
    drop(slow);
    done("idle");
    rest(address);
    done("rest");
}

/// An answer with status 200, and the time until it, tries included where the server asks for them.
fn answered(address: &str, request: &[u8]) -> (Duration, String) {
    let begin = Instant::now();
    loop {
        let answer = exchange(address, request);
        if answer.starts_with("HTTP/1.1 200") {
            return (begin.elapsed(), answer);
        }
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
        assert!(begin.elapsed() < patience());
        thread::sleep(Duration::from_millis(200));
    }
}

/// Bodies that are announced and hardly come: nobody waits for them.
#[test]
fn slow_bodies_keep_nobody_out() {
    let server = Server::start(&["--log-format", "off"]);
    let address = &server.address;
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").into_bytes();
    let ask = post(COMPLETIONS, &story(7, 8, false));
    let undisturbed = answered(address, &ask).0.max(answered(address, &ask).0);
    let head = format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 8000000\r\n\r\n{{"
    );
    let mut slow: Vec<TcpStream> = Vec::new();
    for _ in 0..many(1100) {
        let mut stream = connect(address);
        let _ = stream.write_all(head.as_bytes());
        slow.push(stream);
    }
    // At once, and every second again while bytes come.
    for round in 0..4 {
        for path in ["/health/live", "/health", "/metrics"] {
            let time = answered(address, &get(path)).0;
            assert!(
                time < 20 * undisturbed + Duration::from_secs(1),
                "{round}, {path}: {time:?} of {undisturbed:?}"
            );
        }
        let time = answered(address, &ask).0;
        assert!(time < 20 * undisturbed + Duration::from_secs(8), "{round}: {time:?} of {undisturbed:?}");
        for stream in &mut slow {
            let _ = stream.write_all(b" ");
        }
        thread::sleep(Duration::from_millis(500));
    }
    drop(slow);
    rest(address);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn abuse_costs_nobody_else_anything() {
    let server = Server::start(&["--log-format", "json", "--queue", "1024"]);
    let address = server.address.clone();
    let others = [true, false].map(|elsewhere| Other::start(&address, elsewhere));
    // What is kept has its limits, and these are reached first: the last grammars, and what the allocator keeps for each
    // thread.
    for _ in 0..if emulated() { 1 } else { 4 } {
        round(&address);
    }
    let before = memory(server.pid());
    for _ in 0..if emulated() { 1 } else { 2 } {
        round(&address);
    }
    let asked = others.map(Other::end);
    rest(&address);
    let after = memory(server.pid());
    let restarts = metric(&address, "leyden_engine_restarts_total");
    let (code, log) = server.end();
    let _ = writeln!(std::io::stderr(), "{asked:?} requests beside; memory {before} MiB, then {after} MiB");
    assert_eq!((code, restarts), (Some(0), 0), "{log}");
    assert!(!log.contains("\"status\":500") && !log.contains("panicked"), "{log}");
    assert!(asked.iter().all(|asked| *asked > 0), "{asked:?}");
    // An emulator's own memory grows with the code that it has seen.
    assert!(emulated() || after <= before + 32, "memory: {before} MiB, then {after} MiB");
}
