//! Tokens that are structure of the model's format instead of text.

use leyden_text::{Special, Tokenizer};

/// Returns whether a token is structure instead of text: a special token of the vocabulary, or a token that is only
/// matched in prompts rendered by a template.
///
/// Tokens of the second kind are printed, such as the markers of the harmony format, but would still end or begin a
/// part if they occurred in an answer.
pub(crate) fn is_mark(tokenizer: &dyn Tokenizer, id: u32) -> bool {
    if tokenizer.is_special(id) || tokenizer.is_end(id) {
        return true;
    }
    let Some(bytes) = tokenizer.token_bytes(id) else { return true };
    let bracketed =
        matches!((bytes.first(), bytes.last()), (Some(b'<'), Some(b'>')) | (Some(b'['), Some(b']')));
    if !bracketed || bytes.len() < 3 {
        return false;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let is_alone = |special| tokenizer.encode(text, special).is_ok_and(|ids| ids == [id]);
    is_alone(Special::Parse) && !is_alone(Special::AsText)
}
