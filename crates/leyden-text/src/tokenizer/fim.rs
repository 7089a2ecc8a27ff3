//! Special tokens for fill-in-the-middle (Bavarian et al., 2022): completing the text between a prefix and a
//! suffix.

use super::{Tokenizer, vocab};

/// Fill-in-the-middle tokens of a vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillInMiddle {
    /// Token before the prefix.
    pub prefix: u32,
    /// Token before the suffix.
    pub suffix: u32,
    /// Token after which the model generates the middle.
    pub middle: u32,
    /// Token before the name of a repository, if there is one.
    pub repository: Option<u32>,
    /// Token before the name of a file, if there is one.
    pub file: Option<u32>,
}

impl FillInMiddle {
    /// Finds the tokens by their well-known texts; `None` for a model without them. Scans the whole vocabulary.
    #[must_use]
    pub fn of(tokenizer: &dyn Tokenizer) -> Option<FillInMiddle> {
        let mut found = [None::<(usize, u32)>; vocab::FIM.len()];
        for id in (0..).take(tokenizer.vocab_size()) {
            let Some(bytes) = tokenizer.token_bytes(id).filter(|b| matches!(b.first(), Some(b'<' | b' ')))
            else {
                continue;
            };
            for (place, role) in found.iter_mut().zip(vocab::FIM) {
                // A vocabulary may have several; the first of the table is used.
                let rank = role
                    .iter()
                    .position(|text| text.trim_start_matches('▁').as_bytes() == bytes.trim_ascii_start());
                if let Some(rank) = rank.filter(|rank| place.is_none_or(|(best, _)| *rank < best)) {
                    *place = Some((rank, id));
                }
            }
        }
        let [prefix, suffix, middle, repository, file] = found.map(|place| place.map(|(_, id)| id));
        Some(FillInMiddle { prefix: prefix?, suffix: suffix?, middle: middle?, repository, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::{Gguf, WeightSource};
    use leyden_testkit::shared;

    #[test]
    fn models_of_code_have_them() {
        let Some(folder) = shared("data/tokenizers/ggml-vocab") else { return };
        let of = |name: &str| {
            let file = Gguf::open(&folder.join(format!("ggml-vocab-{name}.gguf"))).unwrap();
            let tokenizer = crate::from_gguf(file.metadata(), name).unwrap();
            let fim = FillInMiddle::of(tokenizer.as_ref())?;
            let name = |id: u32| String::from_utf8(tokenizer.token_bytes(id).unwrap().to_vec()).unwrap();
            Some([fim.prefix, fim.suffix, fim.middle].map(name))
        };
        assert_eq!(of("starcoder").unwrap(), ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"]);
        assert_eq!(of("deepseek-coder").unwrap(), ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"]);
        assert_eq!(of("gpt-2"), None);
    }
}
