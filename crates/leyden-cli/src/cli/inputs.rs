//! Input and output files of commands.

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
        Failure::new(format!("{}: cannot read: {error}", path.display())).hint("the file must be UTF-8 text")
    })
}

/// Checks that the output `to` can be written, before it is computed.
///
/// # Errors
/// `to` is a folder, a block device or a socket; its folder is missing; or write permission is missing.
pub(super) fn can_be_written(to: &Path) -> Result<(), Failure> {
    leyden_files::check(to, OutputOptions::new())
        .map_err(|error| Failure::new(format!("{}: cannot write: {error}", to.display())))
}

/// Returns the writer for the report about the output `to`: `out`, or standard error if the output itself goes to
/// standard output.
pub(super) fn report_beside<'a>(
    to: Option<&Path>,
    out: &'a mut dyn Write,
    err: &'a mut Stderr,
) -> &'a mut dyn Write {
    if to.is_some_and(leyden_files::is_standard_output) { err } else { out }
}

/// Checks that the output `to` is not the same file as an input, by path, symbolic link or hard link.
///
/// # Errors
/// It is: wrong usage.
pub(super) fn none_is<'a>(to: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    // A missing file is not a link to an input.
    let Ok(there) = to.metadata() else { return Ok(()) };
    let same = |path: &&Path| {
        let by_name = || Some(path.canonicalize().ok()? == to.canonicalize().ok()?);
        path.metadata().is_ok_and(|found| is_same(&found, &there)) || by_name().unwrap_or(false)
    };
    match inputs.into_iter().find(same) {
        Some(path) => {
            let (to, path) = (to.display(), path.display());
            Err(Failure::usage(format!("{to}: this is the input {path}")).hint("choose another output file"))
        }
        None => Ok(()),
    }
}

/// Returns the files of a model: all files of a folder, or a GGUF file with its other parts. Opens no file.
pub(super) fn of_model(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        return std::iter::once(path.to_owned()).chain(entries.map(|entry| entry.path())).collect();
    }
    Gguf::files_of(path)
}

/// Returns a hash of the paths, sizes and modification times of a model's files. Reads no file.
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
