//! Files of a command: inputs, and outputs that may be inputs.

use std::fs::Metadata;
use std::io::{Stderr, Write};
use std::path::{Path, PathBuf};

use leyden_files::OutputOptions;
use leyden_tensor::Gguf;

use super::failure::Failure;

/// Reads a text in UTF-8.
///
/// # Errors
/// If the file cannot be read or is not UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("{}: cannot read: {error}", path.display())).hint("want a text in UTF-8")
    })
}

/// Fails where nothing can be written as `to`, before anything is computed for it.
///
/// # Errors
/// It is a folder, a block device or a socket, its folder is missing, or it may not be written to.
pub(super) fn can_be_written(to: &Path) -> Result<(), Failure> {
    leyden_files::check(to, OutputOptions::new())
        .map_err(|error| Failure::new(format!("{}: cannot write: {error}", to.display())))
}

/// Returns where a command tells of its output `to`: on `out`, or on standard error where the output itself goes to `out`.
pub(super) fn report_beside<'a>(
    to: Option<&Path>,
    out: &'a mut dyn Write,
    err: &'a mut Stderr,
) -> &'a mut dyn Write {
    if to.is_some_and(leyden_files::is_standard_output) { err } else { out }
}

/// Fails where `to` is one of the inputs under whatever name: the same path, a symbolic or a hard link to it.
///
/// # Errors
/// It is, which is wrong usage.
pub(super) fn none_is<'a>(to: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    // What is not there is nothing's other name.
    let Ok(there) = to.metadata() else { return Ok(()) };
    let same = |path: &&Path| {
        let by_name = || Some(path.canonicalize().ok()? == to.canonicalize().ok()?);
        path.metadata().is_ok_and(|found| is_same(&found, &there)) || by_name().unwrap_or(false)
    };
    match inputs.into_iter().find(same) {
        Some(path) => {
            let (to, path) = (to.display(), path.display());
            Err(Failure::usage(format!("{to}: this is the input {path}")).hint("name another file"))
        }
        None => Ok(()),
    }
}

/// The files of a model: all of a folder's, or a GGUF file's with the parts that belong to it by their names. Nothing is opened.
pub(super) fn of_model(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        return std::iter::once(path.to_owned()).chain(entries.map(|entry| entry.path())).collect();
    }
    Gguf::files_of(path)
}

/// A number that identifies a model by the paths, sizes and times of change of its files. Nothing is read.
pub(super) fn identity(model: &Path) -> u64 {
    let is_part = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        ["safetensors", "bin", "pt", "onnx", "onnx_data", "gguf"].contains(&ending)
            || ["config.json", "gliner_config.json", "tokenizer.json"].contains(&name)
    };
    let mut files: Vec<PathBuf> = of_model(model).into_iter().filter(is_part).collect();
    files.sort();
    let one = |path: &PathBuf| {
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        let meta = path.metadata().ok().filter(|meta| meta.is_file());
        let of = |meta: Metadata| format!("{} {:?}", meta.len(), meta.modified().ok());
        format!("{} {}\n", path.display(), meta.map_or_else(String::new, of))
    };
    xxhash_rust::xxh3::xxh3_64(files.iter().map(one).collect::<String>().as_bytes())
}

#[cfg(unix)]
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    false
}
