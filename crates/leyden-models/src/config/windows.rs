//! Which layers attend to a window only.

use super::reader::{Field, Reader, field};
use crate::error::Error;
use leyden_tensor::{Metadata, Value};

/// Of so many layers one, the last, attends to everything; in GGUF also a list that says of every layer whether it attends to
/// a window.
const PATTERN: Field = field("attention.sliding_window_pattern", "sliding_window_pattern");

impl Reader<'_> {
    /// Whether each layer attends to a window, as `layer_types` or the list in GGUF says, or else the pattern; `default` is
    /// the pattern where nothing is said.
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

    /// A list of yes and no in GGUF; `None` for what is no list.
    pub(crate) fn flags(&self, meta: &Metadata, field: Field) -> Result<Option<Vec<bool>>, Error> {
        let key = self.key(field).unwrap_or_default();
        let Some(Value::Array(array)) = meta.get(&key) else { return Ok(None) };
        let flag = |item: Value| match item {
            Value::Bool(flag) => Some(flag),
            other => other.as_integer().map(|n| n != 0),
        };
        let flags: Option<Vec<bool>> = array.iter().map(flag).collect();
        let wrong = || self.invalid(field, "is neither a number nor a list of yes and no");
        flags.ok_or_else(wrong).map(Some)
    }
}
