//! Sliding-window layers.

use super::reader::{Field, Reader, field};
use crate::error::Error;
use leyden_tensor::{Metadata, Value};

/// Period of the layers: the last of every period has full attention, the others a sliding window. In GGUF also an
/// array with a flag for each layer: true for a sliding window.
const PATTERN: Field = field("attention.sliding_window_pattern", "sliding_window_pattern");

impl Reader<'_> {
    /// Returns for each layer whether it has a sliding window, by `layer_types` or GGUF's array, or else by the
    /// period; `default` is the period if not given.
    pub(crate) fn windowed(&self, layers: usize, default: usize) -> Result<Vec<bool>, Error> {
        let by_pattern = |pattern: usize| (0..layers).map(|i| (i + 1) % pattern != 0).collect();
        match self {
            Reader::Hf(config, _) => {
                if let Some(full) = config.full_layers(layers)? {
                    return Ok(full.iter().map(|full| !full).collect());
                }
            }
            Reader::Gguf(meta, _) => {
                if let Some(flags) = self.flags(meta, PATTERN)? {
                    return match flags.len() == layers {
                        true => Ok(flags),
                        false => {
                            Err(self.invalid(PATTERN, format!("{} values for {layers} layers", flags.len())))
                        }
                    };
                }
            }
        }
        Ok(by_pattern(self.opt_size(PATTERN)?.unwrap_or(default)))
    }

    /// Reads an array of flags in GGUF; `None` if the value is not an array.
    pub(crate) fn flags(&self, meta: &Metadata, field: Field) -> Result<Option<Vec<bool>>, Error> {
        let key = self.key(field).unwrap_or_default();
        let Some(Value::Array(array)) = meta.get(&key) else { return Ok(None) };
        let flag = |item: Value| match item {
            Value::Bool(flag) => Some(flag),
            other => other.as_integer().map(|n| n != 0),
        };
        let flags: Option<Vec<bool>> = array.iter().map(flag).collect();
        let wrong = || self.invalid(field, "is neither a number nor a list of flags");
        flags.ok_or_else(wrong).map(Some)
    }
}
