//! A sentence in sounds.

use std::ops::Range;

use crate::lexicon::Source;
use crate::symbols;

/// A spoken word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word as it is said: "forty" of "42".
    pub text: String,
    /// Bytes of the text it stands for; words of one number share them.
    pub span: Range<usize>,
    /// Sounds in misaki's alphabet; never empty.
    pub phonemes: String,
    /// The way in which the sounds were found.
    pub source: Source,
}

/// A word or a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A word.
    Word(Word),
    /// One of `.,;:!?—…()“”`, said as a pause or a tone.
    Mark(char),
}

/// Words and marks of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// Words and marks in their order.
    pub parts: Vec<Part>,
}

impl Sentence {
    /// Returns the words.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        self.parts.iter().filter_map(|part| match part {
            Part::Word(word) => Some(word),
            Part::Mark(_) => None,
        })
    }

    /// Returns sounds and marks in misaki's alphabet, which Kokoro's voices read.
    #[must_use]
    pub fn misaki(&self) -> String {
        self.joined(|word| word.phonemes.clone())
    }

    /// Returns sounds and marks in espeak's IPA, which Piper's voices read.
    #[must_use]
    pub fn espeak(&self) -> String {
        self.joined(|word| symbols::to_espeak(&word.phonemes))
    }

    /// Returns the sentence in parts of at most `max_symbols` symbols of misaki's alphabet, divided after marks where possible and else between
    /// words; a longer word is a part of its own.
    #[must_use]
    pub fn chunks(&self, max_symbols: usize) -> Vec<Self> {
        let mut rest: Vec<Part> = self.parts.clone();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (mut size, mut end, mut mark) = (0, 0, 0);
            for (i, part) in rest.iter().enumerate() {
                size += match part {
                    Part::Word(word) => word.phonemes.chars().count() + 1,
                    Part::Mark(_) => 2,
                };
                if size > max_symbols && i > 0 {
                    break;
                }
                end = i + 1;
                if matches!(part, Part::Mark(mark) if !matches!(mark, '(' | '“')) {
                    mark = end;
                }
            }
            if end < rest.len() && mark * 2 > end {
                end = mark;
            }
            let tail = rest.split_off(end);
            chunks.push(Self { span: self.span.clone(), parts: std::mem::replace(&mut rest, tail) });
        }
        chunks
    }

    fn joined(&self, sounds: impl Fn(&Word) -> String) -> String {
        let mut out = String::new();
        let mut glue = true;
        for part in &self.parts {
            match part {
                Part::Word(word) => {
                    if !glue {
                        out.push(' ');
                    }
                    out.push_str(&sounds(word));
                    glue = false;
                }
                Part::Mark(mark) => {
                    let opens = matches!(mark, '(' | '“');
                    if !out.is_empty() && !glue && (opens || *mark == '—') {
                        out.push(' ');
                    }
                    out.push(*mark);
                    glue = opens;
                }
            }
        }
        out
    }
}
