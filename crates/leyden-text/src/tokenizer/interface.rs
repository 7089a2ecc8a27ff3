//! [`Tokenizer`]: interface of all tokenizers.

use std::borrow::Cow;

use super::bounds::Bounds;
use super::pair_template::PairTemplate;
use super::parse_special::Special;
use crate::error::Error;

/// Vocabulary with its encoding algorithm.
pub trait Tokenizer: Send + Sync {
    /// Returns the ids of `text`, without BOS and EOS; see [`add_bos`](Self::add_bos).
    ///
    /// # Errors
    /// The vocabulary cannot encode the text.
    fn encode(&self, text: &str, special: Special<'_>) -> Result<Vec<u32>, Error> {
        self.encode_within(text, special, &Bounds::NONE)
    }

    /// Returns the ids of `text` as [`encode`](Self::encode) does, unless a limit of `bounds` is exceeded. Takes
    /// O(n log m) time and O(n) memory for a text of length n and longest word of length m.
    ///
    /// # Errors
    /// The vocabulary cannot encode the text, or a limit is exceeded.
    fn encode_within(&self, text: &str, special: Special<'_>, bounds: &Bounds<'_>)
    -> Result<Vec<u32>, Error>;

    /// Returns a lower bound of the text's number of tokens, in a fraction of the time of encoding: its length
    /// divided by that of the longest token. 0 if there is no bound, for instance if characters may be dropped or
    /// any number of them become one unknown token.
    fn least_tokens(&self, text: &str) -> usize;

    /// Returns the bytes of a token, which need not be whole characters; for a special token, its name. `None` if
    /// there is no such token.
    fn token_bytes(&self, id: u32) -> Option<&[u8]>;

    /// Returns the bytes that a token adds to a text whose last token is `previous`; `None` at the beginning of a
    /// text. They are its [bytes](Self::token_bytes), but without a leading space at the beginning if the
    /// vocabulary adds one there.
    fn bytes_after(&self, previous: Option<u32>, id: u32) -> Option<Cow<'_, [u8]>> {
        let _ = previous;
        self.token_bytes(id).map(Cow::Borrowed)
    }

    /// Returns the number of tokens.
    fn vocab_size(&self) -> usize;

    /// Returns whether the token is a control token, which is not part of an answer's text.
    fn is_special(&self, id: u32) -> bool;

    /// Returns the token that begins a sequence.
    fn bos(&self) -> Option<u32>;

    /// Returns the token that ends a sequence.
    fn eos(&self) -> Option<u32>;

    /// Returns whether generation ends at this token: EOS, end of turn, end of message.
    fn is_end(&self, id: u32) -> bool;

    /// Returns whether a sequence begins with BOS. If so, [`bos`](Self::bos) is `Some`.
    fn add_bos(&self) -> bool;

    /// Returns whether a sequence ends with EOS. If so, [`eos`](Self::eos) is `Some`.
    fn add_eos(&self) -> bool;

    /// Returns true if a text with too many tokens loses its beginning instead of its end, where a request names no
    /// side.
    fn drops_beginning(&self) -> bool {
        false
    }

    /// Returns whether tokens that continue a word differ from those that begin one, as in WordPiece.
    fn marks_continuations(&self) -> bool {
        false
    }

    /// Returns the tokens around the two texts of a pair.
    fn pair(&self) -> PairTemplate {
        PairTemplate::around(self.bos().filter(|_| self.add_bos()), self.eos().filter(|_| self.add_eos()), 1)
    }
}
