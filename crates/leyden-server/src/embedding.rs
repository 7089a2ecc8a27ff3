//! Vectors of texts, whatever the dialect.
//!
//! A text's vector is made of the states of the decoder's last layer behind its norm: their mean, that of the first token
//! or that of the last, as the model says ([`leyden_engine::Pooling`]), divided by its length. The tokens are all that the
//! tokenizer makes of the text, EOS included: models whose last token makes the vector were trained with it.

use crate::app::{App, Call, Served};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::generate;
use crate::prompt::{self, Extent};
use crate::usage::Usage;
use crate::worker::{Task, Work};
use leyden_engine::Pool;
use serde_json::{Value, json};
use std::sync::Arc;

/// Vectors that can be made.
pub(crate) struct Wanted {
    pub(crate) model: Arc<Served>,
    tasks: Vec<Task>,
    /// How many numbers of each are wanted.
    dimensions: usize,
}

/// Takes `input` and `dimensions`; with `truncates` a text that is too long loses its end.
pub(crate) fn read(
    call: &Call,
    model: Arc<Served>,
    body: &mut Fields,
    truncates: bool,
) -> Result<Wanted, ApiError> {
    let dimensions = body.size("dimensions").unwrap_or(model.width);
    if dimensions > model.width {
        let message = format!("`dimensions` is {dimensions}, but the vectors have {}", model.width);
        return Err(ApiError::field("dimensions", message));
    }
    let input = body.take("input").unwrap_or_default();
    let extent = if truncates { Extent::of_body(call) } else { Extent::of_model(&model, call) };
    let mut tasks = Vec::new();
    for (path, mut tokens) in prompt::several(&model, extent, "input", input, prompt::of_whole_text)? {
        if truncates {
            tokens.truncate(prompt::longest(&model));
        }
        prompt::room(&model, &path, tokens.len())?;
        tasks.push(Task {
            prompt: Arc::new(tokens),
            max_tokens: 0,
            work: Work::State(Pool::new(model.pooling)),
        });
    }
    Ok(Wanted { model, tasks, dimensions })
}

/// The vectors, each of length 1, and the tokens that they took.
pub(crate) async fn vectors(
    app: Arc<App>,
    call: Call,
    wanted: Wanted,
) -> Result<(Vec<Vec<f32>>, Usage), ApiError> {
    let Wanted { model, tasks, dimensions } = wanted;
    let running = generate::submit(app, call, &model, tasks, String::new()).await?;
    let (answers, usage) = running.collect().await?;
    let vector = |state: Vec<f32>| normalised(&state[..dimensions.min(state.len())]);
    Ok((answers.into_iter().map(|answer| vector(answer.state)).collect(), usage))
}

/// The vector of length 1 in the same direction; zeros stay zeros.
fn normalised(state: &[f32]) -> Vec<f32> {
    let sum: f64 = state.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = if sum > 0.0 { sum.sqrt() } else { 1.0 };
    state.iter().map(|x| (f64::from(*x) / length) as f32).collect()
}

/// The field `dimensions` in the OpenAPI document.
pub(crate) fn dimensions_schema(app: &App) -> Value {
    // Each model takes its own width, too; this is what all take.
    let narrowest = app.models.served().iter().map(|m| m.width).min().unwrap_or(i32::MAX as usize);
    json!({
        "type": "integer", "minimum": 1, "maximum": narrowest,
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
}
