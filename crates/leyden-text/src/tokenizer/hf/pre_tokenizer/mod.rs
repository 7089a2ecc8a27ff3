//! Pre-tokenizers: how a text is cut into words for the model. One kind is one file and one row of the table.

mod byte_level;
mod chars;
mod fixed_length;
pub(super) mod metaspace;
mod split;
mod whitespace;

use super::field::{Field, Row, flatten};
use super::pieces::Pieces;
use crate::error::Error;

pub(super) trait PreTokenizer: Send + Sync {
    fn cut(&self, pieces: &mut Pieces) -> Result<(), Error>;

    /// Makes this the last step before a model that takes bytes as they are. True if this step would have spelled
    /// them in the byte-level alphabet, which it then leaves to the model.
    fn leave_bytes(&mut self) -> bool {
        false
    }

    /// Whether all of the text is in the pieces, none of it shorter.
    fn keeps_text(&self) -> bool {
        false
    }
}

type Boxed = Box<dyn PreTokenizer>;

static KINDS: &[Row<Boxed>] = &[
    ("BertPreTokenizer", |_| Ok(Box::new(chars::Bert))),
    ("ByteLevel", byte_level::read),
    ("CharDelimiterSplit", chars::read_delimiter),
    ("Digits", chars::read_digits),
    ("FixedLength", fixed_length::read),
    ("Metaspace", metaspace::read),
    ("Punctuation", chars::read_punctuation),
    ("Split", split::read),
    ("Whitespace", |_| Ok(Box::new(whitespace::Words))),
    ("WhitespaceSplit", |_| Ok(Box::new(whitespace::Blanks))),
];

/// Reads a pre-tokenizer, which may be a sequence of them.
pub(super) fn read(field: Field<'_>) -> Result<Vec<Boxed>, Error> {
    flatten(field, "pretokenizers")?.iter().map(|field| field.component("pre-tokenizer", KINDS)).collect()
}
