//! Vocabulary of a GGUF file: the tokens, their kinds, and those that begin and end a text.
//!
//! Kinds and end tokens follow llama.cpp, because files rely on it: converters declare wrong kinds so often that a
//! list of well-known texts overrides the file. The lists are here.

use leyden_tensor::{Metadata, Value};

use super::fields::{self, Kind};
use super::text_index::TextIndex;
use crate::error::{Error, ErrorKind};

const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
/// Key of several EOS tokens, in Ollama's files.
const EOS_LIST: &str = "tokenizer.ggml.eos_token_ids";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";

/// Maximum length of a token in vocabularies that are searched for the longest token at every position: it limits
/// the time of the search. Real tokens have some dozens of bytes.
pub(super) const MAX_TOKEN_BYTES: usize = 512;

/// Tokens with a role: found by key or, if the file has none of the keys, by well-known texts.
struct Role {
    keys: &'static [&'static str],
    texts: &'static [&'static str],
    /// True if generation ends at such a token.
    ends: bool,
}

/// Tokens before the prefix of a gap.
const FIM_PREFIX: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
];
/// Tokens before the suffix of a gap.
const FIM_SUFFIX: &[&str] = &[
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
];
/// Tokens after which the gap is filled.
const FIM_MIDDLE: &[&str] = &[
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
];
/// Tokens before the name of a repository.
const FIM_REPOSITORY: &[&str] = &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"];
/// Tokens before the name of a file.
const FIM_FILE: &[&str] = &["<|file_sep|>"];

/// Names of fill-in-the-middle tokens: before the prefix, the suffix, the middle, a repository, a file.
pub(super) static FIM: [&[&str]; 5] = [FIM_PREFIX, FIM_SUFFIX, FIM_MIDDLE, FIM_REPOSITORY, FIM_FILE];

static ROLES: &[Role] = &[
    Role {
        keys: &["tokenizer.ggml.eot_token_id"],
        texts: &[
            "<|eot_id|>",
            "<|im_end|>",
            "<|end|>",
            "<end_of_turn>",
            "<|endoftext|>",
            "<|end_of_text|>",
            "<EOT>",
            "_<EOT>",
            "[EOT]",
            "<｜end▁of▁sentence｜>",
            "<end_of_utterance>",
        ],
        ends: true,
    },
    Role { keys: &["tokenizer.ggml.eom_token_id"], texts: &["<|eom_id|>"], ends: true },
    Role {
        keys: &["tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"],
        texts: FIM_PREFIX,
        ends: false,
    },
    Role {
        keys: &["tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"],
        texts: FIM_SUFFIX,
        ends: false,
    },
    Role {
        keys: &["tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"],
        texts: FIM_MIDDLE,
        ends: false,
    },
    Role {
        keys: &["tokenizer.ggml.fim_pad_token_id"],
        texts: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
        ends: true,
    },
    Role { keys: &["tokenizer.ggml.fim_rep_token_id"], texts: FIM_REPOSITORY, ends: true },
    Role { keys: &["tokenizer.ggml.fim_sep_token_id"], texts: FIM_FILE, ends: true },
];

/// Texts of tokens that end a generation whatever the keys say.
static END_TEXTS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Texts that are printed although they look like control tokens: the markers of the harmony format.
static PRINTED_TEXTS: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Returns every well-known text of tokens that end a generation.
pub(super) fn end_texts() -> impl Iterator<Item = &'static str> {
    let roles = ROLES.iter().filter(|role| role.ends).flat_map(|role| role.texts);
    roles.chain(END_TEXTS).copied()
}

/// Returns whether a token of this text is printed although it looks like a control token.
pub(super) fn is_printed(text: &str) -> bool {
    PRINTED_TEXTS.contains(&text)
}

/// Returns the well-known texts that do not end a generation after all. `ends` tells whether a text does so far.
pub(super) fn not_ends(ends: impl Fn(&str) -> bool) -> Vec<&'static str> {
    // In the harmony format `<|end|>` ends a message, of which a turn has several.
    let harmony = (ends("<|call|>") || ends("<|calls|>")) && (ends("<|return|>") || ends("<|flush|>"));
    // Vocabularies with these tokens use `</s>` as the HTML tag.
    let tag = ends("<|tool_response>") || ends("<|plamo:eos|>");
    [("<|end|>", harmony), ("</s>", tag)].into_iter().filter(|row| row.1).map(|row| row.0).collect()
}

/// Tokens of a vocabulary with their properties.
pub(super) struct Vocab {
    /// Concatenated bytes of all tokens.
    bytes: Vec<u8>,
    /// End of each token in `bytes`.
    ends: Vec<usize>,
    kinds: Vec<Kind>,
    bos: Option<u32>,
    eos: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// Tokens that end a generation, ascending.
    end_tokens: Vec<u32>,
}

/// Defaults of a tokenizer model for keys that the file lacks.
#[derive(Clone, Copy, Default)]
pub(super) struct Defaults {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    /// Key of the token that ends a sequence, if it is not the usual one.
    pub(super) eos_key: Option<&'static str>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// True if BOS is added whatever the file says.
    pub(super) force_bos: bool,
    /// True if EOS is added whatever the file says.
    pub(super) force_eos: bool,
}

impl Vocab {
    /// Reads the parts that all tokenizer models share. `decode` appends the bytes that a normal token spells, or
    /// returns false for a text that spells none; such a text is used as it is.
    pub(super) fn new(
        meta: &Metadata,
        file: &str,
        texts: &TextIndex,
        defaults: Defaults,
        decode: impl Fn(&str, &mut Vec<u8>) -> bool,
    ) -> Result<Self, Error> {
        let flag =
            |key| meta.opt_bool(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)));
        let mut vocab = Vocab {
            bytes: Vec::new(),
            ends: Vec::with_capacity(texts.len()),
            kinds: fields::kinds(meta, file, texts.len())?,
            bos: None,
            eos: None,
            add_bos: flag(ADD_BOS)?.unwrap_or(defaults.add_bos) || defaults.force_bos,
            add_eos: flag(ADD_EOS)?.unwrap_or(defaults.add_eos) || defaults.force_eos,
            end_tokens: Vec::new(),
        };
        let eos_key = defaults.eos_key.unwrap_or(EOS);
        vocab.bos = vocab.token_of(meta, file, BOS, defaults.bos)?;
        vocab.eos = vocab.token_of(meta, file, eos_key, defaults.eos)?;
        for (wanted, id, key, flag) in
            [(vocab.add_bos, vocab.bos, BOS, ADD_BOS), (vocab.add_eos, vocab.eos, eos_key, ADD_EOS)]
        {
            if wanted && id.is_none() {
                let why = format!("required, because every text gets this token (see {flag})");
                return Err(Error::new(file, key, ErrorKind::Invalid(why)));
            }
        }
        vocab.assign_roles(meta, file, texts)?;
        for (id, kind) in (0..).zip(&vocab.kinds) {
            // The index contains only UTF-8.
            let text = std::str::from_utf8(texts.text(id)).unwrap_or_default();
            let decoded = match kind {
                Kind::Normal | Kind::Undefined | Kind::Unused => decode(text, &mut vocab.bytes),
                Kind::Byte => byte_of(text).map(|byte| vocab.bytes.push(byte)).is_some(),
                Kind::Control | Kind::Unknown | Kind::UserDefined => false,
            };
            if !decoded {
                vocab.bytes.extend_from_slice(text.as_bytes());
            }
            vocab.ends.push(vocab.bytes.len());
        }
        Ok(vocab)
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn bos(&self) -> Option<u32> {
        self.bos
    }

    pub(super) fn eos(&self) -> Option<u32> {
        self.eos
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = usize::try_from(id).ok()?;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }

    /// Returns the length in bytes of the longest token.
    pub(super) fn longest_bytes(&self) -> usize {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        self.ends.iter().zip(starts).map(|(end, start)| end - start).max().unwrap_or(0)
    }

    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(usize::try_from(id).ok()?).copied()
    }

    pub(super) fn is_end(&self, id: u32) -> bool {
        self.end_tokens.binary_search(&id).is_ok()
    }

    /// Returns whether the token is matched in a prompt before the text around it.
    pub(super) fn is_marker(&self, id: u32) -> bool {
        matches!(self.kind(id), Some(Kind::Control | Kind::Unknown | Kind::UserDefined))
    }

    /// Returns the token under a key. If the key is absent or its token does not exist (converters write -1 or the
    /// largest number for "none"), returns `default`, if that token exists, as llama.cpp does.
    pub(super) fn token_of(
        &self,
        meta: &Metadata,
        file: &str,
        key: &'static str,
        default: Option<u32>,
    ) -> Result<Option<u32>, Error> {
        let id = match meta.get(key).and_then(Value::as_integer) {
            Some(id) => u32::try_from(id).ok(),
            None => meta.opt_u32(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?,
        };
        let exists = |id: &u32| self.kind(*id).is_some();
        let named = id.filter(exists);
        Ok(named.or(default.filter(exists)))
    }

    /// Returns the unknown token.
    pub(super) fn unknown(&self, meta: &Metadata, file: &str, default: u32) -> Result<u32, Error> {
        let why = "required, because the vocabulary does not have every character";
        let missing = || Error::new(file, UNKNOWN, ErrorKind::Invalid(why.into()));
        self.token_of(meta, file, UNKNOWN, Some(default))?.ok_or_else(missing)
    }

    /// Determines the tokens that end a generation, and corrects kinds.
    fn assign_roles(&mut self, meta: &Metadata, file: &str, texts: &TextIndex) -> Result<(), Error> {
        let mut ends: Vec<u32> = self.eos.into_iter().collect();
        let list = meta.opt_array_i32(EOS_LIST);
        let list = list.map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
        let listed = list.iter().flatten().filter_map(|&id| u32::try_from(id).ok());
        ends.extend(listed.filter(|&id| self.kind(id).is_some()));
        for role in ROLES {
            let mut keyed = None;
            for key in role.keys {
                keyed = self.token_of(meta, file, key, None)?.or(keyed);
            }
            let found: Vec<u32> = match keyed {
                Some(id) => vec![id],
                None => role.texts.iter().filter_map(|text| texts.get(text.as_bytes())).collect(),
            };
            if keyed.is_none() {
                self.set_kinds(&found, Kind::Control);
            }
            if role.ends {
                ends.extend(found);
            }
        }
        let by_text: Vec<u32> = END_TEXTS.iter().filter_map(|text| texts.get(text.as_bytes())).collect();
        self.set_kinds(&by_text, Kind::Control);
        ends.extend(by_text);
        let printed: Vec<u32> = PRINTED_TEXTS.iter().filter_map(|text| texts.get(text.as_bytes())).collect();
        self.set_kinds(&printed, Kind::UserDefined);
        ends.sort_unstable();
        ends.dedup();

        let has = |ends: &[u32], text: &str| texts.get(text.as_bytes()).is_some_and(|id| ends.contains(&id));
        let mut demote = |ends: &mut Vec<u32>, text: &str, kind| {
            if let Some(id) = texts.get(text.as_bytes()).filter(|id| ends.contains(id)) {
                ends.retain(|&end| end != id);
                self.set_kinds(&[id], kind);
            }
        };
        // In the harmony format `<|end|>` ends a message, of which a turn has several.
        let call = has(&ends, "<|call|>") || has(&ends, "<|calls|>");
        if call && (has(&ends, "<|return|>") || has(&ends, "<|flush|>")) {
            demote(&mut ends, "<|end|>", Kind::UserDefined);
        }
        // Vocabularies with these tokens use `</s>` as the HTML tag.
        if has(&ends, "<|tool_response>") || has(&ends, "<|plamo:eos|>") {
            demote(&mut ends, "</s>", Kind::Normal);
        }
        self.end_tokens = ends;
        Ok(())
    }

    fn set_kinds(&mut self, ids: &[u32], kind: Kind) {
        for &id in ids {
            self.kinds[id as usize] = kind;
        }
    }
}

/// Returns the byte of a text like `<0x0A>`.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    if digits.len() == 2 && digits.bytes().all(is_digit) { u8::from_str_radix(digits, 16).ok() } else { None }
}
