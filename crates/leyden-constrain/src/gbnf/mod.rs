//! GBNF, the notation of llama.cpp's grammars, put into Lark.
//!
//! GBNF describes texts by their characters; Lark first cuts them into words. What never leads back to itself becomes a
//! word as a whole, and in a rule that does, as much as stands together. A word is read as far as it goes, so where one
//! may end and something may follow that could also be more of it, the longer reading is taken. A grammar without
//! recursion is one word, and exact.

mod lark;
mod parse;

use crate::error::Error;

/// A grammar in Lark for one in GBNF.
pub(crate) fn to_lark(source: &str) -> Result<String, Error> {
    lark::write(&parse::parse(source)?)
}
