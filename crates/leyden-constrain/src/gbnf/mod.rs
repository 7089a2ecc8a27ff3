//! Translation of GBNF, llama.cpp's grammar notation, to Lark.
//!
//! GBNF describes texts by characters; Lark first splits them into terminals. A rule that never refers back to
//! itself becomes one terminal, and in a recursive rule each maximal sequence without recursion does. Terminals
//! match greedily: where one may end and the following text could also continue it, the longer match is used. A
//! grammar without recursion is one terminal, and exact.

mod lark;
mod parse;

use crate::error::Error;

/// Translates a GBNF grammar to Lark.
pub(crate) fn to_lark(source: &str) -> Result<String, Error> {
    lark::write(&parse::parse(source)?)
}
