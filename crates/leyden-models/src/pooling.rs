//! Pooling of hidden states into a text's embedding, as read from a model's files.

use crate::error::{Error, checked};
use leyden_tensor::{Escaped, HfFile, HfFolder, Json, KnownKeys, Metadata, harmless_key, read_key};
use std::fmt;
use std::str::FromStr;

/// Pooling of the hidden states of a text's tokens into its embedding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Mean of all states. The default: in a decoder not trained for embeddings, information about the text is spread
    /// over its tokens, while the last state mostly predicts the next token.
    #[default]
    Mean,
    /// State of the first token.
    Cls,
    /// State of the last token.
    Last,
    /// Elementwise maximum of all states.
    Max,
    /// Mean of all states, weighted by position, starting from 1.
    WeightedMean,
    /// Sum of all states, divided by the square root of their number.
    MeanSqrtLen,
}

impl Pooling {
    /// Names in options and files.
    pub const NAMES: [(&'static str, Pooling); 6] = [
        ("mean", Pooling::Mean),
        ("cls", Pooling::Cls),
        ("last", Pooling::Last),
        ("max", Pooling::Max),
        ("weightedmean", Pooling::WeightedMean),
        ("mean_sqrt_len", Pooling::MeanSqrtLen),
    ];

    /// Returns true if states before the last token are used, so that all states of a text have to be computed.
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

/// GGUF key, after the architecture's name; 0 means no pooling.
const KEY: &str = "pooling_type";
/// Value of `pooling_type` for rerankers, which score pairs of texts.
pub(crate) const RANK: u32 = 4;
/// Values of `pooling_type`. Those from 101 on are internal, for folders: GGUF has no value for these poolings.
const NUMBERS: [(u32, Pooling); 6] = [
    (1, Pooling::Mean),
    (2, Pooling::Cls),
    (3, Pooling::Last),
    (101, Pooling::Max),
    (102, Pooling::WeightedMean),
    (103, Pooling::MeanSqrtLen),
];

/// Values of `pooling_mode` in sentence-transformers' `1_Pooling/config.json`, and the flags for them in older
/// versions.
const MODES: [(&str, &str, Pooling); 6] = [
    ("mean", "pooling_mode_mean_tokens", Pooling::Mean),
    ("cls", "pooling_mode_cls_token", Pooling::Cls),
    ("lasttoken", "pooling_mode_lasttoken", Pooling::Last),
    ("max", "pooling_mode_max_tokens", Pooling::Max),
    ("weightedmean", "pooling_mode_weightedmean_tokens", Pooling::WeightedMean),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::MeanSqrtLen),
];

/// Keys of `1_Pooling/config.json`.
const KEYS: KnownKeys = KnownKeys(&[
    // The dimension is the model's hidden size.
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
    /// Reads the pooling from the key `pooling_type` of a model's metadata; `None` if not given.
    ///
    /// # Errors
    /// The value is not supported.
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

    /// Reads the pooling from a folder's sentence-transformers files, if it has any.
    ///
    /// # Errors
    /// As [`of_json`](Pooling::of_json), or the file is damaged.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<Option<Pooling>, Error> {
        folder.json(HfFile::Pooling)?.map(|json| Pooling::of_json(&json)).transpose()
    }

    /// Reads the pooling from a `1_Pooling/config.json`.
    ///
    /// # Errors
    /// The pooling is not supported, several are combined, or a key is not known.
    pub(crate) fn of_json(json: &Json) -> Result<Pooling, Error> {
        const MODE: &str = "pooling_mode";
        let supported = || MODES.map(|row| row.0).join(", ");
        if json.get("include_prompt").is_some_and(|flag| flag.as_bool() == Some(false)) {
            let what = "false is not supported: pooling includes prompts";
            return Err(Error::invalid(json.file(), "include_prompt", what));
        }
        if let Some(value) = json.get(MODE) {
            // A list with a single mode is accepted.
            let mode = match value.as_array().map(Vec::as_slice) {
                Some([one]) => one.as_str(),
                Some(_) => {
                    return Err(Error::invalid(
                        json.file(),
                        MODE,
                        "several pooling modes together are not supported",
                    ));
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
        let found = found.ok_or_else(|| {
            Error::invalid(json.file(), "pooling_mode_mean_tokens", "no pooling mode is set")
        })?;
        checked(json, KEYS)?;
        Ok(found)
    }

    /// Returns the value of `pooling_type`.
    pub(crate) fn number(self) -> u32 {
        NUMBERS.iter().find(|row| row.1 == self).map_or(0, |row| row.0)
    }
}

/// Returns whether a GGUF file declares its model a reranker, which scores pairs of texts.
pub(crate) fn ranks(meta: &Metadata) -> Result<bool, Error> {
    let Some(architecture) = meta.opt_str("general.architecture")? else { return Ok(false) };
    Ok(meta.opt_u32(&format!("{architecture}.{KEY}"))? == Some(RANK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::Value;

    #[test]
    fn pooling_is_read_from_models() {
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
