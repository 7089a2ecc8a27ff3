//! `leyden transcribe` and the endpoints of speech, with a tiny model of random weights: its texts mean nothing, but are
//! the same everywhere.

#[path = "../../../leyden-speech/tests/tiny/mod.rs"]
mod tiny;

use crate::program::{Files, leyden};
use crate::serve::Server;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Writes the tiny model and an audio file; returns their paths.
fn model_and_audio(files: &Files) -> (String, String) {
    let model = files.path("tiny-whisper");
    fs::create_dir(&model).unwrap();
    tiny::folder(Path::new(&model), 80);
    (model, files.add("tone.wav", &tiny::wav(&tiny::audio()[..32_000])))
}

#[test]
fn a_file_is_transcribed_in_all_formats() {
    let files = Files::new();
    let (model, audio) = model_and_audio(&files);
    let run = |more: &[&str]| leyden(&[&["transcribe", &model, &audio, "-q"], more].concat());
    let report = run(&["--json"]).json();
    let text = report["text"].as_str().unwrap();
    assert_eq!((report["language"].as_str(), report["duration"].as_f64()), (Some("en"), Some(2.0)));
    assert_eq!(run(&[]).ok(), format!("{text}\n"));
    assert!(run(&["--format", "vtt"]).ok().starts_with("WEBVTT\n"));
    let verbose = run(&["--format", "verbose_json", "--timestamps", "word"]).json();
    assert_eq!(verbose["language"], "english");
    let out = files.path("out.txt");
    assert_eq!(run(&["-o", &out]).ok(), "");
    assert_eq!(fs::read_to_string(out).unwrap(), format!("{text}\n"));
    for (more, code, want) in [
        (&["--language", "xx"][..], 2, "no language of Whisper"),
        (&["--translate"], 2, "English alone"),
        (&["--temperature", "7"], 2, "not between 0 and 1"),
        (&["--threads", "0"], 2, "at least 1"),
        (&["--format", "doc"], 2, "known: json, text, srt, vtt, verbose_json"),
    ] {
        let error = run(more).failed(code);
        assert!(error.contains(want), "{error}");
    }
    let error = leyden(&["transcribe", &model, &model]).failed(1);
    assert!(error.contains("a folder, not an audio file"), "{error}");
    let error = leyden(&["transcribe", &audio, &audio]).failed(1);
    assert!(error.contains("no Whisper"), "{error}");
}

#[test]
fn the_official_client_transcribes() {
    let found = Command::new("python3").args(["-c", "import openai"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the package openai");
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the package openai");
        return;
    }
    let files = Files::new();
    let (model, audio) = model_and_audio(&files);
    let server = Server::start(&[&model]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/transcribe_client.py");
    let address = format!("http://{}", server.address);
    let output = Command::new("python3").arg(script).args([&address, &audio]).output().unwrap();
    let (code, log) = server.end();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("ok\n"), "{out}\n{err}\n{log}");
    assert_eq!(code, Some(0));
}
