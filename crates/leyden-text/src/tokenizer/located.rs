//! Tokens with their positions in the text.
//!
//! Tokenizers do not track positions. But in the vocabularies of encoders the tokens of a word, with the white
//! space before it, do not depend on the surrounding text: so a text is tokenized word by word, and if that gives
//! the tokens of the whole, the positions of words are known. Within a word, the characters of the tokens follow
//! each other in the text, if case, accents and compatibility forms are ignored.

use super::bounds::Bounds;
use super::{Special, Tokenizer};
use crate::error::Error;
use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Token with its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Token id.
    pub id: u32,
    /// Byte range in the text, without leading white space.
    pub range: Range<usize>,
    /// True if the token continues the word of the previous token.
    pub continues: bool,
}

/// Tokenizes a text with positions, without the tokens that a model expects at the beginning and at the end. Names
/// of special tokens stay text.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
///
/// ```
/// use leyden_text::{Bounds, encode_located, from_tokenizer_json};
///
/// let json = br###"{
///     "added_tokens": [], "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
///     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
///     "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
///               "vocab": {"?": 0, "wild": 1, "##flower": 2, "!": 3}}
/// }"###;
/// let tokenizer = from_tokenizer_json(json, "tokenizer.json")?;
/// let tokens = encode_located(tokenizer.as_ref(), "A  Wildflower!", &Bounds::NONE)?;
/// let found: Vec<_> = tokens.into_iter().map(|t| (t.id, t.range, t.continues)).collect();
/// assert_eq!(found, [(0, 0..1, false), (1, 3..7, false), (2, 7..13, true), (3, 13..14, false)]);
/// # Ok::<(), leyden_text::Error>(())
/// ```
pub fn encode_located(
    tokenizer: &dyn Tokenizer,
    text: &str,
    bounds: &Bounds<'_>,
) -> Result<Vec<Located>, Error> {
    let whole = tokenizer.encode_within(text, Special::AsText, bounds)?;
    let mut located = Vec::with_capacity(whole.len());
    for word in words(text) {
        let ids = tokenizer.encode_within(&text[word.clone()], Special::AsText, bounds)?;
        locate(tokenizer, text, word, &ids, &mut located);
    }
    if !located.iter().map(|token| token.id).eq(whole.iter().copied()) {
        located.clear();
        locate(tokenizer, text, 0..text.len(), &whole, &mut located);
    }
    for i in 0..located.len() {
        let Located { id, ref range, .. } = located[i];
        located[i].continues = match tokenizer.marks_continuations() {
            // A token begins a word if its text alone is tokenized to the same first token.
            true => {
                let alone = tokenizer.encode_within(&text[range.clone()], Special::AsText, bounds)?;
                i > 0 && located[i - 1].range.end == range.start && alone.first() != Some(&id)
            }
            false => {
                let before = text[..range.start].chars().next_back();
                let first = text[range.start..].chars().next();
                range.start > 0 && before != Some(' ') && first != Some(' ')
            }
        };
    }
    Ok(located)
}

/// Returns words with the white space before them; trailing white space is dropped.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = &text[start..];
        let word = rest.find(|c: char| !c.is_whitespace())?;
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |at| word + at);
        let range = start..start + end;
        start = range.end;
        Some(range)
    })
}

/// Returns a text's characters without case, accents, white space and compatibility forms.
fn folded(text: &str) -> impl Iterator<Item = char> {
    let kept = |c: &char| !is_combining_mark(*c) && !c.is_whitespace() && !c.is_control();
    text.nfkd().filter(kept).flat_map(char::to_lowercase)
}

/// Appends the tokens of a stretch of text with their positions.
fn locate(tokenizer: &dyn Tokenizer, text: &str, part: Range<usize>, ids: &[u32], to: &mut Vec<Located>) {
    let stretch = &text[part.clone()];
    let mut bytes: Vec<&[u8]> = ids.iter().map(|id| tokenizer.token_bytes(*id).unwrap_or_default()).collect();
    let mut push = |id: u32, range: Range<usize>| {
        // The bytes of a character belong to all of its tokens.
        let start = text.floor_char_boundary(part.start + range.start);
        let end = text.ceil_char_boundary(part.start + range.end).min(part.end);
        let space: usize =
            text[start..end].chars().take_while(|c| c.is_whitespace()).map(char::len_utf8).sum();
        to.push(Located { id, range: start + space..end, continues: false });
    };
    // A space that the vocabulary adds before a word has no counterpart in the text.
    let added =
        usize::from(bytes.first().is_some_and(|first| first.starts_with(b" ")) && !stretch.starts_with(' '));
    if added > 0 {
        bytes[0] = &bytes[0][1..];
    }
    if bytes.concat() == stretch.as_bytes() {
        let mut at = 0;
        for (id, bytes) in ids.iter().zip(bytes) {
            push(*id, at..at + bytes.len());
            at += bytes.len();
        }
        return;
    }
    let folds =
        |at: usize, c: char| folded(c.encode_utf8(&mut [0; 4])).map(move |c| (at, c)).collect::<Vec<_>>();
    let chars: Vec<(usize, char)> = stretch.char_indices().flat_map(|(at, c)| folds(at, c)).collect();
    let tokens: Vec<Vec<char>> =
        bytes.iter().map(|bytes| folded(&String::from_utf8_lossy(bytes)).collect()).collect();
    let is_at = |token: &[char], at: usize| {
        let there = chars.get(at..at + token.len());
        there.is_some_and(|there| there.iter().map(|(_, c)| c).eq(token))
    };
    let mut at = 0;
    for (i, (id, token)) in ids.iter().zip(&tokens).enumerate() {
        let end = if is_at(token, at) {
            at + token.len()
        } else {
            // An unknown token extends to the beginning of the next one.
            let next = tokens.get(i + 1).filter(|next| !next.is_empty());
            let begins = next.and_then(|next| (at + 1..chars.len()).find(|at| is_at(next, *at)));
            begins.unwrap_or(chars.len())
        };
        let place = |i: usize| chars.get(i).map_or(stretch.len(), |(at, _)| *at);
        // Marks after a letter belong to it.
        push(
            *id,
            if at >= end { place(at)..place(at) } else { place(at)..place(end).max(place(end - 1) + 1) },
        );
        at = end;
    }
}
