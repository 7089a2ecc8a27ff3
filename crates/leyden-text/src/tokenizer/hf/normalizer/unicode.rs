//! Unicode's normalization forms.

use unicode_normalization::UnicodeNormalization;

use super::super::classes::is_not_normalized;
use super::super::pieces::Normalized;
use super::{Keeps, Normalizer};
use crate::error::Error;

pub(super) enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Form {
    fn write(&self, text: &str, out: &mut String) {
        match self {
            Form::Nfc => out.extend(text.nfc()),
            Form::Nfd => out.extend(text.nfd()),
            Form::Nfkc => out.extend(text.nfkc()),
            Form::Nfkd => out.extend(text.nfkd()),
        }
    }
}

impl Normalizer for Form {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if text.text.is_ascii() {
            return Ok(());
        }
        let mut out = String::with_capacity(text.text.len());
        // Characters that the library does not know take no part: nothing is reordered across one, nor composed.
        for part in text.text.split_inclusive(is_not_normalized) {
            let known = part.trim_end_matches(is_not_normalized);
            self.write(known, &mut out);
            out.push_str(&part[known.len()..]);
        }
        // What the first character alone becomes; the last of it may have been composed with what follows.
        let mut first = String::new();
        self.write(&text.text[..text.start_bytes], &mut first);
        let start_bytes = out.chars().take(first.chars().count()).map(char::len_utf8).sum();
        *text = Normalized { text: out, start_bytes };
        Ok(())
    }

    fn keeps(&self) -> Keeps {
        Keeps::Ascii
    }
}
