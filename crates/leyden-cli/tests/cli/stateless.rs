//! A model that lies at a path needs nothing of the user's: no home, no store, no cache and no history.

use std::fs;
use std::path::Path;

use crate::folders::{TOKENIZER_CONFIG, checkpoint, tokenizer};
use crate::program::{Files, Run, STORYTELLER, command, finish};

/// Runs the program in an environment with these variables alone.
fn bare(variables: &[(&str, &str)], args: &[&str]) -> Run {
    let mut command = command(args);
    command.env_clear().envs(variables.iter().copied());
    // An emulator has to be found, and knows its libraries by these.
    for name in ["PATH", "QEMU_LD_PREFIX"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    finish(&mut command, b"")
}

#[test]
fn a_path_needs_no_store() {
    let files = Files::new();
    let folder = files.path("folder");
    fs::create_dir(&folder).unwrap();
    for file in fs::read_dir(checkpoint("qwen3")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), Path::new(&folder).join(file.file_name())).unwrap();
    }
    files.add("folder/tokenizer.json", &tokenizer());
    files.add("folder/tokenizer_config.json", TOKENIZER_CONFIG.as_bytes());
    let (no_folder, sealed, packs) = (files.add("file", b""), files.path("sealed"), files.path("packs"));
    fs::create_dir(&sealed).unwrap();
    let mut closed = fs::metadata(&sealed).unwrap().permissions();
    closed.set_readonly(true);
    fs::set_permissions(&sealed, closed).unwrap();
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let run = bare(variables, args);
        assert_eq!(run.code, Some(0), "{variables:?} {args:?}: {run:?}");
    };
    let run_once = |model| ["run", model, "Once", "-n", "2", "--threads", "1"];
    for variables in [
        &[][..],
        &[("HOME", "/nonexistent")],
        &[("HOME", sealed.as_str())],
        &[("HOME", "relative")],
        &[("HOME", no_folder.as_str())],
        &[("LEYDEN_MODELS", no_folder.as_str())],
        &[("LEYDEN_HISTORY", no_folder.as_str()), ("LEYDEN_PACKS", no_folder.as_str())],
    ] {
        run(variables, &run_once(STORYTELLER));
        run(variables, &["tokenize", &folder, "Hi"]);
    }
    for args in [
        &["inspect", STORYTELLER][..],
        &["inspect", &folder],
        &["tokenize", STORYTELLER, "Once"],
        &run_once(&folder),
        &["bench", "-m", STORYTELLER, "-p", "4", "-n", "2", "-r", "1", "-t", "1"],
        &["pack", STORYTELLER, "--pack-cache", &packs],
        &["doctor"],
    ] {
        run(&[], args);
    }
}

#[test]
fn what_is_no_path_says_what_is_missing() {
    let error = |args: &[&str]| bare(&[], args).failed(1);
    // Meant as a path.
    for model in ["gone.gguf", "./gone"] {
        let error = error(&["inspect", model]);
        assert!(error.contains(model) && !error.contains("LEYDEN_MODELS"), "{error}");
    }
    // Meant as names of the store, which has no place.
    for model in ["tiny", "hf:org/repo"] {
        let error = bare(&[], &["inspect", model]);
        assert!(
            error.code != Some(0) && error.err.contains("LEYDEN_MODELS: the store has no place"),
            "{error:?}"
        );
    }
    let error = error(&["pack", STORYTELLER]);
    assert!(error.contains("hint: set one with --pack-cache DIR"), "{error}");
}
