//! Keys of a model's configuration that are not known.

use crate::arch::{ARCHITECTURES, hf_class};
use crate::config::{unknown_gguf, unknown_hf};
use leyden_tensor::{Json, Value, WeightSource};

/// Returns the keys of a model's configuration that are ignored because they are not known, except those whose value
/// means "off": zero, false or empty. Results of such a model may differ from the reference implementation's.
#[must_use]
pub fn unknown_keys(source: &dyn WeightSource) -> Vec<String> {
    /// Key of the tokens that llama.cpp never samples.
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

/// Returns the unknown keys of a `config.json`, as [`unknown_keys`] does.
#[must_use]
pub fn unknown_keys_of_json(json: &Json) -> Vec<String> {
    unknown_hf(json, hf_class(json).map_or(&[], |(a, _)| a.own_keys))
}
