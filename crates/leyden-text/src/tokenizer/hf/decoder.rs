//! Decoders: from tokens back to text, one token at a time.
//!
//! The library decodes a list of tokens as a whole. Here a token must become text before the next one is known, so
//! each step is a rule for one token that depends only on the tokens before it. Steps that need more are refused by
//! name.

use super::field::{Field, Row, flatten};
use super::growth::{MAX_EXTRA, MAX_GROWTH};
use super::pattern::Pattern;
use super::pre_tokenizer::{Metaspace, Prepend};
use crate::error::Error;
use crate::tokenizer::byte_level;

/// Token during decoding.
pub(super) enum Piece {
    Text(String),
    /// Bytes, possibly of incomplete characters; later steps do not change them.
    Bytes(Vec<u8>),
}

/// Step of a decoder, on the text of one token.
pub(super) trait Step: Send + Sync {
    /// Decodes a token; `first` is true if it is the first of the text.
    fn decode(&self, text: String, first: bool) -> Piece;

    /// Returns whether [`before_next`](Self::before_next) can return a text.
    fn marks_ends(&self) -> bool {
        false
    }

    /// Returns the text that this token, given as input of this step, causes before the next token.
    fn before_next(&self, text: &str) -> &str {
        let _ = text;
        ""
    }

    /// Returns the step that does to a whole text what this one does to a token; `None` if that cannot be done per
    /// token.
    fn on_whole(self: Box<Self>) -> Option<Box<dyn Step>> {
        None
    }
}

type Boxed = Box<dyn Step>;

/// Decoder component. `Fuse` is not a step, but makes the following steps work on the whole text.
enum Read {
    Step(Boxed),
    Fuse,
}

static KINDS: &[Row<Read>] = &[
    ("BPEDecoder", |field| read_suffix(field).map(Read::Step)),
    ("ByteFallback", |_| Ok(Read::Step(Box::new(ByteFallback)))),
    ("ByteLevel", |_| Ok(Read::Step(Box::new(ByteLevel)))),
    ("Fuse", |_| Ok(Read::Fuse)),
    ("Metaspace", |field| read_metaspace(field).map(Read::Step)),
    ("Replace", |field| read_replace(field).map(Read::Step)),
    ("Strip", |field| read_strip(field).map(Read::Step)),
    ("WordPiece", |field| read_word_piece(field).map(Read::Step)),
];

/// Steps of a decoder.
pub(super) struct Decoder {
    /// `None` without a decoder: tokens are separated by spaces.
    steps: Option<Vec<Boxed>>,
    /// True if the position in the text or the previous token matters.
    pub(super) depends_on_place: bool,
}

pub(super) fn read(field: Option<Field<'_>>) -> Result<Decoder, Error> {
    let Some(field) = field else { return Ok(Decoder { steps: None, depends_on_place: true }) };
    let mut steps: Vec<Boxed> = Vec::new();
    let mut fused = false;
    let mut depends_on_place = false;
    for field in flatten(field, "decoders")? {
        let name = field.str("type")?;
        match field.component("decoder", KINDS)? {
            Read::Fuse => fused = true,
            Read::Step(step) if !fused => steps.push(step),
            Read::Step(step) => match step.on_whole() {
                Some(step) => steps.push(step),
                None => return Err(field.invalid(format!("{name} behind Fuse is not supported"))),
            },
        }
        depends_on_place |= !matches!(name, "ByteLevel" | "ByteFallback" | "Fuse" | "Replace");
        // The following steps work on the whole text.
        fused |= name == "ByteLevel";
    }
    Ok(Decoder { steps: Some(steps), depends_on_place })
}

impl Decoder {
    /// Returns the bytes that a token adds after the token `previous`; `None` if the text grows too much.
    pub(super) fn decode(&self, previous: Option<&str>, text: &str) -> Option<Vec<u8>> {
        let Some(steps) = &self.steps else {
            let space = if previous.is_some() { " " } else { "" };
            return Some([space, text].concat().into_bytes());
        };
        let mut out = Vec::new();
        if let Some(previous) = previous {
            for (i, step) in steps.iter().enumerate().filter(|(_, step)| step.marks_ends()) {
                if let Piece::Text(text) = run(&steps[..i], previous, false)? {
                    out.extend_from_slice(step.before_next(&text).as_bytes());
                }
            }
        }
        match run(steps, text, previous.is_none())? {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Bytes(bytes) => out.extend_from_slice(&bytes),
        }
        Some(out)
    }
}

fn run(steps: &[Boxed], text: &str, first: bool) -> Option<Piece> {
    let most = MAX_GROWTH.saturating_mul(text.len()).saturating_add(MAX_EXTRA);
    let mut text = text.to_owned();
    for step in steps {
        match step.decode(text, first) {
            Piece::Text(new) if new.len() > most => return None,
            Piece::Text(new) => text = new,
            bytes => return Some(bytes),
        }
    }
    Some(Piece::Text(text))
}

// Tokens of single bytes, `<0x0A>`.
//
// The library writes a run of such tokens that is not UTF-8 as one U+FFFD for each; here bytes are passed on, and
// [`Detokenizer`](crate::Detokenizer) writes U+FFFD for invalid ones.

struct ByteFallback;

impl Step for ByteFallback {
    fn decode(&self, text: String, _first: bool) -> Piece {
        let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
        let byte =
            digits.filter(|digits| digits.len() == 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.map_or(Piece::Text(text), |byte| Piece::Bytes(vec![byte]))
    }
}

// The byte-level alphabet; a token with other characters is kept as it is.

struct ByteLevel;

impl Step for ByteLevel {
    fn decode(&self, text: String, _first: bool) -> Piece {
        let mut bytes = Vec::with_capacity(text.len());
        if byte_level::decode(&text, &mut bytes) {
            Piece::Bytes(bytes)
        } else {
            Piece::Bytes(text.into_bytes())
        }
    }
}

// SentencePiece's space mark becomes a space, except in the first token, where the encoder added it.

impl Step for Metaspace {
    fn decode(&self, text: String, first: bool) -> Piece {
        let space = if first && self.prepend != Prepend::Never { "" } else { " " };
        Piece::Text(text.replace(self.mark, space))
    }
}

fn read_metaspace(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    Ok(Box::new(Metaspace::read(field)?))
}

// Replacement of every match of a pattern.

struct Replace {
    pattern: Pattern,
    content: Box<str>,
}

fn read_replace(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    let pattern = Pattern::read(&field.get("pattern")?)?;
    Ok(Box::new(Replace { pattern, content: field.inserted("content")?.into() }))
}

impl Step for Replace {
    fn decode(&self, text: String, _first: bool) -> Piece {
        // If matching exceeds its limits, the token is kept as it is.
        let replaced = self.pattern.replace(&text, &self.content, |_, _, _| {});
        Piece::Text(replaced.unwrap_or(text))
    }

    fn on_whole(self: Box<Self>) -> Option<Box<dyn Step>> {
        // A single character cannot span two tokens.
        let single = self.pattern.literal().is_some_and(|text| text.chars().count() == 1);
        if single { Some(self) } else { None }
    }
}

// Stripping of a character at the ends of a token or of the text.

/// Step that strips at most `start` and `stop` occurrences of a character at the beginning and end of every token.
struct Strip {
    content: char,
    start: u32,
    stop: u32,
}

/// Step that strips at the beginning of the text only.
struct StripText(Strip);

fn read_strip(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    Ok(Box::new(Strip {
        content: field.get("content")?.as_char()?,
        start: field.get("start")?.as_u32()?,
        stop: field.get("stop")?.as_u32()?,
    }))
}

impl Strip {
    fn strip<'t>(&self, mut text: &'t str) -> &'t str {
        for _ in 0..self.start {
            let Some(rest) = text.strip_prefix(self.content) else { break };
            text = rest;
        }
        for _ in 0..self.stop {
            let Some(rest) = text.strip_suffix(self.content) else { break };
            text = rest;
        }
        text
    }
}

impl Step for Strip {
    fn decode(&self, text: String, _first: bool) -> Piece {
        Piece::Text(self.strip(&text).into())
    }

    fn on_whole(self: Box<Self>) -> Option<Box<dyn Step>> {
        // The end of the text is known too late, and several characters may span several tokens.
        if self.stop == 0 && self.start <= 1 { Some(Box::new(StripText(*self))) } else { None }
    }
}

impl Step for StripText {
    fn decode(&self, text: String, first: bool) -> Piece {
        Piece::Text(if first { self.0.strip(&text).into() } else { text })
    }
}

// A word-end suffix, `</w>`, which becomes a space except at the end of the text.

struct Suffix(Box<str>);

fn read_suffix(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    let field = field.get("suffix")?;
    match field.as_str()? {
        "" => Err(field.invalid("a mark has at least one character")),
        suffix => Ok(Box::new(Suffix(suffix.into()))),
    }
}

impl Step for Suffix {
    fn decode(&self, text: String, _first: bool) -> Piece {
        let end = text.strip_suffix(&*self.0).map_or(text.len(), str::len);
        Piece::Text(text[..end].replace(&*self.0, " "))
    }

    fn marks_ends(&self) -> bool {
        true
    }

    fn before_next(&self, text: &str) -> &str {
        if text.ends_with(&*self.0) { " " } else { "" }
    }
}

// WordPiece: a space before every token except the first and those that continue a word.

struct WordPiece {
    prefix: Box<str>,
    cleanup: bool,
}

fn read_word_piece(field: &Field<'_>) -> Result<Box<dyn Step>, Error> {
    Ok(Box::new(WordPiece { prefix: field.str("prefix")?.into(), cleanup: field.bool("cleanup")? }))
}

/// Texts from which a space is removed, in this order.
const CLEANUPS: [(&str, &str); 11] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

impl Step for WordPiece {
    fn decode(&self, text: String, first: bool) -> Piece {
        let mut text = match text.strip_prefix(&*self.prefix) {
            _ if first => text,
            Some(rest) => rest.into(),
            None => format!(" {text}"),
        };
        if self.cleanup && text.contains(' ') {
            for (from, to) in CLEANUPS {
                text = text.replace(from, to);
            }
        }
        Piece::Text(text)
    }
}
