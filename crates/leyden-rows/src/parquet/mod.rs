//! The Parquet format, as far as rows of models need it.
//!
//! Reading: all physical types, nested columns, data pages of both versions, all encodings that writers choose by themselves,
//! uncompressed, snappy, gzip and zstd. Sizes that a file states are never allocated before its bytes justify them. Writing: flat
//! columns and lists of floats, plain and in snappy.
//!
//! An own reader, as the crate `parquet` changes the features of half of the workspace's dependencies and asserts on damaged files.

mod bits;
mod columns;
mod encodings;
mod footer;
mod pages;
mod read;
mod schema;
mod thrift;
mod values;
mod write;

pub(crate) use read::Parquet;
pub(crate) use write::write;

/// Bytes at both ends of a file.
const MAGIC: &[u8; 4] = b"PAR1";
/// Maximum size of one page in bytes, decompressed; writers aim at 1 MiB.
const MAX_PAGE_BYTES: usize = 256 << 20;

/// Result of reading; the error is the reason, without the file.
type Read<T> = Result<T, String>;
