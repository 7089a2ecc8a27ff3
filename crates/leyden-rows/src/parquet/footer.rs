//! The footer: schema, and where the columns of each row group lie.

use super::schema::Schema;
use super::thrift::{self, Struct, Value};
use super::{MAGIC, Read};
use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};

/// Maximum size of a footer in bytes.
const MAX_FOOTER_BYTES: u64 = 256 << 20;

/// Compression of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// None.
    Plain,
    /// Snappy.
    Snappy,
    /// Gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// The pages of one column in one row group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    /// Compression.
    pub(super) codec: Codec,
    /// Offset of the first page in bytes.
    pub(super) start: u64,
    /// Offset behind the last page in bytes.
    pub(super) end: u64,
}

/// A row group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// Number of rows.
    pub(super) rows: u64,
    /// Chunks in the order of the columns.
    pub(super) chunks: Vec<Chunk>,
}

/// The footer of a file.
#[derive(Debug)]
pub(super) struct Footer {
    /// Columns.
    pub(super) schema: Schema,
    /// Row groups in order.
    pub(super) groups: Vec<Group>,
}

/// Reads `length` bytes at `offset`; fewer only at the end of the file.
pub(super) fn read_at(file: &File, offset: u64, length: u64) -> Read<Vec<u8>> {
    let mut file = file;
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(length).read_to_end(&mut bytes));
    read.map_err(|error| format!("cannot read: {error}"))?;
    Ok(bytes)
}

impl Footer {
    /// Reads the footer of `file`.
    pub(super) fn read(file: &File) -> Read<Footer> {
        let length = file.metadata().map_err(|error| format!("cannot read: {error}"))?.len();
        let tail_at = length.checked_sub(8).filter(|at| *at >= 4).ok_or("too short")?;
        let tail = read_at(file, tail_at, 8)?;
        match &tail[4..] {
            b"PARE" => return Err("the file is encrypted".to_owned()),
            magic if magic != MAGIC => {
                return Err("it does not end as Parquet does; is it cut off?".to_owned());
            }
            _ => {}
        }
        let size = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        let start = tail_at.checked_sub(size).filter(|_| size <= MAX_FOOTER_BYTES);
        let (footer, _) =
            thrift::read_struct(&read_at(file, start.ok_or("footer: larger than the file")?, size)?)?;
        let schema = Schema::read(footer.list(2))?;
        let groups = footer.list(4).iter().map(|group| match group {
            Value::Struct(group) => read_group(group, &schema, length),
            _ => Err("row groups: not a list of structs".to_owned()),
        });
        let groups = groups.collect::<Read<_>>()?;
        Ok(Footer { schema, groups })
    }
}

fn read_group(group: &Struct, schema: &Schema, length: u64) -> Read<Group> {
    let rows = group.size(3, "number of rows")? as u64;
    let chunks = group.list(1).iter().map(|chunk| match chunk {
        Value::Struct(chunk) => read_chunk(chunk, length),
        _ => Err("columns: not a list of structs".to_owned()),
    });
    let chunks: Vec<Chunk> = chunks.collect::<Read<_>>()?;
    match chunks.len() == schema.leaves.len() {
        true => Ok(Group { rows, chunks }),
        false => Err(format!("a row group of {} columns, not {}", chunks.len(), schema.leaves.len())),
    }
}

fn read_chunk(chunk: &Struct, length: u64) -> Read<Chunk> {
    let of = chunk.inner(3).ok_or("a column without metadata")?;
    let path = || {
        let parts = of.list(3).iter().filter_map(|part| match part {
            Value::Bytes(name) => Some(String::from_utf8_lossy(name).into_owned()),
            _ => None,
        });
        parts.collect::<Vec<_>>().join(".")
    };
    if chunk.text(1).is_some() {
        return Err(format!("column `{}`: lies in another file", path()));
    }
    let codec = match of.int(4) {
        Some(0) => Codec::Plain,
        Some(1) => Codec::Snappy,
        Some(2) => Codec::Gzip,
        Some(6) => Codec::Zstd,
        other => {
            let name = match other {
                Some(3) => "LZO",
                Some(4) => "brotli",
                Some(5 | 7) => "LZ4",
                _ => "an unknown method",
            };
            let what = "which is not read; write the file with snappy, gzip, zstd or none";
            return Err(format!("column `{}`: compressed with {name}, {what}", path()));
        }
    };
    let data = of.size(9, "offset of a column")? as u64;
    // Some writers state 0 for a column without a dictionary.
    let dictionary = of.int(11).and_then(|at| u64::try_from(at).ok()).filter(|at| *at > 0);
    let start = dictionary.map_or(data, |at| at.min(data));
    let end = start.checked_add(of.size(7, "size of a column")? as u64).filter(|end| *end <= length);
    let end = end.ok_or_else(|| format!("column `{}`: lies outside of the file", path()))?;
    Ok(Chunk { codec, start, end })
}
