//! Tokens before the labels of a request (GLiNER).

use crate::error::ErrorKind;
use leyden_models::SpanConfig;
use leyden_text::{LabelMarks, Tokenizer};

/// Returns the tokens that mark labels; `vocabulary` is the number of rows of the embedding.
pub(crate) fn label_marks(
    spans: &SpanConfig,
    tokenizer: &dyn Tokenizer,
    vocabulary: usize,
) -> Result<LabelMarks, ErrorKind> {
    let marks = LabelMarks::find(tokenizer, [&spans.mark, &spans.separator], vocabulary);
    marks.map_err(ErrorKind::Text)?.ok_or_else(|| {
        let what = format!("the vocabulary has no token `{}`, which stands before labels", spans.mark);
        ErrorKind::LabelMark(what)
    })
}

/// Checks that a tokenizer has the tokens that mark labels, with the ids of the model's configuration; `vocabulary` is
/// the number of rows of the embedding.
///
/// # Errors
/// There is no such token, or it has another id.
pub fn check_label_marks(
    spans: &SpanConfig,
    tokenizer: &dyn Tokenizer,
    vocabulary: usize,
) -> Result<(), ErrorKind> {
    let found = label_marks(spans, tokenizer, vocabulary)?.mark;
    match spans.mark_id {
        Some(id) if found != id => {
            let token = &spans.mark;
            let what =
                format!("`{token}` is token {found}, but class_token_index in gliner_config.json is {id}");
            Err(ErrorKind::LabelMark(what))
        }
        _ => Ok(()),
    }
}
