//! The vocabulary of a GGUF file: the tokens, their kinds, and which of them begin and end a text.
//!
//! Kinds and ends follow llama.cpp, because files rely on it: converters mark tokens wrongly often
//! enough that a list of well-known texts overrides what the file says. Those lists stand here.

use foldhash::{HashMap, HashMapExt};
use leyden_tensor::{Metadata, StrArray};

use crate::error::{Error, ErrorKind, Quoted};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";

/// What a token is for, numbered in `tokenizer.ggml.token_type` from 0 in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Undefined,
    Normal,
    Unknown,
    /// Found in a prompt only where special tokens are asked for, and never printed.
    Control,
    /// Always found in a prompt as a whole, and printed.
    UserDefined,
    Unused,
    Byte,
}

const KINDS: [Kind; 7] = [
    Kind::Undefined,
    Kind::Normal,
    Kind::Unknown,
    Kind::Control,
    Kind::UserDefined,
    Kind::Unused,
    Kind::Byte,
];

/// Tokens with a role: found by key or, where the file has none of the keys, by well-known texts.
struct Role {
    keys: &'static [&'static str],
    texts: &'static [&'static str],
    /// Whether the model has finished when it produces such a token.
    ends: bool,
}

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
        texts: &[
            "<|fim_prefix|>",
            "<fim-prefix>",
            "<fim_prefix>",
            "<｜fim▁begin｜>",
            "<PRE>",
            "▁<PRE>",
            "<|code_prefix|>",
            "<|prefix|>",
        ],
        ends: false,
    },
    Role {
        keys: &["tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"],
        texts: &[
            "<|fim_suffix|>",
            "<fim-suffix>",
            "<fim_suffix>",
            "<｜fim▁hole｜>",
            "<SUF>",
            "▁<SUF>",
            "<|code_suffix|>",
            "<|suffix|>",
        ],
        ends: false,
    },
    Role {
        keys: &["tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"],
        texts: &[
            "<|fim_middle|>",
            "<fim-middle>",
            "<fim_middle>",
            "<｜fim▁end｜>",
            "<MID>",
            "▁<MID>",
            "<|code_middle|>",
            "<|middle|>",
        ],
        ends: false,
    },
    Role {
        keys: &["tokenizer.ggml.fim_pad_token_id"],
        texts: &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
        ends: true,
    },
    Role {
        keys: &["tokenizer.ggml.fim_rep_token_id"],
        texts: &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
        ends: true,
    },
    Role { keys: &["tokenizer.ggml.fim_sep_token_id"], texts: &["<|file_sep|>"], ends: true },
];

/// Texts that end a generation whatever the keys say.
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

/// Texts that are printed although they look like control tokens: the frames of the harmony format.
static PRINTED_TEXTS: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Every well-known text of tokens that end a generation.
pub(super) fn end_texts() -> impl Iterator<Item = &'static str> {
    let roles = ROLES.iter().filter(|role| role.ends).flat_map(|role| role.texts);
    roles.chain(END_TEXTS).copied()
}

/// Whether a token of this text is printed although it looks like a control token.
pub(super) fn is_printed(text: &str) -> bool {
    PRINTED_TEXTS.contains(&text)
}

/// The well-known texts that do not end a generation after all, given which of them do so far.
pub(super) fn not_ends(ends: impl Fn(&str) -> bool) -> Vec<&'static str> {
    // In the harmony format `<|end|>` ends a message, of which a turn has several.
    let harmony = (ends("<|call|>") || ends("<|calls|>")) && (ends("<|return|>") || ends("<|flush|>"));
    // Vocabularies with these markers have `</s>` as the HTML tag.
    let tag = ends("<|tool_response>") || ends("<|plamo:eos|>");
    [("<|end|>", harmony), ("</s>", tag)].into_iter().filter(|row| row.1).map(|row| row.0).collect()
}

/// The tokens of a vocabulary and the facts about them.
pub(super) struct Vocab {
    /// The bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    /// Where each token ends in `bytes`.
    ends: Vec<usize>,
    kinds: Vec<Kind>,
    bos: Option<u32>,
    eos: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// The tokens that end a generation, ascending.
    end_tokens: Vec<u32>,
}

/// The texts of a vocabulary as the file spells them.
pub(super) struct Texts<'a> {
    pub(super) array: &'a StrArray,
    pub(super) ids: HashMap<&'a [u8], u32>,
}

impl<'a> Texts<'a> {
    /// Reads the texts and checks that they are UTF-8 and distinct; the empty text may repeat.
    pub(super) fn new(array: &'a StrArray, file: &str) -> Result<Self, Error> {
        let invalid = |message| Error::new(file, TOKENS, ErrorKind::Invalid(message));
        if array.is_empty() {
            return Err(invalid("the vocabulary is empty".into()));
        }
        if u32::try_from(array.len()).is_err() {
            return Err(invalid(format!("{} tokens are more than token ids can count", array.len())));
        }
        let mut ids = HashMap::with_capacity(array.len());
        for (id, text) in (0..).zip(array.iter()) {
            let Ok(text) = std::str::from_utf8(text) else {
                return Err(invalid(format!("token {id} is not UTF-8")));
            };
            if text.is_empty() {
                continue;
            }
            if let Some(first) = ids.insert(text.as_bytes(), id) {
                return Err(invalid(format!("tokens {first} and {id} are both {}", Quoted(text))));
            }
        }
        Ok(Texts { array, ids })
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text.as_bytes()).copied()
    }

    /// All texts with their ids. A text that is not UTF-8 has been refused before.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &'a str)> {
        (0..).zip(self.array.iter().map(|text| std::str::from_utf8(text).unwrap_or_default()))
    }
}

impl Vocab {
    /// Reads what does not depend on the kind of tokenizer. `decode` appends the bytes that a normal token
    /// spells, or returns false for a text that spells none; such a text stands for itself.
    pub(super) fn new(
        meta: &Metadata,
        file: &str,
        texts: &Texts<'_>,
        add_bos: bool,
        decode: impl Fn(&str, &mut Vec<u8>) -> bool,
    ) -> Result<Self, Error> {
        let metadata = |error| Error::new(file, None, ErrorKind::Metadata(error));
        let mut vocab = Vocab {
            bytes: Vec::new(),
            ends: Vec::with_capacity(texts.array.len()),
            kinds: kinds(meta, file, texts.array.len())?,
            bos: None,
            eos: None,
            add_bos: meta.opt_bool(ADD_BOS).map_err(metadata)?.unwrap_or(add_bos),
            add_eos: meta.opt_bool(ADD_EOS).map_err(metadata)?.unwrap_or(false),
            end_tokens: Vec::new(),
        };
        vocab.bos = vocab.token_of(meta, file, BOS)?;
        vocab.eos = vocab.token_of(meta, file, EOS)?;
        for (wanted, id, key, flag) in
            [(vocab.add_bos, vocab.bos, BOS, ADD_BOS), (vocab.add_eos, vocab.eos, EOS, ADD_EOS)]
        {
            if wanted && id.is_none() {
                let why = format!("required, because every text gets this token (see {flag})");
                return Err(Error::new(file, key, ErrorKind::Invalid(why)));
            }
        }
        vocab.assign_roles(meta, file, texts)?;
        for (id, text) in texts.iter() {
            if vocab.kinds[id as usize] != Kind::Normal || !decode(text, &mut vocab.bytes) {
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

    pub(super) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(usize::try_from(id).ok()?).copied()
    }

    pub(super) fn is_end(&self, id: u32) -> bool {
        self.end_tokens.binary_search(&id).is_ok()
    }

    fn token_of(&self, meta: &Metadata, file: &str, key: &'static str) -> Result<Option<u32>, Error> {
        let id = meta.opt_u32(key).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
        match id {
            Some(id) if self.kind(id).is_none() => {
                let why = format!("token {id} does not exist, the vocabulary has {}", self.len());
                Err(Error::new(file, key, ErrorKind::Invalid(why)))
            }
            id => Ok(id),
        }
    }

    /// Finds the tokens that end a generation and corrects kinds on the way.
    fn assign_roles(&mut self, meta: &Metadata, file: &str, texts: &Texts<'_>) -> Result<(), Error> {
        let mut ends: Vec<u32> = self.eos.into_iter().collect();
        for role in ROLES {
            let mut keyed = None;
            for key in role.keys {
                keyed = self.token_of(meta, file, key)?.or(keyed);
            }
            let found: Vec<u32> = match keyed {
                Some(id) => vec![id],
                None => role.texts.iter().filter_map(|text| texts.id(text)).collect(),
            };
            if keyed.is_none() {
                self.set_kinds(&found, Kind::Control);
            }
            if role.ends {
                ends.extend(found);
            }
        }
        let by_text: Vec<u32> = END_TEXTS.iter().filter_map(|text| texts.id(text)).collect();
        self.set_kinds(&by_text, Kind::Control);
        ends.extend(by_text);
        let printed: Vec<u32> = PRINTED_TEXTS.iter().filter_map(|text| texts.id(text)).collect();
        self.set_kinds(&printed, Kind::UserDefined);
        ends.sort_unstable();
        ends.dedup();

        let has = |ends: &[u32], text: &str| texts.id(text).is_some_and(|id| ends.contains(&id));
        let mut demote = |ends: &mut Vec<u32>, text: &str, kind| {
            if let Some(id) = texts.id(text).filter(|id| ends.contains(id)) {
                ends.retain(|&end| end != id);
                self.set_kinds(&[id], kind);
            }
        };
        // In the harmony format `<|end|>` ends a message, of which a turn has several.
        let call = has(&ends, "<|call|>") || has(&ends, "<|calls|>");
        if call && (has(&ends, "<|return|>") || has(&ends, "<|flush|>")) {
            demote(&mut ends, "<|end|>", Kind::UserDefined);
        }
        // Vocabularies with these markers have `</s>` as the HTML tag.
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

/// The kinds of `n` tokens: what the file says, or normal if it says nothing.
fn kinds(meta: &Metadata, file: &str, n: usize) -> Result<Vec<Kind>, Error> {
    let array = meta.opt_array_i32(TOKEN_TYPE).map_err(|e| Error::new(file, None, ErrorKind::Metadata(e)))?;
    let Some(numbers) = array else { return Ok(vec![Kind::Normal; n]) };
    let invalid = |message| Error::new(file, TOKEN_TYPE, ErrorKind::Invalid(message));
    if numbers.len() != n {
        return Err(invalid(format!("{} types for {n} tokens", numbers.len())));
    }
    let kind = |(id, &number): (usize, &i32)| {
        let kind = usize::try_from(number).ok().and_then(|number| KINDS.get(number));
        kind.copied().ok_or_else(|| invalid(format!("token {id} has the unknown type {number}")))
    };
    numbers.iter().enumerate().map(kind).collect()
}
