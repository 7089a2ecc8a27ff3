//! Chat templates of a Hugging Face folder, which may be in any of four places.

use leyden_tensor::{HfFile, HfFolder, Json};
use serde_json::Value;

use super::ChatTemplate;
use crate::error::{Error, ErrorKind};
use crate::tokenizer::Tokenizer;

/// Name of the template that is used if there are several, and of the one for conversations with tools.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
const KEY: &str = "chat_template";

impl ChatTemplate {
    /// Reads the template of a Hugging Face folder with the texts of its special tokens; `None` if it has none. Of
    /// several named templates, `default` is used, and `tool_use` for conversations with tools.
    ///
    /// # Errors
    /// As for [`named_in_hf`](Self::named_in_hf) and [`new`](Self::new), or there are named templates but none is
    /// named `default`.
    pub fn from_hf(folder: &HfFolder, tokenizer: &dyn Tokenizer) -> Result<Option<Self>, Error> {
        let config = json(folder, HfFile::TokenizerConfig)?;
        let all = Self::named_in_hf(folder)?;
        let named = |name: &str| all.iter().find(|template| template.name == name);
        let Some(default) = named(DEFAULT) else {
            return match all.first() {
                None => Ok(None),
                Some(first) => Err(no_default(&first.file, &all)),
            };
        };
        let special = json(folder, HfFile::SpecialTokensMap)?;
        let text = |key: &str, id: Option<u32>| {
            let named = [&config, &special].into_iter().flatten().find_map(|json| {
                let value = json.get(key)?;
                value.as_str().or_else(|| value.get("content")?.as_str())
            });
            // If the configuration does not name them, the tokenizer still knows them.
            let bytes = || id.and_then(|id| tokenizer.token_bytes(id)).map(String::from_utf8_lossy);
            named.map(str::to_owned).or_else(|| bytes().map(Into::into)).unwrap_or_default()
        };
        let (bos, eos) = (text("bos_token", tokenizer.bos()), text("eos_token", tokenizer.eos()));
        let template = Self::new(&default.source, &bos, &eos, &default.file)?;
        Ok(Some(match named(TOOL_USE) {
            Some(tools) => template.with_tool_use(&tools.source)?,
            None => template,
        }))
    }

    /// Returns the sources of all templates of a Hugging Face folder, by name, with `default` first.
    ///
    /// Templates of `chat_template.jinja` (the default one) and `additional_chat_templates/NAME.jinja` take
    /// precedence over those of `chat_template.json`, and these over those of `tokenizer_config.json`: a separate
    /// file replaces all templates of the configuration.
    ///
    /// # Errors
    /// A file cannot be read or is malformed.
    pub fn named_in_hf(folder: &HfFolder) -> Result<Vec<NamedTemplate>, Error> {
        let path = |name: &str| folder.path().join(name).display().to_string();
        let metadata = |error| Error::new(HfFile::ChatTemplate.name(), None, ErrorKind::Metadata(error));
        let mut all = Vec::new();
        if let Some(bytes) = folder.read(HfFile::ChatTemplate).map_err(metadata)? {
            let file = path(HfFile::ChatTemplate.name());
            all.push(NamedTemplate { name: DEFAULT.into(), source: utf8(bytes, &file)?, file });
        }
        if all.is_empty() {
            for file in [HfFile::ChatTemplateJson, HfFile::TokenizerConfig] {
                let Some(json) = json(folder, file)? else { continue };
                if let Some(value) = json.get(KEY).filter(|value| !value.is_null()) {
                    all = named_in(value, json.file())?;
                    break;
                }
            }
        }
        for (name, bytes) in folder.additional_chat_templates().map_err(metadata)? {
            if !all.iter().any(|known| known.name == name) {
                let file = path(&format!("additional_chat_templates/{name}.jinja"));
                all.push(NamedTemplate { name, source: utf8(bytes, &file)?, file });
            }
        }
        all.sort_by_key(|template| template.name != DEFAULT);
        Ok(all)
    }
}

/// Source of one of a model's chat templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTemplate {
    /// Name: `default`, `tool_use`, `rag` and the like.
    pub name: String,
    /// Source of the template.
    pub source: String,
    /// Path of its file.
    pub file: String,
}

fn utf8(bytes: Vec<u8>, file: &str) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::new(file, None, ErrorKind::Invalid("not UTF-8".into())))
}

fn json(folder: &HfFolder, file: HfFile) -> Result<Option<Json>, Error> {
    folder.json(file).map_err(|error| Error::new(file.name(), None, ErrorKind::Metadata(error)))
}

/// Reads a value that is a template or a list of named templates.
fn named_in(value: &Value, file: &str) -> Result<Vec<NamedTemplate>, Error> {
    let invalid = |why: &str| Error::new(file, KEY, ErrorKind::Invalid(why.into()));
    let named = |name: &str, source: &str| NamedTemplate {
        name: name.to_owned(),
        source: source.to_owned(),
        file: file.to_owned(),
    };
    if let Some(source) = value.as_str() {
        return Ok(vec![named(DEFAULT, source)]);
    }
    let list = value.as_array().ok_or_else(|| invalid("want a string or an array of named templates"))?;
    let read = |template: &Value| {
        let text = |key| template.get(key).and_then(Value::as_str);
        match (text("name"), text("template")) {
            (Some(name), Some(source)) => Ok(named(name, source)),
            _ => Err(invalid("an element of the array lacks its name or its template")),
        }
    };
    list.iter().map(read).collect()
}

fn no_default(file: &str, all: &[NamedTemplate]) -> Error {
    let names: Vec<&str> = all.iter().map(|template| &*template.name).collect();
    let why = format!("none of the templates ({}) is named {DEFAULT}", names.join(", "));
    Error::new(file, KEY, ErrorKind::Invalid(why))
}
