//! Decoders: from tokens back to text, one token at a time.
//!
//! The library decodes a list of tokens as a whole. Here a token must be text before the next one is known, so each
//! step is a rule for one token that knows only what stands before it. What would need more is refused by its name.

mod byte_fallback;
mod byte_level;
mod metaspace;
mod replace;
mod strip;
mod suffix;
mod word_piece;

use super::field::{Field, Row, flatten};
use crate::error::Error;

/// A token on its way to text.
pub(super) enum Piece {
    Text(String),
    /// Bytes that need not be whole characters; no later step looks at them.
    Bytes(Vec<u8>),
}

/// One step, for the text of one token.
pub(super) trait Step: Send + Sync {
    /// What the token becomes; `first` if nothing stands before it.
    fn decode(&self, text: String, first: bool) -> Piece;

    /// Whether [`before_next`](Self::before_next) is ever anything.
    fn marks_ends(&self) -> bool {
        false
    }

    /// What goes before the next token on account of this one, whose text is given as it came to this step.
    fn before_next(&self, text: &str) -> &str {
        let _ = text;
        ""
    }

    /// What this step does to a whole text instead of one token: `None` if that cannot be done token by token.
    fn on_whole(self: Box<Self>) -> Option<Box<dyn Step>> {
        None
    }
}

type Boxed = Box<dyn Step>;

/// What `Fuse` is read as: no step, but what follows sees the whole text.
enum Read {
    Step(Boxed),
    Fuse,
}

static KINDS: &[Row<Read>] = &[
    ("BPEDecoder", |field| suffix::read(field).map(Read::Step)),
    ("ByteFallback", |_| Ok(Read::Step(Box::new(byte_fallback::ByteFallback)))),
    ("ByteLevel", |_| Ok(Read::Step(Box::new(byte_level::ByteLevel)))),
    ("Fuse", |_| Ok(Read::Fuse)),
    ("Metaspace", |field| metaspace::read(field).map(Read::Step)),
    ("Replace", |field| replace::read(field).map(Read::Step)),
    ("Strip", |field| strip::read(field).map(Read::Step)),
    ("WordPiece", |field| word_piece::read(field).map(Read::Step)),
];

/// The steps of a decoder.
pub(super) struct Decoder {
    /// `None` without a decoder: tokens are set apart by spaces.
    steps: Option<Vec<Boxed>>,
    /// Whether the beginning of a text or the token before make a difference.
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
        // Its texts are one from here on.
        fused |= name == "ByteLevel";
    }
    Ok(Decoder { steps: Some(steps), depends_on_place })
}

impl Decoder {
    /// What a token adds to a text in which `previous` was the last token; `None` if it grows beyond measure.
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
    let most = super::MAX_GROWTH.saturating_mul(text.len()).saturating_add(super::MAX_EXTRA);
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
