//! Text of DOCX: the body, footnotes and endnotes of the archive's XML.

use crate::limits::{Limits, size};
use quick_xml::Reader;
use quick_xml::events::Event;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use zip::ZipArchive;
use zip::result::ZipError;

/// Parts of the archive whose text is read, in their order; the first must exist.
const PARTS: [&str; 3] = ["word/document.xml", "word/footnotes.xml", "word/endnotes.xml"];
/// Maximum number of entries of the archive.
const MAX_ENTRIES: usize = 100_000;
/// Maximum depth of nested elements.
const MAX_DEPTH: usize = 4096;

/// Returns the text of a DOCX file.
///
/// # Errors
/// The archive or its XML is damaged, or exceeds the limits.
pub(crate) fn text(file: File, limits: &Limits) -> Result<String, String> {
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| match error {
        ZipError::InvalidArchive(_) => "no DOCX: not a complete zip archive".to_owned(),
        other => format!("no readable zip archive: {other}"),
    })?;
    if archive.len() > MAX_ENTRIES {
        return Err(format!(
            "{} entries in the archive, more than the limit of {MAX_ENTRIES}",
            archive.len()
        ));
    }
    let mut text = String::new();
    let mut left = limits.unpacked_bytes;
    for (i, part) in PARTS.into_iter().enumerate() {
        let entry = match archive.by_name(part) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) if i > 0 => continue,
            Err(ZipError::FileNotFound) => return Err(format!("no DOCX: the archive lacks {part}")),
            Err(ZipError::UnsupportedArchive(_)) => {
                return Err(format!(
                    "{part} is encrypted or compressed in an unsupported way; save it without a password"
                ));
            }
            Err(error) => return Err(format!("{part}: {error}")),
        };
        let mut entry = entry.take(left + 1);
        let read = body(BufReader::new(&mut entry), &mut text, limits);
        if entry.limit() == 0 {
            return Err(format!("unpacks to more than the limit of {}", size(limits.unpacked_bytes)));
        }
        read.map_err(|what| format!("{part}: {what}"))?;
        left = entry.limit() - 1;
    }
    text.truncate(text.trim_end().len());
    if text.is_empty() {
        return Err("no text in the document".to_owned());
    }
    text.push('\n');
    Ok(text)
}

/// Appends the text of a part.
fn body(xml: impl BufRead, text: &mut String, limits: &Limits) -> Result<(), String> {
    let mut reader = Reader::from_reader(xml);
    let mut buffer = Vec::new();
    // Depth of the current element, and that of the element whose content is skipped.
    let (mut depth, mut skipped) = (0usize, None);
    // Whether the current element holds text of the document.
    let mut in_text = false;
    // Depth in cells of tables: their paragraphs are divided by spaces, not lines.
    let mut cells = 0usize;
    loop {
        buffer.clear();
        let event = match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) if depth > 0 => return Err("damaged XML: it ends within an element".to_owned()),
            Ok(Event::Eof) => return Ok(()),
            Ok(event) => event,
            Err(error) => return Err(format!("damaged XML: {error}")),
        };
        match event {
            Event::Start(tag) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(format!("elements nested deeper than {MAX_DEPTH}"));
                }
                match tag.local_name().as_ref() {
                    // The second form of a drawing's text, and text that a tracked change moved away.
                    "Fallback" | "moveFrom" if skipped.is_none() => skipped = Some(depth),
                    "t" => in_text = skipped.is_none(),
                    "tc" => cells += 1,
                    _ => {}
                }
            }
            Event::End(tag) => {
                let outside = skipped.is_none();
                if skipped == Some(depth) {
                    skipped = None;
                }
                depth = depth.saturating_sub(1);
                match tag.local_name().as_ref() {
                    "t" => in_text = false,
                    "p" if outside => text.push(if cells > 0 { ' ' } else { '\n' }),
                    "tc" => {
                        cells = cells.saturating_sub(1);
                        text.truncate(text.trim_end_matches(' ').len());
                        text.push('\t');
                    }
                    "tr" => {
                        text.truncate(text.trim_end_matches(['\t', ' ']).len());
                        text.push('\n');
                    }
                    _ => {}
                }
            }
            Event::Empty(tag) if skipped.is_none() => match tag.local_name().as_ref() {
                "tab" if in_run(text) => text.push('\t'),
                "br" | "cr" => text.push('\n'),
                "p" => text.push(if cells > 0 { ' ' } else { '\n' }),
                "noBreakHyphen" => text.push('-'),
                _ => {}
            },
            Event::Text(piece) if in_text => text.push_str(&piece),
            Event::CData(piece) if in_text => text.push_str(&piece),
            Event::GeneralRef(reference) if in_text => entity(&reference, text)?,
            _ => {}
        }
        if text.len() > limits.text_bytes {
            return Err(format!("more text than the limit of {}", size(limits.text_bytes as u64)));
        }
    }
}

/// Returns whether a tab belongs to text: tabs at the start of a paragraph are indents or its properties.
fn in_run(text: &str) -> bool {
    !text.is_empty() && !text.ends_with(['\n', '\t'])
}

/// Appends the character of `&name;`.
fn entity(reference: &quick_xml::events::BytesRef<'_>, text: &mut String) -> Result<(), String> {
    if let Some(char) = reference.resolve_char_ref().map_err(|error| format!("damaged text: {error}"))? {
        text.push(char);
        return Ok(());
    }
    text.push_str(quick_xml::escape::resolve_predefined_entity(reference).unwrap_or("\u{fffd}"));
    Ok(())
}
