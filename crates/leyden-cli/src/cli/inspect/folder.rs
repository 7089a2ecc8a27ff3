//! Description of a model in a folder from the hub.

use leyden::ModelFile;
use leyden_models::{ErrorKind, HfModel};
use leyden_tensor::HfFolder;
use leyden_text::Tokenizer;
use serde_json::{Value, json};

use super::description::{Description, Format, SHORT_ARRAY, Token, TokenizerReport};

/// Reads `config.json`, tokenizer and chat template.
pub(super) fn describe(file: &ModelFile, folder: &HfFolder) -> Description {
    let config = folder.config();
    let mut problems = Vec::new();
    // The caller reports unsupported types of tensors, one line each.
    let of_model = HfModel::new(folder.clone()).and_then(|model| leyden_models::config_of(&model));
    if let Err(error) = &of_model
        && !matches!(error.kind(), ErrorKind::File(e) if matches!(e.kind(), leyden_tensor::ErrorKind::UnsupportedType(_)))
    {
        problems.push(error.to_string());
    }
    let spans = of_model.ok().and_then(|config| Some((config.spans?, u32::try_from(config.context).ok())));
    let tokenizer = file.tokenizer().map_err(|error| problems.push(error.to_string())).ok();
    let tokenizer = tokenizer.map(|tokenizer| describe_tokenizer(file, tokenizer.as_ref(), &mut problems));
    // A wrong type was reported above, or does not matter.
    let text = |key: &str| config.opt_str(key).ok().flatten().map(str::to_owned);
    let stated = config.object().iter().filter(|(_, value)| !value.is_null());
    let numbers = config.object().iter().filter(|(_, value)| value.is_number());
    Description {
        supported: Some(problems.is_empty()),
        format: Format { name: if folder.onnx().is_some() { "onnx" } else { "safetensors" }, version: None },
        architecture: text("model_type"),
        name: text("_name_or_path").filter(|name| !name.is_empty()),
        context_length: match &spans {
            Some((_, context)) => *context,
            None => config.opt_u32("max_position_embeddings").ok().flatten(),
        },
        labels: spans.map(|(spans, _)| {
            let (words, width) = (spans.max_words, spans.max_width);
            format!("from requests (GLiNER); entities of up to {width} words, windows of {words} words")
        }),
        hyperparameters: numbers.map(|(key, value)| (key.clone(), value.clone())).collect(),
        tokenizer,
        metadata: stated.map(|(key, value)| (key.clone(), short(value))).collect(),
        problems,
    }
}

fn describe_tokenizer(
    file: &ModelFile,
    tokenizer: &dyn Tokenizer,
    problems: &mut Vec<String>,
) -> TokenizerReport {
    let template = file.chat_template(tokenizer);
    let template = template.map_err(|error| problems.push(error.to_string())).ok().flatten();
    let token = |id: Option<u32>| {
        let text = tokenizer.token_bytes(id?)?;
        Some(Token { id: id?, text: String::from_utf8_lossy(text).into_owned() })
    };
    TokenizerReport {
        model: "tokenizer.json".to_owned(),
        pre_tokenizer: None,
        vocabulary: tokenizer.vocab_size(),
        supported: true,
        bos: token(tokenizer.bos()),
        eos: token(tokenizer.eos()),
        add_bos: Some(tokenizer.add_bos()),
        add_eos: Some(tokenizer.add_eos()),
        chat_template_bytes: template.map(|template| template.source().len()),
    }
}

/// Returns a value, or the length of a long array.
fn short(value: &Value) -> Value {
    match value {
        Value::Array(values) if values.len() > SHORT_ARRAY => {
            json!({ "array": "values", "length": values.len() })
        }
        other => other.clone(),
    }
}
