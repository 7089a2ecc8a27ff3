//! Vocabularies and their rules in both layouts.

mod base64;
mod sample;
mod steps;
mod to_folder;
mod to_gguf;

pub(crate) use to_folder::{Document, of_gguf, same};
pub(crate) use to_gguf::{Described, beside_files, of_folder};

/// Token types of GGUF.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// Replacement of a space in SentencePiece's vocabularies.
const MARK: &str = "▁";

/// Returns the byte of a token such as `<0x0A>`.
fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
