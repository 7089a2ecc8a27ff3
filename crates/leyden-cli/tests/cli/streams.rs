//! Help, usage, and what becomes of output that nobody can take.

use std::io::Read;
use std::process::Stdio;

use leyden_tensor::{DType, GgufWriter, Value};

use crate::program::{Files, command, finish, leyden, model};

#[test]
fn help_and_version_succeed() {
    for args in
        [&["--help"][..], &["-h"], &["doctor", "--help"], &["inspect", "--help"], &["tokenize", "--help"]]
    {
        assert!(leyden(args).ok().contains("Usage: leyden"), "{args:?}");
    }
    let help = leyden(&["run", "--help"]).ok();
    let (options, choice) = help.split_once("Sampling:").unwrap();
    assert!(
        options.contains("--threads") && options.contains("--json") && choice.contains("--seed"),
        "{help}"
    );
    assert_eq!(leyden(&["--version"]).ok(), format!("leyden {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_version_completions_and_manual_pages() {
    assert_eq!(leyden(&["version"]).ok(), leyden(&["--version"]).ok());
    assert_eq!(leyden(&["help", "run"]).ok(), leyden(&["run", "--help"]).ok());
    let (short, long) = (leyden(&["run", "-h"]).ok(), leyden(&["run", "--help"]).ok());
    assert!(short.starts_with("Answer a prompt") && !short.contains("MODEL is a file or folder"), "{short}");
    assert!(long.contains("MODEL is a file or folder") && long.contains("toy model"), "{long}");
    assert_eq!(leyden(&["show", "--help"]).ok(), leyden(&["inspect", "--help"]).ok());
    assert!(leyden(&["help"]).ok().contains("Usage: leyden"));
    for (shell, part) in [("bash", "complete -F"), ("zsh", "#compdef leyden"), ("fish", "complete -c leyden")]
    {
        assert!(leyden(&["completions", shell]).ok().contains(part), "{shell}");
    }
    let page = leyden(&["man", "serve"]).ok();
    assert!(
        page.starts_with(".ie") && page.contains("leyden\\-serve") && page.contains("LEYDEN_PORT"),
        "{page}"
    );
    let files = Files::new();
    let folder = files.folder().to_str().unwrap();
    assert_eq!(leyden(&["man", "--out", folder]).ok(), "");
    for page in ["leyden.1", "leyden-run.1", "leyden-models.1"] {
        assert!(std::fs::read_to_string(files.path(page)).unwrap().contains(".TH"), "{page}");
    }
    assert!(leyden(&["man", "fly"]).failed(2).contains("no command `fly`"));
}

#[test]
fn errors_are_json_where_the_answer_would_be() {
    let run = leyden(&["inspect", "--json", "--loud"]);
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
    assert_eq!(error["error"]["kind"], "usage");
    assert!(
        error["error"]["message"].as_str().unwrap().starts_with("unexpected argument '--loud'"),
        "{error}"
    );
}

#[test]
fn wrong_usage_is_code_2() {
    for args in [&["fly"][..], &["doctor", "--loud"], &["inspect"], &["doctor", "extra"]] {
        let run = leyden(args);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{args:?}");
        assert!(run.err.contains("error: ") && run.err.contains("--help"), "{}", run.err);
    }
    let bare = leyden(&[]);
    assert_eq!(bare.code, Some(2));
    assert!(bare.err.contains("Usage: leyden"));
}

/// A file whose description is longer than any pipe holds.
fn long_model(files: &Files) -> String {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", Value::from("llama"));
    for i in 0..5000 {
        writer.add_tensor(&format!("tensor.{i}.weight"), DType::F32, &[1, 32], vec![0; 128]).unwrap();
    }
    files.add("long.gguf", &writer.to_vec().unwrap())
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let files = Files::new();
    let path = long_model(&files);
    for args in [vec!["inspect", "--tensors", &path], vec!["inspect", "--tensors", "--json", &path]] {
        let mut child = command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let files = Files::new();
    let path = files.add("m.gguf", &model());
    for args in [vec!["inspect", &path], vec!["tokenize", &path, "hello"], vec!["doctor", "--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = command(&args);
        let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(err.contains("cannot write to standard output"), "{err}");
    }
}

#[test]
fn a_closed_standard_error_does_no_harm() {
    let files = Files::new();
    let path = files.path("absent.gguf");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(&["inspect", &path]).stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(finish(&mut command(&["inspect", &path]), b"").code, Some(1));
}
