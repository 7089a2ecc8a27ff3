//! Embeddings of texts, for all dialects.
//!
//! A text's vector is made of the hidden states of the last layer after its norm: their mean, that of the first token or
//! that of the last, as the model says ([`leyden_engine::Pooling`]), normalized to length 1. The tokens include EOS if
//! the tokenizer adds it: models that pool the last token were trained with it.

use crate::app::App;
use crate::call::Call;
use crate::encoding::{self, Inputs, Planned};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::request_model::RequestModel;
use crate::schema::BY_MODEL;
use leyden_tasks::{Embed, TextOptions, Truncation, VectorShape};
use serde_json::{Value, json};

/// Takes `dimensions`, `normalize` and `prompt_name`, and plans the vectors.
pub(crate) fn read(
    call: &Call,
    model: &RequestModel,
    body: &mut Fields,
    inputs: Inputs,
    truncation: Truncation,
) -> Result<Planned<Embed>, ApiError> {
    let dimensions = body.size("dimensions");
    // vLLM's name for `normalize` is an activation.
    let normalize = body.flag("normalize").or_else(|| body.flag("use_activation")).unwrap_or(true);
    let shape = VectorShape::new(model.network.config(), dimensions, normalize)
        .map_err(|error| ApiError::of_task(error.kind, "dimensions"))?;
    let options =
        TextOptions { preface: encoding::preface(model, body.text("prompt_name").as_deref())?, truncation };
    let (paths, texts) = encoding::texts(model, inputs)?;
    encoding::plan(model, call, &paths, |parts| Embed::plan(parts, texts, &options, (model.pooling, shape)))
}

/// Returns the schemas of the fields for the form of vectors and the prompt of texts, for the OpenAPI document.
pub(crate) fn schema(app: &App) -> Value {
    json!({
        "dimensions": dimensions_schema(app),
        "normalize": { "type": "boolean", "default": true, "description": "Whether vectors get length 1" },
        "prompt_name": {
            "type": "string", "maxLength": app.limits.name_chars,
            "description": "The name of one of the model's prompts, which is put before texts"
        }
    })
}

/// Returns the schema of the field `dimensions` for the OpenAPI document.
pub(crate) fn dimensions_schema(app: &App) -> Value {
    // Each model also accepts its full width; these are the values that all models accept.
    let narrowest = app.models.served().iter().map(|m| m.vector_width).min().unwrap_or(i32::MAX as usize);
    json!({
        "type": "integer", "minimum": 1, "maximum": narrowest, BY_MODEL: true,
        "description": "At most the model's own; the first so many"
    })
}
