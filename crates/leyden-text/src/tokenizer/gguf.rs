//! Common parts of GGUF tokenizers: the vocabulary, the special tokens, and splitting a prompt at these.
//!
//! A tokenizer model is a [`Model`], which encodes the texts between special tokens.

use std::borrow::Cow;

use leyden_tensor::Metadata;

use super::bounds::{Bounds, Exceeded};
use super::fields::{Kind, TOKENS};
use super::parse_special::looks_like_mark;
use super::special::{Claim, SpecialTokens, Strips};
use super::text_index::TextIndex;
use super::vocab::Vocab;
use super::{PairTemplate, Special, Tokenizer};
use crate::error::{Error, ErrorKind};

/// Algorithm that encodes text.
pub(super) trait Model: Send + Sync {
    /// Appends the ids of a text, which is not empty and is at the beginning of the prompt, at its end, or between
    /// special tokens. `bounds` apply to all `ids`.
    fn encode(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Unwritable>;

    /// Returns the maximum extent of text per token; `None` if parts of a text may be dropped, or become one token
    /// of any length.
    fn cover(&self, vocab: &Vocab, texts: &TextIndex) -> Option<Cover> {
        let _ = (vocab, texts);
        None
    }

    /// Returns whether a space is added in front of the text.
    fn adds_space(&self) -> bool {
        false
    }

    /// Returns the number of end tokens between the texts of a pair, and whether the second text has another token
    /// type.
    fn pair(&self) -> (usize, bool) {
        (1, false)
    }
}

/// Maximum extent of text that one token represents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cover {
    /// Length in bytes of the longest token.
    pub(super) longest: usize,
    /// Length in bytes of a space in tokens.
    pub(super) space_bytes: usize,
    /// True for bytes that every encoding keeps; others may be dropped.
    pub(super) counts: [bool; 256],
}

impl Cover {
    /// Returns a lower bound of a text's number of tokens. White space is not counted if a token may absorb any
    /// amount of it.
    pub(super) fn least_tokens(self, text: &str, spaces_vanish: bool) -> usize {
        let counts = |byte: &u8| self.counts[usize::from(*byte)];
        let count = |is: fn(u8) -> bool| text.bytes().filter(counts).filter(|byte| is(*byte)).count();
        let bytes = if spaces_vanish {
            count(|byte| !byte.is_ascii_whitespace() && byte != b'\x0b')
        } else {
            let wider = self.space_bytes.saturating_sub(1);
            count(|_| true).saturating_add(count(|byte| byte == b' ').saturating_mul(wider))
        };
        bytes.div_ceil(self.longest.max(1))
    }
}

/// Reason for which a text cannot be encoded.
#[derive(Debug)]
pub(super) enum Unwritable {
    /// The vocabulary has no token for this byte.
    Byte(u8),
    /// Normalization by the rules under this metadata key makes the text more than `times` times longer.
    TooLong { key: &'static str, times: usize },
    /// A limit was reached.
    Exceeded(Exceeded),
}

impl From<Exceeded> for Unwritable {
    fn from(exceeded: Exceeded) -> Unwritable {
        Unwritable::Exceeded(exceeded)
    }
}

/// Vocabulary with special tokens and a model.
pub(super) struct GgufTokenizer<M> {
    file: Box<str>,
    vocab: Vocab,
    model: M,
    cover: Option<Cover>,
    /// True if a special token absorbs white space around it.
    strips: bool,
    /// Tokens that are matched with [`Special::Parse`] and [`Special::Outside`].
    all_special: SpecialTokens,
    /// Tokens that are matched with [`Special::AsText`].
    user_defined: SpecialTokens,
}

/// Maximum length of a special token. Real ones have some dozens of bytes, and the time of a search grows with the
/// number of different lengths.
const MAX_SPECIAL_BYTES: usize = 256;

impl<M: Model> GgufTokenizer<M> {
    /// Collects the special tokens. `lstrip` names one that absorbs the white space before it.
    pub(super) fn new(
        meta: &Metadata,
        file: &str,
        (vocab, texts): (Vocab, &TextIndex),
        lstrip: Option<&str>,
        model: M,
    ) -> Result<Self, Error> {
        let mut special = Vec::new();
        for id in (0..).take(vocab.len()).filter(|&id| vocab.is_marker(id)) {
            let text = texts.text(id);
            if text.len() > MAX_SPECIAL_BYTES {
                let why = format!(
                    "special token {id} has {} bytes, at most {MAX_SPECIAL_BYTES} are supported",
                    text.len()
                );
                return Err(Error::new(file, TOKENS, ErrorKind::Invalid(why)));
            }
            special.push((text, id));
        }
        let strips = strips(meta, file, &special, lstrip)?;
        let is_user_defined = |&&(_, id): &&(&[u8], u32)| vocab.kind(id) == Some(Kind::UserDefined);
        let user_defined = SpecialTokens::new(special.iter().filter(is_user_defined).copied());
        Ok(GgufTokenizer {
            cover: model.cover(&vocab, texts),
            strips: !(strips.left.is_empty() && strips.right.is_empty()),
            file: file.into(),
            all_special: SpecialTokens::new(special.iter().copied()).stripping(strips.clone()),
            user_defined: user_defined.stripping(strips),
            vocab,
            model,
        })
    }

    fn exceeded(&self, exceeded: Exceeded) -> Error {
        Error::new(&self.file, None, exceeded.into())
    }

    /// Appends the ids of a text without special tokens.
    fn text(&self, text: &str, ids: &mut Vec<u32>, bounds: &Bounds<'_>) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        self.model.encode(text, ids, bounds).map_err(|why| match why {
            Unwritable::Byte(byte) => Error::new(&self.file, TOKENS, ErrorKind::NoTokenForByte(byte)),
            Unwritable::TooLong { key, times } => Error::new(&self.file, key, ErrorKind::TextGrows(times)),
            Unwritable::Exceeded(exceeded) => self.exceeded(exceeded),
        })
    }
}

/// Returns the special tokens that absorb white space. Files do not state them; llama.cpp detects them by these
/// names.
fn strips(
    meta: &Metadata,
    file: &str,
    special: &[(&[u8], u32)],
    lstrip: Option<&str>,
) -> Result<Strips, Error> {
    let text = |key| meta.opt_str(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)));
    let name = text("general.name")?.unwrap_or_default().to_ascii_lowercase();
    let architecture = text("general.architecture")?.unwrap_or_default();
    let id = |wanted: &str| special.iter().find(|(text, _)| *text == wanted.as_bytes()).map(|&(_, id)| id);
    let mut strips = Strips::default();
    let masked = ["nomic-bert-moe", "jina-bert-v3"].iter().any(|part| architecture.contains(part));
    if let Some(mask) = lstrip.or(masked.then_some("<mask>")) {
        strips.left.extend(id(mask));
    } else if name.contains("phi-3") || name.contains("phi3") {
        let kept = |text: &[u8]| [&b"<unk>"[..], b"<s>", b"<|endoftext|>"].contains(&text);
        strips.right.extend(special.iter().filter(|(text, _)| !kept(text)).map(|&(_, id)| id));
    } else if name.contains("modern-bert") {
        strips.left.extend(id("[MASK]"));
    }
    Ok(strips)
}

impl<M: Model> Tokenizer for GgufTokenizer<M> {
    fn encode_within(
        &self,
        text: &str,
        special: Special<'_>,
        bounds: &Bounds<'_>,
    ) -> Result<Vec<u32>, Error> {
        let set = match special {
            Special::Parse | Special::Outside(_) => &self.all_special,
            Special::AsText => &self.user_defined,
        };
        let is_mark = |id: u32| {
            self.vocab.kind(id) != Some(Kind::UserDefined)
                || self.vocab.bytes(id).is_some_and(looks_like_mark)
        };
        let allowed = |claim: Claim| special.allows(claim.start..claim.end, || is_mark(claim.id));
        let mut ids = Vec::new();
        let mut from = 0;
        for claim in set.find(text.as_bytes(), allowed) {
            self.text(&text[from..claim.start], &mut ids, bounds)?;
            ids.push(claim.id);
            bounds.check(ids.len()).map_err(|exceeded| self.exceeded(exceeded))?;
            from = claim.end;
        }
        self.text(&text[from..], &mut ids, bounds)?;
        Ok(ids)
    }

    fn least_tokens(&self, text: &str) -> usize {
        self.cover.map_or(0, |cover| cover.least_tokens(text, self.strips))
    }

    fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocab.bytes(id)
    }

    fn bytes_after(&self, previous: Option<u32>, id: u32) -> Option<Cow<'_, [u8]>> {
        let bytes = self.vocab.bytes(id)?;
        // A space is added at the beginning and after every special token.
        let begins = previous.is_none_or(|previous| self.vocab.is_marker(previous));
        let added = self.model.adds_space() && begins && !self.vocab.is_marker(id);
        Some(Cow::Borrowed(bytes.strip_prefix(b" ").filter(|_| added).unwrap_or(bytes)))
    }

    fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    fn is_special(&self, id: u32) -> bool {
        matches!(self.vocab.kind(id), Some(Kind::Control | Kind::Unknown))
    }

    fn bos(&self) -> Option<u32> {
        self.vocab.bos()
    }

    fn eos(&self) -> Option<u32> {
        self.vocab.eos()
    }

    fn is_end(&self, id: u32) -> bool {
        self.vocab.is_end(id)
    }

    fn add_bos(&self) -> bool {
        self.vocab.add_bos
    }

    fn add_eos(&self) -> bool {
        self.vocab.add_eos
    }

    fn marks_continuations(&self) -> bool {
        self.model.pair().1
    }

    fn pair(&self) -> PairTemplate {
        let (ends, second_type) = self.model.pair();
        let begin = self.vocab.bos().filter(|_| self.vocab.add_bos);
        let pair = PairTemplate::around(begin, self.vocab.eos().filter(|_| self.vocab.add_eos), ends);
        PairTemplate { second_type, ..pair }
    }
}
