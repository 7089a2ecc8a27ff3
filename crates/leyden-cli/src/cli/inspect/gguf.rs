//! Description of a model in a GGUF file.

use leyden_tensor::{Gguf, Metadata, Value as Entry, WeightSource};
use leyden_text::Tokenizer;
use serde_json::Value;

use super::description::{Description, Format, SHORT_ARRAY, Token, TokenizerReport};

/// Key of the chat template.
pub(super) const TEMPLATE: &str = "tokenizer.chat_template";

/// Reads the metadata.
pub(super) fn describe(file: &Gguf, path: &str) -> Description {
    let metadata = file.metadata();
    let mut problems = Vec::new();
    let mut note = |error: leyden_tensor::Error| problems.push(error.to_string());
    let architecture = metadata.opt_str("general.architecture").unwrap_or_else(|error| {
        note(error);
        None
    });
    let name = metadata.opt_str("general.name").unwrap_or_else(|error| {
        note(error);
        None
    });
    let prefix = architecture.map(|name| format!("{name}."));
    let hyperparameters = metadata
        .iter()
        .filter_map(|(key, entry)| Some((key.strip_prefix(prefix.as_deref()?)?.to_owned(), json(entry))))
        .collect();
    let context_length = prefix.as_ref().and_then(|prefix| {
        metadata.opt_u32(&format!("{prefix}context_length")).unwrap_or_else(|error| {
            note(error);
            None
        })
    });
    // A vocabulary needs no architecture.
    let is_model = !file.tensor_info().is_empty();
    let config = is_model.then(|| leyden_models::config_of(file));
    let has_config = matches!(config, Some(Ok(_)));
    if let Some(Err(error)) = config {
        // This is the cause of other problems, so it comes first.
        problems.insert(0, error.to_string());
    }
    let tokenizer = tokenizer(metadata, path, &mut problems);
    let has_tokenizer = tokenizer.as_ref().is_some_and(|tokenizer| tokenizer.supported);
    Description {
        supported: is_model.then_some(has_config && has_tokenizer),
        format: Format { name: "GGUF", version: Some(file.version()) },
        architecture: architecture.map(str::to_owned),
        name: name.map(str::to_owned),
        context_length,
        labels: None,
        hyperparameters,
        tokenizer,
        metadata: metadata.iter().map(|(key, entry)| (key.to_owned(), json(entry))).collect(),
        problems,
    }
}

/// Reads the metadata of the tokenizer, and tries to build it.
fn tokenizer(metadata: &Metadata, file: &str, problems: &mut Vec<String>) -> Option<TokenizerReport> {
    let model = match metadata.opt_str("tokenizer.ggml.model") {
        Ok(model) => model?.to_owned(),
        Err(error) => {
            problems.push(error.to_string());
            return None;
        }
    };
    let built = leyden_text::from_gguf(metadata, file).map_err(|error| problems.push(error.to_string())).ok();
    // A wrong type was reported above, or does not matter.
    let tokens = metadata.opt_array_str("tokenizer.ggml.tokens").ok().flatten();
    let token = |key: &str| {
        let id = metadata.opt_u32(key).ok().flatten()?;
        let text =
            tokens.as_ref().and_then(|tokens| tokens.get(usize::try_from(id).ok()?)).unwrap_or_default();
        Some(Token { id, text: String::from_utf8_lossy(text).into_owned() })
    };
    // The tokenizer knows the default.
    let rule = |ask: fn(&dyn Tokenizer) -> bool, key: &str| match &built {
        Some(tokenizer) => Some(ask(tokenizer.as_ref())),
        None => metadata.opt_bool(key).ok().flatten(),
    };
    Some(TokenizerReport {
        model,
        pre_tokenizer: metadata.opt_str("tokenizer.ggml.pre").ok().flatten().map(str::to_owned),
        vocabulary: tokens.as_ref().map_or(0, |tokens| tokens.len()),
        supported: built.is_some(),
        bos: token("tokenizer.ggml.bos_token_id"),
        eos: token("tokenizer.ggml.eos_token_id"),
        add_bos: rule(|tokenizer| tokenizer.add_bos(), "tokenizer.ggml.add_bos_token"),
        add_eos: rule(|tokenizer| tokenizer.add_eos(), "tokenizer.ggml.add_eos_token"),
        chat_template_bytes: metadata.opt_str(TEMPLATE).ok().flatten().map(str::len),
    })
}

/// Converts a metadata value to JSON. A long array becomes its type and length.
fn json(entry: &Entry) -> Value {
    match entry {
        Entry::Bool(value) => Value::from(*value),
        Entry::String(value) => Value::from(value.as_str()),
        // Through the shortest decimal form, so that 0.00001 does not become 9.999999747378752e-6.
        Entry::F32(value) => value.to_string().parse::<f64>().map_or(Value::Null, Value::from),
        Entry::F64(value) => Value::from(*value),
        Entry::Array(array) if array.len() > SHORT_ARRAY => {
            serde_json::json!({ "array": array.elem_type().to_string(), "length": array.len() })
        }
        Entry::Array(array) => match array.strings() {
            Some(strings) => strings.iter().map(|text| Value::from(String::from_utf8_lossy(text))).collect(),
            None => array.iter().map(|element| json(&element)).collect(),
        },
        integer => integer
            .as_integer()
            .and_then(|n| {
                i64::try_from(n).map(Value::from).or_else(|_| u64::try_from(n).map(Value::from)).ok()
            })
            .unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::Array;

    #[test]
    fn json_keeps_values() {
        let cases = [
            (Entry::F32(1e-5), "0.00001"),
            (Entry::F32(f32::NAN), "null"),
            (Entry::U64(u64::MAX), "18446744073709551615"),
            (Entry::I8(-3), "-3"),
            (Entry::Array(Array::from_strs(["a", "b"])), r#"["a","b"]"#),
            (Entry::Array(Array::from_strs(["a"; 17])), r#"{"array":"string","length":17}"#),
        ];
        for (entry, wanted) in cases {
            let got = json(&entry);
            let wanted: Value = serde_json::from_str(wanted).unwrap();
            assert_eq!(got, wanted, "{entry:?}");
        }
        assert_eq!(super::super::shown(&json(&Entry::Array(Array::from_strs(["a"; 17])))), "[17 x string]");
    }
}
