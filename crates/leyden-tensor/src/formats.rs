//! The table of storage formats: name, id and block size of every [`DType`], and of all other types that a GGUF file
//! may have.
//!
//! One table row per type. Nothing outside this file matches on every `DType`: differences between
//! types are columns here.

use std::fmt;

use crate::dtype::{DType, UnknownDType};
use crate::quant::{self, Block};

/// One row of the table of supported types.
pub(crate) struct Info {
    dtype: DType,
    name: &'static str,
    gguf_id: u32,
    block_len: usize,
    block_bytes: usize,
    encodes: bool,
    pub(crate) decode: fn(&[u8], &mut [f32]),
    pub(crate) encode: fn(&[f32], &mut [u8]),
    pub(crate) encode_weighted: fn(&[f32], &[f32], &mut [u8]),
}

const fn row<B: Block>(name: &'static str, gguf_id: u32) -> Info {
    Info {
        dtype: B::DTYPE,
        name,
        gguf_id,
        block_len: B::LEN,
        block_bytes: B::BYTES,
        encodes: B::ENCODES,
        decode: quant::decode_blocks::<B>,
        encode: quant::encode_blocks::<B>,
        encode_weighted: quant::encode_blocks_weighted::<B>,
    }
}

/// Rows in the order of the enum.
static INFO: [Info; 27] = [
    row::<quant::F32>("F32", 0),
    row::<quant::F16>("F16", 1),
    row::<quant::BF16>("BF16", 30),
    row::<quant::Q4_0>("Q4_0", 2),
    row::<quant::Q8_0>("Q8_0", 8),
    row::<quant::Q4K>("Q4_K", 12),
    row::<quant::Q6K>("Q6_K", 14),
    row::<quant::Q4_1>("Q4_1", 3),
    row::<quant::Q5_0>("Q5_0", 6),
    row::<quant::Q5_1>("Q5_1", 7),
    row::<quant::Q2K>("Q2_K", 10),
    row::<quant::Q3K>("Q3_K", 11),
    row::<quant::Q5K>("Q5_K", 13),
    row::<quant::IQ4NL>("IQ4_NL", 20),
    row::<quant::IQ4XS>("IQ4_XS", 23),
    row::<quant::MXFP4>("MXFP4", 39),
    row::<quant::NVFP4>("NVFP4", 40),
    row::<quant::Q1_0>("Q1_0", 41),
    row::<quant::TQ1_0>("TQ1_0", 34),
    row::<quant::TQ2_0>("TQ2_0", 35),
    row::<quant::IQ1S>("IQ1_S", 19),
    row::<quant::IQ1M>("IQ1_M", 29),
    row::<quant::IQ2XXS>("IQ2_XXS", 16),
    row::<quant::IQ2XS>("IQ2_XS", 17),
    row::<quant::IQ2S>("IQ2_S", 22),
    row::<quant::IQ3XXS>("IQ3_XXS", 18),
    row::<quant::IQ3S>("IQ3_S", 21),
];

/// Types that GGUF files may have and this build cannot compute with: id, name, values and bytes of a block. Their
/// sizes are checked all the same. Length 0 marks types that were withdrawn from the format, whose layout is no
/// longer defined.
static FOREIGN: [(u32, &str, usize, usize); 16] = [
    (4, "Q4_2", 0, 0),
    (5, "Q4_3", 0, 0),
    (9, "Q8_1", 32, 36),
    (15, "Q8_K", 256, 292),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (31, "Q4_0_4_4", 0, 0),
    (32, "Q4_0_4_8", 0, 0),
    (33, "Q4_0_8_8", 0, 0),
    (36, "IQ4_NL_4_4", 0, 0),
    (37, "IQ4_NL_4_8", 0, 0),
    (38, "IQ4_NL_8_8", 0, 0),
    (42, "Q2_0", 64, 18),
];

/// Name and block size of a tensor type in a file, supported or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileType {
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    pub(crate) dtype: Option<DType>,
    pub(crate) block_len: usize,
    pub(crate) block_bytes: usize,
}

impl FileType {
    /// Returns the type with this id. Unknown and withdrawn types are errors: without a block size the
    /// size of the tensor cannot be checked.
    pub(crate) fn from_gguf_id(id: u32) -> Result<FileType, UnknownDType> {
        if let Some(info) = INFO.iter().find(|info| info.gguf_id == id) {
            return Ok(info.dtype.file_type());
        }
        match FOREIGN.iter().find(|foreign| foreign.0 == id) {
            Some(&(_, name, block_len, block_bytes)) if block_len > 0 => {
                Ok(FileType { id, name, dtype: None, block_len, block_bytes })
            }
            withdrawn => Err(UnknownDType { id, name: withdrawn.map(|foreign| foreign.1) }),
        }
    }
}

impl DType {
    /// Returns every supported type.
    pub fn all() -> impl ExactSizeIterator<Item = DType> {
        INFO.iter().map(|info| info.dtype)
    }

    /// Returns whether values can be [encoded](quant::encode_row) in this format; all can be decoded.
    pub fn encodes(self) -> bool {
        self.info().encodes
    }

    /// Returns the types that have an encoder.
    pub fn encodable() -> impl Iterator<Item = DType> {
        DType::all().filter(|dtype| dtype.encodes())
    }

    pub(crate) fn info(self) -> &'static Info {
        &INFO[self as usize]
    }

    pub(crate) fn file_type(self) -> FileType {
        let info = self.info();
        FileType {
            id: info.gguf_id,
            name: info.name,
            dtype: Some(self),
            block_len: info.block_len,
            block_bytes: info.block_bytes,
        }
    }

    /// Returns llama.cpp's name, for example `Q4_K`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the number of this type in a GGUF file.
    pub fn gguf_id(self) -> u32 {
        self.info().gguf_id
    }

    /// Returns the number of values in a block; 1 for the float types.
    pub fn block_len(self) -> usize {
        self.info().block_len
    }

    /// Returns the bytes of a block, a count.
    pub fn block_bytes(self) -> usize {
        self.info().block_bytes
    }

    /// Returns the type with this id in a GGUF file.
    ///
    /// # Errors
    /// The id is unknown, or belongs to a type that this build cannot compute with; the error
    /// then has its name.
    pub fn from_gguf_id(id: u32) -> Result<DType, UnknownDType> {
        let known = FileType::from_gguf_id(id)?;
        known.dtype.ok_or(UnknownDType { id, name: Some(known.name) })
    }

    /// Returns the bytes of a row of `cols` values; `None` if `cols` is not a whole number of blocks or the size
    /// overflows.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        let info = self.info();
        if !cols.is_multiple_of(info.block_len) {
            return None;
        }
        (cols / info.block_len).checked_mul(info.block_bytes)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl serde::Serialize for DType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_enum_and_ids_are_unique() {
        let mut ids: Vec<u32> = FOREIGN.iter().map(|f| f.0).collect();
        for (i, info) in INFO.iter().enumerate() {
            assert_eq!(info.dtype as usize, i);
            assert_eq!(DType::from_gguf_id(info.gguf_id), Ok(info.dtype));
            ids.push(info.gguf_id);
        }
        ids.sort_unstable();
        assert_eq!(ids, (0..43).collect::<Vec<_>>(), "each id once");
    }

    #[test]
    fn foreign_types_are_refused_by_name() {
        assert_eq!(DType::from_gguf_id(42), Err(UnknownDType { id: 42, name: Some("Q2_0") }));
        assert_eq!(DType::from_gguf_id(31), Err(UnknownDType { id: 31, name: Some("Q4_0_4_4") }));
        assert_eq!(DType::from_gguf_id(77).unwrap_err().to_string(), "tensor type 77 is unknown");
        assert!(FileType::from_gguf_id(42).is_ok() && FileType::from_gguf_id(31).is_err());
    }

    #[test]
    fn row_bytes_refuses_partial_blocks_and_overflow() {
        assert_eq!(DType::Q4_0.row_bytes(0), Some(0));
        assert_eq!(DType::Q6K.row_bytes(512), Some(420));
        assert_eq!(DType::Q6K.row_bytes(128), None);
        assert_eq!(DType::F32.row_bytes(usize::MAX / 2), None);
    }
}
