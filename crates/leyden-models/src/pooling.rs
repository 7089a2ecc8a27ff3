//! Which states make the vector of a text, as far as a model says.

use crate::error::Error;
use leyden_tensor::{Escaped, HfFile, HfFolder, Json, Metadata};
use std::fmt;
use std::str::FromStr;

/// Which states of a text's tokens make its vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all. What a decoder that was not trained for vectors knows of a text is spread over its tokens; the
    /// last one is about what comes next.
    #[default]
    Mean,
    /// That of the first token.
    Cls,
    /// That of the last token.
    Last,
}

impl Pooling {
    /// The names in options and files.
    pub const NAMES: [(&'static str, Pooling); 3] =
        [("mean", Pooling::Mean), ("cls", Pooling::Cls), ("last", Pooling::Last)];

    /// Whether states before the last token matter, so that all of a text has to be computed.
    #[must_use]
    pub fn needs_all(self) -> bool {
        self != Pooling::Last
    }
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Pooling::NAMES.iter().find(|(_, pooling)| pooling == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Pooling {
    type Err = String;

    fn from_str(name: &str) -> Result<Pooling, String> {
        let found = Pooling::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, pooling)| *pooling).ok_or_else(|| "no such pooling; known: mean, cls, last".to_owned())
    }
}

/// The key in GGUF, behind the architecture's name; 0 and 4 are no pooling and that of models that rank.
const KEY: &str = "pooling_type";
const NUMBERS: [(u32, Pooling); 3] = [(1, Pooling::Mean), (2, Pooling::Cls), (3, Pooling::Last)];

/// The flags of sentence-transformers' `1_Pooling/config.json`.
const FLAGS: [(&str, Pooling); 3] = [
    ("pooling_mode_mean_tokens", Pooling::Mean),
    ("pooling_mode_cls_token", Pooling::Cls),
    ("pooling_mode_lasttoken", Pooling::Last),
];

impl Pooling {
    /// What a model's metadata says, if it says anything: the key `pooling_type` of its architecture.
    ///
    /// # Errors
    /// It says something that is none of the known ways.
    pub fn of_metadata(meta: &Metadata) -> Result<Option<Pooling>, Error> {
        let Some(architecture) = meta.opt_str("general.architecture")? else { return Ok(None) };
        let key = format!("{architecture}.{KEY}");
        match meta.opt_u32(&key)? {
            None | Some(0 | 4) => Ok(None),
            Some(number) => {
                let found = NUMBERS.iter().find(|row| row.0 == number).map(|row| Some(row.1));
                found.ok_or_else(|| Error::invalid(meta.file(), &key, format!("{number} is not supported")))
            }
        }
    }

    /// What a folder says in the files of sentence-transformers, if it has any.
    ///
    /// # Errors
    /// It asks for another way, or for a module that changes vectors in a way that is not supported.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<Option<Pooling>, Error> {
        if let Some(list) = folder.read(HfFile::Modules)? {
            let label = folder.path().join(HfFile::Modules.name()).display().to_string();
            // Accessors and errors want an object.
            let bytes = [br#"{"modules":"#, &list[..], b"}"].concat();
            check_modules(&Json::parse(&bytes, &label)?)?;
        }
        folder.json(HfFile::Pooling)?.map(|json| Pooling::of_json(&json)).transpose()
    }

    /// What a folder's `1_Pooling/config.json` says.
    ///
    /// # Errors
    /// It asks for another way, or for several together.
    pub(crate) fn of_json(json: &Json) -> Result<Pooling, Error> {
        let mut found = None;
        for (flag, value) in json.object() {
            if !flag.starts_with("pooling_mode_") || value.as_bool() != Some(true) {
                continue;
            }
            let known = FLAGS.iter().find(|row| row.0 == flag.as_str()).map(|row| row.1);
            if known.is_none() || found.is_some() {
                let what = "is not supported, or not together with another; supported: mean, cls, last";
                return Err(Error::invalid(json.file(), flag, what));
            }
            found = known;
        }
        found.ok_or_else(|| Error::invalid(json.file(), "pooling_mode_mean_tokens", "no way is on"))
    }

    /// The number in GGUF.
    pub(crate) fn number(self) -> u32 {
        NUMBERS.iter().find(|row| row.1 == self).map_or(0, |row| row.0)
    }
}

/// Refuses a list of modules with one that is not computed. Their classes are told by their last names, as the paths to them
/// have changed; what normalises vectors is always done where they go out.
fn check_modules(json: &Json) -> Result<(), Error> {
    const KNOWN: [&str; 3] = ["Transformer", "Pooling", "Normalize"];
    let modules = json.get("modules").and_then(|list| list.as_array());
    let Some(modules) = modules else { return Err(json.wrong_type("modules", "array").into()) };
    for (i, module) in modules.iter().enumerate() {
        let text = |key: &str| module.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        let class = text("type").rsplit('.').next().unwrap_or_default();
        if !KNOWN.contains(&class) {
            let what = format!("`{}` is not supported; supported: {}", Escaped(class), KNOWN.join(", "));
            return Err(Error::invalid(json.file(), &format!("modules[{i}].type"), what));
        }
        let wanted = HfFile::Pooling.name().split('/').next().unwrap_or_default();
        if class == "Pooling" && text("path") != wanted {
            let what = format!("`{}` is not supported; supported: {wanted}", Escaped(text("path")));
            return Err(Error::invalid(json.file(), &format!("modules[{i}].path"), what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::Value;

    #[test]
    fn models_say_how_they_are_pooled() {
        let of = |number: u32| {
            let entries = [
                ("general.architecture".to_owned(), Value::from("qwen3")),
                ("qwen3.pooling_type".to_owned(), Value::U32(number)),
            ];
            Pooling::of_metadata(&Metadata::new("m.gguf", entries).unwrap())
        };
        assert_eq!(of(1).unwrap(), Some(Pooling::Mean));
        assert_eq!(of(Pooling::Last.number()).unwrap(), Some(Pooling::Last));
        assert_eq!(of(4).unwrap(), None);
        assert_eq!(of(9).unwrap_err().to_string(), "m.gguf: qwen3.pooling_type: 9 is not supported");
        let folder = |text: &str| Pooling::of_json(&Json::parse(text.as_bytes(), "config.json").unwrap());
        let last = r#"{"word_embedding_dimension": 8, "pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false}"#;
        assert_eq!(folder(last).unwrap(), Pooling::Last);
        let modules = |types: &[&str]| {
            let list: Vec<String> = types
                .iter()
                .map(|t| format!(r#"{{"type": "sentence_transformers.{t}", "path": "1_Pooling"}}"#))
                .collect();
            let text = format!(r#"{{"modules": [{}]}}"#, list.join(","));
            check_modules(&Json::parse(text.as_bytes(), "modules.json").unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(modules(&["models.Transformer", "base.Pooling", "models.Normalize"]), Ok(()));
        let error = modules(&["models.Transformer", "models.Dense"]).unwrap_err();
        assert!(error.starts_with("modules.json: modules[1].type: `Dense` is not supported"), "{error}");
        for wrong in [
            r#"{"pooling_mode_max_tokens": true}"#,
            r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}"#,
            "{}",
        ] {
            assert!(folder(wrong).unwrap_err().to_string().contains("pooling_mode_"), "{wrong}");
        }
    }
}
