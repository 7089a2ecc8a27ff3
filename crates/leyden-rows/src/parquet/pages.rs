//! The pages of one column in one row group, decompressed one at a time.

use super::bits::{runs, size, take};
use super::footer::{Chunk, Codec, read_at};
use super::schema::Leaf;
use super::thrift::{self, Struct};
use super::{MAX_PAGE_BYTES, Read};
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

/// Bytes in which most heads of pages end.
const HEAD_BYTES: u64 = 1 << 12;
/// Maximum size of the head of a page, which may have statistics, in bytes.
const MAX_HEAD_BYTES: u64 = 16 << 20;
/// Maximum window of zstd in bytes.
const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// A page.
pub(super) enum Page {
    /// Values of the dictionary.
    Dictionary {
        /// Number of values.
        count: usize,
        /// Encoded values.
        values: Vec<u8>,
    },
    /// Rows.
    Data {
        /// Definition level of each entry; empty where all are 0.
        definitions: Vec<u32>,
        /// Repetition level of each entry; empty where all are 0.
        repetitions: Vec<u32>,
        /// Number of entries.
        count: usize,
        /// Encoding of the values.
        encoding: i64,
        /// Encoded values.
        values: Vec<u8>,
    },
}

/// Pages of a column.
pub(super) struct Pages {
    file: Arc<File>,
    chunk: Chunk,
    /// Offset of the next page in bytes.
    at: u64,
    leaf: Leaf,
}

impl Pages {
    /// The pages of a chunk.
    pub(super) fn new(file: Arc<File>, chunk: Chunk, leaf: Leaf) -> Pages {
        Pages { file, chunk, at: chunk.start, leaf }
    }

    /// Reads the next page; `None` at the end.
    pub(super) fn next(&mut self) -> Read<Option<Page>> {
        while self.at < self.chunk.end {
            let (head, length) = self.head()?;
            let compressed = head.size(3, "size of a page")? as u64;
            let start = self.at + length;
            let end = start.checked_add(compressed).filter(|end| *end <= self.chunk.end);
            let end = end.ok_or("a page reaches beyond its column")?;
            let uncompressed = head.size(2, "size of a page")?;
            if uncompressed > MAX_PAGE_BYTES || compressed > MAX_PAGE_BYTES as u64 {
                return Err(format!("a page of more than {} MiB", MAX_PAGE_BYTES >> 20));
            }
            let bytes = read_at(&self.file, start, compressed)?;
            if bytes.len() as u64 != compressed {
                return Err("a page is cut off".to_owned());
            }
            self.at = end;
            match head.int(1) {
                Some(0) => return self.data(&head, &bytes, uncompressed).map(Some),
                Some(3) => return self.data_v2(&head, &bytes, uncompressed).map(Some),
                Some(2) => {
                    let of = head.inner(7).ok_or("a dictionary without a head")?;
                    let values = inflate(self.chunk.codec, &bytes, uncompressed)?;
                    let count = of.size(1, "size of a dictionary")?;
                    return Ok(Some(Page::Dictionary { count, values }));
                }
                // Index pages, and kinds that are not known yet.
                _ => {}
            }
        }
        Ok(None)
    }

    /// Reads the head of a page, and returns its length.
    fn head(&self) -> Read<(Struct, u64)> {
        let left = self.chunk.end - self.at;
        let mut wanted = HEAD_BYTES;
        loop {
            let bytes = read_at(&self.file, self.at, wanted.min(left))?;
            match thrift::read_struct(&bytes) {
                Ok((head, length)) => return Ok((head, length as u64)),
                Err(what) if wanted >= left.min(MAX_HEAD_BYTES) => {
                    return Err(format!("head of a page: {what}"));
                }
                Err(_) => wanted *= 16,
            }
        }
    }

    fn data(&self, head: &Struct, bytes: &[u8], uncompressed: usize) -> Read<Page> {
        let of = head.inner(5).ok_or("a page without a head")?;
        let count = of.size(1, "number of values")?;
        let all = inflate(self.chunk.codec, bytes, uncompressed)?;
        let mut rest = &all[..];
        let Leaf { max_repetition, max_definition, .. } = self.leaf;
        let mut levels = |most: u16, encoding: Option<i64>| {
            if most == 0 {
                return Ok(Vec::new());
            }
            if encoding != Some(3) {
                return Err(format!("levels in encoding {encoding:?}"));
            }
            let length = size(&mut rest)?;
            runs(take(&mut rest, length)?, width(most), count)
        };
        let repetitions = levels(max_repetition, of.int(4))?;
        let definitions = levels(max_definition, of.int(3))?;
        let encoding = of.int(2).unwrap_or(0);
        Ok(Page::Data { definitions, repetitions, count, encoding, values: rest.to_vec() })
    }

    fn data_v2(&self, head: &Struct, bytes: &[u8], uncompressed: usize) -> Read<Page> {
        let of = head.inner(8).ok_or("a page without a head")?;
        let count = of.size(1, "number of values")?;
        let (mut rest, Leaf { max_repetition, max_definition, .. }) = (bytes, self.leaf);
        let repetitions = take(&mut rest, of.size(6, "length of levels")?)?;
        let definitions = take(&mut rest, of.size(5, "length of levels")?)?;
        let left = uncompressed.saturating_sub(bytes.len() - rest.len());
        let values = match of.bool(7) {
            Some(false) => rest.to_vec(),
            _ => inflate(self.chunk.codec, rest, left)?,
        };
        let levels = |bytes: &[u8], most: u16| match most {
            0 => Ok(Vec::new()),
            most => runs(bytes, width(most), count),
        };
        Ok(Page::Data {
            definitions: levels(definitions, max_definition)?,
            repetitions: levels(repetitions, max_repetition)?,
            count,
            encoding: of.int(4).unwrap_or(0),
            values,
        })
    }
}

/// Bits of a number up to `most`.
fn width(most: u16) -> u32 {
    u16::BITS - most.leading_zeros()
}

/// Decompresses `bytes` to `length` bytes.
fn inflate(codec: Codec, bytes: &[u8], length: usize) -> Read<Vec<u8>> {
    if bytes.is_empty() && length == 0 {
        return Ok(Vec::new());
    }
    let limit = length as u64 + 1;
    let mut all = Vec::new();
    let read = match codec {
        Codec::Plain => {
            all = bytes.to_vec();
            Ok(all.len())
        }
        Codec::Snappy => {
            let stated = snap::raw::decompress_len(bytes).map_err(|error| format!("snappy: {error}"))?;
            // A copy of 64 bytes takes 3 at least.
            if stated != length || stated > bytes.len().saturating_mul(24) {
                return Err("snappy: impossible length".to_owned());
            }
            all = snap::raw::Decoder::new()
                .decompress_vec(bytes)
                .map_err(|error| format!("snappy: {error}"))?;
            Ok(all.len())
        }
        Codec::Gzip => flate2::read::MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut all),
        Codec::Zstd => ruzstd::decoding::StreamingDecoder::new_with_max_window_size(bytes, MAX_WINDOW_BYTES)
            .map_err(|error| format!("zstd: {error}"))?
            .take(limit)
            .read_to_end(&mut all),
    };
    let n = read.map_err(|error| format!("a compressed page: {error}"))?;
    match n == length {
        true => Ok(all),
        false => Err(format!("a page of {n} bytes, not {length}")),
    }
}
