//! Which layers attend to a window only.

use super::reader::{Field, Reader, field};
use crate::error::Error;
use leyden_tensor::Value;

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
                let key = self.key(PATTERN).unwrap_or_default();
                if let Some(Value::Array(array)) = meta.get(&key) {
                    let flag = |item: Value| match item {
                        Value::Bool(flag) => Some(flag),
                        other => other.as_integer().map(|n| n != 0),
                    };
                    let flags: Option<Vec<bool>> = array.iter().map(flag).collect();
                    return match flags {
                        Some(flags) if flags.len() == layers => Ok(flags),
                        Some(flags) => {
                            Err(self.invalid(PATTERN, format!("{} values for {layers} layers", flags.len())))
                        }
                        None => Err(self.invalid(PATTERN, "is neither a number nor a list of yes and no")),
                    };
                }
            }
        }
        Ok(by_pattern(self.opt_size(PATTERN)?.unwrap_or(default)))
    }
}
