//! [`Pattern`]: search pattern, a literal or a regular expression.
//!
//! The expressions of current models are recognized by their text and matched by the hand-written rules of `pretok`
//! in linear time. Any other expression uses a general engine. The library's engine is Oniguruma; the engine here
//! accepts its syntax, and returns an error if backtracking exceeds a limit.

use std::ops::Range;

use fancy_regex::{Regex, RegexBuilder};

use super::classes::as_pretok_reads;
use super::field::Field;
use crate::error::{Error, ErrorKind, Quoted};
use crate::tokenizer::pretok::{self, Split};

/// Maximum length of an expression in bytes. The longest known one has 400.
const MAX_REGEX_BYTES: usize = 4 << 10;
/// Maximum size in bytes of one compiled automaton.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// Maximum number of instructions of a compiled expression.
const MAX_INSTRUCTIONS: usize = 1 << 14;
/// Maximum number of backtracking steps per match.
const MAX_BACKTRACKS: usize = 1 << 18;

pub(super) struct Pattern {
    kind: Kind,
    file: Box<str>,
    path: Box<str>,
}

enum Kind {
    Literal(Box<str>),
    Known(Rule),
    Regex(Box<Regex>),
}

impl Pattern {
    /// Reads `{"String": …}` or `{"Regex": …}`.
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Error> {
        let kind = if let Some(literal) = field.opt("String")? {
            match literal.as_str()? {
                // Matches between any two characters, as an empty expression does.
                "" => regex(&literal)?,
                text => Kind::Literal(text.into()),
            }
        } else {
            regex(&field.get("Regex")?)?
        };
        Ok(Pattern { kind, file: field.file.into(), path: field.path.as_str().into() })
    }

    /// Returns GPT-2's expression, which is built into `ByteLevel`.
    pub(super) fn gpt2(field: &Field<'_>) -> Result<Self, Error> {
        let rule = gpt2().ok_or_else(|| field.invalid("the rule of gpt-2 is missing"))?;
        Ok(Pattern { kind: Kind::Known(rule), file: field.file.into(), path: field.path.as_str().into() })
    }

    /// Returns the literal, if it is one.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.kind {
            Kind::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// Calls `found` for the stretches of `text` in order, without gaps, with whether each is a match.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(Range<usize>, bool)) -> Result<(), Error> {
        let mut from = 0;
        let mut matched = |range: Range<usize>| {
            if from != range.start {
                found(from..range.start, false);
            }
            from = range.end;
            found(range, true);
        };
        match &self.kind {
            Kind::Literal(literal) => {
                text.match_indices(&**literal).for_each(|(at, _)| matched(at..at + literal.len()));
            }
            Kind::Known(rule) => {
                let mut at = 0;
                (rule.split)(&as_pretok_reads(text, rule.ignores_case), &mut |word| {
                    matched(at..at + word.len());
                    at += word.len();
                });
            }
            Kind::Regex(regex) => {
                for result in regex.find_iter(text) {
                    let found = result.map_err(|error| {
                        let why = format!("the expression cannot be searched for in this text: {error}");
                        Error::at(&self.file, &self.path, ErrorKind::Invalid(why))
                    })?;
                    matched(found.start()..found.end());
                }
            }
        }
        if from != text.len() {
            found(from..text.len(), false);
        }
        Ok(())
    }

    /// Replaces every match in `text` by `content`. `passed` is called with each stretch of `text`, whether it is a
    /// match, and the length of the output after it.
    pub(super) fn replace(
        &self,
        text: &str,
        content: &str,
        mut passed: impl FnMut(Range<usize>, bool, usize),
    ) -> Result<String, Error> {
        let mut out = String::with_capacity(text.len());
        self.find(text, |range, is_match| {
            out.push_str(if is_match { content } else { &text[range.clone()] });
            passed(range, is_match, out.len());
        })?;
        Ok(out)
    }
}

fn regex(field: &Field<'_>) -> Result<Kind, Error> {
    let text = field.as_str()?;
    if let Some(rule) = rule(text) {
        return Ok(Kind::Known(rule));
    }
    if text.len() > MAX_REGEX_BYTES {
        return Err(field.invalid(format!("an expression of {} bytes is too long", text.len())));
    }
    let regex = RegexBuilder::new(text)
        .oniguruma_mode(true)
        .backtrack_limit(MAX_BACKTRACKS)
        .delegate_size_limit(MAX_COMPILED_BYTES)
        .delegate_dfa_size_limit(MAX_COMPILED_BYTES)
        .max_prog_size(MAX_INSTRUCTIONS)
        .build();
    match regex {
        Ok(regex) => Ok(Kind::Regex(Box::new(regex))),
        Err(error) => Err(field.invalid(format!("{} is not an expression: {error}", Quoted(text)))),
    }
}

/// Treatment of the matches at which a text is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

const BEHAVIORS: [(&str, Behavior); 5] = [
    ("Removed", Behavior::Removed),
    ("Isolated", Behavior::Isolated),
    ("MergedWithPrevious", Behavior::MergedWithPrevious),
    ("MergedWithNext", Behavior::MergedWithNext),
    ("Contiguous", Behavior::Contiguous),
];

impl Behavior {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Error> {
        let name = field.as_str()?;
        let row = BEHAVIORS.iter().find(|row| row.0 == name);
        row.map(|row| row.1)
            .ok_or_else(|| field.unsupported("behavior", name, BEHAVIORS.iter().map(|row| row.0).collect()))
    }

    /// Joins stretches, each a match or not, to the pieces that are kept.
    pub(super) fn cut(self, stretches: &[(Range<usize>, bool)], keep: &mut dyn FnMut(Range<usize>)) {
        let mut open: Option<Range<usize>> = None;
        let mut previous = false;
        for (i, (range, is_match)) in stretches.iter().enumerate() {
            let joined = match self {
                Behavior::Removed if *is_match => continue,
                Behavior::Removed | Behavior::Isolated => false,
                Behavior::Contiguous => *is_match == previous,
                Behavior::MergedWithPrevious => *is_match && !previous,
                // A match is joined to the following stretch; of several matches in a row only the last one is.
                Behavior::MergedWithNext => {
                    previous && !*is_match && i.checked_sub(1).is_some_and(|i| stretches[i].1)
                }
            };
            previous = *is_match;
            match &mut open {
                Some(open) if joined => open.end = range.end,
                _ => {
                    if let Some(done) = open.replace(range.clone()) {
                        keep(done);
                    }
                }
            }
        }
        if let Some(done) = open {
            keep(done);
        }
    }
}

/// Splits `text` at the characters of a class.
pub(super) fn cut_at_chars(
    text: &str,
    behavior: Behavior,
    is_match: impl Fn(char) -> bool,
    keep: &mut dyn FnMut(Range<usize>),
) {
    let mut stretches: Vec<(Range<usize>, bool)> = Vec::new();
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match stretches.last_mut() {
            Some((range, false)) if !is_match(c) => range.end = end,
            _ => stretches.push((at..end, is_match(c))),
        }
    }
    behavior.cut(&stretches, keep);
}

// The regular expressions of known models, by their text, and the equivalent rules of `pretok`.

/// Rule equivalent to an expression.
struct Rule {
    split: Split,
    /// True if a part of the expression ignores case.
    ignores_case: bool,
}

struct Row {
    regex: &'static str,
    /// Name of the rule in `pretok`.
    pretok: &'static str,
    ignores_case: bool,
}

static ROWS: &[Row] = &[
    // GPT-2, built into `ByteLevel`.
    Row {
        regex: r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        pretok: GPT2,
        ignores_case: false,
    },
    // Llama 3.
    Row {
        regex: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        pretok: "llama-bpe",
        ignores_case: true,
    },
    // Qwen 2 and 3.
    Row {
        regex: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        pretok: "qwen2",
        ignores_case: true,
    },
];

const GPT2: &str = "gpt-2";

/// Returns the rule equivalent to an expression.
fn rule(regex: &str) -> Option<Rule> {
    let row = ROWS.iter().find(|row| row.regex == regex)?;
    Some(Rule { split: pretok::named(row.pretok)?.split, ignores_case: row.ignores_case })
}

/// Returns the rule of GPT-2.
fn gpt2() -> Option<Rule> {
    rule(ROWS[0].regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviors_cut_as_the_library_documents() {
        let text = "The-final--countdown";
        for (behavior, want) in [
            (Behavior::Removed, &["The", "final", "countdown"][..]),
            (Behavior::Isolated, &["The", "-", "final", "-", "-", "countdown"]),
            (Behavior::MergedWithPrevious, &["The-", "final-", "-", "countdown"]),
            (Behavior::MergedWithNext, &["The", "-final", "-", "-countdown"]),
            (Behavior::Contiguous, &["The", "-", "final", "--", "countdown"]),
        ] {
            let mut got = Vec::new();
            cut_at_chars(text, behavior, |c| c == '-', &mut |range| got.push(&text[range]));
            assert_eq!(got, want, "{behavior:?}");
        }
    }

    #[test]
    fn every_row_has_a_rule() {
        for row in ROWS {
            assert!(rule(row.regex).is_some(), "{}", row.pretok);
        }
        assert_eq!(ROWS[0].pretok, GPT2);
    }
}
