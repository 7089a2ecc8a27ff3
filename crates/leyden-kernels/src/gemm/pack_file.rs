//! Packed weights kept in a file: verified by their checksums, then copied into memory or used in place.
//!
//! The panels of a format are the same on every instruction set, so a file of packed weights can be used on every
//! little-endian machine. [`LAYOUT`] changes with the panels.

use crate::context::Cpu;
use crate::error::Error;
use crate::gemm::packed_weights::{Data, Layout, PackedWeights};
use crate::gemm::panels::{Extent, SLICE_BYTES};
use crate::gemm::registry::kernels_of;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use leyden_tensor::{FileBytes, TensorView};
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Version of the panel layouts. A test compares digests of panels with stored ones; when it fails, increase this.
pub const LAYOUT: u32 = 1;

/// Number of bytes per checksum (XXH3, 64 bits): few compared with a matrix, many compared with a checksum.
pub const CHECKED_BYTES: usize = 1 << 20;

/// Packed matrix in a file.
#[derive(Clone, Debug)]
pub struct PackedFile {
    /// Panels.
    pub bytes: FileBytes,
    /// Checksums, as returned by [`PackedWeights::checksums`].
    pub checksums: Vec<u64>,
}

impl PackedWeights {
    /// Computes one checksum per [`CHECKED_BYTES`] of the packed weights; the last may cover less.
    #[must_use]
    pub fn checksums(&self, cpu: &Cpu) -> Vec<u64> {
        let bytes = self.as_bytes();
        let mut out = vec![0; bytes.len().div_ceil(CHECKED_BYTES)];
        let sums = Disjoint::new(&mut out);
        cpu.pool().run(bytes.len().div_ceil(CHECKED_BYTES), |i| {
            // SAFETY: every task writes its own element.
            let sum = unsafe { sums.range(i, 1) };
            sum[0] = xxh3_64(part(bytes, i));
        });
        out
    }

    /// Loads the packed weights of `tensor` from a file, into memory on huge pages or, with `in_place`, without a copy.
    /// Returns `None` if they are damaged: their length or a checksum differs.
    ///
    /// # Errors
    /// If there is no kernel for the tensor's type, no memory for a copy, or its size overflows.
    pub fn from_kept(
        cpu: &Cpu,
        tensor: &TensorView<'_>,
        kept: &PackedFile,
        in_place: bool,
    ) -> Result<Option<PackedWeights>, Error> {
        let kernels = kernels_of(tensor.dtype(), cpu.is_exact())
            .ok_or_else(|| Error::no_kernel(tensor.name(), tensor.dtype()))?;
        let extent = Extent::of(&kernels.format, tensor).ok_or_else(|| Error::too_large(tensor.name()))?;
        let Extent { count, rows, k, panel_bytes, bytes } = extent;
        let parts = bytes.div_ceil(CHECKED_BYTES);
        if kept.bytes.as_slice().len() != bytes || kept.checksums.len() != parts {
            return Ok(None);
        }
        let bad = AtomicUsize::new(0);
        let check = |i: usize, part: &[u8]| {
            if xxh3_64(part) != kept.checksums[i] {
                bad.fetch_add(1, Ordering::Relaxed);
            }
        };
        let data = if in_place {
            cpu.pool().run(parts, |i| check(i, part(kept.bytes.as_slice(), i)));
            Data::File(kept.bytes.clone())
        } else {
            let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(tensor.name(), bytes, e))?;
            cpu.place(&mut data);
            let out = Disjoint::new(data.as_mut_slice());
            let slice = SLICE_BYTES / CHECKED_BYTES;
            for first in (0..parts).step_by(slice) {
                let last = parts.min(first + slice);
                cpu.pool().run(last - first, |i| {
                    let from = part(kept.bytes.as_slice(), first + i);
                    // SAFETY: parts do not overlap, and each task has its own.
                    let to = unsafe { out.range((first + i) * CHECKED_BYTES, from.len()) };
                    to.copy_from_slice(from);
                    // Check the copy, because it is what will be used.
                    check(first + i, to);
                });
                kept.bytes.advise_dontneed(first * CHECKED_BYTES..last * CHECKED_BYTES);
            }
            Data::Memory(data)
        };
        let whole = bad.into_inner() == 0;
        let name = tensor.name().to_owned();
        let (layout, dtype) = (Layout::Panels { kernels, panel_bytes }, tensor.dtype());
        Ok(whole.then_some(PackedWeights { name, dtype, count, rows, k, data, layout }))
    }
}

/// Returns the `i`-th part of `bytes`, which has a checksum of its own.
fn part(bytes: &[u8], i: usize) -> &[u8] {
    let start = i * CHECKED_BYTES;
    &bytes[start..bytes.len().min(start + CHECKED_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;
    use leyden_tensor::{DType, Gguf, GgufWriter};

    fn cpu() -> Cpu {
        Cpu::new(Tier::best(), 2).unwrap()
    }

    /// Returns the bytes of `rows` rows of a type: any bits are weights.
    fn weights(dtype: DType, rows: usize, k: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..rows * dtype.row_bytes(k).unwrap()).map(|_| next()).collect()
    }

    /// Changed panels would be misread in files of older versions.
    #[test]
    fn panels_are_of_this_layout() {
        const DIGESTS: [(DType, u64); 27] = [
            (DType::F32, 0xd2e3cca0b89093ac),
            (DType::F16, 0x8c4d7308347dde7a),
            (DType::BF16, 0x8c4d7308347dde7a),
            (DType::Q4_0, 0x51d6b84024bec696),
            (DType::Q8_0, 0x9575b4121ac105ad),
            (DType::Q4K, 0x06b51daf6a5ddd35),
            (DType::Q6K, 0x59c786fc48aae607),
            (DType::Q4_1, 0xc8ae1132c029ea60),
            (DType::Q5_0, 0x55b255ad22b2a4cb),
            (DType::Q5_1, 0xcb9de80e82c0456d),
            (DType::Q2K, 0xac9e551c97e9b2a3),
            (DType::Q3K, 0x8779724e7a0ba01e),
            (DType::Q5K, 0x18ce49fee11eda2f),
            (DType::IQ4NL, 0x51d6b84024bec696),
            (DType::IQ4XS, 0x622eef97c8a55e7b),
            (DType::MXFP4, 0x1b1fc6d1a5f7380a),
            (DType::NVFP4, 0x6f0037a60bdb11c1),
            (DType::Q1_0, 0xefa3b86a6a1439fc),
            (DType::TQ1_0, 0x88592e0bc9ea34cf),
            (DType::TQ2_0, 0x2e40befd2e4f8902),
            (DType::IQ1S, 0xe7cfab09cc125ef6),
            (DType::IQ1M, 0x91922ce2c39726fc),
            (DType::IQ2XXS, 0x7275995527f99829),
            (DType::IQ2XS, 0xd6e4b72e7307530e),
            (DType::IQ2S, 0xbc6d4333b6135c7c),
            (DType::IQ3XXS, 0x7b11ca863b92c71d),
            (DType::IQ3S, 0xa96ec140802f3eba),
        ];
        let digest = |dtype| {
            let (rows, k) = (19, 512);
            let bytes = weights(dtype, rows, k);
            let shape = [rows, k];
            let view = TensorView::new("w", dtype, &shape, &bytes).unwrap();
            let packed = PackedWeights::pack(&cpu(), &view).unwrap();
            (dtype, xxh3_64(packed.as_bytes()))
        };
        let found: Vec<_> = DType::all().map(digest).collect();
        assert_eq!(found, DIGESTS, "a panel has changed: raise LAYOUT");
    }

    #[test]
    fn kept_weights_come_back_and_damage_is_found() {
        let cpu = cpu();
        let (rows, k) = (1000, 4096);
        let bytes = weights(DType::Q4K, rows, k);
        let shape = [rows, k];
        let view = TensorView::new("w", DType::Q4K, &shape, &bytes).unwrap();
        let packed = PackedWeights::pack(&cpu, &view).unwrap();
        let checksums = packed.checksums(&cpu);
        assert_eq!(checksums.len(), packed.bytes().div_ceil(CHECKED_BYTES));
        let mut writer = GgufWriter::new();
        writer.add_bytes("w", packed.as_bytes()).unwrap();
        let mut file = writer.to_vec().unwrap();
        let open = |file: &[u8]| Gguf::from_vec(file.to_vec(), "test").unwrap().file_bytes("w").unwrap();
        let good = PackedFile { bytes: open(&file), checksums: checksums.clone() };
        for in_place in [false, true] {
            let back = PackedWeights::from_kept(&cpu, &view, &good, in_place).unwrap().unwrap();
            assert_eq!(back.as_bytes(), packed.as_bytes());
        }
        let end = file.len() - 100;
        file[end] ^= 1;
        let damaged = PackedFile { bytes: open(&file), checksums: checksums.clone() };
        let short = PackedFile { bytes: open(&file), checksums: checksums[1..].to_vec() };
        for in_place in [false, true] {
            for bad in [&damaged, &short] {
                assert!(PackedWeights::from_kept(&cpu, &view, bad, in_place).unwrap().is_none());
            }
        }
        // A different shape.
        let view = TensorView::new("w", DType::Q4K, &[999, 4096], &bytes[..999 * 2304]).unwrap();
        assert!(PackedWeights::from_kept(&cpu, &view, &good, true).unwrap().is_some(), "same panels");
        let view = TensorView::new("w", DType::Q4K, &[900, 4096], &bytes[..900 * 2304]).unwrap();
        assert!(PackedWeights::from_kept(&cpu, &view, &good, true).unwrap().is_none());
    }
}
