//! Types of tensors by their names in safetensors files.

use crate::DType;
use crate::formats::FileType;

/// Maximum number of dimensions of a tensor.
pub(in super::super) const MAX_DIMS: usize = 8;

/// Types by their names in a header. A block is the smallest number of values that fills whole bytes.
const TYPES: [(&str, Kind); 22] = [
    ("F32", Kind::Ours(DType::F32)),
    ("F16", Kind::Ours(DType::F16)),
    ("BF16", Kind::Ours(DType::BF16)),
    // Ids are those of GGUF, where GGUF has the type.
    ("F64", Kind::Foreign(28, 1, 8)),
    ("I8", Kind::Foreign(24, 1, 1)),
    ("I16", Kind::Foreign(25, 1, 2)),
    ("I32", Kind::Foreign(26, 1, 4)),
    ("I64", Kind::Foreign(27, 1, 8)),
    ("BOOL", Kind::Foreign(1 << 31, 1, 1)),
    ("U8", Kind::Foreign(1 << 31 | 1, 1, 1)),
    ("U16", Kind::Foreign(1 << 31 | 2, 1, 2)),
    ("U32", Kind::Foreign(1 << 31 | 3, 1, 4)),
    ("U64", Kind::Foreign(1 << 31 | 4, 1, 8)),
    ("C64", Kind::Foreign(1 << 31 | 5, 1, 8)),
    ("F8_E4M3", Kind::Foreign(1 << 31 | 6, 1, 1)),
    ("F8_E5M2", Kind::Foreign(1 << 31 | 7, 1, 1)),
    ("F8_E8M0", Kind::Foreign(1 << 31 | 8, 1, 1)),
    ("F8_E4M3FNUZ", Kind::Foreign(1 << 31 | 9, 1, 1)),
    ("F8_E5M2FNUZ", Kind::Foreign(1 << 31 | 10, 1, 1)),
    ("F6_E2M3", Kind::Foreign(1 << 31 | 11, 4, 3)),
    ("F6_E3M2", Kind::Foreign(1 << 31 | 12, 4, 3)),
    ("F4", Kind::Foreign(1 << 31 | 13, 2, 1)),
];

#[derive(Clone, Copy)]
enum Kind {
    Ours(DType),
    /// Type id, values and bytes of a block.
    Foreign(u32, usize, usize),
}

/// Returns the description of a type by its name.
pub(in super::super) fn file_type(name: &str) -> Option<FileType> {
    let &(name, kind) = TYPES.iter().find(|row| row.0 == name)?;
    Some(match kind {
        Kind::Ours(dtype) => dtype.file_type(),
        Kind::Foreign(id, block_len, block_bytes) => {
            FileType { id, name, dtype: None, block_len, block_bytes }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_numbers_and_sizes_of_their_own() {
        let mut ids: Vec<u32> = TYPES.iter().map(|row| file_type(row.0).unwrap().id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TYPES.len());
        for (name, _) in TYPES {
            let ty = file_type(name).unwrap();
            assert_eq!((ty.name, ty.dtype.is_some()), (name, ["F32", "F16", "BF16"].contains(&name)));
            // Types that GGUF has too must agree with it.
            if let Ok(known) = FileType::from_gguf_id(ty.id) {
                assert_eq!(
                    (known.name, known.block_len, known.block_bytes),
                    (name, ty.block_len, ty.block_bytes)
                );
            }
        }
    }
}
