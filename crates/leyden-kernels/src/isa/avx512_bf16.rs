//! AVX-512 with products of bfloat16: everything is [`Avx512Dot`]'s and [`Avx512Pair`]'s but the step of a product of BF16
//! weights, for which two rows of the panel are interleaved. Where many tiles meet a panel that is done once for all of them: a
//! Zen 4 core lost a sixth of its rate to doing it for each.

use super::Bf16Kernels;
use super::avx512_dot::Avx512Dot;
use super::avx512_pair::Avx512Pair;
use super::dot::Dot;
use crate::activations::Tile;
use crate::matmul::expanded::pair_bytes;
use crate::matmul::floats::{Steps, floats};
use crate::matmul::format::{ROWS, TileFn};
use crate::matmul::many::{Expand, FEWEST, Many};
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX-512 with BF16.
#[derive(Clone, Copy)]
struct Pairs(());

impl Pairs {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn in_feature_region() -> Pairs {
        Pairs(())
    }

    /// The weights of two k, side by side in the lane of their row, those that are too small to count as zero.
    ///
    /// # Safety
    /// `w` points at sixteen weights of one k and, with `WHOLE`, at those of the next behind them.
    #[inline(always)]
    unsafe fn weights<const WHOLE: bool>(self, w: *const u8) -> __m512bh {
        // SAFETY: the token proves the features; the bytes are the caller's promise.
        unsafe {
            let rows = if WHOLE {
                _mm512_loadu_si512(w.cast())
            } else {
                _mm512_zextsi256_si512(_mm256_loadu_si256(w.cast()))
            };
            // Row r of the first k, then of the second.
            let low = _mm512_set_epi32(
                0x1f_000f, 0x1e_000e, 0x1d_000d, 0x1c_000c, 0x1b_000b, 0x1a_000a, 0x19_0009, 0x18_0008,
                0x17_0007, 0x16_0006, 0x15_0005, 0x14_0004, 0x13_0003, 0x12_0002, 0x11_0001, 0x10_0000,
            );
            let pairs = super::avx512_dot::counted(_mm512_permutexvar_epi16(low, rows));
            std::mem::transmute::<__m512i, __m512bh>(pairs)
        }
    }

    /// A pair of one column, for every row.
    ///
    /// # Safety
    /// `x` points at one.
    #[inline(always)]
    unsafe fn activations(self, x: *const f32) -> __m512bh {
        // SAFETY: the token proves the features; the pair is the caller's promise.
        unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(x.cast::<i32>().read())) }
    }

    #[inline(always)]
    fn add(self, sum: __m512, w: __m512bh, x: __m512bh) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_dpbf16_ps(sum, w, x) }
    }
}

impl<const NEAR: bool> Steps<Avx512Dot<NEAR>> for Pairs {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;
    const VALUES: usize = 1;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        _d: Avx512Dot<NEAR>,
        w: *const u8,
        x: *const f32,
        y: &mut [__m512; C],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let w = self.weights::<WHOLE>(w);
            for c in 0..C {
                y[c] = self.add(y[c], w, self.activations(x.add(c)));
            }
        }
    }
}

impl Steps<Avx512Pair> for Pairs {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;
    const VALUES: usize = 1;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: Avx512Pair,
        w: *const u8,
        x: *const f32,
        y: &mut [[__m512; 2]; C],
    ) {
        // SAFETY: the caller's promise; the second panel lies as far behind the first as the token says.
        unsafe {
            let w = [self.weights::<WHOLE>(w), self.weights::<WHOLE>(w.add(d.panel()))];
            for c in 0..C {
                let x = self.activations(x.add(c));
                y[c] = [self.add(y[c][0], w[0], x), self.add(y[c][1], w[1], x)];
            }
        }
    }
}

/// [`Pairs`] of panels that were [`interleave`]d.
#[derive(Clone, Copy)]
struct Interleaved(Pairs);

impl Steps<Avx512Pair> for Interleaved {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;
    const VALUES: usize = 1;

    // An odd depth's last weights lie beside zeros.
    const PADDED: bool = true;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: Avx512Pair,
        w: *const u8,
        x: *const f32,
        y: &mut [[__m512; 2]; C],
    ) {
        // SAFETY: the caller's promise; the second panel lies as far behind the first as the token says.
        unsafe {
            let w = std::mem::transmute::<[__m512; 2], [__m512bh; 2]>(d.load_floats(w));
            for c in 0..C {
                let x = self.0.activations(x.add(c));
                y[c] = [self.0.add(y[c][0], w[0], x), self.0.add(y[c][1], w[1], x)];
            }
        }
    }
}

/// The features of the level, as the compiler spells them.
macro_rules! compiled {
    ($($function:item)*) => {
        $(#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
        $function)*
    };
}

compiled! {
    fn one<const C: usize, const NEAR: bool>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
        floats::<_, _, C>(Avx512Dot::<NEAR>::in_feature_region(), Pairs::in_feature_region(), panel, k, t, out);
    }
    fn two<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
        let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
        floats::<_, _, C>(d, Pairs::in_feature_region(), panels, k, t, out);
    }
    fn two_interleaved<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
        let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
        floats::<_, _, C>(d, Interleaved(Pairs::in_feature_region()), panels, k, t, out);
    }
    /// Writes a panel as [`Interleaved`] reads it.
    fn interleave(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
        assert!(panel.len() == k * ROWS * 2 && Some(out.len()) == pair_bytes(k));
        let token = Pairs::in_feature_region();
        for i in 0..k.div_ceil(2) {
            let (from, to) = (panel[i * 64..].as_ptr(), out[i * 64..][..64].as_mut_ptr());
            // SAFETY: the token proves the features; the panel has the weights of one k or two from there on, and the
            // room was checked.
            unsafe {
                let pairs = if 2 * i + 1 < k { token.weights::<true>(from) } else { token.weights::<false>(from) };
                _mm512_storeu_ps(to.cast(), std::mem::transmute::<__m512bh, __m512>(pairs));
            }
        }
    }
    /// As [`Isa::f32_products`](super::Isa::f32_products), of bfloat16 in pairs.
    fn products(rounds: u64) -> u64 {
        const CHAINS: usize = 12;
        let token = Pairs::in_feature_region();
        // SAFETY: any bits are bfloat16.
        let x = unsafe { token.activations(std::hint::black_box(&1.0)) };
        let mut sums = std::hint::black_box([Avx512Dot::<false>::in_feature_region().zeros(); CHAINS]);
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = token.add(*sum, x, x);
            }
        }
        std::hint::black_box(sums);
        rounds * CHAINS as u64 * 32
    }
}

const fn tiles<const NEAR: bool>() -> [TileFn; 12] {
    [
        one::<1, NEAR>,
        one::<2, NEAR>,
        one::<3, NEAR>,
        one::<4, NEAR>,
        one::<5, NEAR>,
        one::<6, NEAR>,
        one::<7, NEAR>,
        one::<8, NEAR>,
        one::<9, NEAR>,
        one::<10, NEAR>,
        one::<11, NEAR>,
        one::<12, NEAR>,
    ]
}

pub(super) static KERNELS: Bf16Kernels = Bf16Kernels {
    tiles: [tiles::<false>(), tiles::<true>()],
    many: Many {
        expand: Some(Expand {
            bytes: pair_bytes,
            panel: interleave,
            fewest: FEWEST,
            tiles: [two_interleaved::<12>, two_interleaved::<11>],
        }),
        panels: 2,
        tiles: Some([two::<12>, two::<11>]),
        any_columns: false,
    },
    products,
};
