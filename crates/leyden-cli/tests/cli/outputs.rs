//! Outputs of every command over everything that a name can stand for, and temporary files of runs that are ended.

use crate::program::{Files, command, finish, leyden};
use leyden_testkit::shared;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The arguments of every command that writes one output, `OUT`.
fn writers(model: &str, folder: &str, text: &str) -> Vec<Vec<String>> {
    [
        &["quantize", model, "OUT", "Q4_0"][..],
        &["quantize", folder, "OUT", "Q8_0"],
        &["convert", folder, "OUT"],
        &["imatrix", model, text, "-o", "OUT", "--ctx", "64", "--chunks", "1"],
        &[
            "eval",
            model,
            "--kld",
            "--reference",
            model,
            "--perplexity",
            text,
            "--ctx",
            "64",
            "--chunks",
            "2",
            "--report",
            "OUT",
        ],
        &["eval", model, "--perplexity", text, "--ctx", "64", "--chunks", "2", "--save-logits", "OUT"],
        &["plan", model, "--on", "c7g.metal", "--report", "OUT"],
    ]
    .iter()
    .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
    .collect()
}

fn with_output(words: &[String], out: &str) -> Vec<String> {
    words.iter().map(|word| if word == "OUT" { out.to_owned() } else { word.clone() }).collect()
}

fn run(words: &[String]) -> crate::program::Run {
    leyden(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Names in a folder, temporary ones included.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A model as file and folder, and a text.
fn inputs(files: &Files) -> Option<(String, String, String)> {
    let (model, text) = (shared("demo-model/storyteller-f16.gguf")?, shared("demo-model/heldout.txt")?);
    let (model, text) = (model.display().to_string(), text.display().to_string());
    let folder = files.path("folder");
    leyden(&["convert", &model, &folder]).ok();
    Some((model, folder, text))
}

#[test]
fn outputs_replace_files_alone() {
    let files = Files::new();
    let Some((model, folder, text)) = inputs(&files) else { return };
    let place = files.folder().join("place");
    fs::create_dir(&place).unwrap();
    let at = |name: &str| place.join(name).display().to_string();
    for words in writers(&model, &folder, &text) {
        // Through a link; the file keeps its mode.
        fs::write(at("real"), "old").unwrap();
        fs::set_permissions(at("real"), Permissions::from_mode(0o600)).unwrap();
        symlink("real", at("link")).unwrap();
        let ran = run(&with_output(&words, &at("link")));
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert!(Path::new(&at("link")).is_symlink(), "{words:?}");
        let found = fs::metadata(at("real")).unwrap();
        assert_eq!((found.mode() & 0o777, found.len() > 3), (0o600, true), "{words:?}");
        // Into a FIFO.
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let reader = std::thread::spawn({
            let path = at("fifo");
            move || {
                let mut bytes = Vec::new();
                fs::File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                bytes.len()
            }
        });
        let ran = run(&with_output(&words, &at("fifo")));
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        assert!(reader.join().unwrap() > 3);
        assert!(fs::metadata(at("fifo")).unwrap().file_type().is_fifo(), "{words:?}");
        // Folders and devices that hold files are refused, before anything is computed.
        let told = run(&with_output(&words, &place.display().to_string()));
        assert!(told.err.contains("is a folder") && told.code == Some(1), "{words:?}: {told:?}");
        let mknod = |name: &str, words: [&str; 3]| {
            Command::new("mknod").arg(at(name)).args(words).status().unwrap().success()
        };
        if mknod("block", ["b", "7", "200"]) {
            let told = run(&with_output(&words, &at("block")));
            assert!(told.err.contains("is a block device") && told.code == Some(1), "{words:?}: {told:?}");
            assert!(fs::metadata(at("block")).unwrap().file_type().is_block_device(), "{words:?}");
            fs::remove_file(at("block")).unwrap();
        } else {
            eprintln!("skipped: devices can be made by an administrator alone");
        }
        // The file system may not let devices be opened; the node stays either way.
        if mknod("null", ["c", "1", "3"]) {
            run(&with_output(&words, &at("null")));
            assert!(fs::metadata(at("null")).unwrap().file_type().is_char_device(), "{words:?}");
            fs::remove_file(at("null")).unwrap();
        }
        assert_eq!(names(&place), ["fifo", "link", "real"], "{words:?}");
        for name in ["fifo", "link", "real"] {
            fs::remove_file(at(name)).unwrap();
        }
    }
}

/// Messages about an output are not written into it.
#[test]
fn standard_output_gets_the_output_alone() {
    let files = Files::new();
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, whole) = (model.display().to_string(), files.path("whole.gguf"));
    leyden(&["quantize", &model, &whole, "Q4_0"]).ok();
    let out = fs::File::create(files.path("piped.gguf")).unwrap();
    let ran = command(&["quantize", &model, "/dev/stdout", "Q4_0"]).stdout(out).output().unwrap();
    assert!(
        ran.status.success() && String::from_utf8_lossy(&ran.stderr).contains("bits per weight"),
        "{ran:?}"
    );
    assert!(fs::read(files.path("piped.gguf")).unwrap() == fs::read(&whole).unwrap());
}

/// A state is read again, so a stream cannot be one.
#[test]
fn states_are_files() {
    let files = Files::new();
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let data = files.add("d.jsonl", br#"{"prompt": "a", "choices": ["b", "c"], "answer": 0}"#);
    let state = files.path("state");
    let words = ["eval", &model.display().to_string(), "--data", &data, "--state", &state, "--report", "x/y"];
    let told = leyden(&words).failed(1);
    assert!(told.contains("x/y: cannot write: there is no such folder"), "{told}");
    assert!(Command::new("mkfifo").arg(&state).status().unwrap().success());
    let told = leyden(&words[..6]).failed(1);
    assert!(told.contains("is a device or FIFO"), "{told}");
}

/// Waits until a command has a temporary file or folder in `place`; `None` if it ended before.
fn started(words: &[String], place: &Path) -> Option<Child> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = command(&words).spawn().unwrap();
    let begun = Instant::now();
    while !names(place).iter().any(|name| name.starts_with(".leyden-")) {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{words:?}: no temporary file");
        std::thread::sleep(Duration::from_micros(200));
    }
    Some(child)
}

#[test]
fn runs_that_are_ended_leave_no_temporary_files() {
    let files = Files::new();
    let Some((model, folder, text)) = inputs(&files) else { return };
    let place = files.folder().join("place");
    fs::create_dir(&place).unwrap();
    let out = place.join("out").display().to_string();
    let mut all = writers(&model, &folder, &text);
    all.retain(|words| words[0] != "imatrix" && !words.contains(&"--report".to_owned()));
    let to_folder = ["convert", &model, "OUT"].map(str::to_owned).to_vec();
    all.push(to_folder.clone());
    let mut ended = 0;
    for words in &all {
        for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
            if let Some(mut child) = started(&with_output(words, &out), &place) {
                // It may end in order in this moment.
                let _ = kill_process(Pid::from_child(&child), signal);
                let status = child.wait().unwrap();
                ended += usize::from(status.signal() == Some(signal.as_raw()));
            }
            let left: Vec<_> = names(&place).into_iter().filter(|name| name.starts_with('.')).collect();
            assert!(left.is_empty(), "{words:?} {signal:?}: {left:?}");
            let _ = fs::remove_file(&out).or_else(|_| fs::remove_dir_all(&out));
        }
    }
    assert!(ended > 0, "no run was caught while it wrote");
    // After a kill the next run in the folder removes what is left, though not what a living process has.
    let (mut caught, words) = (None, with_output(&to_folder, &out));
    for _ in 0..50 {
        caught = started(&words, &place);
        if let Some(child) = &mut caught {
            child.kill().unwrap();
            child.wait().unwrap();
            if names(&place).iter().any(|name| name.starts_with(".leyden-")) {
                break;
            }
        }
        let _ = fs::remove_dir_all(&out);
    }
    assert!(caught.is_some(), "no run was caught while it wrote");
    let _ = fs::remove_dir_all(&out);
    finish(&mut command(&words.iter().map(String::as_str).collect::<Vec<_>>()), b"").ok();
    assert_eq!(names(&place), ["out"]);
}
