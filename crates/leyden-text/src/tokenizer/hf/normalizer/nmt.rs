//! SentencePiece's rules for machine translation: control characters go, odd white space becomes a space.

use super::super::pieces::Normalized;
use super::Normalizer;
use crate::error::Error;

pub(super) struct Nmt;

impl Normalizer for Nmt {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        text.map_chars(|c, out| match c {
            '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{8f}' | '\u{9f}' => {}
            '\t'
            | '\n'
            | '\u{c}'
            | '\r'
            | '\u{1680}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{2581}'
            | '\u{feff}'
            | '\u{fffd}' => out.push(' '),
            c => out.push(c),
        });
        Ok(())
    }
}
