//! Sequence breakers, as tokens: texts at which DRY stops counting a repetition.
//!
//! A breaker need not coincide with tokens: the token `."` and then a line break contain `"\n`. So it is converted to
//! every token that contains it, and to every token that ends in a prefix of it, followed by the tokens of the rest
//! (the method of koboldcpp, pi6am, 2024).

use std::collections::HashMap;
use std::sync::Arc;

/// Maximum length of a breaker in characters. It bounds the work per token of the vocabulary.
const MAX_CHARS: usize = 40;
/// Maximum number of breakers, for the same reason.
const MAX_TEXTS: usize = 64;
/// Maximum number of tokens compared after the first one. It bounds the work per token of the text.
const MAX_TAIL: usize = 20;

/// Token sequences that break repetitions. Cheap to clone. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceBreakers {
    /// Remaining tokens of each breaker, by its first token; empty if that contains the whole text.
    tails: Arc<HashMap<u32, Vec<Vec<u32>>>>,
}

impl SequenceBreakers {
    /// Checks texts before they are converted.
    ///
    /// # Errors
    /// There are too many texts, or one is empty or too long; the message says which.
    pub fn check(texts: &[String]) -> Result<(), String> {
        if texts.len() > MAX_TEXTS {
            return Err(format!("{} sequence breakers; at most {MAX_TEXTS} are possible", texts.len()));
        }
        if let Some(text) = texts.iter().find(|t| t.is_empty() || t.chars().count() > MAX_CHARS) {
            let count = text.chars().count();
            return Err(format!("{text:?} has {count} characters; 1 to {MAX_CHARS} are possible"));
        }
        Ok(())
    }

    /// Converts texts for a vocabulary: `piece` gives the bytes of the tokens below `vocabulary`, `encode` the tokens
    /// of a text. Takes some ten milliseconds for a large vocabulary.
    ///
    /// A prefix that ends within a character is left out, because the rest cannot be encoded.
    ///
    /// # Errors
    /// The first error of `encode`.
    pub fn new<'a, E>(
        texts: &[String],
        vocabulary: usize,
        piece: impl Fn(u32) -> Option<&'a [u8]>,
        mut encode: impl FnMut(&str) -> Result<Vec<u32>, E>,
    ) -> Result<SequenceBreakers, E> {
        let mut tails: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for text in texts.iter().filter(|t| !t.is_empty()) {
            let bytes = text.as_bytes();
            // Indexed by the length of the prefix in which the first token ends.
            let mut rests: Vec<Option<Vec<u32>>> = vec![None; bytes.len()];
            for id in (0..u32::MAX).take(vocabulary) {
                let Some(piece) = piece(id) else { continue };
                if contains(piece, bytes) {
                    add(&mut tails, id, Vec::new());
                    continue;
                }
                for n in 1..bytes.len().min(piece.len() + 1) {
                    if !piece.ends_with(&bytes[..n]) || !text.is_char_boundary(n) {
                        continue;
                    }
                    let rest = match &rests[n] {
                        Some(rest) => rest.clone(),
                        None => {
                            let mut rest = encode(&text[n..])?;
                            rest.truncate(MAX_TAIL);
                            rests[n].insert(rest).clone()
                        }
                    };
                    // A vocabulary may be unable to encode the rest; then it never follows.
                    if !rest.is_empty() {
                        add(&mut tails, id, rest);
                    }
                }
            }
        }
        Ok(SequenceBreakers { tails: Arc::new(tails) })
    }

    /// Creates breakers from token sequences.
    #[must_use]
    pub fn from_tokens(sequences: &[Vec<u32>]) -> SequenceBreakers {
        let mut tails = HashMap::new();
        for sequence in sequences {
            if let Some((&first, rest)) = sequence.split_first() {
                add(&mut tails, first, rest.iter().copied().take(MAX_TAIL).collect());
            }
        }
        SequenceBreakers { tails: Arc::new(tails) }
    }

    /// Returns whether this token alone is a breaker.
    pub(super) fn is_breaker(&self, id: u32) -> bool {
        self.tails.get(&id).is_some_and(|t| t.iter().any(Vec::is_empty))
    }

    /// Returns the number of tokens after the last breaker in `text`; all if there is none.
    pub(super) fn tokens_behind(&self, text: &[u32]) -> usize {
        if self.tails.is_empty() {
            return text.len();
        }
        for (i, id) in text.iter().enumerate().rev() {
            let after = &text[i + 1..];
            let longest = self
                .tails
                .get(id)
                .and_then(|tails| tails.iter().filter(|t| after.starts_with(t)).map(Vec::len).max());
            if let Some(longest) = longest {
                return after.len() - longest;
            }
        }
        text.len()
    }
}

fn contains(piece: &[u8], text: &[u8]) -> bool {
    piece.len() >= text.len() && piece.windows(text.len()).any(|w| w == text)
}

fn add(tails: &mut HashMap<u32, Vec<Vec<u32>>>, first: u32, rest: Vec<u32>) {
    let all = tails.entry(first).or_default();
    if !all.contains(&rest) {
        all.push(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: [&str; 8] = ["a", "\n", ".\"", "\"\n", "x\ny", "\"", "b", "\"\"\n"];

    fn breakers(texts: &[&str]) -> SequenceBreakers {
        let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
        let encode = |text: &str| -> Result<Vec<u32>, ()> {
            let id = |c: char| PIECES.iter().position(|p| *p == c.to_string()).map(|i| i as u32);
            Ok(text.chars().filter_map(id).collect())
        };
        let piece = |id: u32| PIECES.get(id as usize).map(|p| p.as_bytes());
        SequenceBreakers::new(&texts, PIECES.len(), piece, encode).unwrap()
    }

    #[test]
    fn tokens_that_hold_the_text_break_alone() {
        let b = breakers(&["\n"]);
        let alone: Vec<u32> = (0..8).filter(|id| b.is_breaker(*id)).collect();
        assert_eq!(alone, [1, 3, 4, 7]);
        assert_eq!(b.tokens_behind(&[0, 1, 0, 6]), 2);
        assert_eq!(b.tokens_behind(&[0, 6]), 2);
        assert_eq!(b.tokens_behind(&[0, 1]), 0);
    }

    #[test]
    fn a_breaker_across_tokens_ends_behind_its_last() {
        let b = breakers(&["\"\n"]);
        // `."` and `\n` hold it together; `"` alone does not break.
        assert_eq!(b.tokens_behind(&[0, 2, 1, 0, 0]), 2);
        assert_eq!(b.tokens_behind(&[0, 2, 0, 1, 0]), 5);
        assert_eq!(b.tokens_behind(&[0, 3, 0]), 1);
        assert!(!b.is_breaker(2) && b.is_breaker(3) && b.is_breaker(7));
        assert_eq!(SequenceBreakers::default().tokens_behind(&[1, 2]), 2);
    }

    #[test]
    fn sequences_of_tokens() {
        let b = SequenceBreakers::from_tokens(&[vec![4], vec![5, 6], vec![5, 6, 7], vec![]]);
        assert_eq!(b.tokens_behind(&[1, 5, 6, 7, 1]), 1);
        assert_eq!(b.tokens_behind(&[1, 5, 6, 1, 1]), 2);
        assert_eq!(b.tokens_behind(&[1, 5, 7]), 3);
        assert!(b.is_breaker(4) && !b.is_breaker(5));
    }

    #[test]
    fn texts_are_checked() {
        let check = |t: &str| SequenceBreakers::check(&[t.to_owned()]);
        assert!(check("\n").is_ok() && check(&"x".repeat(40)).is_ok());
        assert!(check("").is_err() && check(&"x".repeat(41)).is_err());
        assert!(SequenceBreakers::check(&vec!["x".to_owned(); 65]).is_err());
    }
}
