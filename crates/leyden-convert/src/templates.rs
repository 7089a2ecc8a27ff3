//! Chat templates, of which a model may have several by name: files of a folder, or keys of GGUF.
//!
//! In GGUF the default one is `tokenizer.chat_template`, the others are `tokenizer.chat_template.NAME`, and
//! `tokenizer.chat_templates` lists their names. In a folder they are `chat_template.jinja` and
//! `additional_chat_templates/NAME.jinja`.

use crate::error::Error;
use leyden_files::OutputOptions;
use leyden_tensor::{Array, HfFolder, Metadata, Value};
use leyden_text::ChatTemplate;
use std::path::Path;

/// Key of the default template.
pub(crate) const KEY: &str = "tokenizer.chat_template";
const NAMES_KEY: &str = "tokenizer.chat_templates";
const DEFAULT: &str = "default";
/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Returns the keys of a folder's templates.
pub(crate) fn to_gguf(folder: &HfFolder) -> Result<Vec<(String, Value)>, Error> {
    let (mut entries, mut names) = (Vec::new(), Vec::new());
    for template in ChatTemplate::named_in_hf(folder)? {
        let source = Value::from(&template.source[..]);
        if template.name == DEFAULT {
            entries.push((KEY.to_owned(), source));
            continue;
        }
        // Names in keys have only letters, digits and `_`.
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = template.name.chars().map(letter).collect();
        entries.push((format!("{KEY}.{name}"), source));
        names.push(name);
    }
    if !names.is_empty() {
        let names = Array::from_strs(names.iter().map(String::as_str));
        entries.push((NAMES_KEY.to_owned(), Value::Array(names)));
    }
    Ok(entries)
}

/// Writes the templates of a file into a folder. Returns whether there is a default one.
pub(crate) fn to_folder(metadata: &Metadata, folder: &Path) -> Result<bool, Error> {
    let write = |path: &Path, text: &str| {
        leyden_files::write(path, text.as_bytes(), OutputOptions::new())
            .map_err(|error| Error::unlike(path, format!("cannot write: {error}")))
    };
    let default = metadata.opt_str(KEY)?;
    if let Some(source) = default {
        write(&folder.join("chat_template.jinja"), source)?;
    }
    let additional = folder.join("additional_chat_templates");
    let keys: Vec<String> = metadata.iter().map(|(key, _)| key.to_owned()).collect();
    for key in &keys {
        let Some(name) = key.strip_prefix(KEY).and_then(|rest| rest.strip_prefix('.')) else { continue };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(fits) {
            let what = format!(
                "{key}: the name of a template has letters, digits, `_` and `-`, at most {MAX_NAME_BYTES}"
            );
            return Err(Error::unlike(Path::new(metadata.file()), what));
        }
        std::fs::create_dir_all(&additional)
            .map_err(|error| Error::unlike(&additional, format!("cannot create: {error}")))?;
        write(&additional.join(format!("{name}.jinja")), metadata.str(key)?)?;
    }
    Ok(default.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(entries: &[(&str, &str)]) -> Metadata {
        let entries = entries.iter().map(|(key, text)| ((*key).to_owned(), Value::from(*text)));
        Metadata::new("m.gguf", entries).unwrap()
    }

    #[test]
    fn templates_go_to_files_and_back() {
        let given = [
            ("tokenizer.chat_template", "plain"),
            ("tokenizer.chat_template.rag", "rag"),
            ("tokenizer.chat_template.tool_use", "tools"),
        ];
        let folder = tempfile::tempdir().unwrap();
        assert!(to_folder(&metadata(&given), folder.path()).unwrap());
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("chat_template.jinja"), "plain");
        assert_eq!(read("additional_chat_templates/tool_use.jinja"), "tools");
        std::fs::write(folder.path().join("config.json"), "{\"model_type\": \"llama\"}").unwrap();
        // The file of a model without tensors: the length of its header, and the header.
        std::fs::write(folder.path().join("model.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
        let entries = to_gguf(&HfFolder::open(folder.path()).unwrap()).unwrap();
        let text = |(key, value): &(String, Value)| match value {
            Value::String(text) => Some((key.clone(), text.clone())),
            _ => None,
        };
        let texts: Vec<(String, String)> = entries.iter().filter_map(text).collect();
        let given = given.map(|(key, text)| (key.to_owned(), text.to_owned()));
        assert_eq!(texts, given);
        let names = entries.iter().find(|(key, _)| key == NAMES_KEY).map(|(_, value)| value);
        assert_eq!(names, Some(&Value::Array(Array::from_strs(["rag", "tool_use"].into_iter()))));
    }

    /// The name of a template must not lead out of the folder.
    #[test]
    fn names_that_are_paths_are_refused() {
        let long = format!("{KEY}.{}", "x".repeat(MAX_NAME_BYTES + 1));
        for key in
            ["tokenizer.chat_template.../x", "tokenizer.chat_template.a/b", "tokenizer.chat_template.", &long]
        {
            let folder = tempfile::tempdir().unwrap();
            let error = to_folder(&metadata(&[(key, "x")]), folder.path()).unwrap_err().to_string();
            assert!(error.starts_with("m.gguf: tokenizer.chat_template."), "{error}");
            assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        }
    }
}
