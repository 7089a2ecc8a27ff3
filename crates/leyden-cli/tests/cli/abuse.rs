//! Misfortune while the program runs: files that shrink or cannot be read, input that never ends, interrupts.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leyden_tensor::Value;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Files, Run, STORYTELLER, built, command, finish, leyden, storyteller_with, vocabulary};

/// Starts the program with pipes at its outputs and nothing at its input.
fn start(args: &[&str]) -> Child {
    command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn end(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A story that does not end before the context is full, on a tier that takes its time.
const LONG: &[&str] = &["--logit-bias", "0=-inf", "--isa", "scalar", "--threads", "1"];

#[test]
fn a_model_cut_short_while_it_answers_is_an_error() {
    let files = Files::new();
    let story = fs::read(STORYTELLER).unwrap();
    // Nearly all of it; so much that the embeddings are halved; a few bytes of the last page.
    for len in [0, story.len() / 8, story.len() - 100] {
        let path = files.add("m.gguf", &story);
        let mut child = start(&[&["run", &path, "Once upon a time"], LONG].concat());
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        signal(&child, Signal::STOP);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
        signal(&child, Signal::CONT);
        let run = end(child);
        assert_eq!(run.code, Some(1), "{len}: {run:?}");
        for part in [&path, "truncated", "hint: do not copy"] {
            assert!(run.err.contains(part), "{len}: {part}: {}", run.err);
        }
    }
}

#[test]
fn a_model_cut_short_at_any_time_is_an_error_or_was_not_needed() {
    let files = Files::new();
    let story = fs::read(STORYTELLER).unwrap();
    for delay in 0..12 {
        let path = files.add("m.gguf", &story);
        let child = start(&["run", &path, "The king", "-n", "2"]);
        std::thread::sleep(Duration::from_millis(delay));
        OpenOptions::new().write(true).open(&path).unwrap().set_len(story.len() as u64 / 3).unwrap();
        let run = end(child);
        assert!(matches!(run.code, Some(0 | 1)), "{delay} ms: {run:?}");
        assert!(run.code == Some(0) || run.err.contains(&path), "{delay} ms: {run:?}");
        assert!(!run.err.contains("panicked"), "{delay} ms: {run:?}");
    }
}

/// Waits for lines on standard error, which the program then goes without.
fn after_notes(child: &mut Child, lines: usize) {
    let mut err = BufReader::new(child.stderr.take().unwrap());
    for _ in 0..lines {
        err.read_line(&mut String::new()).unwrap();
    }
}

#[test]
fn an_interrupt_is_code_130_in_every_phase() {
    // The first note comes before the model is loaded, the second after that.
    let mut child = start(&[&["run", "Once upon a time"], LONG].concat());
    after_notes(&mut child, 1);
    signal(&child, Signal::INT);
    assert_eq!(end(child).code, Some(130), "while loading");
    // The first step of this prompt takes much longer than a signal.
    let prompt = "word ".repeat(1000);
    for times in [1, 2] {
        let mut child = start(&[&["run", &prompt], LONG].concat());
        after_notes(&mut child, 2);
        for _ in 0..times {
            std::thread::sleep(Duration::from_millis(5));
            // It may have stopped for the first.
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
        }
        let run = end(child);
        assert_eq!((run.code, run.out.as_str()), (Some(130), ""), "while reading the prompt: {run:?}");
    }
    let mut command = command(&["run"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    after_notes(&mut child, 2);
    signal(&child, Signal::INT);
    let stdin = child.stdin.take();
    assert_eq!(end(child).code, Some(130), "while waiting for standard input");
    drop(stdin);
}

#[test]
fn standard_input_is_read_to_its_end() {
    let args = ["run", "The king", "-n", "4", "--temp", "0"];
    let mut child =
        command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Open and silent, then closed: there is nothing to go before the prompt.
    drop(child.stdin.take());
    let run = end(child);
    assert_eq!((run.code, run.out), (Some(0), leyden(&args).out), "{}", run.err);
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let files = Files::new();
    let latin = OsStr::from_bytes(b"caf\xe9");
    let path = files.add("latin.txt", b"caf\xe9");
    let run = leyden(&["tokenize", STORYTELLER, "--file", &path]);
    assert!(run.failed(1).contains("latin.txt: not UTF-8 text: byte 3"));
    for args in [["run", "-n", "1"], ["tokenize", STORYTELLER, "--json"]] {
        let run = finish(command(&args).stdin(Stdio::piped()), b"caf\xe9");
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
        assert!(run.err.contains("standard input: not UTF-8 text: byte 3"), "{args:?}: {}", run.err);
    }
    for args in [&["run", STORYTELLER][..], &["run", "--prompt"], &["tokenize", STORYTELLER]] {
        let run = finish(command(args).arg(latin), b"");
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}: {run:?}");
        assert!(run.err.contains("UTF-8"), "{args:?}: {}", run.err);
    }
    // A file's name may be anything.
    let named = files.folder().join(latin).with_extension("gguf");
    fs::copy(STORYTELLER, &named).unwrap();
    let run = finish(command(&["run", "-n", "1", "--prompt", "The", "--model"]).arg(&named), b"");
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn files_that_are_no_models_are_named() {
    let files = Files::new();
    let text = files.add("text.gguf", b"Once upon a time there was a file");
    let empty = files.add("empty.gguf", b"");
    let onnx = files.add("m.onnx", b"\x08\x08\x12\x07pytorch\x1a\x052.1.0\x3a\x80\x01");
    let png = files.add("m.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let beneath = format!("{text}/m.gguf");
    let around = files.path("around.gguf");
    std::os::unix::fs::symlink(&around, &around).unwrap();
    let folder = files.folder().to_str().unwrap().to_owned();
    let device = "/dev/zero".to_owned();
    let cases = [
        (&text, "not a GGUF file"),
        (&empty, "empty"),
        (&onnx, "file ends early"),
        (&png, "looks like a PNG image"),
        (&beneath, "Not a directory"),
        (&around, "symbolic links"),
        (&folder, "the folder has no config.json"),
        (&device, "not a regular file"),
        (&files.path("absent.gguf"), "No such file"),
    ];
    for (path, message) in cases {
        for args in [&["run", "-n", "1", path, "Hello"][..], &["inspect", path], &["tokenize", path, "Hello"]]
        {
            let err = leyden(args).failed(1);
            assert!(err.contains(path) && err.contains(message), "{args:?}: {err}");
        }
    }
    // Nobody may read it. To an administrator, who may, it is a file without tensors.
    let secret = files.add("secret.gguf", &vocabulary().to_vec().unwrap());
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let err = leyden(&["run", "-n", "1", &secret, "Hello"]).failed(1);
    let message = if fs::File::open(&secret).is_err() { "Permission denied" } else { "llama." };
    assert!(err.contains(&secret) && err.contains(message), "{err}");
}

#[test]
fn models_of_other_kinds_are_refused_by_name() {
    let files = Files::new();
    // The number of the type follows name, number of dimensions and dimensions.
    let mut bytes = fs::read(STORYTELLER).unwrap();
    let name = b"blk.0.attn_q.weight";
    let at = bytes.windows(name.len()).position(|w| w == name).unwrap() + name.len() + 4 + 16;
    bytes[at..at + 4].copy_from_slice(&42_u32.to_le_bytes());
    let cases = [
        (
            "architecture.gguf",
            storyteller_with("general.architecture", "clip"),
            "general.architecture: architecture `clip`",
        ),
        (
            "tokenizer.gguf",
            storyteller_with("tokenizer.ggml.model", "rwkv"),
            "tokenizer.ggml.model: tokenizer \"rwkv\"",
        ),
        (
            "words.gguf",
            storyteller_with("tokenizer.ggml.pre", "klingon"),
            "tokenizer.ggml.pre: pre-tokenizer \"klingon\"",
        ),
        ("type.gguf", bytes, "Q2_0"),
    ];
    for (name, bytes, message) in cases {
        let path = files.add(name, &bytes);
        let err = leyden(&["run", "-n", "1", &path, "Hello"]).failed(1);
        assert!(err.contains(&path) && err.contains(message), "{name}: {err}");
    }
}

#[test]
fn the_context_is_a_bound() {
    let cases: [(&[&str], i32, &str); 3] = [
        (&["--ctx", "1025"], 2, "ctx: 1025 is not between 1 and 1024"),
        (&["--ctx", "18446744073709551616"], 2, "--ctx"),
        (&["--ctx", "2"], 1, "do not fit the context of 2"),
    ];
    for (flags, code, message) in cases {
        let run = leyden(&[&["run", "Once upon a time there was"], flags].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(code), ""), "{flags:?}: {run:?}");
        assert!(run.err.contains(message), "{flags:?}: {}", run.err);
    }
    // A prompt that fills it has room for the one token that follows.
    let all =
        leyden(&["run", "Once upon a time", "--ctx", "8", "-n", "100", "--json", "--logit-bias", "0=-inf"]);
    let all: serde_json::Value = serde_json::from_str(&all.out).unwrap();
    let tokens = |name: &str| all[name].as_u64().unwrap();
    assert_eq!(tokens("prompt_tokens") + tokens("completion_tokens"), 9, "{all}");
}

#[test]
fn a_context_beyond_the_address_space_is_refused_with_advice() {
    let files = Files::new();
    let path = files.add("long.gguf", &storyteller_with("llama.context_length", Value::U32(1 << 24)));
    let limited = |args: &[&str]| {
        let mut shell = Command::new("sh");
        // 4 GiB, in KiB.
        shell.args(["-c", "ulimit -v 4194304 && exec \"$@\"", "sh"]);
        shell.args(built(env!("CARGO_BIN_EXE_leyden"))).args(["run", &path]);
        finish(shell.args(["The king", "-n", "2"]).args(args).stdin(Stdio::null()), b"")
    };
    let run = limited(&[]);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("key-value cache: no memory for"), "{}", run.err);
    assert!(run.err.contains("hint: lower --ctx"), "{}", run.err);
    assert_eq!(limited(&["--ctx", "10000"]).code, Some(0));
}

#[test]
fn every_tier_tells_the_same_story() {
    let story = |tier: Option<&str>| {
        let mut command = command(&["run", "The king", "-n", "40", "--seed", "5", "--verbose"]);
        if let Some(tier) = tier {
            command.env("LEYDEN_MAX_ISA", tier);
        }
        let run = finish(&mut command, b"");
        assert_eq!(run.code, Some(0), "{run:?}");
        (run.out, run.err)
    };
    let (best, _) = story(None);
    for tier in leyden::Level::native().map(leyden::Level::name) {
        let (text, err) = story(Some(tier));
        assert_eq!(text, best, "{tier}");
        assert!(tier != "scalar" || err.contains("scalar"), "{err}");
    }
    let mut command = command(&["run", "The king", "-n", "4"]);
    let run = finish(command.env("LEYDEN_MAX_ISA", "mmx"), b"");
    assert!(run.code == Some(2) && run.err.contains("LEYDEN_MAX_ISA=mmx"), "{run:?}");
}

#[test]
fn nobody_listens() {
    for flags in [&["--json"][..], &[]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(&[&["run", "Once upon a time", "-n", "200"], flags].concat());
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let run = end(child);
        assert!(run.code == Some(0) && !run.err.contains("error"), "{flags:?}: {run:?}");
    }
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = command(&["run", "Once upon a time", "-n", "4"]);
    let run = end(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap());
    assert!(run.code == Some(1) && run.err.contains("cannot write to standard output"), "{run:?}");
    // Nor to the notes.
    let mut child = start(&["run", "The king", "-n", "4", "--temp", "0"]);
    drop(child.stderr.take());
    let run = end(child);
    assert_eq!(run.code, Some(0), "{run:?}");
}
