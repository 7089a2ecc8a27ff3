//! Normalizers: transformations of a text before it is split into words. Each kind is one section and one row of
//! the table.

use unicode_normalization::UnicodeNormalization;

use super::classes::{is_control, is_mark, is_nonspacing_mark, is_not_normalized};
use super::field::{Field, Row, flatten};
use super::normalizer::{Keeps, Normalizer};
use super::pattern::Pattern;
use super::pieces::Normalized;
use super::precompiled;
use crate::error::Error;
use crate::tokenizer::byte_level;

type Boxed = Box<dyn Normalizer>;

static KINDS: &[Row<Boxed>] = &[
    ("BertNormalizer", read_bert),
    ("ByteLevel", |_| Ok(Box::new(ByteLevel))),
    ("Lowercase", |_| Ok(Box::new(Lowercase))),
    ("NFC", |_| Ok(Box::new(Form::Nfc))),
    ("NFD", |_| Ok(Box::new(Form::Nfd))),
    ("NFKC", |_| Ok(Box::new(Form::Nfkc))),
    ("NFKD", |_| Ok(Box::new(Form::Nfkd))),
    ("Nmt", |_| Ok(Box::new(Nmt))),
    ("Precompiled", precompiled::read),
    ("Prepend", read_prepend),
    ("Replace", read_replace),
    ("Strip", read_strip),
    ("StripAccents", |_| Ok(Box::new(StripAccents))),
];

/// Reads a normalizer, which may be a sequence of them.
pub(super) fn read(field: Field<'_>) -> Result<Vec<Boxed>, Error> {
    flatten(field, "normalizers")?.iter().map(|field| field.component("normalizer", KINDS)).collect()
}

// BERT: control characters removed, Chinese characters separated by spaces, accents stripped, lower case.

struct Bert {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: bool,
    lowercase: bool,
}

fn read_bert(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    let lowercase = field.bool_or("lowercase", true)?;
    Ok(Box::new(Bert {
        clean_text: field.bool_or("clean_text", true)?,
        handle_chinese_chars: field.bool_or("handle_chinese_chars", true)?,
        strip_accents: field.bool_or("strip_accents", lowercase)?,
        lowercase,
    }))
}

/// Returns whether BERT separates a character; this does not cover all ideographs.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

impl Normalizer for Bert {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if self.clean_text {
            text.map_chars(|c, out| match c {
                '\t' | '\n' | '\r' => out.push(' '),
                c if is_control(c) => {}
                c if c.is_whitespace() => out.push(' '),
                c => out.push(c),
            });
        }
        if self.handle_chinese_chars {
            text.map_chars(|c, out| {
                if is_chinese(c) {
                    out.extend([' ', c, ' ']);
                } else {
                    out.push(c);
                }
            });
        }
        if self.strip_accents {
            Form::Nfd.normalize(text)?;
            text.map_chars(|c, out| {
                if !is_nonspacing_mark(c) {
                    out.push(c);
                }
            });
        }
        if self.lowercase {
            Lowercase.normalize(text)?;
        }
        Ok(())
    }
}

// Every byte is written as a printable character.

struct ByteLevel;

impl Normalizer for ByteLevel {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(byte_level::spell);
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::All
    }
}

// Lower case, character by character: a final sigma is not distinguished.

struct Lowercase;

impl Normalizer for Lowercase {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(|c, out| out.extend(c.to_lowercase()));
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::Ascii
    }
}

// SentencePiece's rules for machine translation: control characters are removed, unusual white space becomes a
// space.

struct Nmt;

impl Normalizer for Nmt {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(|c, out| match c {
            '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{8f}' | '\u{9f}' => {}
            '\t'
            | '\n'
            | '\u{c}'
            | '\r'
            | '\u{1680}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{2581}'
            | '\u{feff}'
            | '\u{fffd}' => out.push(' '),
            c => out.push(c),
        });
        Ok(())
    }
}

// A prefix added to every non-empty stretch.

struct Prepend(Box<str>);

fn read_prepend(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    Ok(Box::new(Prepend(field.inserted("prepend")?.into())))
}

impl Normalizer for Prepend {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if !text.text.is_empty() {
            text.text.insert_str(0, &self.0);
            if text.start_bytes > 0 {
                text.start_bytes += self.0.len();
            }
        }
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::All
    }
}

// Replacement of every match of a pattern.

struct Replace {
    pattern: Pattern,
    content: Box<str>,
}

fn read_replace(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    let pattern = Pattern::read(&field.get("pattern")?)?;
    Ok(Box::new(Replace { pattern, content: field.inserted("content")?.into() }))
}

impl Normalizer for Replace {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        let old = text.start_bytes;
        let mut start_bytes = 0;
        let out = self.pattern.replace(&text.text, &self.content, |range, is_match, written| {
            if range.end <= old {
                start_bytes = written;
            } else if range.start < old && !is_match {
                start_bytes = written - (range.end - old);
            }
        })?;
        *text = Normalized { text: out, start_bytes };
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        let longer = self.pattern.literal().is_some_and(|text| text.len() <= self.content.len());
        if longer { Keeps::All } else { Keeps::Nothing }
    }
}

// White space stripped at the ends, and accents stripped from letters.

struct Strip {
    left: bool,
    right: bool,
}

fn read_strip(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    Ok(Box::new(Strip { left: field.bool("strip_left")?, right: field.bool("strip_right")? }))
}

impl Normalizer for Strip {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if self.right {
            text.text.truncate(text.text.trim_end().len());
        }
        if self.left {
            let blank = text.text.len() - text.text.trim_start().len();
            text.text.drain(..blank);
            text.start_bytes = text.start_bytes.saturating_sub(blank);
        }
        text.start_bytes = text.start_bytes.min(text.text.len());
        Ok(())
    }
}

/// Removes combining marks; accents are such marks only in decomposed text.
struct StripAccents;

impl Normalizer for StripAccents {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(|c, out| {
            if !is_mark(c) {
                out.push(c);
            }
        });
        Ok(())
    }
}

// Unicode's normalization forms.

enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn write(&self, text: &str, out: &mut String) {
        match self {
            Form::Nfc => out.extend(text.nfc()),
            Form::Nfd => out.extend(text.nfd()),
            Form::Nfkc => out.extend(text.nfkc()),
            Form::Nfkd => out.extend(text.nfkd()),
        }
    }
}

impl Normalizer for Form {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if text.text.is_ascii() {
            return Ok(());
        }
        let mut out = String::with_capacity(text.text.len());
        // Characters unknown to the library take no part: nothing is reordered across one, nor composed with one.
        for part in text.text.split_inclusive(is_not_normalized) {
            let known = part.trim_end_matches(is_not_normalized);
            self.write(known, &mut out);
            out.push_str(&part[known.len()..]);
        }
        // Normal form of the first character alone; its last character may have been composed with the following
        // text.
        let mut first = String::new();
        self.write(&text.text[..text.start_bytes], &mut first);
        let start_bytes = out.chars().take(first.chars().count()).map(char::len_utf8).sum();
        *text = Normalized { text: out, start_bytes };
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::Ascii
    }
}
