//! Writing: plain values in snappy, one page per column and row group.
//!
//! A column is of booleans, integers, doubles or texts, by what its rows have; the field `embedding` is a list of floats. A column
//! of anything else has JSON texts.

use super::MAGIC;
use super::thrift::Writer;
use crate::Error;
use crate::target::Rows;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::path::Path;

/// Maximum number of rows of a row group.
const GROUP_ROWS: usize = 8192;
/// Size of the rows of a group as JSON, in bytes, from which on it is written.
const GROUP_BYTES: usize = 64 << 20;
/// Field with a vector.
const VECTOR: &str = "embedding";

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    Double,
    Text,
    Floats,
    Json,
}

impl Kind {
    /// The type of one value; `None` for `null`, which every type has.
    fn of(column: &str, value: &Value) -> Option<Kind> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => Kind::Bool,
            Value::Number(x) if x.is_i64() => Kind::Int,
            Value::Number(x) if x.is_f64() => Kind::Double,
            Value::String(_) => Kind::Text,
            Value::Array(all) if column == VECTOR && all.iter().all(Value::is_number) => Kind::Floats,
            _ => Kind::Json,
        })
    }

    /// The type that holds both.
    fn with(self, other: Kind) -> Kind {
        match (self, other) {
            (a, b) if a == b => a,
            (Kind::Int, Kind::Double) | (Kind::Double, Kind::Int) => Kind::Double,
            _ => Kind::Json,
        }
    }

    /// Number of the physical type.
    fn physical(self) -> i64 {
        match self {
            Kind::Bool => 0,
            Kind::Int => 2,
            Kind::Floats => 4,
            Kind::Double => 5,
            Kind::Text | Kind::Json => 6,
        }
    }
}

/// A column of a row group that was written.
struct Chunk {
    /// Offset of its page in bytes.
    at: u64,
    /// Length of page and head in bytes, compressed and not.
    length: (u64, u64),
    entries: usize,
}

/// Writes all rows.
pub(crate) fn write(path: &Path, rows: &mut Rows<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let failed = |error: io::Error| Error::write(path, &error);
    let columns = rows.columns()?;
    let mut kinds: Vec<Option<Kind>> = vec![None; columns.len()];
    rows.each(|row| {
        for (column, kind) in columns.iter().zip(&mut kinds) {
            if let Some(found) = row.get(column).and_then(|value| Kind::of(column, value)) {
                *kind = Some(kind.map_or(found, |kind| kind.with(found)));
            }
        }
        Ok(())
    })?;
    let kinds = kinds.into_iter().map(|kind| kind.unwrap_or(Kind::Text));
    let table: Vec<(String, Kind)> = columns.into_iter().zip(kinds).collect();
    out.write_all(MAGIC).map_err(failed)?;
    let mut at = MAGIC.len() as u64;
    let mut groups: Vec<(usize, Vec<Chunk>)> = Vec::new();
    let mut waiting: Vec<Map<String, Value>> = Vec::new();
    let mut size = 0;
    let mut flush = |waiting: &mut Vec<Map<String, Value>>| {
        let chunks = table.iter().map(|(column, kind)| {
            let cells: Vec<&Value> =
                waiting.iter().map(|row| row.get(column).unwrap_or(&Value::Null)).collect();
            let (bytes, uncompressed, entries) = page(*kind, &cells)?;
            out.write_all(&bytes)?;
            let chunk = Chunk { at, length: (bytes.len() as u64, uncompressed), entries };
            at += bytes.len() as u64;
            Ok(chunk)
        });
        let chunks = chunks.collect::<io::Result<Vec<Chunk>>>().map_err(failed)?;
        groups.push((waiting.len(), chunks));
        waiting.clear();
        Ok(())
    };
    rows.each(|row| {
        size += row.iter().map(|(_, value)| value.to_string().len()).sum::<usize>();
        waiting.push(row);
        if waiting.len() == GROUP_ROWS || size > GROUP_BYTES {
            size = 0;
            flush(&mut waiting)?;
        }
        Ok(())
    })?;
    if !waiting.is_empty() {
        flush(&mut waiting)?;
    }
    let footer = footer(&table, &groups);
    let length = u32::try_from(footer.len()).map_err(|_| Error::of(path, "too many rows for one file"))?;
    out.write_all(&footer)
        .and_then(|()| out.write_all(&length.to_le_bytes()))
        .and_then(|()| out.write_all(MAGIC))
        .map_err(failed)
}

/// Appends levels of `width` bits behind their length: runs of equal levels.
fn levels(to: &mut Vec<u8>, levels: &[u8]) {
    let mut packed = Vec::new();
    for run in levels.chunk_by(|a, b| a == b) {
        let mut head = (run.len() as u64) << 1;
        while head >= 0x80 {
            packed.push(head as u8 | 0x80);
            head >>= 7;
        }
        packed.push(head as u8);
        packed.push(run[0]);
    }
    to.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    to.extend_from_slice(&packed);
}

/// Makes the page of a column with its head, and returns its uncompressed length and the number of its entries.
fn page(kind: Kind, cells: &[&Value]) -> io::Result<(Vec<u8>, u64, usize)> {
    let mut values = Vec::new();
    let mut entries = cells.len();
    let mut body = Vec::new();
    if kind == Kind::Floats {
        // Definition: 0 without a list, 1 for an empty one, 2 with a number. Repetition: 0 for the first number of a row.
        let (mut defined, mut repeated) = (Vec::new(), Vec::new());
        for cell in cells {
            match cell.as_array().map(Vec::as_slice) {
                None | Some([]) => {
                    defined.push(u8::from(cell.is_array()));
                    repeated.push(0);
                }
                Some(numbers) => {
                    defined.resize(defined.len() + numbers.len(), 2);
                    repeated.push(0);
                    repeated.resize(defined.len(), 1);
                    let floats = numbers.iter().map(|x| x.as_f64().unwrap_or(f64::NAN) as f32);
                    floats.for_each(|x| values.extend_from_slice(&x.to_le_bytes()));
                }
            }
        }
        entries = defined.len();
        levels(&mut body, &repeated);
        levels(&mut body, &defined);
    } else {
        let defined: Vec<u8> = cells.iter().map(|cell| u8::from(!cell.is_null())).collect();
        levels(&mut body, &defined);
        let present = cells.iter().copied().filter(|cell| !cell.is_null());
        match kind {
            Kind::Bool => {
                for (i, cell) in present.enumerate() {
                    if i % 8 == 0 {
                        values.push(0);
                    }
                    values[i / 8] |= u8::from(cell.as_bool().unwrap_or(false)) << (i % 8);
                }
            }
            Kind::Int => present.for_each(|x| values.extend(x.as_i64().unwrap_or(0).to_le_bytes())),
            Kind::Double => present.for_each(|x| values.extend(x.as_f64().unwrap_or(f64::NAN).to_le_bytes())),
            Kind::Text | Kind::Json | Kind::Floats => {
                for cell in present {
                    let text = match (kind, cell) {
                        (Kind::Text, Value::String(text)) => text.clone(),
                        (_, other) => other.to_string(),
                    };
                    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
                    values.extend(length.to_le_bytes());
                    values.extend(text.into_bytes());
                }
            }
        }
    }
    body.append(&mut values);
    let packed = snap::raw::Encoder::new().compress_vec(&body).map_err(io::Error::other)?;
    let size = |n: usize| i32::try_from(n).map(i64::from).map_err(|_| io::ErrorKind::FileTooLarge);
    let mut head = Writer::new();
    head.int(1, 0);
    head.int(2, size(body.len())?);
    head.int(3, size(packed.len())?);
    let count = size(entries)?;
    head.inner(5, |of| {
        of.int(1, count);
        // Plain values; levels in runs.
        [(2, 0), (3, 3), (4, 3)].into_iter().for_each(|(id, encoding)| of.int(id, encoding));
    });
    let mut bytes = head.finish();
    let uncompressed = (bytes.len() + body.len()) as u64;
    bytes.extend_from_slice(&packed);
    Ok((bytes, uncompressed, entries))
}

/// Makes the footer.
fn footer(table: &[(String, Kind)], groups: &[(usize, Vec<Chunk>)]) -> Vec<u8> {
    let mut footer = Writer::new();
    footer.int(1, 1);
    let elements: usize = table.iter().map(|(_, kind)| if *kind == Kind::Floats { 3 } else { 1 }).sum();
    footer.list(2, 12, elements + 1);
    footer.element(|root| {
        root.text(4, "rows");
        root.int(5, table.len() as i64);
    });
    for (name, kind) in table {
        declare(&mut footer, name, *kind);
    }
    footer.long(3, groups.iter().map(|(rows, _)| *rows as i64).sum());
    footer.list(4, 12, groups.len());
    for (rows, chunks) in groups {
        footer.element(|group| {
            group.list(1, 12, chunks.len());
            for ((name, kind), chunk) in table.iter().zip(chunks) {
                group.element(|column| {
                    column.long(2, chunk.at as i64);
                    column.inner(3, |of| describe(of, name, *kind, chunk));
                });
            }
            group.long(2, chunks.iter().map(|chunk| chunk.length.1 as i64).sum());
            group.long(3, *rows as i64);
        });
    }
    footer.text(6, concat!("leyden ", env!("CARGO_PKG_VERSION")));
    footer.finish()
}

/// Declares a column in the schema.
fn declare(footer: &mut Writer, name: &str, kind: Kind) {
    if kind == Kind::Floats {
        footer.element(|list| {
            list.int(3, 1);
            list.text(4, name);
            list.int(5, 1);
            list.int(6, 3);
            list.inner(10, |logical| logical.inner(3, |_| {}));
        });
        footer.element(|entries| {
            entries.int(3, 2);
            entries.text(4, "list");
            entries.int(5, 1);
        });
        footer.element(|element| {
            element.int(1, kind.physical());
            element.int(3, 0);
            element.text(4, "element");
        });
        return;
    }
    footer.element(|column| {
        column.int(1, kind.physical());
        column.int(3, 1);
        column.text(4, name);
        if matches!(kind, Kind::Text | Kind::Json) {
            column.int(6, 0);
            column.inner(10, |logical| logical.inner(1, |_| {}));
        }
    });
}

/// Describes a column of a row group.
fn describe(of: &mut Writer, name: &str, kind: Kind, chunk: &Chunk) {
    of.int(1, kind.physical());
    // Plain and runs.
    of.list(2, 5, 2);
    [0, 3].into_iter().for_each(|encoding| of.raw_int(encoding));
    let path: &[&str] = if kind == Kind::Floats { &[name, "list", "element"] } else { &[name] };
    of.list(3, 8, path.len());
    path.iter().for_each(|part| of.raw_text(part));
    // Snappy.
    of.int(4, 1);
    of.long(5, chunk.entries as i64);
    of.long(6, chunk.length.1 as i64);
    of.long(7, chunk.length.0 as i64);
    of.long(9, chunk.at as i64);
}
