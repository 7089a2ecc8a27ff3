//! What a model for vectors expects before texts of each kind, such as questions and documents.

use crate::error::Error;
use leyden_tensor::{Escaped, HfFile, HfFolder, Json};

/// The prompts of a model, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    named: Vec<(String, String)>,
    default: Option<usize>,
}

impl Prompts {
    /// What a folder says in `config_sentence_transformers.json`; none if it has no such file.
    ///
    /// # Errors
    /// The file is damaged, a prompt is no text, or the default is none of them.
    pub fn of_folder(folder: &HfFolder) -> Result<Prompts, Error> {
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
                let prompt = prompt.as_str().ok_or_else(|| json.wrong_type(&key, "text"))?;
                named.push((name.clone(), prompt.to_owned()));
            }
        }
        let default = match json.opt_str(DEFAULT)? {
            None => None,
            Some(name) => Some(named.iter().position(|row| row.0 == name).ok_or_else(|| {
                Error::invalid(json.file(), DEFAULT, format!("`{}` is none of the prompts", Escaped(name)))
            })?),
        };
        Ok(Prompts { named, default })
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| name.as_str())
    }

    /// A prompt by its name; without one the model's default, which may be empty. `None` if there is none of this name.
    #[must_use]
    pub fn get(&self, name: Option<&str>) -> Option<&str> {
        match name {
            Some(name) => self.named.iter().find(|row| row.0 == name).map(|row| row.1.as_str()),
            None => Some(self.default.and_then(|i| self.named.get(i)).map_or("", |row| row.1.as_str())),
        }
    }
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
        let error = of(r#"{"default_prompt_name": "query"}"#).unwrap_err().to_string();
        assert_eq!(
            error,
            "config_sentence_transformers.json: default_prompt_name: `query` is none of the prompts"
        );
        assert!(of(r#"{"prompts": {"query": 1}}"#).unwrap_err().to_string().contains("prompts.query"));
    }
}
