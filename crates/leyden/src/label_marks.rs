//! Special tokens that mark the labels of a request (GLiNER).

use crate::error::Error;
use leyden_models::SpanConfig;
use leyden_tensor::WeightSource;
use leyden_text::{LabelMarks, Tokenizer};

/// Returns the tokens that mark labels, if the vocabulary has them.
pub(crate) fn marks(
    tokenizer: &dyn Tokenizer,
    spans: &SpanConfig,
    vocabulary: usize,
) -> Result<Option<LabelMarks>, Error> {
    Ok(LabelMarks::find(tokenizer, [&spans.mark, &spans.separator], vocabulary)?)
}

/// Returns the error message for a vocabulary without these tokens.
pub(crate) fn lacks(spans: &SpanConfig) -> String {
    format!("the vocabulary has no token `{}`, which stands before labels", spans.mark)
}

/// Checks that the tokenizer of a model with labels per request has the tokens that mark labels.
pub(crate) fn check_marks(
    source: &dyn WeightSource,
    tokenizer: &dyn Tokenizer,
    file: &str,
) -> Result<(), Error> {
    let Some(spans) = leyden_models::config_of(source)?.spans else { return Ok(()) };
    let rows = source.require("token_embd.weight")?.rows();
    let what = match (marks(tokenizer, &spans, rows)?, spans.mark_id) {
        (None, _) => lacks(&spans),
        (Some(marks), Some(id)) if marks.mark != id => {
            let (token, found) = (&spans.mark, marks.mark);
            format!("`{token}` is token {found}, but class_token_index in gliner_config.json is {id}")
        }
        _ => return Ok(()),
    };
    Err(Error::LabelMark { file: file.to_owned(), what })
}
