//! Files that a model consists of.

use std::path::{Path, PathBuf};

use leyden_verify::FileSet;

use crate::cli::failure::Failure;
use crate::cli::inputs;

/// Endings of the files beside a model file that are read with it.
const BESIDE: [&str; 3] = ["json", "txt", "model"];
/// End of the names of evidence, which is no part of a model.
const EVIDENCE: &str = ".evidence.json";

/// Hashes the files of a model: all parts of a GGUF file, all of a folder, or a model file with its data and the
/// configuration and tokenizer beside it.
///
/// # Errors
/// A file cannot be read.
pub(in crate::cli) fn of_model(path: &Path) -> Result<FileSet, Failure> {
    let is_gguf = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"));
    if path.is_dir() || is_gguf {
        return Ok(FileSet::of(path, &inputs::of_model(path))?);
    }
    let name =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let own = name(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let belongs = |file: &PathBuf| {
        let name = name(file);
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_data = name.starts_with(&format!("{own}_")) || name.starts_with(&format!("{own}."));
        file.is_file() && !name.ends_with(EVIDENCE) && (name == own || is_data || BESIDE.contains(&ending))
    };
    let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = beside.filter(belongs).collect();
    if files.is_empty() {
        files.push(path.to_owned());
    }
    Ok(FileSet::of(path, &files)?)
}
