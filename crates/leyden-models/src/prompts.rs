//! Prompts of embedding models, which are prepended to texts of each kind, such as queries and documents.

use crate::error::Error;
use crate::input_form::MessageForm;
use leyden_tensor::{Array, Escaped, HfFile, HfFolder, Json, Metadata, Value};

/// Prompts of a model by name, and the chat message that a text is wrapped in, if any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompts {
    named: Vec<(String, String)>,
    default: Option<usize>,
    message: Option<MessageForm>,
}

/// GGUF keys, after the architecture's name: names, their prompts, and the name of the default.
const NAMES: &str = "prompt.names";
const TEXTS: &str = "prompt.texts";
const DEFAULT: &str = "prompt.default";

impl Prompts {
    /// Reads the prompts from a model's metadata.
    ///
    /// # Errors
    /// A key has a value of another type, the numbers of names and prompts differ, or the default is not among the
    /// names.
    pub fn of_metadata(meta: &Metadata) -> Result<Prompts, Error> {
        let Some(architecture) = meta.opt_str("general.architecture")? else { return Ok(Prompts::default()) };
        let key = |name: &str| format!("{architecture}.{name}");
        let list = |name: &str| -> Result<Vec<String>, Error> {
            let found = meta.opt_array_str(&key(name))?;
            let texts = found.iter().flat_map(|texts| texts.iter());
            Ok(texts.map(|text| String::from_utf8_lossy(text).into_owned()).collect())
        };
        let (names, texts) = (list(NAMES)?, list(TEXTS)?);
        if names.len() != texts.len() {
            let what = format!("{} texts for {} names", texts.len(), names.len());
            return Err(Error::invalid(meta.file(), &key(TEXTS), what));
        }
        let named: Vec<(String, String)> = names.into_iter().zip(texts).collect();
        let default = default_of(&named, meta.opt_str(&key(DEFAULT))?, meta.file(), &key(DEFAULT))?;
        Ok(Prompts { named, default, message: MessageForm::of_metadata(meta)? })
    }

    /// Returns the prompts as metadata entries, whose keys lack the architecture's name.
    pub(crate) fn entries(&self) -> Vec<(&'static str, Value)> {
        if self.named.is_empty() {
            return Vec::new();
        }
        let texts = |of: fn(&(String, String)) -> &String| {
            Value::Array(Array::from_strs(self.named.iter().map(|row| of(row).as_str())))
        };
        let mut entries = vec![(NAMES, texts(|row| &row.0)), (TEXTS, texts(|row| &row.1))];
        let default = self.default.and_then(|i| self.named.get(i));
        entries.extend(default.map(|row| (DEFAULT, Value::from(row.0.as_str()))));
        entries
    }

    /// Reads the prompts from a folder's `config_sentence_transformers.json`; empty without that file.
    ///
    /// # Errors
    /// The file is damaged, a prompt is not a string, or the default is not among the names.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<Prompts, Error> {
        folder
            .json(HfFile::SentenceTransformers)?
            .map_or(Ok(Prompts::default()), |json| Prompts::of_json(&json))
    }

    fn of_json(json: &Json) -> Result<Prompts, Error> {
        const DEFAULT: &str = "default_prompt_name";
        let mut named = Vec::new();
        if let Some(prompts) = json.get("prompts") {
            let prompts = prompts.as_object().ok_or_else(|| json.wrong_type("prompts", "object"))?;
            for (name, prompt) in prompts {
                let key = format!("prompts.{name}");
                // `null` is an unset prompt.
                let text = if prompt.is_null() { Some("") } else { prompt.as_str() };
                let text = text.ok_or_else(|| json.wrong_type(&key, "text"))?;
                named.push((name.clone(), text.to_owned()));
            }
        }
        let default = default_of(&named, json.opt_str(DEFAULT)?, json.file(), DEFAULT)?;
        Ok(Prompts { named, default, message: None })
    }

    /// Returns the chat message that a text is wrapped in, if any. The prompt is then the system message before it.
    #[must_use]
    pub fn message(&self) -> Option<&MessageForm> {
        self.message.as_ref()
    }

    /// Returns the names of the prompts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| name.as_str())
    }

    /// Returns a prompt by its name, or the model's default, which may be empty, without a name. `None` if no prompt
    /// has this name.
    #[must_use]
    pub fn get(&self, name: Option<&str>) -> Option<&str> {
        match name {
            Some(name) => self.named.iter().find(|row| row.0 == name).map(|row| row.1.as_str()),
            None => Some(self.default.and_then(|i| self.named.get(i)).map_or("", |row| row.1.as_str())),
        }
    }
}

/// Returns the index of the default prompt.
fn default_of(
    named: &[(String, String)],
    name: Option<&str>,
    file: &str,
    key: &str,
) -> Result<Option<usize>, Error> {
    let Some(name) = name else { return Ok(None) };
    let found = named.iter().position(|row| row.0 == name);
    let none = || Error::invalid(file, key, format!("`{}` is none of the prompts", Escaped(name)));
    found.map(Some).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_have_names_and_one_may_be_the_default() {
        let of = |text: &str| {
            Prompts::of_json(&Json::parse(text.as_bytes(), "config_sentence_transformers.json").unwrap())
        };
        let prompts =
            of(r#"{"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}"#)
                .unwrap();
        assert_eq!(
            [Some("document"), Some("query"), Some("other"), None].map(|name| prompts.get(name)),
            [Some(""), Some("query: "), None, Some("query: ")]
        );
        assert_eq!(
            of(r#"{"prompts": {"query": "q"}, "default_prompt_name": null}"#).unwrap().get(None),
            Some("")
        );
        assert_eq!(of("{}").unwrap(), Prompts::default());
        assert_eq!(of(r#"{"prompts": {"query": null}}"#).unwrap().get(Some("query")), Some(""));
        let entries = prompts.entries().into_iter().map(|(key, value)| (format!("bert.{key}"), value));
        let all = entries.chain([("general.architecture".to_owned(), Value::from("bert"))]);
        assert_eq!(Prompts::of_metadata(&Metadata::new("m.gguf", all).unwrap()).unwrap(), prompts);
        let error = of(r#"{"default_prompt_name": "query"}"#).unwrap_err().to_string();
        assert_eq!(
            error,
            "config_sentence_transformers.json: default_prompt_name: `query` is none of the prompts"
        );
        assert!(of(r#"{"prompts": {"query": 1}}"#).unwrap_err().to_string().contains("prompts.query"));
    }
}
