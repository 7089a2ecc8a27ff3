//! The chat template of a Hugging Face folder, which may stand in any of four places.

use leyden_tensor::{HfFile, HfFolder, Json};
use serde_json::Value;

use super::ChatTemplate;
use crate::error::{Error, ErrorKind};
use crate::tokenizer::Tokenizer;

/// The one that is taken where there are several, and the one where a conversation has tools.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
const KEY: &str = "chat_template";

impl ChatTemplate {
    /// The template of a Hugging Face folder with the texts of its special tokens; `None` if it has none. Of several with
    /// names the one called `default` is taken, and the one called `tool_use` for conversations with tools.
    ///
    /// # Errors
    /// As for [`named_in_hf`](Self::named_in_hf) and [`new`](Self::new), or there are templates with names but none is
    /// called `default`.
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
            // Files without names for them still have a tokenizer that knows them.
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

    /// The sources of all templates of a Hugging Face folder, by name, the one called `default` first.
    ///
    /// Templates of `chat_template.jinja` (the default one) and `additional_chat_templates/NAME.jinja` count before those of
    /// `chat_template.json`, and these before those of `tokenizer_config.json`: a file of its own stands for all
    /// templates of the settings.
    ///
    /// # Errors
    /// A file cannot be read or is not what it should be.
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

/// The source of one of a model's chat templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTemplate {
    /// Its name: `default`, `tool_use`, `rag` and the like.
    pub name: String,
    /// The template.
    pub source: String,
    /// The file that it stands in.
    pub file: String,
}

fn utf8(bytes: Vec<u8>, file: &str) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::new(file, None, ErrorKind::Invalid("not UTF-8".into())))
}

fn json(folder: &HfFolder, file: HfFile) -> Result<Option<Json>, Error> {
    folder.json(file).map_err(|error| Error::new(file.name(), None, ErrorKind::Metadata(error)))
}

/// The templates of a value that is one, or a list of such with names.
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
    let list =
        value.as_array().ok_or_else(|| invalid("want a string or an array of templates with names"))?;
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
    let why = format!("of the templates ({}) none is called {DEFAULT}", names.join(", "));
    Error::new(file, KEY, ErrorKind::Invalid(why))
}
