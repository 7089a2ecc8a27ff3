//! Which states make the vector of a text, as far as a model says.

use crate::error::{Error, checked};
use leyden_tensor::{Escaped, HfFile, HfFolder, Json, KnownKeys, Metadata, harmless_key, read_key};
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
    /// The greatest of all, number by number.
    Max,
    /// The mean of all, each weighted by its position, from 1.
    WeightedMean,
    /// The sum of all, divided by the square root of how many they are.
    MeanSqrtLen,
}

impl Pooling {
    /// The names in options and files.
    pub const NAMES: [(&'static str, Pooling); 6] = [
        ("mean", Pooling::Mean),
        ("cls", Pooling::Cls),
        ("last", Pooling::Last),
        ("max", Pooling::Max),
        ("weightedmean", Pooling::WeightedMean),
        ("mean_sqrt_len", Pooling::MeanSqrtLen),
    ];

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
        let known = Pooling::NAMES.map(|(name, _)| name).join(", ");
        found.map(|(_, pooling)| *pooling).ok_or_else(|| format!("no such pooling; known: {known}"))
    }
}

/// The key in GGUF, behind the architecture's name; 0 is no pooling.
const KEY: &str = "pooling_type";
/// That of models that give pairs of texts a score.
pub(crate) const RANK: u32 = 4;
/// Those from 101 on are ours, for folders: GGUF has no number for these ways.
const NUMBERS: [(u32, Pooling); 6] = [
    (1, Pooling::Mean),
    (2, Pooling::Cls),
    (3, Pooling::Last),
    (101, Pooling::Max),
    (102, Pooling::WeightedMean),
    (103, Pooling::MeanSqrtLen),
];

/// The values of `pooling_mode` in sentence-transformers' `1_Pooling/config.json`, and the flags that older ones have for them.
const MODES: [(&str, &str, Pooling); 6] = [
    ("mean", "pooling_mode_mean_tokens", Pooling::Mean),
    ("cls", "pooling_mode_cls_token", Pooling::Cls),
    ("lasttoken", "pooling_mode_lasttoken", Pooling::Last),
    ("max", "pooling_mode_max_tokens", Pooling::Max),
    ("weightedmean", "pooling_mode_weightedmean_tokens", Pooling::WeightedMean),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
];

/// The keys of that file.
const KEYS: KnownKeys = KnownKeys(&[
    // The model's width says it.
    harmless_key("embedding_dimension"),
    harmless_key("word_embedding_dimension"),
    read_key("include_prompt"),
    read_key("pooling_mode"),
    read_key("pooling_mode_cls_token"),
    read_key("pooling_mode_lasttoken"),
    read_key("pooling_mode_max_tokens"),
    read_key("pooling_mode_mean_sqrt_len_tokens"),
    read_key("pooling_mode_mean_tokens"),
    read_key("pooling_mode_weightedmean_tokens"),
]);

impl Pooling {
    /// What a model's metadata says, if it says anything: the key `pooling_type` of its architecture.
    ///
    /// # Errors
    /// It says something that is none of the known ways.
    pub fn of_metadata(meta: &Metadata) -> Result<Option<Pooling>, Error> {
        let Some(architecture) = meta.opt_str("general.architecture")? else { return Ok(None) };
        let key = format!("{architecture}.{KEY}");
        match meta.opt_u32(&key)? {
            None | Some(0 | RANK) => Ok(None),
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
        folder.json(HfFile::Pooling)?.map(|json| Pooling::of_json(&json)).transpose()
    }

    /// What a folder's `1_Pooling/config.json` says.
    ///
    /// # Errors
    /// It asks for another way, or for several together.
    pub(crate) fn of_json(json: &Json) -> Result<Pooling, Error> {
        const MODE: &str = "pooling_mode";
        let supported = || MODES.map(|row| row.0).join(", ");
        if json.get("include_prompt").is_some_and(|flag| flag.as_bool() == Some(false)) {
            let what = "false is not supported: prompts count for vectors";
            return Err(Error::invalid(json.file(), "include_prompt", what));
        }
        if let Some(value) = json.get(MODE) {
            // One way may stand in a list.
            let mode = match value.as_array().map(Vec::as_slice) {
                Some([one]) => one.as_str(),
                Some(_) => {
                    return Err(Error::invalid(json.file(), MODE, "several ways together are not supported"));
                }
                None => value.as_str(),
            };
            let mode = mode.ok_or_else(|| json.wrong_type(MODE, "string"))?;
            let found = MODES.iter().find(|row| row.0 == mode).map(|row| row.2);
            let what = || format!("`{}` is not supported; supported: {}", Escaped(mode), supported());
            let found = found.ok_or_else(|| Error::invalid(json.file(), MODE, what()))?;
            checked(json, KEYS)?;
            return Ok(found);
        }
        let mut found = None;
        for (flag, value) in json.object() {
            if !flag.starts_with("pooling_mode_") || value.as_bool() != Some(true) {
                continue;
            }
            let known = MODES.iter().find(|row| row.1 == flag.as_str()).map(|row| row.2);
            if known.is_none() || found.is_some() {
                let what =
                    format!("is not supported, or not together with another; supported: {}", supported());
                return Err(Error::invalid(json.file(), flag, what));
            }
            found = known;
        }
        let found =
            found.ok_or_else(|| Error::invalid(json.file(), "pooling_mode_mean_tokens", "no way is on"))?;
        checked(json, KEYS)?;
        Ok(found)
    }

    /// The number in GGUF.
    pub(crate) fn number(self) -> u32 {
        NUMBERS.iter().find(|row| row.1 == self).map_or(0, |row| row.0)
    }
}

/// Whether a GGUF file says that its model gives pairs of texts a score.
pub(crate) fn ranks(meta: &Metadata) -> Result<bool, Error> {
    let Some(architecture) = meta.opt_str("general.architecture")? else { return Ok(false) };
    Ok(meta.opt_u32(&format!("{architecture}.{KEY}"))? == Some(RANK))
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
        assert_eq!(folder(r#"{"pooling_mode": "weightedmean"}"#).unwrap(), Pooling::WeightedMean);
        assert_eq!(folder(r#"{"pooling_mode": ["cls"], "embedding_dimension": 8}"#).unwrap(), Pooling::Cls);
        let unknown = folder(r#"{"pooling_mode": "cls", "warp": 2}"#).unwrap_err().to_string();
        assert_eq!(unknown, "config.json: warp: is not a known key, and may change results");
        let prompt = folder(r#"{"pooling_mode": "mean", "include_prompt": false}"#).unwrap_err().to_string();
        assert!(prompt.starts_with("config.json: include_prompt: false is not supported"), "{prompt}");
        for wrong in [
            r#"{"pooling_mode": ["mean", "cls"]}"#,
            r#"{"pooling_mode": 3}"#,
            r#"{"pooling_mode_median_tokens": true}"#,
            r#"{"pooling_mode": "median"}"#,
            r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}"#,
            "{}",
        ] {
            assert!(folder(wrong).unwrap_err().to_string().contains("pooling_mode"), "{wrong}");
        }
    }
}
