//! BERT: cleaned of control characters, Chinese characters set apart, accents stripped, lower case.

use super::super::classes::{is_control, is_nonspacing_mark};
use super::super::field::Field;
use super::super::pieces::Normalized;
use super::unicode::Form;
use super::{Normalizer, lowercase::Lowercase};
use crate::error::Error;

struct Bert {
    clean_text: bool,
    handle_chinese_chars: bool,
    strip_accents: bool,
    lowercase: bool,
}

pub(super) fn read(field: &Field<'_>) -> Result<Box<dyn Normalizer>, Error> {
    let lowercase = field.bool_or("lowercase", true)?;
    Ok(Box::new(Bert {
        clean_text: field.bool_or("clean_text", true)?,
        handle_chinese_chars: field.bool_or("handle_chinese_chars", true)?,
        strip_accents: field.bool_or("strip_accents", lowercase)?,
        lowercase,
    }))
}

/// The ideographs that BERT sets apart, which are not all there are.
fn is_chinese(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b81f}' | '\u{2b920}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

impl Normalizer for Bert {
    fn normalize(&self, text: &mut Normalized) -> Result<(), Error> {
        if self.clean_text {
            text.map_chars(|c, out| match c {
                '\t' | '\n' | '\r' => out.push(' '),
                c if is_control(c) => {}
                c if c.is_whitespace() => out.push(' '),
                c => out.push(c),
            });
        }
        if self.handle_chinese_chars {
            text.map_chars(|c, out| {
                if is_chinese(c) {
                    out.extend([' ', c, ' ']);
                } else {
                    out.push(c);
                }
            });
        }
        if self.strip_accents {
            Form::Nfd.normalize(text)?;
            text.map_chars(|c, out| {
                if !is_nonspacing_mark(c) {
                    out.push(c);
                }
            });
        }
        if self.lowercase {
            Lowercase.normalize(text)?;
        }
        Ok(())
    }
}
