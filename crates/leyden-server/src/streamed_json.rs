//! JSON documents whose large parts are serialised while they are sent.
//!
//! A number takes four bytes in memory, about eleven as text and 72 in a JSON tree; a token with twenty alternatives
//! takes twenty kilobytes in a tree. So a document is a small tree with placeholders, and each placeholder's part is
//! serialised straight from the computed values.

use crate::body::{Piece, Reply};
use crate::replies::plain;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use tokio::sync::mpsc;

/// Bytes of text that a part writes at a time.
const PIECE: usize = 64 << 10;
/// Maximum size in bytes of a document that is sent whole, with its length.
const WHOLE: usize = 256 << 10;
/// Maximum number of pieces queued for the client.
const WAITING: usize = 2;

/// Writes more of a part; returns `false` when it has written all of it.
type Part = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

/// Large parts of a document, which are serialised while it is sent.
#[derive(Default)]
pub(crate) struct StreamedJson {
    /// Prefix of all placeholders: random, so that clients cannot guess it. Empty if there are no parts.
    mark: String,
    parts: VecDeque<Option<Part>>,
}

impl fmt::Debug for StreamedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedJson").field("parts", &self.parts.len()).finish_non_exhaustive()
    }
}

impl StreamedJson {
    pub(crate) fn new() -> StreamedJson {
        StreamedJson::default()
    }

    /// Adds a part; returns the mark that stands for it in the tree.
    fn put(&mut self, part: Part) -> Value {
        if self.mark.is_empty() {
            let random = || RandomState::new().build_hasher().finish();
            self.mark = format!("{:016x}{:016x}", random(), random());
        }
        self.parts.push_back(Some(part));
        format!("{}{}", self.mark, self.parts.len() - 1).into()
    }

    /// Adds a value that is written in one go, as a text in base64.
    pub(crate) fn once(&mut self, write: impl FnOnce(&mut Vec<u8>) + Send + 'static) -> Value {
        let mut write = Some(write);
        self.put(Box::new(move |out| {
            if let Some(write) = write.take() {
                write(out);
            }
            false
        }))
    }

    /// Adds a list, whose items `write` writes as JSON.
    pub(crate) fn list<T, I>(
        &mut self,
        items: I,
        mut write: impl FnMut(T, &mut Vec<u8>) + Send + 'static,
    ) -> Value
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
    {
        let (mut items, mut before) = (items.into_iter(), b'[');
        self.put(Box::new(move |out| {
            let full = out.len() + PIECE;
            while out.len() < full {
                let Some(item) = items.next() else {
                    if before == b'[' {
                        out.push(b'[');
                    }
                    out.push(b']');
                    return false;
                };
                out.push(std::mem::replace(&mut before, b','));
                write(item, out);
            }
            true
        }))
    }

    /// Adds a list of numbers.
    pub(crate) fn numbers(&mut self, numbers: Vec<f32>) -> Value {
        self.list(numbers, |number, out| json(&number, out))
    }

    /// Adds a list of rows of `width` numbers each.
    pub(crate) fn rows(&mut self, numbers: Vec<f32>, width: usize) -> Value {
        let count = numbers.len() / width.max(1);
        self.list(0..count, move |row, out| json(&numbers[row * width..(row + 1) * width], out))
    }

    /// Writes the whole document.
    pub(crate) fn write(self, shown: &Value, out: &mut Vec<u8>) {
        let mut writer = self.writer(shown);
        while writer.more(out) {}
    }

    /// Responds with the document, of which a large one is written as the client takes it.
    pub(crate) fn document(self, shown: &Value) -> Response<Reply> {
        let mut writer = self.writer(shown);
        let (mut first, mut more) = (Vec::new(), true);
        while more && first.len() < WHOLE {
            more = writer.more(&mut first);
        }
        if !more {
            return plain(StatusCode::OK, "application/json", first);
        }
        let (pieces, receiver) = mpsc::channel::<Piece>(WAITING);
        tokio::spawn(async move {
            let mut piece = first;
            loop {
                // The client may have gone.
                let next = if more { Piece::More(piece.into()) } else { Piece::Last(piece.into()) };
                if pieces.send(next).await.is_err() || !more {
                    return;
                }
                piece = Vec::with_capacity(PIECE);
                while more && piece.len() < PIECE {
                    more = writer.more(&mut piece);
                }
            }
        });
        let mut response = Response::new(Reply::stream(receiver));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    /// Returns a writer of the document.
    pub(crate) fn writer(self, shown: &Value) -> Writer {
        let StreamedJson { mark, parts } = self;
        let before = if mark.is_empty() { mark } else { format!("\"{mark}") };
        Writer { text: shown.to_string(), at: 0, before, parts, current: None }
    }
}

/// Writes a value as JSON.
pub(crate) fn json(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // Vectors take all bytes, and nothing that is written here has keys that are no texts.
    let _ = serde_json::to_writer(out, value);
}

/// Serialiser of a document with its parts.
pub(crate) struct Writer {
    /// The tree as text, with marks.
    text: String,
    /// Bytes of it that are written.
    at: usize,
    /// The beginning of a mark in the text; empty without parts.
    before: String,
    parts: VecDeque<Option<Part>>,
    current: Option<Part>,
}

impl Writer {
    /// Writes more bytes to `out`; returns `false` when the document is complete.
    pub(crate) fn more(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(part) = &mut self.current {
            if !part(out) {
                self.current = None;
            }
            return true;
        }
        let rest = &self.text[self.at..];
        let found = (!self.before.is_empty()).then(|| rest.find(&self.before)).flatten();
        let Some(found) = found else {
            out.extend_from_slice(rest.as_bytes());
            self.at = self.text.len();
            return false;
        };
        out.extend_from_slice(&rest.as_bytes()[..found]);
        let number = &rest[found + self.before.len()..];
        let digits = number.find('"').unwrap_or(number.len());
        let part = number[..digits].parse().ok().and_then(|number: usize| self.parts.get_mut(number));
        self.current = part.and_then(Option::take);
        self.at += (found + self.before.len() + digits + 1).min(rest.len());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_stand_where_their_marks_were() {
        let mut pieces = StreamedJson::new();
        let big: Vec<f32> = (0..100_000).map(|i| i as f32 / 7.0).collect();
        let shown = json!({
            "a": pieces.numbers(vec![0.1, -2.0, f32::NAN, 1e-30]),
            "text": "\"0\" [",
            "rows": [pieces.rows(vec![1.0, 2.0, 3.0, 4.0], 2), pieces.rows(Vec::new(), 3)],
            "once": pieces.once(|out| json("x\"y", out)),
            "big": pieces.numbers(big.clone()),
            "end": null,
        });
        let mut out = Vec::new();
        pieces.write(&shown, &mut out);
        // Numbers are as short as they can be: 0.1, not 0.10000000149011612.
        let begins = "{\"a\":[0.1,-2.0,null,1e-30],\"text\":";
        assert!(out.starts_with(begins.as_bytes()));
        let read: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read["rows"], json!([[[1.0, 2.0], [3.0, 4.0]], []]));
        assert_eq!(
            (&read["text"], &read["once"], &read["end"]),
            (&json!("\"0\" ["), &json!("x\"y"), &Value::Null)
        );
        let numbers = read["big"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32);
        assert!(numbers.eq(big));
        let mut plain = Vec::new();
        StreamedJson::new().write(&json!({ "a": [1] }), &mut plain);
        assert_eq!(plain, b"{\"a\":[1]}");
    }

    #[test]
    fn a_part_writes_a_bounded_piece_at_a_time() {
        let mut pieces = StreamedJson::new();
        let shown = pieces.numbers(vec![0.5; 200_000]);
        let mut writer = pieces.writer(&shown);
        let (mut longest, mut all, mut more) = (0, 0, true);
        while more {
            let mut out = Vec::new();
            more = writer.more(&mut out);
            (longest, all) = (longest.max(out.len()), all + out.len());
        }
        assert_eq!(all, 200_000 * 4 + 1);
        assert!(longest < PIECE + 64, "{longest}");
    }
}
