//! Added tokens: texts that are tokens regardless of the model.
//!
//! Tokens that are not normalized are matched in the original text, the others in each normalized stretch between
//! them; in both cases from left to right, the longest match at each position. They are numbered as in the library:
//! by the model's vocabulary, and after it in the order of the file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use foldhash::{HashMap, HashMapExt};

use super::classes::is_word;
use super::document;
use super::normalizer::Normalizer;
use super::pieces::Normalized;
use crate::error::{Error, ErrorKind, Quoted};
use crate::tokenizer::Special;
use crate::tokenizer::parse_special::looks_like_mark;

/// Added token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AddedToken {
    pub(super) content: String,
    pub(super) single_word: bool,
    pub(super) lstrip: bool,
    pub(super) rstrip: bool,
    pub(super) normalized: bool,
    pub(super) special: bool,
}

impl AddedToken {
    fn is_mark(&self) -> bool {
        self.special || looks_like_mark(self.content.as_bytes())
    }
}

impl From<&document::AddedToken<'_>> for AddedToken {
    fn from(token: &document::AddedToken<'_>) -> Self {
        AddedToken {
            content: token.content.0.clone().into_owned(),
            single_word: token.single_word,
            lstrip: token.lstrip,
            rstrip: token.rstrip,
            normalized: token.normalized,
            special: token.special,
        }
    }
}

/// Added tokens while they are collected.
pub(super) struct Register<'a> {
    /// Tokens of the model.
    model: &'a HashMap<&'a str, u32>,
    /// Number of tokens of the model.
    model_size: u32,
    ids: HashMap<String, u32>,
    pub(super) tokens: BTreeMap<u32, AddedToken>,
}

impl<'a> Register<'a> {
    pub(super) fn new(model: &'a HashMap<&'a str, u32>, model_size: u32) -> Self {
        Register { model, model_size, ids: HashMap::new(), tokens: BTreeMap::new() }
    }

    /// Adds several tokens: those that the model lacks get the ids after the last existing token.
    pub(super) fn add(&mut self, tokens: impl IntoIterator<Item = AddedToken>) {
        let last = self.tokens.last_key_value().map(|(&id, _)| id);
        let mut next = last.map_or(0, |last| last.saturating_add(1)).max(self.model_size);
        for token in tokens {
            if token.content.is_empty() {
                continue;
            }
            let id = self.id(&token.content).unwrap_or_else(|| {
                next = next.saturating_add(1);
                next - 1
            });
            self.ids.insert(token.content.clone(), id);
            self.tokens.insert(id, token);
        }
    }

    /// Returns the token of a text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).or_else(|| self.model.get(text)).copied()
    }

    /// Returns the ids of the control tokens.
    pub(super) fn control(&self) -> BTreeSet<u32> {
        self.tokens.iter().filter(|(_, token)| token.special).map(|(&id, _)| id).collect()
    }
}

/// Set of texts to search for.
struct Set {
    automaton: AhoCorasick,
    tokens: Vec<(u32, AddedToken)>,
    /// Ids of the special tokens among them.
    marks: BTreeSet<u32>,
}

/// Added tokens, ready to be matched.
#[derive(Default)]
pub(super) struct AddedTokens {
    as_is: Option<Set>,
    normalized: Option<Set>,
}

/// Range of a text, and the added token that it is, if any.
pub(super) type Stretch = (Range<usize>, Option<u32>);

impl AddedTokens {
    /// Creates the sets to search for, and returns the text of each token as the decoder gets it: the text that is
    /// matched.
    pub(super) fn new(
        file: &str,
        tokens: &BTreeMap<u32, AddedToken>,
        normalizers: &[Box<dyn Normalizer>],
    ) -> Result<(Self, Vec<(u32, String)>), Error> {
        let mut as_is = Vec::new();
        let mut normalized = Vec::new();
        let mut spelled = Vec::new();
        for (&id, token) in tokens {
            if !token.normalized {
                spelled.push((id, token.content.clone()));
                as_is.push((token.content.clone(), (id, token.clone())));
                continue;
            }
            let mut text = Normalized::new(&token.content, true);
            for normalizer in normalizers {
                normalizer.normalize(&mut text)?;
            }
            if text.text.is_empty() {
                let why = format!("{} is empty when it is normalized", Quoted(&token.content));
                return Err(Error::at(file, "added_tokens", ErrorKind::Invalid(why)));
            }
            spelled.push((id, text.text.clone()));
            normalized.push((text.text, (id, token.clone())));
        }
        let set = AddedTokens { as_is: Set::new(file, as_is)?, normalized: Set::new(file, normalized)? };
        Ok((set, spelled))
    }

    /// Splits a text at the added tokens before it is normalized.
    pub(super) fn find_as_is(&self, text: &str, special: Special<'_>) -> Vec<Stretch> {
        find(self.as_is.as_ref(), text, special)
    }

    /// Splits a normalized text at the added tokens. Content ranges refer to this text.
    pub(super) fn find_normalized(&self, text: &str, special: Special<'_>) -> Vec<Stretch> {
        find(self.normalized.as_ref(), text, special)
    }

    /// Returns whether a token matched in normalized text is a special token of the model's format.
    pub(super) fn is_normalized_mark(&self, id: u32) -> bool {
        self.normalized.as_ref().is_some_and(|set| set.marks.contains(&id))
    }
}

impl Set {
    fn new(file: &str, tokens: Vec<(String, (u32, AddedToken))>) -> Result<Option<Self>, Error> {
        if tokens.is_empty() {
            return Ok(None);
        }
        let (texts, tokens): (Vec<String>, Vec<(u32, AddedToken)>) = tokens.into_iter().unzip();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // Among the kinds, the one whose size is proportional to the texts.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&texts)
            .map_err(|error| Error::at(file, "added_tokens", ErrorKind::Invalid(error.to_string())))?;
        let marks = tokens.iter().filter(|(_, token)| token.is_mark()).map(|&(id, _)| id).collect();
        Ok(Some(Set { automaton, tokens, marks }))
    }
}

/// Returns the first token in a range of a text that is allowed at its position.
fn next<'s>(
    set: &'s Set,
    text: &str,
    mut range: Range<usize>,
    special: Special<'_>,
) -> Option<(Range<usize>, &'s (u32, AddedToken))> {
    loop {
        let found = set.automaton.find(Input::new(text).range(range.clone()))?;
        let place = found.range();
        let token = &set.tokens[found.pattern().as_usize()];
        if special.allows(place.clone(), || token.1.is_mark()) {
            return Some((place, token));
        }
        // A token that begins before content may overlap a shorter one that ends there; one that ends after
        // content, one that begins there.
        let before = special.next_content(place.start).start.min(place.end);
        if before > place.start
            && let Some(shorter) = next(set, text, place.start..before, special)
        {
            return Some(shorter);
        }
        range.start = if special.next_content(place.start).end >= place.end && before <= place.start {
            place.end
        } else {
            text.ceil_char_boundary(place.start + 1)
        };
    }
}

fn find(set: Option<&Set>, text: &str, special: Special<'_>) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some((place, (id, token))) = set.and_then(|set| next(set, text, at..text.len(), special)) {
        let (mut start, mut end) = (place.start, place.end);
        at = end;
        if token.special && special == Special::AsText {
            continue;
        }
        let inside_word = text[..start].ends_with(is_word) || text[end..].starts_with(is_word);
        if token.single_word && inside_word {
            continue;
        }
        // White space that the previous token has absorbed is not absorbed again.
        if token.lstrip {
            start = text[..start].trim_end().len().max(from);
        }
        if token.rstrip {
            end += text[end..].len() - text[end..].trim_start().len();
        }
        if from < start {
            stretches.push((from..start, None));
        }
        stretches.push((start..end, Some(*id)));
        from = end;
    }
    if from < text.len() {
        stretches.push((from..text.len(), None));
    }
    stretches
}
