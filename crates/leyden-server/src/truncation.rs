//! Fields for texts with more tokens than the model takes, and their effect on a prompt.

use crate::call::Call;
use crate::fields::Fields;
use crate::prompt::{self, EncodingLimits};
use crate::schema::with;
use crate::served::Served;
use leyden_tasks::Truncation;
use serde_json::{Value, json};

/// Takes `truncate`, `truncation_direction`, and vLLM's `truncate_prompt_tokens` and `truncation_side`.
pub(crate) fn read(body: &mut Fields, usual: bool) -> Truncation {
    let tokens = max_tokens(body);
    let side = body.text("truncation_direction");
    let side = body.text("truncation_side").or(side).map(|side| side.eq_ignore_ascii_case("left"));
    match (body.flag("truncate").unwrap_or(usual) || tokens.is_some(), tokens.unwrap_or(usize::MAX)) {
        (false, _) => Truncation::Refuse,
        (true, tokens) => match side {
            Some(true) => Truncation::Beginning(tokens),
            Some(false) => Truncation::End(tokens),
            None => Truncation::TokenizerSide(tokens),
        },
    }
}

/// Takes vLLM's two fields for a prompt before an answer; by default the beginning is removed. -1 leaves room for
/// `answer` tokens, the maximum length of the answer.
pub(crate) fn of_prompt(body: &mut Fields, model: &Served, answer: Option<usize>) -> Truncation {
    let end = body.text("truncation_side").is_some_and(|side| side == "right");
    let room = prompt::longest(model).saturating_sub(answer.unwrap_or(0)).max(1);
    match max_tokens(body) {
        None => Truncation::Refuse,
        Some(tokens) if end => Truncation::End(tokens.min(room)),
        Some(tokens) => Truncation::Beginning(tokens.min(room)),
    }
}

/// Takes `truncate_prompt_tokens`; a negative number means the model's maximum.
fn max_tokens(body: &mut Fields) -> Option<usize> {
    body.integer("truncate_prompt_tokens").map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Returns the limits for encoding a text that is then truncated.
pub(crate) fn encoding_limits<'a>(
    truncation: Truncation,
    model: &Served,
    call: &'a Call,
) -> EncodingLimits<'a> {
    match truncation {
        Truncation::Refuse => EncodingLimits::of_model(model, call),
        _ => EncodingLimits::of_body(call),
    }
}

/// Truncates a prompt.
pub(crate) fn cut(truncation: Truncation, model: &Served, tokens: &mut Vec<u32>) {
    truncation.cut(model.tokenizer.as_ref(), tokens, prompt::longest(model), 0);
}

/// Returns the schemas of the fields for the OpenAPI document.
pub(crate) fn schema() -> Value {
    let more = json!({
        "truncate": {
            "type": "boolean", "description": "Whether a text that is too long is cut; otherwise it is an error"
        },
        "truncation_direction": { "enum": ["right", "left", "Right", "Left"] }
    });
    with(prompt_schema(), more)
}

/// Returns the schemas of the fields for a prompt before an answer, for the OpenAPI document.
pub(crate) fn prompt_schema() -> Value {
    json!({
        "truncate_prompt_tokens": {
            "type": "integer", "minimum": -1, "maximum": i32::MAX,
            "description": "Maximum number of tokens of a text, which is truncated; -1: the model's maximum"
        },
        "truncation_side": { "enum": ["left", "right"], "description": "Side at which tokens are removed" }
    })
}
