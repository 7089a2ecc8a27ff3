//! The one error type of this crate: what went wrong, and in which file and field.

use std::fmt::{self, Display};
use std::sync::Arc;

use crate::UnknownDType;

/// An error that names the file and the tensor, key or header field it is about.
///
/// ```
/// use leyden_tensor::{Gguf, WeightSource};
/// let error = Gguf::from_vec(b"GGUF".to_vec(), "model.gguf").unwrap_err();
/// assert_eq!(error.to_string(), "model.gguf: header: file ends early: byte 4 should begin 4 bytes of version, 0 are left");
/// ```
pub struct Error {
    kind: Box<ErrorKind>,
    at: Context,
}

/// Where an [`Error`] happened.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Context {
    file: Option<Arc<str>>,
    item: Option<Box<str>>,
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused.
    Io {
        /// What was being done, for example `open`.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Part of an open file could not be read: the file was truncated meanwhile, or the disk failed.
    Shrunk,
    /// The path is a directory, a pipe or a device.
    NotAFile,
    /// The file does not begin with the GGUF magic.
    NotGguf {
        /// What it looks like instead.
        looks_like: &'static str,
    },
    /// The file does not begin as a safetensors file does.
    NotSafetensors {
        /// What it looks like instead.
        looks_like: &'static str,
    },
    /// A folder lacks a file.
    MissingFile {
        /// The file's name.
        wanted: &'static str,
    },
    /// Text is not the JSON that it should be.
    Json {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// What is wrong there.
        reason: Box<str>,
    },
    /// The file is written in big-endian byte order.
    BigEndian,
    /// The version of the format is neither 2 nor 3.
    Version(u32),
    /// The file ends before a field.
    Truncated {
        /// The field.
        what: &'static str,
        /// Where the field begins, in bytes from the start of the file.
        offset: usize,
        /// The bytes that the field needs.
        wanted: u64,
        /// The bytes that are left.
        left: usize,
    },
    /// A count or length is larger than allowed.
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The number in the file.
        count: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// Text that must be UTF-8 is not.
    Utf8 {
        /// Which text.
        what: &'static str,
    },
    /// A name or key is empty.
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// The type number of a metadata value is unknown.
    ValueType(u32),
    /// An array holds arrays.
    NestedArray,
    /// A boolean is stored as something other than 0 or 1.
    BadBool(u8),
    /// `general.alignment` is not a power of two from 1 to [`MAX_ALIGNMENT`](crate::MAX_ALIGNMENT).
    Alignment(u32),
    /// The same key or tensor name appears twice.
    Duplicate {
        /// `key` or `tensor`.
        what: &'static str,
    },
    /// A required key is absent.
    MissingKey,
    /// A required tensor is absent.
    MissingTensor,
    /// A metadata value has another type than the one asked for.
    WrongType {
        /// The type asked for.
        wanted: &'static str,
        /// The type in the file.
        found: String,
    },
    /// A metadata number does not fit the type asked for.
    OutOfRange {
        /// The type asked for.
        wanted: &'static str,
        /// The number in the file.
        value: String,
    },
    /// The number of dimensions is not 1 to 4.
    Dimensions(u32),
    /// A dimension is zero.
    ZeroDimension,
    /// The size of a tensor does not fit the address space.
    SizeOverflow {
        /// The dimensions, contiguous one first.
        dims: Vec<u64>,
    },
    /// The row length is not a whole number of blocks.
    PartialBlock {
        /// The values in a row.
        cols: u64,
        /// The values in a block.
        block_len: usize,
        /// The name of the type.
        dtype: &'static str,
    },
    /// The offset of a tensor is not a multiple of the alignment.
    Misaligned {
        /// The offset in the tensor data.
        offset: u64,
        /// The alignment of the file.
        alignment: usize,
    },
    /// A tensor reaches beyond the end of the file.
    OutOfFile {
        /// Where the tensor's bytes would end.
        end: Option<usize>,
        /// The length of the file.
        file_len: usize,
    },
    /// The data of a tensor ends before it begins.
    Offsets {
        /// Where it begins, in bytes from the start of the data.
        begin: u64,
        /// Where it ends.
        end: u64,
    },
    /// Bytes of the data belong to no tensor, in a format that has no gaps.
    Gap {
        /// Where they begin, in bytes from the start of the file.
        begin: usize,
        /// Where they end.
        end: usize,
    },
    /// A file name in an index is not a plain one, so it could lead out of the folder.
    FileName(Box<str>),
    /// A file has a tensor that its index does not expect there.
    NotAsIndexed {
        /// The file that the index names, if it names one.
        says: Option<Box<str>>,
    },
    /// A file lacks a tensor that an index says it has.
    Indexed {
        /// The index.
        index: Box<str>,
    },
    /// The name of a tensor's type is unknown.
    UnknownTypeName(Box<str>),
    /// Two tensors share bytes.
    Overlap {
        /// The other tensor.
        with: Box<str>,
    },
    /// The file is one part of several, and its name does not tell those of the others.
    PartName {
        /// Which part it is, from 1.
        no: u32,
        /// How many parts there are.
        count: u32,
        /// How the file's name should end.
        suffix: String,
    },
    /// A number in a file contradicts what was found elsewhere.
    Differs {
        /// What was found elsewhere.
        wanted: u64,
        /// The number in the file.
        found: u64,
    },
    /// The type of a tensor cannot be computed with.
    UnsupportedType(UnknownDType),
    /// The bytes given for a tensor are too many or too few.
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

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Where it went wrong.
    pub fn context(&self) -> &Context {
        &self.at
    }
}

impl Context {
    /// The file as it was named when opened.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The tensor, metadata key or header field, exactly as in the file.
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
        match &*self.kind {
            ErrorKind::Io { source, .. } => Some(source),
            ErrorKind::UnsupportedType(unknown) => Some(unknown),
            _ => None,
        }
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

impl Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Io { action, source } => write!(f, "cannot {action}: {source}"),
            ErrorKind::Shrunk => {
                write!(
                    f,
                    "part of the file could not be read: it was truncated while open, or the disk failed"
                )
            }
            ErrorKind::NotAFile => write!(f, "not a regular file"),
            ErrorKind::NotGguf { looks_like } => write!(f, "not a GGUF file: it looks like {looks_like}"),
            ErrorKind::NotSafetensors { looks_like } => {
                write!(f, "not a safetensors file: it looks like {looks_like}")
            }
            ErrorKind::MissingFile { wanted } => write!(f, "the folder has no {wanted}"),
            ErrorKind::Json { line, column, reason } => {
                write!(f, "line {line} column {column}: {}", Escaped(reason))
            }
            ErrorKind::BigEndian => {
                write!(f, "big-endian GGUF is not supported: convert the file to little-endian")
            }
            ErrorKind::Version(v) => write!(f, "GGUF version {v} is not supported (2 and 3 are)"),
            ErrorKind::Truncated { what, offset, wanted, left } => {
                write!(
                    f,
                    "file ends early: byte {offset} should begin {wanted} bytes of {what}, {left} are left"
                )
            }
            ErrorKind::TooMany { what, count, most } => {
                write!(f, "{what} is {count}, at most {most} is possible")
            }
            ErrorKind::Utf8 { what } => write!(f, "{what} is not UTF-8"),
            ErrorKind::Empty { what } => write!(f, "{what} is empty"),
            ErrorKind::ValueType(id) => write!(f, "unknown metadata value type {id}"),
            ErrorKind::NestedArray => write!(f, "arrays of arrays are not supported"),
            ErrorKind::BadBool(byte) => write!(f, "boolean stored as {byte}, want 0 or 1"),
            ErrorKind::Alignment(n) => {
                write!(f, "alignment {n} is not a power of two from 1 to {}", crate::MAX_ALIGNMENT)
            }
            ErrorKind::Duplicate { what } => write!(f, "{what} appears twice"),
            ErrorKind::MissingKey => write!(f, "required metadata key is missing"),
            ErrorKind::MissingTensor => write!(f, "required tensor is missing"),
            ErrorKind::WrongType { wanted, found } => write!(f, "want {wanted}, found {found}"),
            ErrorKind::OutOfRange { wanted, value } => write!(f, "{value} does not fit {wanted}"),
            ErrorKind::Dimensions(n) => write!(f, "{n} dimensions, want 1 to 4"),
            ErrorKind::ZeroDimension => write!(f, "a dimension is zero"),
            ErrorKind::SizeOverflow { dims } => {
                write!(f, "dimensions {dims:?} need more bytes than can be addressed")
            }
            ErrorKind::PartialBlock { cols, block_len, dtype } => {
                write!(
                    f,
                    "rows of {cols} values are not a multiple of the {block_len} values in a {dtype} block"
                )
            }
            ErrorKind::Misaligned { offset, alignment } => {
                write!(f, "data offset {offset} is not a multiple of the alignment {alignment}")
            }
            ErrorKind::OutOfFile { end: Some(end), file_len } => {
                write!(f, "data ends at byte {end}, but the file has {file_len} bytes (truncated download?)")
            }
            ErrorKind::OutOfFile { end: None, file_len } => {
                write!(f, "data lies beyond the address space, the file has {file_len} bytes")
            }
            ErrorKind::Offsets { begin, end } => {
                write!(f, "data begins at byte {begin} and ends at byte {end}")
            }
            ErrorKind::Gap { begin, end } => {
                write!(f, "bytes {begin} to {end} of the file belong to no tensor")
            }
            ErrorKind::FileName(name) => {
                write!(f, "{} is not the plain name of a safetensors file in the same folder", Escaped(name))
            }
            ErrorKind::NotAsIndexed { says: Some(says) } => {
                write!(f, "the index says that this tensor is in {}", Escaped(says))
            }
            ErrorKind::NotAsIndexed { says: None } => write!(f, "the index does not list this tensor"),
            ErrorKind::Indexed { index } => {
                write!(f, "the tensor is missing here, where {} says it is", Escaped(index))
            }
            ErrorKind::UnknownTypeName(name) => write!(f, "tensor type {} is unknown", Escaped(name)),
            ErrorKind::Overlap { with } => write!(f, "data overlaps that of {}", Escaped(with)),
            ErrorKind::PartName { no, count, suffix } => {
                write!(
                    f,
                    "this is part {no} of {count}: the name of its file must end in {suffix}, so that the others are found"
                )
            }
            ErrorKind::Differs { wanted, found } => write!(f, "is {found}, want {wanted}"),
            ErrorKind::UnsupportedType(unknown) => unknown.fmt(f),
            ErrorKind::ByteLength { wanted, found } => {
                write!(f, "{found} bytes given, type and shape need {wanted}")
            }
        }
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
        const MOST: usize = 100;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MOST) {
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
