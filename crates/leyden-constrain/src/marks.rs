//! Which tokens are marks of the model's format and not text.

use leyden_text::{Special, Tokenizer};

/// Whether a token is structure and not part of a text: what the vocabulary calls special, and what is written as a
/// token only in prompts that a template has put together.
///
/// The second kind is printed, such as the frames of the harmony format, and would still end or begin something if it
/// stood in an answer.
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
