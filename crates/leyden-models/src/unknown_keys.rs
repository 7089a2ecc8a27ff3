//! Keys of a model's description that no rule knows.

use crate::arch::{ARCHITECTURES, hf_class};
use crate::config::{unknown_gguf, unknown_hf};
use leyden_tensor::{Json, Value, WeightSource};

/// Returns the keys of a model's description that are ignored because no rule knows them, unless their value means "off": zero,
/// false or empty. The results may differ from the reference implementation's.
#[must_use]
pub fn unknown_keys(source: &dyn WeightSource) -> Vec<String> {
    /// Tokens that llama.cpp never samples.
    const SUPPRESSED: &str = "tokenizer.ggml.suppress_tokens";
    if let Some(json) = source.config_json() {
        let unread = source.unread_keys().iter().cloned();
        return unknown_keys_of_json(json).into_iter().chain(unread).collect();
    }
    let meta = source.metadata();
    let mut keys = match meta.opt_str("general.architecture") {
        Ok(Some(name)) => {
            let own = ARCHITECTURES.iter().find(|a| a.name == name).map_or(&[][..], |a| a.own_keys);
            unknown_gguf(meta, name, own)
        }
        _ => Vec::new(),
    };
    if matches!(meta.get(SUPPRESSED), Some(Value::Array(tokens)) if !tokens.is_empty()) {
        keys.push(SUPPRESSED.to_owned());
    }
    keys
}

/// Returns the same as [`unknown_keys`] for a `config.json`.
#[must_use]
pub fn unknown_keys_of_json(json: &Json) -> Vec<String> {
    unknown_hf(json, hf_class(json).map_or(&[], |(a, _)| a.own_keys))
}
