//! Unigram: the segmentation of a word into tokens with the largest sum of scores.

use super::document::Vocab;
use super::model::{Model, NoToken, NotWritten, Parts};
use super::trie::Trie;
use crate::error::Error;
use crate::tokenizer::bounds::{Bounds, CHECK_INTERVAL};

/// Difference between the lowest score and that of an unknown character.
const UNKNOWN_PENALTY: f64 = 10.0;

struct Unigram {
    trie: Trie,
    scores: Vec<f64>,
    unk: Option<u32>,
    unk_score: f64,
    byte_tokens: Option<Box<[Option<u32>; 256]>>,
}

pub(super) fn read(parts: &Parts<'_>) -> Result<Box<dyn Model>, Error> {
    let Vocab::Scores(vocab) = &parts.fields.vocab else {
        return Err(parts.invalid("vocab", "want an array of tokens with scores, found an object"));
    };
    let unk = parts.fields.unk_id;
    if let Some(unk) = unk
        && usize::try_from(unk).is_ok_and(|unk| unk >= vocab.len())
    {
        let why = format!("token {unk} does not exist, the vocabulary has {}", vocab.len());
        return Err(parts.invalid("unk_id", why));
    }
    let tokens = parts.ids.iter().filter(|(_, id)| !parts.control.contains(id));
    let lowest = vocab.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
    Ok(Box::new(Unigram {
        trie: Trie::new(tokens.map(|(text, &id)| (text.as_bytes(), id)).collect()),
        scores: vocab.iter().map(|(_, score)| *score).collect(),
        unk,
        unk_score: lowest - UNKNOWN_PENALTY,
        byte_tokens: parts.fields.byte_fallback.unwrap_or(false).then(|| Box::new(parts.byte_tokens())),
    }))
}

/// Best segmentation of a prefix of the word.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Start of its last token.
    start: usize,
    /// Last token; `None` for an unknown character.
    id: Option<u32>,
}

impl Unigram {
    /// Returns the best segmentation up to each byte of a word; `None` within characters.
    fn best(&self, word: &str, bounds: &Bounds<'_>) -> Result<Vec<Option<Best>>, NotWritten> {
        fn reach(to: &mut Option<Best>, new: Best) {
            // Of equal scores the first one found is kept.
            if to.is_none_or(|old| new.score > old.score) {
                *to = Some(new);
            }
        }
        let bytes = word.as_bytes();
        let mut best: Vec<Option<Best>> = vec![None; bytes.len() + 1];
        for (i, (start, c)) in word.char_indices().enumerate() {
            if i.is_multiple_of(CHECK_INTERVAL) {
                bounds.check(0)?;
            }
            let so_far = best[start].map_or(0.0, |best| best.score);
            let single = start + c.len_utf8();
            let mut has_single = false;
            let mut walk = self.trie.walk();
            for (end, &byte) in (start + 1..).zip(&bytes[start..]) {
                let Some(found) = walk.step(byte) else { break };
                let Some(id) = found else { continue };
                let score = usize::try_from(id).ok().and_then(|id| self.scores.get(id)).copied();
                let id = Some(id).filter(|_| self.unk != Some(id));
                reach(&mut best[end], Best { score: score.unwrap_or(0.0) + so_far, start, id });
                has_single |= end == single;
            }
            if !has_single {
                if self.unk.is_none() {
                    return Err(NoToken("model.unk_id").into());
                }
                reach(&mut best[single], Best { score: self.unk_score + so_far, start, id: None });
            }
        }
        Ok(best)
    }

    /// Appends the tokens of a stretch of unknown characters.
    fn unknown(&self, stretch: &str, ids: &mut Vec<u32>) -> Result<(), NoToken> {
        if let Some(id) = self.trie.get(stretch.as_bytes()) {
            ids.push(id);
            return Ok(());
        }
        if let Some(tokens) = &self.byte_tokens
            && stretch.bytes().all(|byte| tokens[usize::from(byte)].is_some())
        {
            ids.extend(stretch.bytes().filter_map(|byte| tokens[usize::from(byte)]));
            return Ok(());
        }
        ids.push(self.unk.ok_or(NoToken("model.unk_id"))?);
        Ok(())
    }
}

impl Model for Unigram {
    fn tokenize(&self, word: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), NotWritten> {
        let best = self.best(word, bounds)?;
        // Parts from the last to the first, with unknown characters joined.
        let mut parts: Vec<(usize, usize, Option<u32>)> = Vec::new();
        let mut end = word.len();
        while let Some(last) = best.get(end).copied().flatten() {
            match parts.last_mut() {
                Some((start, _, None)) if last.id.is_none() => *start = last.start,
                _ => parts.push((last.start, end, last.id)),
            }
            end = last.start;
        }
        for (start, end, id) in parts.into_iter().rev() {
            match id {
                Some(id) => ids.push(id),
                None => self.unknown(&word[start..end], ids)?,
            }
        }
        Ok(())
    }
}
