//! The text layer of PDF: text of the pages' content in the order of drawing, with lines and spaces from the positions.

mod font;
mod layout;
mod matrix;
mod widths;

use crate::limits::{Limits, size};
use font::Font;
use layout::Layout;
use lopdf::content::{Content, Operation};
use lopdf::{Dictionary, Document, LoadOptions, Object, ObjectId, Stream};
use matrix::Matrix;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

/// Maximum depth of forms within forms.
const MAX_FORMS: usize = 12;
/// Maximum depth of saved states.
const MAX_SAVED: usize = 512;
/// Maximum depth of the tree of pages.
const MAX_TREE: usize = 64;

/// Returns the text of a PDF file, and adds to `pages` where each page begins.
///
/// # Errors
/// The file is damaged, encrypted, without text, or exceeds the limits.
pub(crate) fn text(
    bytes: &[u8],
    limits: &Limits,
    end: Instant,
    pages: &mut Vec<usize>,
) -> Result<String, String> {
    if !bytes[..bytes.len().min(1024)].windows(5).any(|window| window == b"%PDF-") {
        return Err("no PDF: it does not begin with %PDF-".to_owned());
    }
    let unpacked = usize::try_from(limits.unpacked_bytes).unwrap_or(usize::MAX);
    let document = Document::load_mem_with_options(bytes, LoadOptions::with_max_decompressed_size(unpacked))
        .map_err(|error| format!("damaged PDF: {}", causes(&error)))?;
    if document.is_encrypted() {
        return Err("encrypted with a password; save it without one".to_owned());
    }
    let mut reader = Reader {
        document: &document,
        limits,
        end,
        unpacked,
        fonts: HashMap::new(),
        layout: Layout::default(),
        glyphs: 0,
        unknown: 0,
        operations: 0,
    };
    for (number, id) in document.page_iter().enumerate() {
        if number == limits.pages {
            return Err(format!("more than the limit of {} pages", limits.pages));
        }
        reader.layout.begin_page();
        pages.push(reader.layout.len());
        reader.page(id).map_err(|what| format!("page {}: {what}", number + 1))?;
    }
    if pages.is_empty() {
        return Err("damaged PDF: no pages".to_owned());
    }
    let (glyphs, unknown) = (reader.glyphs, reader.unknown);
    let text = reader.layout.finish();
    for page in pages.iter_mut() {
        *page = (*page).min(text.len());
    }
    if text.is_empty() {
        return Err(if glyphs == 0 {
            "no text layer: the pages are pictures, as of a scan; recognise the text first (OCR, for example ocrmypdf)".to_owned()
        } else {
            format!(
                "its fonts do not tell the characters of {unknown} glyphs; recognise the text first (OCR, for example ocrmypdf)"
            )
        });
    }
    Ok(text)
}

/// Returns an error's message with those of its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        message = format!("{message}: {cause}");
        next = cause.source();
    }
    message
}

/// Reading of pages.
struct Reader<'a> {
    document: &'a Document,
    limits: &'a Limits,
    end: Instant,
    /// Bytes that streams may still unpack to.
    unpacked: usize,
    /// Fonts by the object that defines them.
    fonts: HashMap<ObjectId, Rc<Font>>,
    layout: Layout,
    /// Glyphs that were shown, and those whose characters are unknown.
    glyphs: u64,
    unknown: u64,
    operations: u64,
}

/// Text state, which `q` saves and `Q` restores.
#[derive(Clone)]
struct State {
    to_page: Matrix,
    font: Option<Rc<Font>>,
    size: f64,
    char_space: f64,
    word_space: f64,
    scale: f64,
    leading: f64,
    rise: f64,
}

impl<'a> Reader<'a> {
    fn page(&mut self, id: ObjectId) -> Result<(), String> {
        let Ok(page) = self.document.get_dictionary(id) else { return Ok(()) };
        let content = match self.document.get_page_content_with_limit(id, self.unpacked) {
            Ok(content) => content,
            Err(error) => return Err(self.unpacking(&error)),
        };
        self.unpacked = self.unpacked.saturating_sub(content.len());
        let resources = self.inherited_resources(page);
        self.content(&content, resources, Matrix::IDENTITY, 0)
    }

    fn unpacking(&self, error: &lopdf::Error) -> String {
        match error {
            lopdf::Error::Decompress(lopdf::DecompressError::MemoryLimitExceeded { .. }) => {
                format!("unpacks to more than the limit of {}", size(self.limits.unpacked_bytes))
            }
            other => format!("damaged content: {}", causes(other)),
        }
    }

    /// Returns the resources of a page, or those of the nearest node above it.
    fn inherited_resources(&self, page: &'a Dictionary) -> Option<&'a Dictionary> {
        let mut node = page;
        for _ in 0..MAX_TREE {
            if let Some(resources) = self.dictionary(node, b"Resources") {
                return Some(resources);
            }
            node = self.dictionary(node, b"Parent")?;
        }
        None
    }

    /// Returns a dictionary's entry, itself a dictionary.
    fn dictionary(&self, of: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
        let (_, object) = self.document.dereference(of.get(key).ok()?).ok()?;
        object.as_dict().ok()
    }

    fn content(
        &mut self,
        content: &[u8],
        resources: Option<&'a Dictionary>,
        to_page: Matrix,
        depth: usize,
    ) -> Result<(), String> {
        let mut state = State {
            to_page,
            font: None,
            size: 0.0,
            char_space: 0.0,
            word_space: 0.0,
            scale: 1.0,
            leading: 0.0,
            rise: 0.0,
        };
        let mut saved = Vec::new();
        let (mut line, mut text) = (Matrix::IDENTITY, Matrix::IDENTITY);
        for operation in Content::decode_iter(content) {
            // Text before a damaged place is kept, as viewers show it.
            let Ok(Operation { operator, operands }) = operation else { break };
            self.operations += 1;
            if self.operations.is_multiple_of(256) && Instant::now() > self.end {
                return Err(format!("not read within the limit of {} seconds", self.limits.seconds));
            }
            if self.layout.len() > self.limits.text_bytes {
                return Err(format!("more text than the limit of {}", size(self.limits.text_bytes as u64)));
            }
            let number =
                |i: usize| operands.get(i).and_then(|operand| operand.as_float().ok()).map_or(0.0, f64::from);
            match operator.as_str() {
                "q" if saved.len() < MAX_SAVED => saved.push(state.clone()),
                "Q" => state = saved.pop().unwrap_or(state),
                "cm" => state.to_page = Matrix::of(number).then(&state.to_page),
                "BT" => (line, text) = (Matrix::IDENTITY, Matrix::IDENTITY),
                "Tf" => {
                    state.font = operands
                        .first()
                        .and_then(|name| name.as_name().ok())
                        .and_then(|name| self.font(resources, name));
                    state.size = number(1);
                }
                "Tc" => state.char_space = number(0),
                "Tw" => state.word_space = number(0),
                "Tz" => state.scale = number(0) / 100.0,
                "TL" => state.leading = number(0),
                "Ts" => state.rise = number(0),
                "Td" => line = Matrix::shift(number(0), number(1)).then(&line),
                "TD" => {
                    state.leading = -number(1);
                    line = Matrix::shift(number(0), number(1)).then(&line);
                }
                "Tm" => line = Matrix::of(number),
                "T*" | "'" | "\"" => {
                    if operator == "\"" {
                        (state.word_space, state.char_space) = (number(0), number(1));
                    }
                    line = Matrix::shift(0.0, -state.leading).then(&line);
                }
                _ => {}
            }
            if matches!(operator.as_str(), "Td" | "TD" | "Tm" | "T*" | "'" | "\"") {
                text = line;
            }
            match operator.as_str() {
                "Tj" | "'" | "\"" | "TJ" => {
                    for operand in &operands {
                        self.show(operand, &state, &mut text);
                    }
                }
                "Do" if depth < MAX_FORMS => {
                    if let Some(name) = operands.first().and_then(|name| name.as_name().ok()) {
                        self.form(resources, name, &state, depth)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Shows a string, or an array of strings and shifts.
    fn show(&mut self, operand: &Object, state: &State, text: &mut Matrix) {
        match operand {
            Object::String(bytes, _) => self.show_string(bytes, state, text),
            Object::Array(items) => {
                for item in items {
                    match item {
                        Object::String(bytes, _) => self.show_string(bytes, state, text),
                        other => {
                            let shift = other.as_float().map_or(0.0, f64::from);
                            *text = Matrix::shift(-shift / 1000.0 * state.size * state.scale, 0.0).then(text);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn show_string(&mut self, bytes: &[u8], state: &State, text: &mut Matrix) {
        let Some(font) = &state.font else { return };
        let shown = font.decode(bytes);
        self.glyphs += shown.glyphs as u64;
        self.unknown += shown.unknown as u64;
        let spaces = shown.text.bytes().filter(|&byte| byte == b' ').count();
        let advance = (shown.width * state.size
            + state.char_space * shown.glyphs as f64
            + state.word_space * spaces as f64)
            * state.scale;
        let start = Matrix::shift(0.0, state.rise).then(text).then(&state.to_page);
        *text = Matrix::shift(advance, 0.0).then(text);
        let end = Matrix::shift(0.0, state.rise).then(text).then(&state.to_page);
        self.layout.place(&shown.text, &start, &end, state.size);
    }

    fn font(&mut self, resources: Option<&'a Dictionary>, name: &[u8]) -> Option<Rc<Font>> {
        let object = self.dictionary(resources?, b"Font")?.get(name).ok()?;
        let (id, object) = self.document.dereference(object).ok()?;
        if let Some(font) = id.and_then(|id| self.fonts.get(&id)) {
            return Some(Rc::clone(font));
        }
        let (font, unpacked) = Font::new(self.document, object.as_dict().ok()?, self.unpacked);
        self.unpacked = self.unpacked.saturating_sub(unpacked);
        let font = Rc::new(font);
        if let Some(id) = id {
            self.fonts.insert(id, Rc::clone(&font));
        }
        Some(font)
    }

    fn form(
        &mut self,
        resources: Option<&'a Dictionary>,
        name: &[u8],
        state: &State,
        depth: usize,
    ) -> Result<(), String> {
        let stream = || -> Option<&'a Stream> {
            let object = self.dictionary(resources?, b"XObject")?.get(name).ok()?;
            let stream = self.document.dereference(object).ok()?.1.as_stream().ok()?;
            (stream.dict.get(b"Subtype").ok()?.as_name().ok()? == b"Form").then_some(stream)
        };
        let Some(stream) = stream() else { return Ok(()) };
        let content = match stream.get_plain_content_with_limit(self.unpacked) {
            Ok(content) => content,
            Err(error @ lopdf::Error::Decompress(_)) => return Err(self.unpacking(&error)),
            Err(_) => return Ok(()),
        };
        // A form without content costs as well.
        self.unpacked = self.unpacked.saturating_sub(content.len().max(64));
        if self.unpacked == 0 {
            return Err(format!("unpacks to more than the limit of {}", size(self.limits.unpacked_bytes)));
        }
        let matrix = stream.dict.get(b"Matrix").ok().and_then(|matrix| matrix.as_array().ok()).map_or(
            Matrix::IDENTITY,
            |values| {
                Matrix::of(|i| values.get(i).and_then(|value| value.as_float().ok()).map_or(0.0, f64::from))
            },
        );
        let own = self.dictionary(&stream.dict, b"Resources").or(resources);
        self.content(&content, own, matrix.then(&state.to_page), depth + 1)
    }
}
