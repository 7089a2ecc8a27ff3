//! Tests of the library's examples, which `cargo test` builds too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Path of the embedded model's file.
const STORYTELLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/model/storyteller-q8_0.gguf");

/// Returns the program of an example; `None` if only some tests were built.
fn example(name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    if path.is_file() {
        return Some(path);
    }
    assert!(std::env::var_os("LEYDEN_CI").is_none(), "{} is not built", path.display());
    // Not `eprintln!`, whose output is captured in a passing test.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {} is not built; `cargo test` without `--test` builds it",
        path.display()
    );
    None
}

/// Runs an example, which must succeed, and returns its output.
#[track_caller]
fn output(name: &str, args: &[&str]) -> Option<String> {
    // Behind the emulator that `LEYDEN_TEST_RUNNER` names (with its arguments) where one is needed.
    let runner = std::env::var("LEYDEN_TEST_RUNNER").unwrap_or_default();
    let program = example(name)?.display().to_string();
    let mut words = runner.split_whitespace().chain([program.as_str()]);
    let run = Command::new(words.next().unwrap()).args(words).args(args).output().unwrap();
    assert!(run.status.success(), "{name} {args:?}: {run:?}");
    Some(String::from_utf8(run.stdout).unwrap())
}

#[test]
fn load_says_what_it_loaded() {
    for args in [&[][..], &[STORYTELLER]] {
        let Some(out) = output("load", args) else { return };
        for part in ["llama architecture", "4096 tokens, context of 1024", "loaded in "] {
            assert!(out.contains(part), "{part}\n{out}");
        }
    }
}

#[test]
fn generate_streams_a_story() {
    let Some(embedded) = output("generate", &["The king"]) else { return };
    let (story, end) = embedded.trim_end().rsplit_once('\n').unwrap();
    assert!(story.split_whitespace().count() > 8, "{embedded}");
    assert!(end == "32 tokens, ended by length" || end.ends_with("ended by stop"), "{embedded}");
    assert_eq!(output("generate", &[STORYTELLER, "The king"]).unwrap(), embedded);
}

#[test]
fn tokenize_goes_there_and_back() {
    let Some(out) = output("tokenize", &["Hello, wörld \u{1f642}"]) else { return };
    assert!(out.starts_with("as a prompt: ["), "{out}");
    assert!(out.ends_with("and back: Hello, wörld \u{1f642}\n"), "{out}");
    assert!(output("tokenize", &[STORYTELLER, "ab"]).unwrap().ends_with("and back: ab\n"));
}

#[test]
fn inspect_lists_sizes_and_keys() {
    for args in [&[][..], &[STORYTELLER]] {
        let Some(out) = output("inspect", args) else { return };
        for part in ["context: 1024,", "chat template: no", "tokenizer.ggml.tokens: array"] {
            assert!(out.contains(part), "{part}\n{out}");
        }
    }
}

#[test]
fn chat_remembers() {
    let Some(out) = output("chat", &[]) else { return };
    assert_eq!((out.matches("> ").count() >= 3, out.lines().last()), (true, Some("6 messages")), "{out}");
    let cached: Vec<&str> = out.lines().filter(|line| line.contains("tokens were cached]")).collect();
    assert!(cached[0].starts_with("[0 of ") && !cached[2].starts_with("[0 of "), "{out}");
}

#[test]
fn stream_ends_when_it_is_dropped() {
    let Some(out) = output("stream", &[]) else { return };
    assert!(out.ends_with(" words\n") && out.contains("enough after 1"), "{out}");
}

#[test]
fn batch_shares_what_prompts_begin_with() {
    let Some(out) = output("batch", &[]) else { return };
    let last = out.lines().last().unwrap();
    let numbers: Vec<usize> = last.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(out.lines().count() == 5 && last.ends_with("were shared"), "{out}");
    assert!(numbers[0] * 2 > numbers[1], "{out}");
}

#[test]
fn schema_gives_what_it_says() {
    let Some(out) = output("schema", &[]) else { return };
    assert_eq!(out.lines().filter(|l| l.starts_with("a ") && l.ends_with(" years")).count(), 3, "{out}");
}

#[test]
fn tools_are_called() {
    let Some(out) = output("tools", &[]) else { return };
    assert_eq!(out.lines().count(), 4, "{out}");
    for line in out.lines() {
        assert!(line.starts_with("add: ") || line.starts_with("weather: rain in \""), "{out}");
    }
}

#[test]
fn embeddings_tell_what_is_alike() {
    let Some(out) = output("embeddings", &[]) else { return };
    let cosines: Vec<f32> = out.lines().map(|line| line[..5].parse().unwrap()).collect();
    assert!(cosines[0] == 1.0 && cosines[1] > cosines[2], "{out}");
}

#[test]
fn scoring_prefers_the_better_text() {
    let Some(out) = output("scoring", &[]) else { return };
    let perplexity = |line: &str| -> f64 { line.split([' ', ',']).nth(1).unwrap().parse().unwrap() };
    let both: Vec<f64> = out.lines().map(perplexity).collect();
    assert!(both[0] < both[1], "{out}");
}

#[test]
fn tokio_gets_two_answers() {
    let Some(out) = output("tokio", &[]) else { return };
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("The king") && lines[1].starts_with("The queen"),
        "{out}"
    );
}

#[test]
fn the_smallest_server_answers() {
    let Some(program) = example("server") else { return };
    let runner = std::env::var("LEYDEN_TEST_RUNNER").unwrap_or_default();
    let program = program.display().to_string();
    let mut words = runner.split_whitespace().chain([program.as_str()]);
    let mut server = Command::new(words.next().unwrap()).args(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /The%20king HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.len() > 100, "{answer}");
}
