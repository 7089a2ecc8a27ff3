//! The chat template of a Hugging Face folder, which may stand in any of four places.

use leyden_tensor::{HfFile, HfFolder, Json};
use serde_json::Value;

use super::ChatTemplate;
use crate::error::{Error, ErrorKind};
use crate::tokenizer::Tokenizer;

/// The one that is taken where there are several.
const DEFAULT: &str = "default";
const KEY: &str = "chat_template";

impl ChatTemplate {
    /// The template of a Hugging Face folder with the texts of its special tokens; `None` if it has none.
    ///
    /// Looked for in this order: `chat_template.jinja`, `chat_template.json`, `tokenizer_config.json`, and
    /// `additional_chat_templates/default.jinja`. Of several with names the one called `default` is taken.
    ///
    /// # Errors
    /// As for [`new`](Self::new), or a file is not valid, or there are templates with names but none is called
    /// `default`.
    pub fn from_hf(folder: &HfFolder, tokenizer: &dyn Tokenizer) -> Result<Option<Self>, Error> {
        let config = json(folder, HfFile::TokenizerConfig)?;
        let Some((source, file)) = source(folder, config.as_ref())? else { return Ok(None) };
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
        Self::new(&source, &bos, &eos, &file).map(Some)
    }
}

fn json(folder: &HfFolder, file: HfFile) -> Result<Option<Json>, Error> {
    folder.json(file).map_err(|error| Error::new(file.name(), None, ErrorKind::Metadata(error)))
}

/// The template's text and the file that it comes from.
fn source(folder: &HfFolder, config: Option<&Json>) -> Result<Option<(String, String)>, Error> {
    let path = |name: &str| folder.path().join(name).display().to_string();
    let utf8 = |bytes: Vec<u8>, file: &str| {
        String::from_utf8(bytes).map_err(|_| Error::new(file, None, ErrorKind::Invalid("not UTF-8".into())))
    };
    let metadata = |error| Error::new(HfFile::ChatTemplate.name(), None, ErrorKind::Metadata(error));
    if let Some(bytes) = folder.read(HfFile::ChatTemplate).map_err(metadata)? {
        let file = path(HfFile::ChatTemplate.name());
        return Ok(Some((utf8(bytes, &file)?, file)));
    }
    let processor = json(folder, HfFile::ChatTemplateJson)?;
    for json in [processor.as_ref(), config].into_iter().flatten() {
        if let Some(value) = json.get(KEY) {
            return Ok(Some((default_of(value, json.file())?.to_owned(), json.file().to_owned())));
        }
    }
    let additional = folder.additional_chat_templates().map_err(metadata)?;
    let Some(names) = (!additional.is_empty()).then(|| additional.iter().map(|(name, _)| name.clone()))
    else {
        return Ok(None);
    };
    let (names, file) = (names.collect::<Vec<_>>(), path("additional_chat_templates"));
    match additional.into_iter().find(|(name, _)| name == DEFAULT) {
        Some((_, bytes)) => Ok(Some((utf8(bytes, &file)?, file))),
        None => Err(no_default(&file, &names)),
    }
}

/// The template of a value that is one, or a list of such with names.
fn default_of<'a>(value: &'a Value, file: &str) -> Result<&'a str, Error> {
    let invalid = |why: &str| Error::new(file, KEY, ErrorKind::Invalid(why.into()));
    if let Some(source) = value.as_str() {
        return Ok(source);
    }
    let list =
        value.as_array().ok_or_else(|| invalid("want a string or an array of templates with names"))?;
    let mut names = Vec::new();
    for template in list {
        let text = |key| template.get(key).and_then(Value::as_str);
        match (text("name"), text("template")) {
            (Some(DEFAULT), Some(source)) => return Ok(source),
            (Some(name), Some(_)) => names.push(name.to_owned()),
            _ => return Err(invalid("an element of the array lacks its name or its template")),
        }
    }
    Err(no_default(file, &names))
}

fn no_default(file: &str, names: &[String]) -> Error {
    let why = format!("of the templates ({}) none is called {DEFAULT}", names.join(", "));
    Error::new(file, KEY, ErrorKind::Invalid(why))
}
