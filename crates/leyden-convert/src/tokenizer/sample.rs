//! Sample texts for comparing two tokenizers.

use crate::error::Error;
use leyden_text::{Special, Tokenizer};

/// Hard cases for pre-tokenizers.
const SAMPLE: &str = "Hello  World\n\n\n 3.14159 1234567 don't DON'T I'll We'Ve he'd\t\ttab  \r\n  end \n x\n\
    多国語テスト русский ñandú é naïve ÀÉÎ ﬁ 🚀🦙👩‍🚀 `{code}`; x_y!=z... ??? \u{a0}\u{3000} 123abc ABC123 AbcDEF <b> '''' \
    \"quoted\" https://a.b/c?d=e&f=1 ... 1,000.5% $5 #tag @x 0x1F ½ ² ١٢٣ हिन्दी ภาษาไทย    four spaces\r\r\n\u{200b}z  ";

/// Returns the tokens of the sample, as a whole and in parts.
pub(super) fn sampled(tokenizer: &dyn Tokenizer) -> Result<Vec<u32>, Error> {
    let mut tokens = leyden_text::encode_prompt(tokenizer, SAMPLE)?;
    for part in SAMPLE.split(' ') {
        tokens.extend(tokenizer.encode(part, Special::Parse)?);
    }
    Ok(tokens)
}

/// Returns the tokens of texts that begin with a space, and of texts around special tokens.
pub(super) fn around(tokenizer: &dyn Tokenizer, special: &[&str]) -> Result<Vec<u32>, Error> {
    let mut tokens = tokenizer.encode(" x  y", Special::Parse)?;
    for mark in special {
        let text = format!("{mark}user\nHello{mark} world {mark}\n x{mark}{mark}  y");
        tokens.extend(tokenizer.encode(&text, Special::Parse)?);
    }
    Ok(tokens)
}
