//! Pre-tokenizers: splitting of a text into words, within which merges are applied.
//!
//! A GGUF file names its rule in `tokenizer.ggml.pre`. Each rule is one file with one function; the names of a rule
//! are one row of [`PRE_TOKENIZERS`]. The rules are published as regular expressions with look-ahead; here they are
//! written by hand, because all of them can be decided from left to right, and a backtracking engine takes
//! quadratic time on some inputs.

mod afmoe;
mod alternatives;
mod bloom;
mod chameleon;
pub(crate) mod cl100k;
mod deepseek;
mod exaone_moe;
mod falcon;
pub(crate) mod gpt2;
mod jais2;
mod kimi_k2;
pub(crate) mod lines;
mod o200k;
mod qwen35;
mod superbpe;
mod youtu;

pub(crate) use self::alternatives::Split;

/// Encoding of texts in a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Byte-level alphabet: every byte is one character.
    ByteLevel,
    /// Raw text, except that a space is `▁`; bytes without another token are tokens of the form `<0x0A>`.
    Raw {
        /// True if a run of line feeds that is a token is not merged.
        whole_line_feeds: bool,
    },
}

/// Pre-tokenization rule with related settings.
pub(crate) struct PreTokenizer {
    /// Values of `tokenizer.ggml.pre` for this row.
    names: &'static [&'static str],
    /// Splitting rule.
    pub(crate) split: Split,
    /// True if a word that is a token as a whole is not merged.
    pub(crate) ignore_merges: bool,
    /// Default for adding BOS, if the file does not say.
    pub(crate) add_bos: bool,
    /// True if BOS is added even if the file says otherwise.
    pub(crate) force_bos: bool,
    /// Encoding of texts in the vocabulary.
    pub(crate) spelling: Spelling,
    /// Special token that absorbs the white space before it.
    pub(crate) lstrip: Option<&'static str>,
}

/// Common settings of most rows; not a rule of its own.
const PLAIN: PreTokenizer = PreTokenizer {
    names: &[],
    split: gpt2::split,
    ignore_merges: false,
    add_bos: false,
    force_bos: false,
    spelling: Spelling::ByteLevel,
    lstrip: None,
};

/// All rules. A name is listed only if llama.cpp treats it exactly like the rest of its row.
static PRE_TOKENIZERS: &[PreTokenizer] = &[
    PreTokenizer {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "modern-bert",
            "roberta-bpe",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
        ],
        ..PLAIN
    },
    PreTokenizer { names: &["jina-v2-es", "jina-v2-de", "jina-v2-code"], lstrip: Some("<mask>"), ..PLAIN },
    PreTokenizer {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        split: gpt2::single_digits,
        ..PLAIN
    },
    PreTokenizer {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        split: cl100k::split::<3>,
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    PreTokenizer { names: &["glm4", "glm5"], split: cl100k::split::<3>, ignore_merges: true, ..PLAIN },
    PreTokenizer { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], split: cl100k::split::<3>, ..PLAIN },
    PreTokenizer {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
            "bailingmoe",
            "bailingmoe2",
            "llada-moe",
        ],
        split: cl100k::split::<1>,
        ..PLAIN
    },
    PreTokenizer { names: &["minicpm5"], split: cl100k::minicpm5, ignore_merges: true, ..PLAIN },
    PreTokenizer { names: &["ufakzeka"], split: cl100k::without_contractions, ..PLAIN },
    PreTokenizer { names: &["seed-coder"], split: cl100k::without_tails, ..PLAIN },
    PreTokenizer { names: &["laguna"], split: lines::laguna, ..PLAIN },
    PreTokenizer { names: &["jais-2"], split: jais2::split, ..PLAIN },
    PreTokenizer { names: &["qwen35"], split: qwen35::split, ..PLAIN },
    PreTokenizer { names: &["exaone-moe"], split: exaone_moe::split, ..PLAIN },
    PreTokenizer {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        split: o200k::split,
        ..PLAIN
    },
    PreTokenizer {
        names: &["granite-embed-multi-97m"],
        split: o200k::with_marks,
        ignore_merges: true,
        ..PLAIN
    },
    PreTokenizer { names: &["tekken"], split: o200k::tekken, ignore_merges: true, add_bos: true, ..PLAIN },
    PreTokenizer { names: &["youtu"], split: youtu::split, ignore_merges: true, ..PLAIN },
    PreTokenizer { names: &["tiny_aya", "cohere2moe"], split: afmoe::tiny_aya, ..PLAIN },
    PreTokenizer { names: &["afmoe"], split: afmoe::split, ..PLAIN },
    PreTokenizer { names: &["deepseek-llm"], split: deepseek::llm, ..PLAIN },
    PreTokenizer { names: &["deepseek-coder"], split: deepseek::coder, ..PLAIN },
    PreTokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"],
        split: deepseek::v3,
        ..PLAIN
    },
    PreTokenizer { names: &["spark2_5"], split: deepseek::spark, ..PLAIN },
    PreTokenizer { names: &["falcon"], split: falcon::split, ..PLAIN },
    PreTokenizer { names: &["bloom", "poro-chat", "gpt3-finnish"], split: bloom::split, ..PLAIN },
    PreTokenizer { names: &["viking"], split: bloom::viking, ..PLAIN },
    PreTokenizer { names: &["superbpe"], split: superbpe::split, ..PLAIN },
    PreTokenizer { names: &["chameleon"], split: chameleon::split, add_bos: true, ..PLAIN },
    PreTokenizer { names: &["kimi-k2"], split: kimi_k2::split, ..PLAIN },
    PreTokenizer {
        names: &["gemma4", "granite-embed-multi-311m"],
        split: lines::split,
        force_bos: true,
        spelling: Spelling::Raw { whole_line_feeds: true },
        ..PLAIN
    },
    PreTokenizer {
        names: &["sarvam-moe"],
        split: lines::split,
        spelling: Spelling::Raw { whole_line_feeds: false },
        ..PLAIN
    },
];

/// Returns the rule of a name.
pub(crate) fn named(name: &str) -> Option<&'static PreTokenizer> {
    PRE_TOKENIZERS.iter().find(|row| row.names.contains(&name))
}

/// Returns every known name, in the order of the table.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PRE_TOKENIZERS.iter().flat_map(|row| row.names.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn words(split: Split, text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        split(text, &mut |word| words.push(word));
        words
    }

    #[test]
    fn names_are_unique() {
        let mut all: Vec<_> = names().collect();
        all.sort_unstable();
        let n = all.len();
        all.dedup();
        assert_eq!(all.len(), n);
    }

    proptest::proptest! {
        #[test]
        fn words_join_to_the_text_and_are_never_empty(text in "(\\PC|[ \t\r\n'sdlLrevt0-9٣²]){0,40}") {
            for row in PRE_TOKENIZERS {
                let words = words(row.split, &text);
                proptest::prop_assert_eq!(words.concat(), text.as_str());
                proptest::prop_assert!(words.iter().all(|w| !w.is_empty()));
            }
        }
    }
}
