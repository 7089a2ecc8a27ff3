//! QK scores and PV products, written once as the scalar definition over plain arrays and once over the vectors of an
//! instruction set; the float operations and their order are the same, so both give the same bits.

use crate::attention::block::{BLOCK_TOKENS, KEY_TOKENS, KvType, Row};
use crate::attention::online_softmax::{PvOutput, Rescale};
use crate::ops::Lanes;
use crate::prefetch::prefetch;
use crate::simd::Simd;
use crate::simd::int::F32Simd;

/// Unquantised keys of one tile.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) kv_type: KvType,
    pub(crate) bytes: &'a [u8],
    /// Keys of the next tile, of the same size. Tiles are not contiguous, so no hardware prefetcher predicts them: each
    /// line is prefetched while its counterpart in this tile is read.
    pub(crate) next: &'a [u8],
    pub(crate) dim: usize,
}

/// Unquantised values of one tile.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) kv_type: KvType,
    pub(crate) bytes: &'a [u8],
    /// Values of the next tile, as in [`Keys`].
    pub(crate) next: &'a [u8],
    pub(crate) dim: usize,
}

/// Returns the bytes of floats.
#[inline(always)]
fn as_bytes(floats: &[f32]) -> &[u8] {
    // SAFETY: initialised memory of that many bytes, borrowed as long; f32 has no padding, and bytes no alignment.
    unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), size_of_val(floats)) }
}

impl Keys<'_> {
    /// Converts the keys to floats, in the same layout.
    #[inline(always)]
    pub(crate) fn to_floats<'f, I: Simd>(self, isa: I, out: &'f mut [f32]) -> Keys<'f> {
        for (x, h) in out.as_chunks_mut::<16>().0.iter_mut().zip(self.bytes.as_chunks::<32>().0) {
            *x = isa.f16_to_f32(&halves(h));
        }
        let bytes = as_bytes(out);
        Keys { kv_type: KvType::F32, bytes, next: bytes, dim: self.dim }
    }

    /// Returns the bytes of a value.
    #[inline(always)]
    fn size(&self) -> usize {
        if self.kv_type == KvType::F32 { 4 } else { 2 }
    }

    /// Panics unless the buffers are as long as the loops will read.
    #[inline(always)]
    fn check<const R: usize, const G: usize>(&self, queries: &[f32], group: usize, out: &[Row]) {
        assert!(self.kv_type != KvType::Q8_0 && group + G <= BLOCK_TOKENS / KEY_TOKENS);
        assert!(self.bytes.len() == BLOCK_TOKENS * self.dim * self.size());
        assert!(queries.len() >= self.dim * R && out.len() >= R);
    }
}

impl Values<'_> {
    /// Converts the values of the first `tokens` tokens to floats, in the same layout.
    #[inline(always)]
    pub(crate) fn to_floats<'f, I: Simd>(self, isa: I, tokens: usize, out: &'f mut [f32]) -> Values<'f> {
        let halves_of = self.bytes.as_chunks::<32>().0.iter().take(tokens * self.dim / 16);
        for (x, h) in out.as_chunks_mut::<16>().0.iter_mut().zip(halves_of) {
            *x = isa.f16_to_f32(&halves(h));
        }
        let bytes = as_bytes(out);
        Values { kv_type: KvType::F32, bytes, next: bytes, dim: self.dim }
    }

    #[inline(always)]
    fn check<const R: usize, const G: usize>(
        &self,
        tokens: usize,
        d: usize,
        p: &[Row],
        (out, factors): (&[f32], Option<&[Rescale]>),
    ) {
        assert!(self.kv_type != KvType::Q8_0);
        assert!(self.bytes.len() == BLOCK_TOKENS * self.dim * self.kv_type.value_bytes());
        assert!(tokens <= BLOCK_TOKENS && p.len() >= R && d + 16 * G <= self.dim && d.is_multiple_of(16));
        assert!(out.len() >= R * self.dim && factors.is_none_or(|f| f.len() >= R));
    }
}

#[inline(always)]
fn halves(bytes: &[u8]) -> [u16; 16] {
    let mut h = [0; 16];
    for (h, b) in h.iter_mut().zip(bytes.as_chunks::<2>().0) {
        *h = u16::from_le_bytes(*b);
    }
    h
}

#[inline(always)]
fn floats(bytes: &[u8]) -> Lanes {
    let mut f = [0.0; 16];
    for (f, b) in f.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *f = f32::from_le_bytes(*b);
    }
    f
}

/// Computes scores of `R` rows with `G` groups of tokens from `group` on: `fma(k[d], q[d], sum)` for d ascending, then
/// times `scale`. The queries are `[dim][R]`.
#[inline(always)]
pub(crate) fn plain_scores<I: Simd, const R: usize, const G: usize>(
    isa: I,
    keys: Keys<'_>,
    queries: &[f32],
    group: usize,
    scale: f32,
    out: &mut [Row],
) {
    keys.check::<R, G>(queries, group, out);
    let bytes = KEY_TOKENS * keys.size();
    for g in group..group + G {
        let mut sums = [[0.0_f32; 16]; R];
        for (d, q) in queries.as_chunks::<R>().0.iter().enumerate().take(keys.dim) {
            let k = &keys.bytes[(g * keys.dim + d) * bytes..][..bytes];
            let k = if keys.kv_type == KvType::F32 { floats(k) } else { isa.f16_to_f32(&halves(k)) };
            for r in 0..R {
                for i in 0..16 {
                    sums[r][i] = k[i].mul_add(q[r], sums[r][i]);
                }
            }
        }
        for r in 0..R {
            for i in 0..16 {
                out[r][g * KEY_TOKENS + i] = sums[r][i] * scale;
            }
        }
    }
}

/// Vector form of [`plain_scores`].
#[inline(always)]
pub(crate) fn vector_scores<D: F32Simd, const R: usize, const G: usize>(
    d: D,
    keys: Keys<'_>,
    queries: &[f32],
    group: usize,
    scale: f32,
    out: &mut [Row],
) {
    keys.check::<R, G>(queries, group, out);
    let at = group * keys.dim * KEY_TOKENS * keys.size();
    let (first, next) = (&keys.bytes[at..], keys.next[at..].as_ptr());
    let sums = if keys.kv_type == KvType::F32 {
        products::<D, R, G, 4>(d, (first, next), keys.dim, queries, |p| {
            // SAFETY: `products` passes 16 floats.
            unsafe { d.load_floats(p) }
        })
    } else {
        products::<D, R, G, 2>(d, (first, next), keys.dim, queries, |p| {
            // SAFETY: `products` passes 16 halves.
            unsafe { d.halves(p) }
        })
    };
    // SAFETY: one readable float.
    let scale = unsafe { d.splat(&raw const scale) };
    for r in 0..R {
        let row = out[r].as_mut_ptr();
        for g in 0..G {
            // SAFETY: a row holds all groups.
            unsafe { d.store(d.mul(sums[r][g], scale), row.add((group + g) * KEY_TOKENS)) };
        }
    }
}

/// Computes the products of `G` groups of keys, with `SIZE` bytes per value, with `R` queries, summed over `dim`.
/// Pointers advance instead of indices: an index would cost a multiplication and a bounds check per value.
#[inline(always)]
fn products<D: F32Simd, const R: usize, const G: usize, const SIZE: usize>(
    d: D,
    (keys, mut next): (&[u8], *const u8),
    dim: usize,
    queries: &[f32],
    load: impl Fn(*const u8) -> D::Floats,
) -> [[D::Floats; G]; R] {
    let group = dim * KEY_TOKENS * SIZE;
    assert!(keys.len() >= G * group && queries.len() >= dim * R);
    let mut sums = [[d.zeros(); G]; R];
    let (mut k, mut q) = (keys.as_ptr(), queries.as_ptr());
    for _ in 0..dim {
        let mut vectors = [d.zeros(); G];
        for g in 0..G {
            vectors[g] = load(k.wrapping_add(g * group));
        }
        for r in 0..R {
            // SAFETY: the lengths checked above cover R queries at every value.
            let x = unsafe { d.splat(q.add(r)) };
            for g in 0..G {
                sums[r][g] = d.fma(vectors[g], x, sums[r][g]);
            }
        }
        if SIZE < 4 {
            next = prefetch_run(next, const { G * KEY_TOKENS * SIZE });
        }
        (k, q) = (k.wrapping_add(KEY_TOKENS * SIZE), q.wrapping_add(R));
    }
    sums
}

/// Prefetches the cache lines of `bytes` bytes; returns the address after them.
#[inline(always)]
fn prefetch_run(p: *const u8, bytes: usize) -> *const u8 {
    for line in (0..bytes).step_by(64) {
        prefetch(p.wrapping_add(line));
    }
    p.wrapping_add(bytes)
}

/// Computes `16 * G` values from `at` on, weighted by the rows of `p` and summed over `tokens` tokens in order. Writes
/// them to rows of `dim` values, as `to` says.
#[inline(always)]
pub(crate) fn plain_pv_product<I: Simd, const R: usize, const G: usize>(
    isa: I,
    values: Values<'_>,
    tokens: usize,
    at: usize,
    p: &[Row],
    to: &mut PvOutput<'_>,
) {
    let (out, factors) = to.parts();
    values.check::<R, G>(tokens, at, p, (out, factors));
    let (dim, size) = (values.dim, values.kv_type.value_bytes());
    for d in (at..at + 16 * G).step_by(16) {
        let mut sums = [[0.0_f32; 16]; R];
        for j in 0..tokens {
            let v = &values.bytes[(j * dim + d) * size..][..16 * size];
            let v = if values.kv_type == KvType::F32 { floats(v) } else { isa.f16_to_f32(&halves(v)) };
            for r in 0..R {
                for i in 0..16 {
                    sums[r][i] = v[i].mul_add(p[r][j], sums[r][i]);
                }
            }
        }
        for r in 0..R {
            let out = &mut out[r * dim + d..][..16];
            match factors {
                None => out.copy_from_slice(&sums[r]),
                Some(factors) => factors[r].merge(out, &sums[r]),
            }
        }
    }
}

/// Vector form of [`plain_pv_product`].
#[inline(always)]
pub(crate) fn vector_pv_product<D: F32Simd, const R: usize, const G: usize>(
    d: D,
    values: Values<'_>,
    tokens: usize,
    at: usize,
    p: &[Row],
    to: &mut PvOutput<'_>,
) {
    let (out, factors) = to.parts();
    values.check::<R, G>(tokens, at, p, (out, factors));
    let dim = values.dim;
    let (bytes, next) = (values.bytes, values.next.as_ptr());
    let sums = if values.kv_type == KvType::F32 {
        sums::<D, R, G, 4>(d, tokens, p, (bytes, next), (at, dim), |v, g| {
            // SAFETY: `sums` passes a token's values from `at` on; the check above leaves 16 * G of them.
            unsafe { d.load_floats(v.add(64 * g)) }
        })
    } else {
        sums::<D, R, G, 2>(d, tokens, p, (bytes, next), (at, dim), |v, g| {
            // SAFETY: as above.
            unsafe { d.halves(v.add(32 * g)) }
        })
    };
    for r in 0..R {
        let out = out.as_mut_ptr().wrapping_add(r * dim + at);
        for g in 0..G {
            // SAFETY: out holds R rows of dim values.
            unsafe { write(d, sums[r][g], factors.map(|f| &f[r]), out.wrapping_add(16 * g)) };
        }
    }
}

/// Writes 16 weighted values, or merges them into `out` if there are factors.
///
/// # Safety
/// `out` points at 16 floats.
#[inline(always)]
pub(super) unsafe fn write<D: F32Simd>(d: D, values: D::Floats, factors: Option<&Rescale>, out: *mut f32) {
    // SAFETY: `out` is 16 floats (`# Safety`); a factor is a readable float.
    unsafe {
        match factors {
            None => d.store(values, out),
            Some(Rescale { attends: false, .. }) => {}
            Some(Rescale { before, now, .. }) => {
                let values = d.mul(values, d.splat(now));
                d.store(d.fma(d.load_floats(out.cast_const().cast()), d.splat(before), values), out);
            }
        }
    }
}

/// Sums `G` vectors of values over `tokens` tokens, weighted by `R` rows of `p`. A value has `SIZE` bytes, a token
/// `dim` values, and the vectors begin at value `at`; `load` gets their address and the vector's index, in order.
#[inline(always)]
fn sums<D: F32Simd, const R: usize, const G: usize, const SIZE: usize>(
    d: D,
    tokens: usize,
    p: &[Row],
    (bytes, next): (&[u8], *const u8),
    (at, dim): (usize, usize),
    mut load: impl FnMut(*const u8, usize) -> D::Floats,
) -> [[D::Floats; G]; R] {
    let stride = dim * SIZE;
    assert!(tokens <= BLOCK_TOKENS && p.len() >= R && bytes.len() == BLOCK_TOKENS * stride);
    let mut sums = [[d.zeros(); G]; R];
    let (mut v, mut weights) = (bytes.as_ptr().wrapping_add(at * SIZE), p.as_ptr().cast::<f32>());
    let mut next = next.wrapping_add(at * SIZE);
    for _ in 0..tokens {
        let mut vectors = [d.zeros(); G];
        for g in 0..G {
            vectors[g] = load(v, g);
        }
        for r in 0..R {
            // SAFETY: p has R rows, each with a weight per token.
            let w = unsafe { d.splat(weights.add(r * BLOCK_TOKENS)) };
            for g in 0..G {
                sums[r][g] = d.fma(vectors[g], w, sums[r][g]);
            }
        }
        if SIZE < 4 {
            prefetch_run(next, const { 16 * G * SIZE });
            next = next.wrapping_add(stride);
        }
        (v, weights) = (v.wrapping_add(stride), weights.wrapping_add(1));
    }
    sums
}

/// Multiplies 16 floats by one. Left alone, the compiler may vectorise across 16 rows, with a gather per column.
#[inline(always)]
pub(crate) fn vector_scaled<D: F32Simd>(d: D, x: &Lanes, by: f32) -> Lanes {
    let mut y = [0.0; 16];
    // SAFETY: 16 floats each, and one.
    unsafe { d.store(d.mul(d.load_floats(x.as_ptr().cast()), d.splat(&raw const by)), y.as_mut_ptr()) };
    y
}
