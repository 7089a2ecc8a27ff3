//! [`Font`]: characters and widths of a font's codes.

use super::widths::standard_width;
use lopdf::{Dictionary, Document, Encoding, Object};
use std::collections::HashMap;

/// Maximum number of codes with a width of their own.
const MAX_WIDTHS: usize = 1 << 16;

/// Characters of a font's codes.
enum Characters {
    /// A table from code to characters.
    Simple(Box<[String; 256]>),
    /// Codes of two bytes or of several lengths: decoded anew for each string.
    Mapped(Box<Encoding<'static>>),
    /// UTF-16.
    Utf16,
    /// No way to tell.
    Unknown,
}

/// A font, as far as its text and its widths are concerned.
pub(crate) struct Font {
    characters: Characters,
    /// `true` for codes of two bytes.
    wide: bool,
    widths: HashMap<u16, f64>,
    default_width: f64,
}

/// A string in characters.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) glyphs: usize,
    pub(crate) unknown: usize,
    /// Width of all glyphs, as a multiple of the font's size.
    pub(crate) width: f64,
}

impl Font {
    /// Returns a font, and an upper bound of what its table of characters unpacked to.
    pub(crate) fn new(document: &Document, font: &Dictionary, unpacked: usize) -> (Font, usize) {
        let wide = font.get(b"Subtype").and_then(Object::as_name).is_ok_and(|kind| kind == b"Type0");
        let mut spent = 0;
        let table = deref(document, font, b"ToUnicode").and_then(|table| table.as_stream().ok());
        // The table of characters tells more than the encoding's names of glyphs.
        let mut direct = font.clone();
        direct.set("Type", Object::Name(b"Font".to_vec()));
        let mapped = table.and_then(|stream| {
            direct.remove(b"Encoding");
            let encoding = direct.get_font_encoding_with_limit(document, unpacked).ok()?;
            spent = stream.content.len().saturating_mul(8);
            match encoding {
                Encoding::UnicodeMapEncoding(map) => {
                    Some(Characters::Mapped(Box::new(Encoding::UnicodeMapEncoding(map))))
                }
                _ => None,
            }
        });
        let characters = mapped.unwrap_or_else(|| named(document, font, wide, unpacked));
        let (widths, default_width) =
            if wide { wide_widths(document, font) } else { simple_widths(document, font) };
        (Font { characters, wide, widths, default_width }, spent)
    }

    /// Returns the characters and the width of a string.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Shown {
        let mut shown = Shown::default();
        let mut width =
            |code: u16| shown.width += self.widths.get(&code).copied().unwrap_or(self.default_width) / 1000.0;
        if self.wide {
            bytes
                .chunks(2)
                .for_each(|code| width(u16::from(code[0]) << 8 | u16::from(*code.get(1).unwrap_or(&0))));
            shown.glyphs = bytes.len().div_ceil(2);
        } else {
            bytes.iter().for_each(|&code| width(u16::from(code)));
            shown.glyphs = bytes.len();
        }
        match &self.characters {
            Characters::Simple(table) => {
                for &code in bytes {
                    let text = &table[usize::from(code)];
                    shown.unknown += usize::from(text.is_empty());
                    shown.text.push_str(text);
                }
            }
            Characters::Mapped(map) => self.mapped(map, bytes, &mut shown),
            Characters::Utf16 => {
                shown.text = encoding_rs::UTF_16BE.decode_without_bom_handling(bytes).0.into_owned()
            }
            Characters::Unknown => shown.unknown = shown.glyphs,
        }
        shown
    }

    fn mapped(&self, map: &Encoding<'static>, bytes: &[u8], shown: &mut Shown) {
        let Encoding::UnicodeMapEncoding(map) = map else { return };
        let length = if self.wide { 2 } else { 1 };
        for code in bytes.chunks(length) {
            let number = code.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
            match map.get(number, code.len() as u8) {
                Some(units) => {
                    shown.text.extend(char::decode_utf16(units).map(|char| char.unwrap_or('\u{fffd}')))
                }
                None => shown.unknown += 1,
            }
        }
    }
}

/// Returns the object that a key refers to.
fn deref<'a>(document: &'a Document, of: &'a Dictionary, key: &[u8]) -> Option<&'a Object> {
    document.dereference(of.get(key).ok()?).ok().map(|(_, object)| object)
}

/// Returns the characters that a font's encoding names.
fn named(document: &Document, font: &Dictionary, wide: bool, unpacked: usize) -> Characters {
    let mut font = font.clone();
    font.set("Type", Object::Name(b"Font".to_vec()));
    let Ok(encoding) = font.get_font_encoding_with_limit(document, unpacked) else {
        return Characters::Unknown;
    };
    if let Encoding::SimpleEncoding(b"UniGB-UCS2-H" | b"UniGB-UTF16-H") = encoding {
        return Characters::Utf16;
    }
    if let Encoding::SimpleEncoding(name) = encoding
        && name.windows(4).any(|part| part == b"UCS2" || part == b"TF16")
    {
        return Characters::Utf16;
    }
    if wide {
        return Characters::Unknown;
    }
    Characters::Simple(Box::new(std::array::from_fn(|code| {
        encoding.bytes_to_string(&[code as u8]).unwrap_or_default()
    })))
}

fn simple_widths(document: &Document, font: &Dictionary) -> (HashMap<u16, f64>, f64) {
    let mut widths = HashMap::new();
    let first = font.get(b"FirstChar").and_then(Object::as_i64).unwrap_or(0);
    if let Some(list) = deref(document, font, b"Widths").and_then(|list| list.as_array().ok()) {
        for (i, width) in list.iter().take(256).enumerate() {
            let (Ok(code), Ok(width)) =
                (u16::try_from(first.saturating_add(i as i64)), number(document, width))
            else {
                continue;
            };
            widths.insert(code, width);
        }
        let default = deref(document, font, b"FontDescriptor")
            .and_then(|descriptor| descriptor.as_dict().ok()?.get(b"MissingWidth").ok()?.as_float().ok());
        return (widths, f64::from(default.unwrap_or(0.0)));
    }
    let name =
        font.get(b"BaseFont").and_then(Object::as_name).map(String::from_utf8_lossy).unwrap_or_default();
    for code in 32..=255u8 {
        widths.insert(u16::from(code), standard_width(&name, code));
    }
    (widths, 500.0)
}

fn number(document: &Document, object: &Object) -> lopdf::Result<f64> {
    document.dereference(object)?.1.as_float().map(f64::from)
}

/// Returns the widths of a font with codes of two bytes: `[first [w w w] first last w ...]`.
fn wide_widths(document: &Document, font: &Dictionary) -> (HashMap<u16, f64>, f64) {
    let mut widths = HashMap::new();
    let descendant = deref(document, font, b"DescendantFonts")
        .and_then(|fonts| document.dereference(fonts.as_array().ok()?.first()?).ok()?.1.as_dict().ok());
    let Some(descendant) = descendant else { return (widths, 1000.0) };
    let default = descendant.get(b"DW").and_then(Object::as_float).map_or(1000.0, f64::from);
    let list = deref(document, descendant, b"W").and_then(|list| list.as_array().ok());
    let mut list = list.map(Vec::as_slice).unwrap_or_default();
    while let [first, second, rest @ ..] = list
        && widths.len() < MAX_WIDTHS
    {
        let (Ok(first), Ok((_, second))) = (number(document, first), document.dereference(second)) else {
            break;
        };
        if let Ok(each) = second.as_array() {
            for (i, width) in each.iter().take(MAX_WIDTHS).enumerate() {
                if let Ok(width) = number(document, width) {
                    widths.insert((first as u16).wrapping_add(i as u16), width);
                }
            }
            list = rest;
        } else if let ([width, rest @ ..], Ok(last)) = (rest, second.as_float()) {
            let Ok(width) = number(document, width) else { break };
            for code in first as u16..=last as u16 {
                widths.insert(code, width);
            }
            list = rest;
        } else {
            break;
        }
    }
    (widths, default)
}
