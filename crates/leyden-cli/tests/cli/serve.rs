//! `leyden serve` as the system and clients see it: its options, its signals, and the official Python client of OpenAI.

use leyden_testkit::{emulated, shared};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};

use super::program::{Files, command, finish, leyden, storyteller_with_template};

/// A request with a JSON body, the only one of its connection.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n");
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    /// Reads what it logs: a full pipe would stop it.
    log: Option<JoinHandle<String>>,
    /// Such as `127.0.0.1:40123`.
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Server {
        // Tests that are about it say how long it is.
        let lame_duck: &[&str] = if args.contains(&"--lame-duck") { &[] } else { &["--lame-duck", "0"] };
        Server::of(&mut command(&[&["serve", "--port", "0", "--threads", "1"], lame_duck, args].concat()))
    }

    /// The server that a command starts.
    pub(crate) fn of(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut address = String::new();
        let mut said = String::new();
        while address.is_empty() {
            let mut line = String::new();
            assert!(err.read_line(&mut line).unwrap() > 0, "the server did not start: {said}");
            said += &line;
            if let Some((_, rest)) = line.split_once("listening on http") {
                let rest = rest.trim_start_matches('s').trim_start_matches("://");
                rest.split(',').next().unwrap().clone_into(&mut address);
            }
        }
        let log = thread::spawn(move || {
            let mut log = String::new();
            err.read_to_string(&mut log).unwrap();
            log
        });
        Server { child, log: Some(log), address }
    }

    pub(crate) fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_ref()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The process, which may be an emulator.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // The emulator passes the signal on to the program.
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it with a signal; its exit code and what it logged.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Kills it, as a machine that fails does.
    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        self.ended();
    }

    /// Waits for its end.
    fn ended(mut self) -> (Option<i32>, String) {
        let log = self.log.take().unwrap().join().unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Server {
    /// Kills a server that a test did not end, so that none is left behind.
    fn drop(&mut self) {
        if self.log.is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn key_file(files: &Files) -> String {
    let line = |name: &str, scopes: &str| {
        let digest = Sha256::digest(format!("secret of {name}"));
        let digest: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        format!("{{\"id\":\"{name}\",\"sha256\":\"{digest}\",\"scopes\":{scopes}}}\n")
    };
    let lines = line("ada", "[\"inference\",\"metrics\"]") + &line("bob", "[\"inference\"]");
    files.add("keys", lines.as_bytes())
}

#[test]
fn options_come_from_the_environment_too() {
    let serve = |name: &str, value: &str, args: &[&str]| {
        finish(command(&[&["serve", "--port", "0"], args].concat()).env(name, value), b"")
    };
    let error = serve("LEYDEN_QUEUE", "0", &[]);
    assert!(error.code == Some(2) && error.err.contains("'0' for '--queue <N>'"), "{error:?}");
    let error = serve("LEYDEN_HOST", "0.0.0.0", &["--quiet"]);
    assert!(error.code == Some(2) && error.err.contains("--no-auth"), "{error:?}");
    // What stands on the command line goes before.
    let error = serve("LEYDEN_QUEUE", "0", &["--queue", "5", "--ctx", "100000"]);
    assert!(error.code == Some(2) && error.err.contains("the maximum context of"), "{error:?}");
}

#[test]
fn keys_come_one_by_one_and_from_the_environment() {
    let files = Files::new();
    let mut command = command(&["serve", "--port", "0", "--threads", "1", "--lame-duck", "0"]);
    command.args(["--log-format", "off", "--api-keys", &key_file(&files)]);
    let server =
        Server::of(command.args(["--host", "0.0.0.0", "--api-key", "one", "--api-key", "two,three"]));
    let port = server.address.rsplit(':').next().unwrap();
    let status = |server: &Server, key: &str| {
        let head = format!("host: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n");
        let mut stream =
            TcpStream::connect(format!("127.0.0.1:{}", server.address.rsplit(':').next().unwrap())).unwrap();
        stream.write_all(format!("GET /v1/models HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap_or("closed").to_owned()
    };
    assert_ne!(port, "0");
    for (key, wanted) in [
        ("one", "200"),
        ("two", "200"),
        ("three", "200"),
        ("secret of ada", "200"),
        ("two,three", "401"),
        ("", "401"),
        ("four", "401"),
    ] {
        assert_eq!(status(&server, key), wanted, "{key}");
    }
    assert_eq!(server.end().0, Some(0));
    let mut command =
        super::program::command(&["serve", "--port", "0", "--threads", "1", "--lame-duck", "0"]);
    let server = Server::of(command.env("LEYDEN_API_KEY", "of,env").args(["--log-format", "off"]));
    assert_eq!(["of", "env", "one"].map(|key| status(&server, key)), ["200", "200", "401"]);
    assert_eq!(server.end().0, Some(0));
    // A secret is not shown, and help says who sees it.
    let help = finish(super::program::command(&["serve", "--help"]).env("LEYDEN_API_KEY", "of-env"), b"").out;
    assert!(help.contains("can read command lines") && !help.contains("of-env"), "{help}");
}

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let server = Server::start(&["--log-format", "json", "--alias", "toy"]);
        let health = server.exchange(HEALTH);
        assert!(health.starts_with("HTTP/1.1 200") && health.ends_with("{\"status\":\"ready\"}"), "{health}");
        let model = server.exchange("GET /v1/models/toy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert!(model.contains("\"id\":\"toy\"") && model.contains("\"root\":\"storyteller\""), "{model}");
        // A stream under way is finished.
        let body = r#"{"prompt":"Once","max_tokens":40,"stream":true,"ignore_eos":true}"#;
        let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n";
        let mut stream = TcpStream::connect(&server.address).unwrap();
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        server.signal(signal);
        let (code, log) = server.ended();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("data: [DONE]"), "{signal:?}: {rest}");
        assert_eq!(code, Some(0), "{signal:?}: {log}");
        assert!(log.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()), "{log}");
        assert!(log.contains("\"completion_tokens\":40") && log.contains("\"event\":\"closing\""), "{log}");
    }
}

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[test]
fn balancers_see_that_it_ends_while_it_still_answers() {
    for (first, second) in [(Signal::TERM, Signal::INT), (Signal::HUP, Signal::TERM)] {
        let server = Server::start(&["--log-format", "json", "--lame-duck", "3600"]);
        server.signal(first);
        while !server.exchange(HEALTH).starts_with("HTTP/1.1 503") {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        let answer = server.exchange(post("/v1/completions", r#"{"prompt":"Once","max_tokens":2}"#));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        server.signal(second);
        let (code, log) = server.ended();
        assert_eq!(code, Some(0), "{log}");
        let events = ["not_ready", "second_signal"].map(|e| log.contains(&format!("\"event\":\"{e}\"")));
        assert_eq!(events, [true, true], "{log}");
    }
}

/// Nobody waits at a terminal for balancers.
#[test]
fn an_interrupt_ends_a_server_without_requests_at_once() {
    for signal in [Signal::INT, Signal::QUIT] {
        let server = Server::start(&["--lame-duck", "3600"]);
        let idle = TcpStream::connect(&server.address).unwrap();
        server.signal(signal);
        let (code, log) = server.ended();
        assert!(code == Some(0) && log.contains("ending: no request runs\n"), "{log}");
        drop(idle);
    }
    // What is waited for is said.
    let server = Server::start(&["--lame-duck", "3600", "--drain-timeout", "60"]);
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let request = post("/v1/completions", r#"{"prompt":"Once","max_tokens":2}"#);
    stream.write_all(&request[..request.len() - 1]).unwrap();
    assert!(server.exchange(HEALTH).starts_with("HTTP/1.1 200"));
    thread::sleep(std::time::Duration::from_millis(200));
    server.signal(Signal::INT);
    while !server.exchange(HEALTH).starts_with("HTTP/1.1 503") {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    stream.write_all(&request[request.len() - 1..]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (code, log) = server.ended();
    assert!(code == Some(0) && log.contains("ending: 1 request runs and has up to 3660 s"), "{log}");
}

/// `nohup` starts a program with SIGHUP ignored, and means it.
#[test]
fn a_signal_that_was_ignored_before_stays_so() {
    if emulated() {
        return;
    }
    let program = command(&["serve", "--port", "0", "--threads", "1", "--lame-duck", "0"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
    let server = Server::of(&mut shell);
    server.signal(Signal::HUP);
    thread::sleep(std::time::Duration::from_millis(300));
    assert!(server.exchange(HEALTH).starts_with("HTTP/1.1 200"));
    assert_eq!(server.end().0, Some(0));
}

/// Pages on the web reach a server on this machine by names of their own (DNS rebinding).
#[test]
fn a_server_without_keys_has_its_names() {
    let ask = |server: &Server, host: &str| {
        let body = r#"{"prompt":"Once","max_tokens":1}"#;
        let request = String::from_utf8(post("/v1/completions", body)).unwrap();
        let head = format!("host: {host}\r\norigin: http://{host}\r\n");
        let answer = server.exchange(request.replace("host: x\r\n", &head));
        answer.split(' ').nth(1).unwrap_or("closed").to_owned()
    };
    let files = Files::new();
    let plain = Server::start(&["--log-format", "off"]);
    let named = Server::start(&["--log-format", "off", "--allowed-hosts", "box.example,*.lan.example"]);
    let keys = Server::start(&["--log-format", "off", "--api-keys", &key_file(&files)]);
    for (host, by_plain, by_named) in [
        ("evil.example", "403", "403"),
        ("localhost", "200", "200"),
        ("127.0.0.1:80", "200", "200"),
        ("[::1]:8080", "200", "200"),
        ("box.example:8080", "403", "200"),
        ("a.lan.example", "403", "200"),
        ("lan.example.evil.example", "403", "403"),
    ] {
        assert_eq!((ask(&plain, host).as_str(), ask(&named, host).as_str()), (by_plain, by_named), "{host}");
        // Such a page has no key.
        assert_eq!(ask(&keys, host), "401", "{host}");
    }
    assert_eq!([plain, named, keys].map(|s| s.end().0), [Some(0); 3]);
}

#[test]
fn engines_of_one_model_answer_at_one_address() {
    let texts = |server: &Server| {
        let text = |prompt: &str| {
            let body = format!(
                "{{\"prompt\":\"{prompt}\",\"max_tokens\":200,\"temperature\":0,\"ignore_eos\":true}}"
            );
            let answer = server.exchange(post("/v1/completions", &body));
            let answer: serde_json::Value =
                serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            answer["choices"][0]["text"].clone()
        };
        thread::scope(|scope| {
            let text = &text;
            let all = ["Once upon", "The king", "A fox", "In winter"].map(|p| scope.spawn(move || text(p)));
            all.map(|text| text.join().unwrap())
        })
    };
    let one = Server::start(&["--log-format", "off"]);
    let two = Server::start(&["--log-format", "off", "--replicas", "2", "--parallel", "1"]);
    assert_eq!(texts(&two), texts(&one));
    let metrics = two.exchange("GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    for engine in [0, 1] {
        let steps = format!("leyden_steps_total{{model_name=\"storyteller\",engine=\"{engine}\"}} ");
        let steps =
            metrics.lines().find_map(|line| line.strip_prefix(&steps)).expect("each engine has its own");
        assert_ne!(steps, "0", "engine {engine}");
    }
    assert_eq!((one.end().0, two.end().0), (Some(0), Some(0)));
}

#[test]
fn wrong_usage_is_explained() {
    let files = Files::new();
    let keys = key_file(&files);
    let broken = files.add("broken", b"{\"id\":\"ada\"}\n");
    let error = leyden(&["serve", "--host", "0.0.0.0", "--port", "0"]);
    assert_eq!(error.code, Some(2), "{error:?}");
    assert!(error.err.contains("no API keys") && error.err.contains("--no-auth"), "{error:?}");
    for (args, code, what) in [
        (&["--api-keys", &broken][..], 1, "line 1: `sha256` is missing"),
        (&["--api-keys", "/nothing"], 1, "cannot read"),
        (&["--api-keys", &keys, "--no-auth"], 2, "cannot be used with"),
        (&["--api-key", "x", "--no-auth"], 2, "cannot be used with"),
        (&["--api-key", ""], 2, "key-1 is empty"),
        (&["--api-key", "a", "--api-key", "a"], 2, "key-2, or its name, occurs twice"),
        (&["--ctx", "100000"], 2, "the maximum context of"),
        (&["--kv-tokens", "4000000000"], 1, "the maximum is"),
        (&["--alias", "a=b"], 2, "there is no model `a`"),
        (&["--parallel", "0"], 2, "--parallel"),
        (&["--replicas", "0"], 2, "neither `auto` nor a number"),
        (&["--log-format", "xml"], 2, "unknown format"),
        (&["--pooling", "median"], 2, "known: mean, cls, last"),
        (&["--connections-per-peer", "0"], 2, "--connections-per-peer"),
        (&["--trusted-proxies", "10.0.0.0/33"], 2, "neither an address nor a network"),
        (&["nothing.gguf"], 1, "nothing.gguf"),
    ] {
        let run = leyden(&[&["serve", "--port", "0"], args].concat());
        assert!(
            run.code == Some(code) && run.err.contains(what) && !run.err.contains("panicked"),
            "{args:?}: {run:?}"
        );
    }
}

/// As Qwen's template writes calls of tools.
const TEMPLATE: &str = "{% if tools %}{{ tools | tojson }}\n{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>\n\
    {{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}\
    <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Runs a Python script against a server whose model knows tools; nothing if the script's package is not there.
fn client(script: &str, package: &str, arguments: &[&str]) {
    if emulated() {
        let _ = writeln!(std::io::stderr(), "skipped: Python's clients are the same for every processor");
        return;
    }
    let found = Command::new("python3").args(["-c", &format!("import {package}")]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the package {package}");
        // Not `eprintln!`, which a test that passes keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the package {package}");
        return;
    }
    let files = Files::new();
    let model = files.add("storyteller.gguf", &storyteller_with_template(TEMPLATE));
    let server =
        Server::start(&[&model, "--api-keys", &key_file(&files), "--batch-dir", &files.path("batches")]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(script);
    let mut python = Command::new("python3");
    // Neither does a client of the tests talk to anybody else.
    python.env("LANGSMITH_TRACING", "false").env("LANGCHAIN_TRACING_V2", "false");
    let output =
        python.arg(&script).arg(format!("http://{}", server.address)).args(arguments).output().unwrap();
    let (code, log) = server.end();
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && out.ends_with("ok\n"), "{out}\n{err}\n{log}");
    let _ = write!(std::io::stderr(), "{}: {out}", script.display());
    assert_eq!(code, Some(0));
    assert!(!log.contains("secret") && !log.contains("Once"), "{log}");
}

#[test]
fn the_official_client_is_content() {
    client("openai_client.py", "openai", &[]);
}

#[test]
fn the_official_client_of_anthropic_is_content() {
    client("anthropic_client.py", "anthropic", &[]);
}

#[test]
fn the_official_client_of_ollama_is_content() {
    client("ollama_client.py", "ollama", &[]);
}

/// The table of published fields has a row for each field that the official packages know. They may know more any day.
#[test]
#[ignore = "depends on what others publish"]
fn no_published_field_is_forgotten() {
    let packages = "openai, anthropic, ollama, cohere";
    let found = Command::new("python3").args(["-c", &format!("import {packages}")]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the packages {packages}");
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the packages {packages}");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3")
        .arg(folder.join("tests/cli/published_fields.py"))
        .arg(folder.join("../leyden-server/src/published.tsv"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("ok\n"), "{out}\n{err}");
}

#[test]
fn answers_are_of_the_types_that_are_published() {
    client("published_types.py", "anthropic, ollama, openai", &[]);
}

#[test]
fn responses_go_on_where_the_last_ended() {
    client("responses_client.py", "openai", &[]);
}

#[test]
fn an_agent_of_langchain_calls_a_tool() {
    client("langchain_agent.py", "langchain_openai", &[]);
}

#[test]
fn litellm_is_content_in_every_dialect() {
    client("litellm_client.py", "litellm", &[]);
}

#[test]
fn instructor_gets_objects() {
    client("instructor_client.py", "instructor", &[]);
}

/// Everything that the document allows is answered as it says, and what it does not allow is refused.
#[test]
fn the_document_of_the_interface_is_kept() {
    client("openapi_check.py", "schemathesis", &[]);
}

#[test]
#[ignore = "takes many minutes"]
fn the_document_of_the_interface_is_kept_by_many_requests() {
    client("openapi_check.py", "schemathesis", &["1000"]);
}

fn schemas(step: &str, seeds: &str) {
    let Some(file) = shared("data/schemas/jsonschemabench-sample.jsonl") else { return };
    client("schemas_check.py", "jsonschema", &[file.to_str().unwrap(), step, seeds]);
}

#[test]
fn answers_follow_real_schemas_through_the_server() {
    schemas("10", "1");
}

#[test]
#[ignore = "takes minutes: every schema with three seeds"]
fn answers_follow_all_real_schemas_through_the_server() {
    schemas("1", "3");
}
