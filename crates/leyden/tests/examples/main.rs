//! The examples of the library, which `cargo test` builds beside the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// The embedded model as a file.
const STORYTELLER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/model/storyteller-q8_0.gguf");

/// The program of an example; `None` if only some tests were built.
fn example(name: &str) -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    if path.is_file() {
        return Some(path);
    }
    assert!(std::env::var_os("LEYDEN_CI").is_none(), "{} is not built", path.display());
    // Not `eprintln!`, which a test that passes keeps to itself.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {} is not built; `cargo test` without `--test` builds it",
        path.display()
    );
    None
}

/// What an example prints; it must succeed.
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
