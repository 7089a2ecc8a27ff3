//! Packed weights kept in a file: verified by their checksums, then copied into memory or used in place.
//!
//! The panels of a format are the same on every instruction set, so a file of packed weights can be used on every
//! little-endian machine. INT8 rows are kept with their form, a text: layout, outlier channels, and sizes. Sparse rows are
//! used on machines with windows of the same length. [`LAYOUT`] changes with the layouts.

use crate::context::Cpu;
use crate::error::Error;
use crate::gemm::int8_rows::whole_bytes;
use crate::gemm::layout_choice::ROWS_LAYOUTS;
use crate::gemm::packed_weights::{Data, Layout, PackedWeights};
use crate::gemm::panels::{PanelSizes, SLICE_BYTES};
use crate::gemm::registry::kernels_of;
use crate::gemm::sparse_blocks;
use crate::gemm::sparse_form::SparseForm;
use crate::gemm::sparse_rows;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::types::OutlierChannels;
use leyden_tensor::{DType, FileBytes, TensorView};
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Version of the layouts. A test compares digests of packed matrices with stored ones; when it fails, increase this.
pub const LAYOUT: u32 = 2;

/// Number of bytes per checksum (XXH3, 64 bits): few compared with a matrix, many compared with a checksum.
pub const CHECKED_BYTES: usize = 1 << 20;

/// Packed matrix in a file.
#[derive(Clone, Debug)]
pub struct PackedFile {
    /// Packed weights.
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
        let sizes = PanelSizes::of(&kernels.format, tensor).ok_or_else(|| Error::too_large(tensor.name()))?;
        let PanelSizes { count, rows, k, panel_bytes, bytes } = sizes;
        if kept.bytes.as_slice().len() != bytes {
            return Ok(None);
        }
        let Some(data) = kept.load(cpu, tensor.name(), in_place)? else { return Ok(None) };
        let name = tensor.name().to_owned();
        let (layout, dtype) = (Layout::Panels { kernels, panel_bytes }, tensor.dtype());
        Ok(Some(PackedWeights { name, dtype, count, rows, k, data, layout }))
    }

    /// Returns the form of INT8 rows, which [`rows_from_kept`](Self::rows_from_kept) takes; `None` for other matrices.
    /// Outlier channels that are not set are the last ones.
    #[must_use]
    pub fn rows_form(&self) -> Option<String> {
        let (sizes, outliers) = match self.layout {
            Layout::Panels { .. } => return None,
            Layout::Int8Rows { outliers, .. } => (String::new(), outliers.unwrap_or_default()),
            Layout::SparseRows { form: SparseForm { window, tall, groups }, outliers } => {
                (format!(" {window} {tall} {groups}"), outliers)
            }
            Layout::SparseBlocks { blocks, outliers } => (format!(" {blocks}"), outliers),
        };
        let channels: String = outliers.channels().iter().map(|channel| format!(" {channel}")).collect();
        Some(format!("{}{sizes} {} {}{channels}", self.layout_name(), self.rows, self.k))
    }

    /// Returns true if a text begins like one of [`rows_form`](Self::rows_form).
    #[must_use]
    pub fn is_rows_form(form: &str) -> bool {
        form.split(' ').next().is_some_and(|layout| ROWS_LAYOUTS.contains(&layout))
    }

    /// Loads INT8 rows `[rows, k]` of this name and form from a file, like [`from_kept`](Self::from_kept). Returns `None`
    /// if they are damaged, of another shape, or made for windows of another length than this processor's.
    ///
    /// # Errors
    /// If there is no memory for a copy.
    pub fn rows_from_kept(
        cpu: &Cpu,
        (name, [rows, k]): (&str, [usize; 2]),
        form: &str,
        kept: &PackedFile,
        in_place: bool,
    ) -> Result<Option<PackedWeights>, Error> {
        let mut words = form.split(' ');
        let layout = words.next();
        let numbers: Option<Vec<usize>> = words.map(|word| word.parse().ok()).collect();
        let layout = match (layout, numbers.as_deref()) {
            (Some("int8-rows"), Some([r, d, channels @ ..])) if [*r, *d] == [rows, k] => {
                let bytes = whole_bytes(rows, k).filter(|bytes| bytes.1 == kept.bytes.as_slice().len());
                let outliers = OutlierChannels::from_channels(channels, k);
                bytes.zip(outliers).map(|((group_bytes, _), outliers)| Layout::Int8Rows {
                    group_bytes,
                    outliers: Some(outliers),
                })
            }
            (Some("sparse-rows" | "sparse-fours"), Some([window, tall, groups, r, d, channels @ ..]))
                if [*r, *d] == [rows, k] && *window == sparse_rows::window_of(cpu.tier()) =>
            {
                let form = SparseForm { window: *window, tall: *tall, groups: *groups };
                let outliers = OutlierChannels::from_channels(channels, k);
                outliers.map(|outliers| Layout::SparseRows { form, outliers })
            }
            (Some("sparse-blocks"), Some([blocks, r, d, channels @ ..])) if [*r, *d] == [rows, k] => {
                let outliers = OutlierChannels::from_channels(channels, k);
                outliers.map(|outliers| Layout::SparseBlocks { blocks: *blocks, outliers })
            }
            _ => None,
        };
        let Some(layout) = layout else { return Ok(None) };
        let Some(data) = kept.load(cpu, name, in_place)? else { return Ok(None) };
        let (name, dtype) = (name.to_owned(), DType::Q8_0);
        let packed = PackedWeights { name, dtype, count: 1, rows, k, data, layout };
        let valid = match layout {
            Layout::SparseRows { form, .. } => sparse_rows::is_valid(cpu, packed.as_bytes(), (rows, k), form),
            Layout::SparseBlocks { blocks, .. } => {
                sparse_blocks::is_valid(cpu, packed.as_bytes(), (rows, k), blocks)
            }
            Layout::Panels { .. } | Layout::Int8Rows { .. } => true,
        };
        Ok(valid.then_some(packed))
    }
}

impl PackedFile {
    /// Loads the bytes and verifies their checksums; `None` if one differs.
    fn load(&self, cpu: &Cpu, name: &str, in_place: bool) -> Result<Option<Data>, Error> {
        let (kept, bytes) = (self, self.bytes.as_slice().len());
        let parts = bytes.div_ceil(CHECKED_BYTES);
        if kept.checksums.len() != parts {
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
            let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(name, bytes, e))?;
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
        Ok((bad.into_inner() == 0).then_some(data))
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
    use leyden_tensor::{Gguf, GgufWriter};

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
