//! Pre-tokenizers: how a text is cut into words before merges are applied inside each word.
//!
//! A GGUF file names its rule in `tokenizer.ggml.pre`. Each rule is one file with one function; the
//! names that mean it are one row of [`PRE_TOKENIZERS`]. The rules are published as regular expressions
//! with look-ahead; here they are written by hand, because every one of them can be decided from left
//! to right, and a backtracking engine has inputs that make it quadratic.

mod cl100k;
mod gpt2;

/// Cuts a text into words, in order and without gaps: joined, the words are the text.
pub(crate) type Split = for<'t> fn(text: &'t str, word: &mut dyn FnMut(&'t str));

/// One rule and what comes with it.
pub(crate) struct PreTokenizer {
    /// The values of `tokenizer.ggml.pre` that mean this row.
    names: &'static [&'static str],
    /// The rule.
    pub(crate) split: Split,
    /// Whether a word that is a token as a whole is taken as it is, even where the merges lead elsewhere.
    pub(crate) ignore_merges: bool,
    /// Whether a sequence begins with the BOS token if the file does not say.
    pub(crate) add_bos: bool,
}

/// All rules. A name stands here only if llama.cpp treats it exactly as the rest of its row.
static PRE_TOKENIZERS: &[PreTokenizer] = &[
    PreTokenizer {
        names: &[
            "gpt-2",
            "phi-2",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
        ],
        split: gpt2::split,
        ignore_merges: false,
        add_bos: false,
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
    },
    PreTokenizer {
        names: &["dbrx", "smaug-bpe"],
        split: cl100k::split::<3>,
        ignore_merges: false,
        add_bos: false,
    },
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
        ],
        split: cl100k::split::<1>,
        ignore_merges: false,
        add_bos: false,
    },
];

/// The rule that `name` means.
pub(crate) fn named(name: &str) -> Option<&'static PreTokenizer> {
    PRE_TOKENIZERS.iter().find(|row| row.names.contains(&name))
}

/// Every known name, in the order of the table.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PRE_TOKENIZERS.iter().flat_map(|row| row.names.iter().copied())
}

/// The bytes of `text` up to the first character that `keep` refuses.
fn run(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

/// The bytes of the white space that `text` begins with, if it is one word by `\s+(?!\S)|\s+`: all of it
/// at the end of the text, otherwise all but its last character, which belongs to the word behind it
/// (unless it stands alone).
fn white_space(text: &str) -> usize {
    let len = run(text, char::is_whitespace);
    if len == text.len() {
        return len;
    }
    match text[..len].char_indices().next_back() {
        Some((last, _)) if last > 0 => last,
        _ => len,
    }
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
