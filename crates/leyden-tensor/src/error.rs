//! The error type of this crate: a kind, and the file and field where it happened.

use std::fmt::{self, Display};
use std::sync::Arc;

use crate::UnknownDType;

/// An error with the file and the tensor, key or header field where it happened.
///
/// ```
/// use leyden_tensor::{Gguf, WeightSource};
/// let error = Gguf::from_vec(b"GGUF".to_vec(), "model.gguf").unwrap_err();
/// assert_eq!(error.to_string(), "model.gguf: header: file ends early: version needs 4 bytes at byte 4, 0 are left");
/// ```
pub struct Error {
    kind: Box<ErrorKind>,
    at: Context,
}

/// Place where an [`Error`] happened.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Context {
    file: Option<Arc<str>>,
    item: Option<Box<str>>,
}

/// Kind of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// Action that failed, for example `open`.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Part of an open file could not be read: the file was truncated meanwhile, or the disk failed.
    #[error("part of the file could not be read: it was truncated while open, or the disk failed")]
    Shrunk,
    /// The path is a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// The file does not begin with the GGUF magic.
    #[error("not a GGUF file: it looks like {looks_like}")]
    NotGguf {
        /// Format that it looks like.
        looks_like: &'static str,
    },
    /// The file does not begin as a safetensors file does.
    #[error("not a safetensors file: it looks like {looks_like}")]
    NotSafetensors {
        /// Format that it looks like.
        looks_like: &'static str,
    },
    /// A folder lacks a file.
    #[error("the folder has no {wanted}")]
    MissingFile {
        /// The file's name.
        wanted: &'static str,
    },
    /// A text is not valid JSON, or not the JSON that is expected.
    #[error("line {line} column {column}: {}", Escaped(.reason))]
    Json {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// Reason.
        reason: Box<str>,
    },
    /// The file is written in big-endian byte order.
    #[error("big-endian GGUF is not supported: convert the file to little-endian")]
    BigEndian,
    /// The version of the format is neither 2 nor 3.
    #[error("GGUF version {0} is not supported (2 and 3 are)")]
    Version(u32),
    /// The file ends before a field.
    #[error("file ends early: {what} needs {wanted} bytes at byte {offset}, {left} are left")]
    Truncated {
        /// The field.
        what: &'static str,
        /// Offset of the field, in bytes from the start of the file.
        offset: usize,
        /// Number of bytes that the field needs.
        wanted: u64,
        /// Number of bytes that are left.
        left: usize,
    },
    /// A count or length is larger than allowed.
    #[error("{what} is {count}, at most {most} is possible")]
    TooMany {
        /// Name of the count.
        what: &'static str,
        /// The number in the file.
        count: u64,
        /// The largest number that is allowed.
        most: u64,
    },
    /// A text is not UTF-8.
    #[error("{what} is not UTF-8")]
    Utf8 {
        /// Name of the text.
        what: &'static str,
    },
    /// A name or key is empty.
    #[error("{what} is empty")]
    Empty {
        /// Name of the field.
        what: &'static str,
    },
    /// The type number of a metadata value is unknown.
    #[error("unknown metadata value type {0}")]
    ValueType(u32),
    /// An array holds arrays.
    #[error("arrays of arrays are not supported")]
    NestedArray,
    /// A boolean is stored as something other than 0 or 1.
    #[error("boolean stored as {0}, want 0 or 1")]
    BadBool(u8),
    /// `general.alignment` is not a power of two from 1 to [`MAX_ALIGNMENT`](crate::MAX_ALIGNMENT).
    #[error("alignment {0} is not a power of two from 1 to {most}", most = crate::MAX_ALIGNMENT)]
    Alignment(u32),
    /// The same key or tensor name appears twice.
    #[error("{what} appears twice")]
    Duplicate {
        /// `key` or `tensor`.
        what: &'static str,
    },
    /// A required key is absent.
    #[error("required metadata key is missing")]
    MissingKey,
    /// A GLiNER model has no configuration of its encoder.
    #[error("missing, and the folder has no config.json of the encoder")]
    NoEncoderConfig,
    /// A required tensor is absent.
    #[error("required tensor is missing")]
    MissingTensor,
    /// A tensor has another shape than the model needs.
    #[error("shape {found:?} does not match the model's {wanted:?}")]
    Unlike {
        /// The tensor's shape.
        found: Box<[usize]>,
        /// The model's shape.
        wanted: Box<[usize]>,
    },
    /// A tensor has another type or shape than is needed here.
    #[error("want {wanted}")]
    Unfit {
        /// Type or shape that is needed.
        wanted: &'static str,
    },
    /// A value asks for something that is not supported.
    #[error("`{found}` is not supported; supported: {known}")]
    UnsupportedValue {
        /// The value in the file.
        found: String,
        /// The supported values.
        known: String,
    },
    /// A key that asks for something that is not computed, or that nothing is known of.
    #[error("{what}")]
    RefusedKey {
        /// Its value and the reason.
        what: String,
    },
    /// A metadata value has another type than the one asked for.
    #[error("want {wanted}, found {found}")]
    WrongType {
        /// The type asked for.
        wanted: &'static str,
        /// The type in the file.
        found: String,
    },
    /// A metadata number does not fit the type asked for.
    #[error("{value} does not fit {wanted}")]
    OutOfRange {
        /// The type asked for.
        wanted: &'static str,
        /// The number in the file.
        value: String,
    },
    /// The number of dimensions is not 1 to 4.
    #[error("{0} dimensions, want 1 to 4")]
    Dimensions(u32),
    /// A dimension is zero.
    #[error("a dimension is zero")]
    ZeroDimension,
    /// The size of a tensor does not fit the address space.
    #[error("dimensions {dims:?} need more bytes than can be addressed")]
    SizeOverflow {
        /// The dimensions, contiguous one first.
        dims: Vec<u64>,
    },
    /// The row length is not a whole number of blocks.
    #[error("rows of {cols} values are not a multiple of the {block_len} values in a {dtype} block")]
    PartialBlock {
        /// The values in a row.
        cols: u64,
        /// The values in a block.
        block_len: usize,
        /// The name of the type.
        dtype: &'static str,
    },
    /// The offset of a tensor is not a multiple of the alignment.
    #[error("data offset {offset} is not a multiple of the alignment {alignment}")]
    Misaligned {
        /// The offset in the tensor data.
        offset: u64,
        /// The alignment of the file.
        alignment: usize,
    },
    /// A tensor reaches beyond the end of the file.
    #[error("{}", out_of_file(*.end, *.file_len))]
    OutOfFile {
        /// End of the tensor's bytes; `None` if it overflows.
        end: Option<usize>,
        /// The length of the file.
        file_len: usize,
    },
    /// The data of a tensor ends before it begins.
    #[error("data begins at byte {begin} and ends at byte {end}")]
    Offsets {
        /// Begin of the data, in bytes from its start.
        begin: u64,
        /// End of the data.
        end: u64,
    },
    /// Bytes of the data belong to no tensor, in a format that has no gaps.
    #[error("bytes {begin} to {end} of the file belong to no tensor")]
    Gap {
        /// First byte, from the start of the file.
        begin: usize,
        /// End of the bytes.
        end: usize,
    },
    /// A file name in an index is not a plain one, so it could lead out of the folder.
    #[error("{} is not the plain name of a safetensors file in the same folder", Escaped(.0))]
    FileName(Box<str>),
    /// A file has a tensor that its index does not expect there.
    #[error("{}", not_as_indexed(.says.as_deref()))]
    NotAsIndexed {
        /// File that the index names for the tensor, if any.
        says: Option<Box<str>>,
    },
    /// A file lacks a tensor that an index says it has.
    #[error("the tensor is missing here, where {} says it is", Escaped(.index))]
    Indexed {
        /// The index.
        index: Box<str>,
    },
    /// The name of a tensor's type is unknown.
    #[error("tensor type {} is unknown", Escaped(.0))]
    UnknownTypeName(Box<str>),
    /// Two tensors share bytes.
    #[error("data overlaps that of {}", Escaped(.with))]
    Overlap {
        /// The other tensor.
        with: Box<str>,
    },
    /// The file is one part of several, and the other parts' names cannot be told from its name.
    #[error(
        "this is part {no} of {count}: the name of its file must end in {suffix}, so that the others are found"
    )]
    PartName {
        /// Number of the part, from 1.
        no: u32,
        /// Number of parts.
        count: u32,
        /// Suffix that the file's name should have.
        suffix: String,
    },
    /// A number in a file contradicts another file, or the tensors found.
    #[error("is {found}, want {wanted}")]
    Differs {
        /// The expected number.
        wanted: u64,
        /// The number in the file.
        found: u64,
    },
    /// The type of a tensor is not supported.
    #[error("{0}")]
    UnsupportedType(#[source] UnknownDType),
    /// A PyTorch checkpoint is damaged, or contains something other than tensors.
    #[error("{}", Escaped(.0))]
    Torch(Box<str>),
    /// An ONNX model is damaged, or uses something that is not supported.
    #[error("{}", Escaped(.0))]
    Onnx(Box<str>),
    /// A file that was just written reads back differently.
    #[error("the file reads back differently than it was written: the disk or the memory is damaged")]
    ReadBack,
    /// The bytes given for a tensor are too many or too few.
    #[error("{found} bytes given, type and shape need {wanted}")]
    ByteLength {
        /// The bytes that type and shape need.
        wanted: usize,
        /// The bytes given.
        found: usize,
    },
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind), at: Context::default() }
    }

    /// Names the tensor, key or header field, unless one is named already.
    pub(crate) fn item(mut self, item: &str) -> Self {
        self.at.item.get_or_insert_with(|| item.into());
        self
    }

    /// Names the file, unless one is named already.
    pub(crate) fn file(mut self, file: &Arc<str>) -> Self {
        self.at.file.get_or_insert_with(|| Arc::clone(file));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the place of the error.
    pub fn context(&self) -> &Context {
        &self.at
    }
}

impl Context {
    /// Returns the file's name as it was given when opened.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns the tensor, metadata key or header field, exactly as in the file.
    pub fn item(&self) -> Option<&str> {
        self.item.as_deref()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error::new(kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.kind).field("at", &self.at).finish()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("file", &self.file).field("item", &self.item).finish()
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.at.file {
            write!(f, "{file}: ")?;
        }
        if let Some(item) = &self.at.item {
            write!(f, "{}: ", Escaped(item))?;
        }
        self.kind.fmt(f)
    }
}

fn out_of_file(end: Option<usize>, file_len: usize) -> String {
    match end {
        Some(end) => {
            format!("data ends at byte {end}, but the file has {file_len} bytes (truncated download?)")
        }
        None => format!("data lies beyond the address space, the file has {file_len} bytes"),
    }
}

fn not_as_indexed(says: Option<&str>) -> String {
    match says {
        Some(says) => format!("the index says that this tensor is in {}", Escaped(says)),
        None => "the index does not list this tensor".to_owned(),
    }
}

/// Text from a file, made safe for a terminal and a log line: control and direction-changing
/// characters are escaped and long text is cut.
///
/// ```
/// use leyden_tensor::Escaped;
/// assert_eq!(Escaped("red\u{1b}[31m").to_string(), "red\\u{1b}[31m");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARS: usize = 100;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MAX_CHARS) {
            match c {
                '"' | '\'' => write!(f, "{c}")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_file_and_item() {
        let e = Error::new(ErrorKind::MissingKey).item("llama.block_count").file(&"m.gguf".into());
        assert_eq!(e.to_string(), "m.gguf: llama.block_count: required metadata key is missing");
        let e = e.item("other").file(&"other.gguf".into());
        assert_eq!((e.context().file(), e.context().item()), (Some("m.gguf"), Some("llama.block_count")));
    }

    #[test]
    fn display_escapes_what_a_terminal_would_obey() {
        let e = Error::new(ErrorKind::MissingTensor).item("a\u{1b}[31m\n\u{202e}b'");
        assert_eq!(e.to_string(), "a\\u{1b}[31m\\n\\u{202e}b': required tensor is missing");
        let long = Error::new(ErrorKind::MissingTensor).item(&"x".repeat(60_000));
        assert!(long.to_string().len() < 200);
    }
}
