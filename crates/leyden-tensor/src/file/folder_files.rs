//! [`FolderFiles`]: the settings files of a Hugging Face folder inside a GGUF file.
//!
//! GGUF's own keys do not have everything that the files of an encoder say. So GGUF files made from such folders also
//! have the files' texts: `leyden.folder.names` and `leyden.folder.texts`, and in `leyden.folder.config` the model
//! configuration that results from them. Other programs ignore these keys.

use super::json::Json;
use super::metadata::Metadata;
use super::value::{Array, Value};
use crate::error::{Error, ErrorKind};

/// Names and texts of a folder's settings files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderFiles {
    file: String,
    all: Vec<(String, String)>,
}

const NAMES: &str = "leyden.folder.names";
const TEXTS: &str = "leyden.folder.texts";
const CONFIG: &str = "leyden.folder.config";

impl FolderFiles {
    /// Makes a value from names and texts.
    #[must_use]
    pub fn new(all: Vec<(String, String)>) -> FolderFiles {
        FolderFiles { file: String::new(), all }
    }

    /// Reads the files that a GGUF file has, if any.
    ///
    /// # Errors
    /// The counts of names and texts differ, or one is not valid UTF-8.
    pub fn of(meta: &Metadata) -> Result<Option<FolderFiles>, Error> {
        let (Some(names), Some(texts)) = (meta.opt_array_str(NAMES)?, meta.opt_array_str(TEXTS)?) else {
            return Ok(None);
        };
        let label = meta.file().into();
        if names.len() != texts.len() {
            let kind = ErrorKind::TooMany {
                what: "number of texts",
                count: texts.len().try_into().unwrap_or(u64::MAX),
                most: names.len().try_into().unwrap_or(u64::MAX),
            };
            return Err(Error::new(kind).item(TEXTS).file(&label));
        }
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map(str::to_owned);
            text.map_err(|_| {
                let kind = ErrorKind::WrongType { wanted: "UTF-8", found: "other bytes".into() };
                Error::new(kind).item(TEXTS).file(&label)
            })
        };
        let pairs = names.iter().zip(texts.iter());
        let all = pairs.map(|(name, bytes)| Ok((text(name)?, text(bytes)?))).collect::<Result<_, Error>>()?;
        Ok(Some(FolderFiles { file: meta.file().to_owned(), all }))
    }

    /// Returns the configuration of the model, if a GGUF file has it.
    ///
    /// # Errors
    /// It is not a valid JSON object.
    pub fn config(meta: &Metadata) -> Result<Option<Json>, Error> {
        let Some(text) = meta.opt_str(CONFIG)? else { return Ok(None) };
        Json::parse(text.as_bytes(), &format!("{}: {CONFIG}", meta.file())).map(Some)
    }

    /// Returns the keys of a GGUF file with these files and this configuration.
    #[must_use]
    pub fn entries(&self, config: &Json) -> Vec<(String, Value)> {
        let texts = |of: fn(&(String, String)) -> &String| {
            Value::Array(Array::from_strs(self.all.iter().map(|row| of(row).as_str())))
        };
        let config = serde_json::Value::Object(config.object().clone()).to_string();
        vec![
            (NAMES.to_owned(), texts(|row| &row.0)),
            (TEXTS.to_owned(), texts(|row| &row.1)),
            (CONFIG.to_owned(), Value::from(config.as_str())),
        ]
    }

    /// Returns names and texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Returns the text of a file.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Parses a file that is a JSON object.
    ///
    /// # Errors
    /// It is not a JSON object.
    pub fn json(&self, name: &str) -> Result<Option<Json>, Error> {
        let label = format!("{}: {name}", self.file);
        self.text(name).map(|text| Json::parse(text.as_bytes(), &label)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_as_keys_and_read_back() {
        let files = FolderFiles::new(vec![
            ("modules.json".into(), "[]".into()),
            ("config.json".into(), r#"{"a": 1}"#.into()),
        ]);
        let config = Json::parse(br#"{"model_type": "bert"}"#, "config.json").expect("JSON");
        let meta = Metadata::new("m.gguf", files.entries(&config)).expect("keys");
        let read = FolderFiles::of(&meta).expect("files").expect("some");
        assert!(read.iter().eq(files.iter()));
        assert_eq!(read.text("modules.json"), Some("[]"));
        assert!(read.json("config.json").expect("JSON").is_some());
        assert_eq!(
            read.json("modules.json").expect_err("a list").to_string(),
            "m.gguf: modules.json: want object, found array"
        );
        let found = FolderFiles::config(&meta).expect("JSON").expect("some");
        assert_eq!(found.object(), config.object());
        assert_eq!(FolderFiles::of(&Metadata::new("m.gguf", []).expect("keys")).expect("none"), None);
        let odd = [
            (NAMES.to_owned(), Value::Array(Array::from_strs(["a"]))),
            (TEXTS.to_owned(), Value::Array(Array::from_strs([""; 0]))),
        ];
        assert!(FolderFiles::of(&Metadata::new("m.gguf", odd).expect("keys")).is_err());
    }
}
