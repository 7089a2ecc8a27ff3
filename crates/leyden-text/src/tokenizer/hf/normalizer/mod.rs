//! Normalizers: what a text becomes before it is cut into words. One kind is one file and one row of the table.

mod bert;
mod byte_level;
mod lowercase;
mod nmt;
mod precompiled;
mod prepend;
mod replace;
mod strip;
mod unicode;

use super::field::{Field, Row, flatten};
use super::pieces::Normalized;
use crate::error::Error;

pub(super) trait Normalizer: Send + Sync {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error>;

    /// What of a text certainly stays.
    fn keeps(&self) -> Keeps {
        Keeps::Nothing
    }
}

/// What of a text stays in it when it is normalized, as so many bytes or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keeps {
    /// Anything may vanish.
    Nothing,
    /// Characters of ASCII; others may become shorter.
    Ascii,
    /// All of it.
    All,
}

type Boxed = Box<dyn Normalizer>;

static KINDS: &[Row<Boxed>] = &[
    ("BertNormalizer", bert::read),
    ("ByteLevel", |_| Ok(Box::new(byte_level::ByteLevel))),
    ("Lowercase", |_| Ok(Box::new(lowercase::Lowercase))),
    ("NFC", |_| Ok(Box::new(unicode::Form::Nfc))),
    ("NFD", |_| Ok(Box::new(unicode::Form::Nfd))),
    ("NFKC", |_| Ok(Box::new(unicode::Form::Nfkc))),
    ("NFKD", |_| Ok(Box::new(unicode::Form::Nfkd))),
    ("Nmt", |_| Ok(Box::new(nmt::Nmt))),
    ("Precompiled", precompiled::read),
    ("Prepend", prepend::read),
    ("Replace", replace::read),
    ("Strip", strip::read),
    ("StripAccents", |_| Ok(Box::new(strip::StripAccents))),
];

/// Reads a normalizer, which may be a sequence of them.
pub(super) fn read(field: Field<'_>) -> Result<Vec<Boxed>, Error> {
    flatten(field, "normalizers")?.iter().map(|field| field.component("normalizer", KINDS)).collect()
}
