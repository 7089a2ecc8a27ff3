//! The regular expressions of known models, by their text, and the rules of `pretok` that are equal to them.

use crate::tokenizer::pretok::{self, Split};

/// A rule that stands for an expression.
pub(super) struct Rule {
    pub(super) split: Split,
    /// Whether a part of the expression ignores the case of letters.
    pub(super) ignores_case: bool,
}

struct Row {
    regex: &'static str,
    /// A name of the rule in `pretok`.
    pretok: &'static str,
    ignores_case: bool,
}

static ROWS: &[Row] = &[
    // GPT-2, and what `ByteLevel` has built in.
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

/// The rule that stands for an expression.
pub(super) fn rule(regex: &str) -> Option<Rule> {
    let row = ROWS.iter().find(|row| row.regex == regex)?;
    Some(Rule { split: pretok::named(row.pretok)?.split, ignores_case: row.ignores_case })
}

/// The rule of GPT-2.
pub(super) fn gpt2() -> Option<Rule> {
    rule(ROWS[0].regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_rule() {
        for row in ROWS {
            assert!(rule(row.regex).is_some(), "{}", row.pretok);
        }
        assert_eq!(ROWS[0].pretok, GPT2);
    }
}
