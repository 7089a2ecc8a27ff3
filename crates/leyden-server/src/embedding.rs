//! Embeddings of texts, for all dialects.
//!
//! A text's vector is made of the hidden states of the decoder's last layer after its norm: their mean, that of the
//! first token or that of the last, as the model says ([`leyden_engine::Pooling`]), normalized to length 1. The tokens
//! include EOS if the tokenizer adds it: models that pool the last token were trained with it.

use crate::app::App;
use crate::call::Call;
use crate::encoding::{self, Inputs, Long};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::schema::BY_MODEL;
use crate::served::Served;
use crate::usage::Usage;
use leyden_models::Similarity;
use leyden_models::heads::TextVector;
use serde_json::{Value, json};
use std::sync::Arc;

/// Request for embeddings.
pub(crate) struct Wanted {
    pub(crate) model: Arc<Served>,
    wanted: encoding::Wanted,
    /// Number of values to return of each vector.
    dimensions: usize,
    /// True if vectors are normalized to length 1.
    normalize: bool,
    /// True if whole vectors are normalized, before they are truncated to `dimensions`.
    unit: bool,
}

/// Takes `dimensions`, `normalize` and `prompt_name`.
pub(crate) fn read(
    call: &Call,
    model: Arc<Served>,
    body: &mut Fields,
    inputs: Inputs,
    long: Long,
) -> Result<Wanted, ApiError> {
    let dimensions = body.size("dimensions").unwrap_or(model.network.config().usual_dimensions());
    if dimensions > model.vector_width {
        let message = format!("`dimensions` is {dimensions}, but the vectors have {}", model.vector_width);
        return Err(ApiError::field("dimensions", message));
    }
    // vLLM's name for `normalize` is an activation.
    let normalize = body.flag("normalize").or_else(|| body.flag("use_activation")).unwrap_or(true);
    let before = encoding::prompt_before(&model, body)?;
    let head = TextVector { pooling: model.pooling }.into();
    let wanted = encoding::texts(&model, call, inputs, long, &before, &head)?;
    Ok(Wanted { model, wanted, dimensions, normalize, unit: false })
}

/// Computes the vectors; returns them with the token usage.
pub(crate) async fn vectors(
    app: Arc<App>,
    call: Call,
    wanted: Wanted,
) -> Result<(Vec<Vec<f32>>, Usage), ApiError> {
    let Wanted { wanted, dimensions, normalize, unit, .. } = wanted;
    let (states, usage) = wanted.values(app, call).await?;
    let vector = |state: Vec<f32>| {
        let state = shortened(state, dimensions, unit);
        if normalize { normalised(&state) } else { state }
    };
    Ok((states.into_iter().map(vector).collect(), usage))
}

impl Wanted {
    /// Computes the vectors as the model's similarity function expects them.
    pub(crate) fn into_compared(mut self) -> Wanted {
        let vectors = &self.model.network.config().vectors;
        self.normalize = vectors.similarity == Similarity::Cosine;
        self.unit = vectors.unit;
        self
    }
}

/// Converts a whole vector into the form that the model's similarity function expects.
pub(crate) fn compared(model: &Served, vector: Vec<f32>) -> Vec<f32> {
    let config = model.network.config();
    shortened(vector, config.usual_dimensions(), config.vectors.unit)
}

/// Truncates a vector. With `unit` the whole vector is normalized first, as in sentence-transformers, which truncates
/// after the model's modules.
fn shortened(vector: Vec<f32>, dimensions: usize, unit: bool) -> Vec<f32> {
    let mut vector = if unit { normalised(&vector) } else { vector };
    vector.truncate(dimensions);
    vector
}

/// Normalizes a vector to length 1; zeros stay zeros.
fn normalised(state: &[f32]) -> Vec<f32> {
    let sum: f64 = state.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = if sum > 0.0 { sum.sqrt() } else { 1.0 };
    state.iter().map(|x| (f64::from(*x) / length) as f32).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one() {
        assert_eq!(normalised(&[3.0, -4.0]), [0.6, -0.8]);
        assert_eq!(normalised(&[0.0, 0.0]), [0.0, 0.0]);
    }

    #[test]
    fn vectors_get_length_one_before_numbers_are_left_out() {
        assert_eq!(shortened(vec![3.0, 0.0, 4.0], 2, true), [0.6, 0.0]);
        assert_eq!(shortened(vec![3.0, 0.0, 4.0], 2, false), [3.0, 0.0]);
    }
}
