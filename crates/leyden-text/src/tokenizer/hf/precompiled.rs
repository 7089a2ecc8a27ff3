//! SentencePiece's compiled table of replacements.
//!
//! The table is a double-array trie, whose values are offsets in a buffer of zero-terminated texts. A grapheme of
//! fewer than six bytes that begins with an entry of the trie is replaced as a whole, by the shortest such entry;
//! in any other grapheme each character is looked up alone. This is the library's rule, which differs slightly from
//! SentencePiece's.

use unicode_segmentation::UnicodeSegmentation;

use super::field::Field;
use super::normalizer::Normalizer;
use super::pieces::Normalized;
use crate::error::Error;

/// Maximum length of a replacement; the longest known one, of a ligature, has 33 bytes.
const MAX_REPLACEMENT_BYTES: usize = 128;

struct Precompiled {
    trie: Vec<u32>,
    texts: String,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    let field = field.get("precompiled_charsmap")?;
    let bytes = decode_base64(field.as_str()?).ok_or_else(|| field.invalid("not valid Base64"))?;
    let short = || field.invalid("the table ends early");
    let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    // A size that is not a multiple of four is rounded down to whole units.
    let size = usize::try_from(u32::from_le_bytes(*size) / 4 * 4).unwrap_or(usize::MAX);
    let (trie, texts) = rest.split_at_checked(size).ok_or_else(short)?;
    let units = trie.as_chunks::<4>().0;
    let texts = std::str::from_utf8(texts).map_err(|_| field.invalid("the replacements are not UTF-8"))?;
    if texts.split('\0').any(|text| text.len() > MAX_REPLACEMENT_BYTES) {
        return Err(field.invalid(format!("a replacement has more than {MAX_REPLACEMENT_BYTES} bytes")));
    }
    Ok(Box::new(Precompiled {
        trie: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
        texts: texts.into(),
    }))
}

impl Precompiled {
    /// Returns the value of the shortest entry that is a prefix of `key`.
    fn look_up(&self, key: &[u8]) -> Option<u32> {
        let offset = |unit: u32| (unit >> 10) << ((unit & 1 << 9) >> 6);
        let unit = |at: u32| self.trie.get(usize::try_from(at).ok()?).copied();
        let mut at = offset(unit(0)?);
        for &byte in key {
            if byte == 0 {
                return None;
            }
            at ^= u32::from(byte);
            let found = unit(at)?;
            if found & (1 << 31 | 0xff) != u32::from(byte) {
                return None;
            }
            at ^= offset(found);
            if found >> 8 & 1 == 1 {
                return Some(unit(at)? & !(1 << 31));
            }
        }
        None
    }

    fn replacement(&self, key: &str) -> Option<&str> {
        let text = self.texts.get(usize::try_from(self.look_up(key.as_bytes())?).ok()?..)?;
        text.split('\0').next()
    }
}

impl Normalizer for Precompiled {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        let mut out = String::with_capacity(text.text.len());
        let mut start_bytes = 0;
        for (at, grapheme) in text.text.grapheme_indices(true) {
            match self.replacement(grapheme).filter(|_| grapheme.len() < 6) {
                Some(new) => out.push_str(new),
                None => {
                    for (i, c) in grapheme.char_indices() {
                        match self.replacement(&grapheme[i..i + c.len_utf8()]) {
                            Some(new) => out.push_str(new),
                            None => out.push(c),
                        }
                    }
                }
            }
            if at < text.start_bytes {
                start_bytes = out.len();
            }
        }
        *text = Normalized { text: out, start_bytes };
        Ok(())
    }
}

/// Decodes Base64 with padding; `None` if it is invalid.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let (groups, []) = text.as_bytes().as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (i, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|&&b| b == b'=').count();
        if padding > 2 || (padding > 0 && i + 1 < groups.len()) {
            return None;
        }
        let mut bits = 0u32;
        for &digit in &group[..4 - padding] {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * padding;
        let [_, three @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&three[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_decodes_and_refuses() {
        for (text, want) in
            [("", Some(&b""[..])), ("aGk=", Some(b"hi")), ("aA==", Some(b"h")), ("aGkh", Some(b"hi!"))]
        {
            assert_eq!(decode_base64(text).as_deref(), want);
        }
        for text in ["a", "aGk", "aGk=aGk=", "a===", "a-_=", "aG k"] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }
}
