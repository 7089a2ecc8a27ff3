//! INT8 rows: matrices of 8-bit integers with one scale per output row, for encoders.
//!
//! Matrices are quantised and packed in the groups of `gemm::microkernel::int8_rows`. Those with zeros may be packed
//! again as sparse rows (`gemm::sparse_rows`), whose products have the same bits.

use crate::context::Cpu;
use crate::cpu::isa::Tier;
use crate::error::Error;
use crate::gemm::microkernel::int8_rows::{
    Block, GROUP_ROWS, Results, SCALES_BYTES, block_fn, group_bytes, steps_fn,
};
use crate::gemm::packed_weights::{Data, Layout, PackedWeights};
use crate::gemm::product::RowsPart;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::quant::encode_weights::decode_row;
use crate::quant::token_rows::ZERO_POINT;
use crate::types::{OUTLIERS, OutlierChannels, places_of};
use leyden_tensor::quant::{INT8_GREATEST, RowLosses, f16_to_f32, int8_row, largest_magnitude};
use leyden_tensor::{DType, TensorView};
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of values in a row: sums of as many products are below 2^31 in magnitude.
const MAX_DEPTH: usize = 1 << 17;

/// Returns the bytes of a group of rows of `k` values; `None` if `k` exceeds [`MAX_DEPTH`].
fn padded_group_bytes(k: usize) -> Option<usize> {
    (k <= MAX_DEPTH).then(|| group_bytes(places_of(k)))
}

/// Returns the bytes of a group of rows and of a matrix `[rows, k]`; `None` if they overflow or `k` exceeds [`MAX_DEPTH`].
pub(super) fn whole_bytes(rows: usize, k: usize) -> Option<(usize, usize)> {
    padded_group_bytes(k).and_then(|each| Some((each, each.checked_mul(rows.div_ceil(GROUP_ROWS))?)))
}

/// Number of tokens below which tile registers, which multiply 16 tokens or none, are slower than vectors.
const MIN_STEP_TOKENS: usize = 4;

/// Bytes of a block of Q8_0.
const Q8_0_BYTES: usize = 34;

/// Returns the scale of a row of Q8_0 if all blocks have the same; a block of zeros may have any scale.
fn common_scale(row: &[u8]) -> Option<f32> {
    let mut scale = None;
    for block in row.as_chunks::<Q8_0_BYTES>().0 {
        let own = [block[0], block[1]];
        if block[2..].iter().any(|q| *q != 0) && *scale.get_or_insert(own) != own {
            return None;
        }
    }
    let scale = f16_to_f32(u16::from_le_bytes(scale.unwrap_or_default()));
    scale.is_finite().then_some(scale)
}

impl PackedWeights {
    /// Returns whether a Q8_0 matrix has one scale per row, as `leyden quantize` writes for encoders:
    /// [`int8_rows`](Self::int8_rows) then keeps its values unchanged.
    #[must_use]
    pub fn has_row_scales(tensor: &TensorView<'_>) -> bool {
        let one_matrix = tensor.shape().len() == 2 && tensor.dtype() == DType::Q8_0;
        one_matrix && (0..tensor.rows()).all(|r| common_scale(tensor.row(r)).is_some())
    }

    /// Quantises a matrix `[rows, k]` of any type to 8-bit integers with one scale per row, and packs it. Also returns
    /// the quantisation loss of each row. `None` if the tensor is no matrix, not finite throughout, or its rows are too
    /// long for exact sums.
    ///
    /// # Errors
    /// If there is no memory for the packed copy, or its size overflows.
    pub fn int8_rows(
        cpu: &Cpu,
        tensor: &TensorView<'_>,
    ) -> Result<Option<(PackedWeights, RowLosses)>, Error> {
        let &[rows, k] = tensor.shape() else { return Ok(None) };
        if k == 0 || k > MAX_DEPTH {
            return Ok(None);
        }
        let groups = rows.div_ceil(GROUP_ROWS);
        let (each, bytes) = whole_bytes(rows, k).ok_or_else(|| Error::too_large(tensor.name()))?;
        let mut data = HugeBuf::zeroed(bytes).map_err(|e| Error::memory(tensor.name(), bytes, e))?;
        cpu.place(&mut data);
        let out = Disjoint::new(data.as_mut_slice());
        let (finite, mut losses) = (AtomicBool::new(true), vec![0.0; rows]);
        let loss_of = Disjoint::new(&mut losses);
        cpu.pool().run(groups, |g| {
            // SAFETY: groups do not overlap, and each task has its own.
            let group = unsafe { out.range(g * each, each) };
            let (scales, quants) = group.split_at_mut(SCALES_BYTES);
            quants.fill(ZERO_POINT as u8);
            let mut x = vec![0.0; k];
            for (r, to) in scales.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let row = g * GROUP_ROWS + r;
                if row >= rows {
                    break;
                }
                decode_row(cpu.tier(), tensor.dtype(), tensor.row(row), &mut x);
                if !x.iter().all(|x| x.is_finite()) {
                    finite.store(false, Ordering::Relaxed);
                    return;
                }
                let common =
                    Some(tensor.row(row)).filter(|_| tensor.dtype() == DType::Q8_0).and_then(common_scale);
                let (scale, loss) = quantise_row(&x, common, &mut quants[4 * r..]);
                *to = scale.to_le_bytes();
                // SAFETY: each task writes the losses of its own rows.
                let place = unsafe { loss_of.range(row, 1) };
                place[0] = loss;
            }
        });
        if !finite.into_inner() {
            return Ok(None);
        }
        let layout = Layout::Int8Rows { group_bytes: each, outliers: None };
        let (name, dtype) = (tensor.name().to_owned(), DType::Q8_0);
        let packed = PackedWeights { name, dtype, count: 1, rows, k, data: Data::Memory(data), layout };
        Ok(Some((packed, losses.into_iter().collect())))
    }

    /// Returns true for INT8 rows whose outlier channels are not set yet.
    #[must_use]
    pub fn lacks_outliers(&self) -> bool {
        matches!(self.layout, Layout::Int8Rows { outliers: None, .. })
    }

    /// Sets the outlier channels of the input, which have a scale of their own, and moves their columns last. Can be
    /// called once, for a matrix of INT8 rows.
    ///
    /// # Panics
    /// If the matrix is of another kind, or its outliers are already set.
    pub fn set_outliers(&mut self, outliers: OutlierChannels) {
        let Layout::Int8Rows { group_bytes, outliers: None } = self.layout else {
            panic!("outliers of INT8 rows");
        };
        self.layout = Layout::Int8Rows { group_bytes, outliers: Some(outliers) };
        let Data::Memory(data) = &mut self.data else { panic!("INT8 rows in memory") };
        for group in data.as_mut_slice().chunks_exact_mut(group_bytes) {
            let quants = &mut group[SCALES_BYTES..];
            let at = |place: usize| place / 4 * 4 * GROUP_ROWS + place % 4;
            for (a, b) in outliers.swaps(self.k) {
                (0..GROUP_ROWS).for_each(|r| quants.swap(at(a) + 4 * r, at(b) + 4 * r));
            }
        }
    }
}

/// Quantises a row into `quants`, in groups of four values that alternate with those of the group's other rows; the
/// last values go to the places of the outliers. Uses the scale `common` if there is one. Returns the scale and the
/// [quantisation loss](int8_row).
fn quantise_row(x: &[f32], common: Option<f32>, quants: &mut [u8]) -> (f32, f64) {
    let max = largest_magnitude(x);
    let scale = common.unwrap_or(max / INT8_GREATEST);
    if max == 0.0 || scale == 0.0 {
        return (0.0, if max == 0.0 { 0.0 } else { f64::INFINITY });
    }
    let main = x.len().saturating_sub(OUTLIERS);
    let shift = places_of(x.len()) - OUTLIERS - main;
    let loss = int8_row(x, scale, |i, value| {
        let i = if i < main { i } else { i + shift };
        quants[i / 4 * 4 * GROUP_ROWS + i % 4] = (i32::from(value) + ZERO_POINT) as u8;
    });
    (scale, loss)
}

/// Multiplies a part of a product of dense rows.
///
/// # Safety
/// The output has room for each token, and no other thread uses it.
pub(super) unsafe fn multiply_part(tier: Tier, part: &RowsPart<'_>, to: Results) {
    let w = part.weights;
    let Layout::Int8Rows { group_bytes, .. } = w.layout else { panic!("a matrix of dense INT8 rows") };
    let (bytes, groups, first) = (w.as_bytes(), part.groups.clone(), part.groups.start * GROUP_ROWS);
    let block = Block {
        groups: &bytes[groups.start * group_bytes..groups.end * group_bytes],
        next: bytes[groups.end * group_bytes..].get(..group_bytes).unwrap_or_default(),
        group_bytes,
        skip: 0,
        tokens: part.input.tokens(part.tokens.clone()),
        bias: part.bias.map(|bias| &bias[first..w.rows.min(groups.end * GROUP_ROWS)]),
        activation: part.activation,
        add: part.add,
    };
    assert_eq!(block.group_bytes, self::group_bytes(block.tokens.depth()), "depth of a product");
    if let Some(multiply) = steps_fn(tier)
        && part.tokens.len() >= MIN_STEP_TOKENS
        && let Some(steps) = part.input.steps(part.tokens.clone())
    {
        assert!(steps.quants.len() >= part.tokens.len() * steps.stride, "tokens in steps");
        // SAFETY: the Tier proves the features; the steps are the block's tokens; the rest as below.
        unsafe { multiply(&block, steps, to) };
        return;
    }
    // SAFETY: the Tier proves the features; the groups are whole and of the tokens' depth; the output is valid and not
    // shared (`# Safety`).
    unsafe { block_fn(tier)(&block, to) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;
    use crate::gemm::epilogue::Write;
    use crate::gemm::linear::{multiply, multiply_activated};
    use crate::gemm::product::Product;
    use crate::ops::{Activation, activate};
    use crate::quant::packed_a::PackedA;
    use crate::quant::token_rows::arrange;

    fn floats(seed: usize, n: usize) -> Vec<f32> {
        (0..n).map(|i| (((i + seed) * 7919 % 1013) as f32 - 506.0) * 0.003).collect()
    }

    fn tensor_bytes(x: &[f32]) -> Vec<u8> {
        x.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    fn pack(cpu: &Cpu, w: &[f32], rows: usize, k: usize) -> PackedWeights {
        let (bytes, shape) = (tensor_bytes(w), [rows, k]);
        let view = TensorView::new("w", DType::F32, &shape, &bytes).unwrap();
        let mut packed = PackedWeights::int8_rows(cpu, &view).unwrap().unwrap().0;
        packed.set_outliers(outliers(k));
        packed
    }

    fn outliers(k: usize) -> OutlierChannels {
        OutlierChannels::of(&(0..k).map(|c| (c * 31 % 17) as f64).collect::<Vec<_>>())
    }

    fn product(cpu: &Cpu, w: &PackedWeights, x: &[f32], bias: Option<&[f32]>, out: &mut [f32], write: Write) {
        let mut input = PackedA::default();
        input.fill(cpu.tier(), cpu.pool(), w.act_format(), x, w.k());
        multiply(cpu, &input, &mut [Product { weights: w, bias, out, write }]);
    }

    /// Quantises activations that share a scale, by the definition; returns the quantised values and the scale.
    fn quantised(x: &[f32]) -> (Vec<i64>, f64) {
        let max = x.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let inverse = if max > 0.0 { 127.0 / max } else { 0.0 };
        (x.iter().map(|x| (x * inverse).round_ties_even() as i64).collect(), f64::from(max / 127.0))
    }

    #[test]
    fn every_tier_and_team_gives_the_bits_of_exact_sums() {
        for (rows, k, m) in
            [(70, 384, 13), (16, 33, 1), (130, 100, 6), (5, 1536, 7), (64, 64, 25), (96, 400, 40)]
        {
            let (mut w, mut x) = (floats(3, rows * k), floats(11, m * k));
            // Rows of the greatest magnitude, whose sums would not fit 16 bits, in both signs.
            for (i, row) in w.chunks_mut(k).enumerate().filter(|(i, _)| i % 5 < 2) {
                row.fill(if i % 5 == 0 { 2.5 } else { -2.5 });
            }
            for (i, row) in x.chunks_mut(k).enumerate().filter(|(i, _)| i % 4 < 2) {
                row.fill(if i % 4 == 0 { 7.0 } else { -7.0 });
            }
            let bias = floats(5, rows);
            let one = Cpu::new(Tier::SCALAR, 1).unwrap();
            let packed = pack(&one, &w, rows, k);
            let mut want = vec![0.0; m * rows];
            product(&one, &packed, &x, Some(&bias), &mut want, Write::Set);
            for (x, y) in x.chunks(k).zip(want.chunks(rows)) {
                let segments = |x: &[f32]| {
                    let mut places = vec![0.0; places_of(k)];
                    arrange(x, &outliers(k), &mut places);
                    let last = places.split_off(places.len() - OUTLIERS);
                    [places, last]
                };
                let tokens = segments(x).map(|x| quantised(&x));
                for (r, y) in y.iter().enumerate() {
                    let row = &w[r * k..][..k];
                    let b_scale = row.iter().fold(0.0_f32, |max, b| max.max(b.abs())) / 127.0;
                    let (mut exact, mut near) = (f64::from(bias[r]), 1e-6);
                    for ((a, a_scale), b) in tokens.iter().zip(segments(row)) {
                        let b = b.iter().map(|b| (b / b_scale).round_ties_even() as i64);
                        let sum: i64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                        let sum = sum as f64 * a_scale * f64::from(b_scale);
                        exact += sum;
                        near += 2e-6 * sum.abs();
                    }
                    assert!((f64::from(*y) - exact).abs() <= near, "{rows}x{k}: {y} {exact}");
                }
            }
            for tier in Tier::available() {
                for threads in [1, 3] {
                    let cpu = Cpu::new(tier, threads).unwrap();
                    let packed = pack(&cpu, &w, rows, k);
                    let mut got = vec![0.0; m * rows];
                    product(&cpu, &packed, &x, Some(&bias), &mut got, Write::Set);
                    assert!(got == want, "{rows}x{k}, {m} tokens on {}", tier.level());
                    let mut input = PackedA::default();
                    input.fill(tier, cpu.pool(), packed.act_format(), &x, k);
                    let (mut gelu, mut alone) = (vec![0.0; m * rows], want.clone());
                    let of =
                        Product { weights: &packed, bias: Some(&bias), out: &mut gelu, write: Write::Set };
                    multiply_activated(&cpu, &input, of, Activation::GeluPolynomial);
                    activate(Tier::SCALAR, Activation::GeluPolynomial, &mut alone);
                    assert!(gelu == alone, "{rows}x{k}, with a function, on {}", tier.level());
                    product(&cpu, &packed, &x, None, &mut got, Write::Add);
                    let mut alone = vec![0.0; rows];
                    product(&cpu, &packed, &x[(m - 1) * k..], None, &mut alone, Write::Set);
                    for r in 0..rows {
                        let at = (m - 1) * rows + r;
                        assert_eq!(got[at], want[at] + alone[r], "a token alone, added");
                    }
                }
            }
        }
    }

    #[test]
    fn q8_0_with_one_scale_per_row_keeps_its_values() {
        let (rows, k) = (18, 64);
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        let mut bytes = Vec::new();
        for r in 0..rows {
            for b in 0..k / 32 {
                // 2^-10 and more in half precision; the third row's second block is zeros under another scale.
                let zeros = (r, b) == (2, 1);
                bytes.extend(if zeros { 0_u16 } else { 0x1400 + r as u16 }.to_le_bytes());
                bytes.extend((0..32).map(|i| if zeros { 0 } else { (i * 8 + r * 3) as i8 as u8 }));
            }
        }
        let shape = [rows, k];
        let view = TensorView::new("w", DType::Q8_0, &shape, &bytes).unwrap();
        assert!(PackedWeights::has_row_scales(&view));
        let (packed, losses) = PackedWeights::int8_rows(&cpu, &view).unwrap().unwrap();
        assert_eq!(losses.mean(), 0.0);
        for r in 0..rows {
            for i in 0..k {
                let quant = packed.as_bytes()[SCALES_BYTES + i / 4 * 4 * GROUP_ROWS + r * 4 + i % 4];
                assert_eq!(quant ^ 0x80, bytes[(r * 2 + i / 32) * Q8_0_BYTES + 2 + i % 32], "row {r}, {i}");
            }
        }
        bytes[Q8_0_BYTES] ^= 1;
        let view = TensorView::new("w", DType::Q8_0, &shape, &bytes).unwrap();
        assert!(!PackedWeights::has_row_scales(&view), "two scales in the first row");
    }

    #[test]
    fn what_is_not_finite_or_no_matrix_is_left_alone() {
        let cpu = Cpu::new(Tier::best(), 2).unwrap();
        let bytes = tensor_bytes(&[1.0, f32::INFINITY, 0.0, 2.0]);
        for shape in [&[2, 2][..], &[4]] {
            let view = TensorView::new("w", DType::F32, shape, &bytes).unwrap();
            assert!(PackedWeights::int8_rows(&cpu, &view).unwrap().is_none());
        }
    }
}
