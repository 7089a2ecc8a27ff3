//! Tokens of pairs of texts: a question and a document, which may be read in parts.

use crate::error::{Error, ErrorKind, Place};
use crate::model::{TaskModel, check_tokens};
use crate::truncation::Truncation;
use leyden_text::{Pair, Pairs};

/// Treatment of a document that does not fit the context with its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongDocument {
    /// Reading in parts.
    InParts,
    /// Truncation of the document to the rest of the context.
    Truncate(Truncation),
    /// Truncation of every document to at most this many tokens, its first.
    Beginning(usize),
}

/// Prompt of a pair, or of a part of its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairPart {
    /// Index of the pair.
    pub pair: usize,
    /// Tokens.
    pub tokens: Pair,
}

/// Tokenizes pairs of a question and a document, in order. A document read in parts has several prompts.
///
/// # Errors
/// A text cannot be tokenized, a question leaves no room for a document, or a pair has too many tokens. The error names
/// the question if that alone is too long.
pub fn encode_pairs<'t>(
    model: &TaskModel<'_>,
    pairs: impl IntoIterator<Item = (&'t str, &'t str)>,
    long: LongDocument,
) -> Result<Vec<PairPart>, Error> {
    let long = match long {
        LongDocument::Truncate(truncation) => LongDocument::Truncate(truncation.resolved(model.tokenizer)),
        other => other,
    };
    let prompt = model.config.classifier().and_then(|classifier| classifier.prompt.as_deref());
    let encoder = Pairs::new(model.tokenizer, prompt);
    let (max, bounds) = (model.max_tokens, model.bounds());
    let mut parts = Vec::new();
    for (number, (query, document)) in pairs.into_iter().enumerate() {
        let document_error = |error: leyden_text::Error| ErrorKind::Text(error).at(Place::Text(number));
        let whole = || encoder.encode(query, document, &bounds).map_err(document_error);
        let found = match long {
            LongDocument::InParts => {
                encoder.windows(query, document, max, &bounds).map_err(document_error)?
            }
            LongDocument::Truncate(Truncation::Refuse) => {
                let pair = whole()?;
                let alone = || encoder.encode(query, "", &bounds).is_ok_and(|pair| pair.ids.len() <= max);
                (pair.ids.len() <= max || alone()).then(|| vec![pair])
            }
            LongDocument::Truncate(truncation) => {
                let (wanted, beginning) = match truncation {
                    Truncation::Beginning(wanted) => (wanted, true),
                    Truncation::End(wanted) | Truncation::TokenizerSide(wanted) => (wanted, false),
                    Truncation::Refuse => (max, false),
                };
                let mut pair = whole()?;
                pair.truncate(max.min(wanted), beginning).then(|| vec![pair])
            }
            LongDocument::Beginning(tokens) => {
                let mut pair = whole()?;
                pair.truncate_document(tokens);
                pair.truncate(max, false).then(|| vec![pair])
            }
        };
        let Some(found) = found else {
            let tokens = encoder.encode(query, "", &bounds).map_or(max + 1, |pair| pair.ids.len());
            return Err(ErrorKind::QueryTooLong { tokens, max_tokens: max }.at(Place::Query(number)));
        };
        for tokens in found {
            check_tokens(tokens.ids.len(), model.max_tokens).map_err(|kind| kind.at(Place::Text(number)))?;
            parts.push(PairPart { pair: number, tokens });
        }
    }
    Ok(parts)
}
