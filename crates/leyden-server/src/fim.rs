//! Fill-in-the-middle prompts, in the special tokens that the model was trained with.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompt::EncodingLimits;
use crate::served::Served;
use leyden_text::{FillInMiddle, Special};
use serde_json::{Value, json};

/// Gap to fill: the texts around it.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    pub(crate) prefix: String,
    pub(crate) suffix: String,
    /// Other files of the repository: names and texts.
    pub(crate) files: Vec<(String, String)>,
    /// Beginning of the filling.
    pub(crate) begins: String,
}

/// Name of a repository that has none.
const REPOSITORY: &str = "repository\n";

/// Returns the model's fill-in-the-middle tokens.
fn of(model: &Served, param: &str) -> Result<FillInMiddle, ApiError> {
    model.fill_in_middle().ok_or_else(|| {
        let message = format!("`{}` does not support fill-in-the-middle", model.name);
        ApiError::unsupported(param, message)
    })
}

/// Returns the prompt of a gap; `param` is the field that has its longest part.
pub(crate) fn tokens(
    model: &Served,
    limits: EncodingLimits<'_>,
    param: &str,
    gap: &Gap,
) -> Result<Vec<u32>, ApiError> {
    let FillInMiddle { prefix, suffix, middle, repository, file } = of(model, param)?;
    // The contents of files are plain text, even if they look like special tokens.
    let encode = |text: &str| {
        limits.encode(model, param, text, |tokenizer, text, bounds| {
            tokenizer.encode_within(text, Special::AsText, bounds)
        })
    };
    let tokenizer = &model.tokenizer;
    let mut all: Vec<u32> = tokenizer.bos().filter(|_| tokenizer.add_bos()).into_iter().collect();
    if !gap.files.is_empty() {
        if let Some(repository) = repository {
            all.push(repository);
            all.extend(encode(REPOSITORY)?);
        }
        for (name, text) in &gap.files {
            // Without a special token for files, their texts are still useful.
            all.extend(file);
            all.extend(encode(&if file.is_some() {
                format!("{name}\n{text}")
            } else {
                format!("{text}\n")
            })?);
        }
        if let Some(file) = file {
            all.push(file);
            all.extend(encode("filename\n")?);
        }
    }
    all.push(prefix);
    all.extend(encode(&gap.prefix)?);
    all.push(suffix);
    all.extend(encode(&gap.suffix)?);
    all.push(middle);
    all.extend(encode(&gap.begins)?);
    Ok(all)
}

/// Takes OpenAI's `suffix`, and turns the prompts into fill-in-the-middle prompts.
pub(crate) fn of_completion(
    model: &Served,
    limits: EncodingLimits<'_>,
    body: &mut Fields,
) -> Result<(), ApiError> {
    let Some(suffix) = body.text("suffix").filter(|suffix| !suffix.is_empty()) else { return Ok(()) };
    of(model, "suffix")?;
    if body.flag("echo").unwrap_or(false) {
        return Err(ApiError::conflict("suffix", "`suffix` cannot be combined with `echo`"));
    }
    let wrong =
        || ApiError::conflict("suffix", "`suffix` needs a `prompt` that is a text, or a list of texts");
    let prompts = match body.take("prompt") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts
            .into_iter()
            .map(|t| t.as_str().map(str::to_owned).ok_or_else(wrong))
            .collect::<Result<_, _>>()?,
        _ => return Err(wrong()),
    };
    let gap = |prefix| Gap { prefix, suffix: suffix.clone(), ..Gap::default() };
    let all = prompts.into_iter().map(|prefix| tokens(model, limits, "prompt", &gap(prefix)));
    body.put("prompt", json!(all.collect::<Result<Vec<_>, _>>()?));
    Ok(())
}
