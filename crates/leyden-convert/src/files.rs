//! The settings of a folder as texts, for GGUF files that have them beside GGUF's own keys.

use crate::error::Error;
use leyden_files::OutputOptions;
use leyden_tensor::{FolderFiles, HfFile, HfFolder};
use serde_json::Value as Json;
use std::path::Path;

/// The files that say what a model computes. Those of modules are named by `modules.json`.
const NAMES: [&str; 18] = [
    "config.json",
    "generation_config.json",
    "gliner_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];
/// The most bytes of one of them: the largest vocabularies take some 40 MB.
const MOST_BYTES: u64 = 256 << 20;

/// Those of a folder.
pub(crate) fn of_folder(folder: &HfFolder) -> Result<FolderFiles, Error> {
    let mut names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    if let Some(list) = folder.read(HfFile::Modules)? {
        let path = folder.path().join(HfFile::Modules.name());
        let list: Json = serde_json::from_slice(&list).map_err(|error| Error::unlike(&path, error))?;
        let paths = list.as_array().into_iter().flatten().filter_map(|module| module["path"].as_str());
        names.extend(paths.filter(|path| !path.is_empty()).map(|path| format!("{path}/config.json")));
    }
    if !names.iter().any(|name| name == HfFile::Pooling.name()) {
        names.push(HfFile::Pooling.name().to_owned());
    }
    let mut all = Vec::new();
    for name in names {
        let path = folder.path().join(&name);
        let Ok(found) = std::fs::metadata(&path) else { continue };
        if !found.is_file() || found.len() > MOST_BYTES {
            return Err(Error::unlike(&path, format!("is no file of at most {MOST_BYTES} bytes")));
        }
        let text =
            std::fs::read(&path).map_err(|error| Error::unlike(&path, format!("cannot read: {error}")))?;
        let text = String::from_utf8(text).map_err(|_| Error::unlike(&path, "is not valid UTF-8"))?;
        all.push((name, text));
    }
    Ok(FolderFiles::new(all))
}

/// Writes them into a folder.
pub(crate) fn write(files: &FolderFiles, to: &Path) -> Result<(), Error> {
    for (name, text) in files.iter() {
        // What stands in a file from outside does not leave the folder.
        let inside = |part: &str| {
            !part.starts_with('.') && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if name.is_empty()
            || name.split('/').count() > 2
            || !name.split('/').all(|part| !part.is_empty() && inside(part))
        {
            return Err(Error::unlike(
                to,
                format!("leyden.folder.names: `{}` is no name of a file", name.escape_default()),
            ));
        }
        let path = to.join(name);
        let failed = |error: std::io::Error| Error::unlike(&path, format!("cannot write: {error}"));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        leyden_files::write(&path, text.as_bytes(), OutputOptions::new().files_only()).map_err(failed)?;
    }
    Ok(())
}
