//! AVX-512 with bfloat16 products: as [`Avx512Int`] and [`Avx512Pair`], except for the step of a product of BF16
//! weights, which takes two interleaved rows of the panel. If enough tiles use a panel, it is interleaved once for all
//! of them.

use crate::gemm::format::traits::FloatFormat;
use crate::gemm::microkernel::float::floats;
use crate::gemm::microkernel::kernels::{
    Bf16Kernels, GemmKernels, Level, Port, TileFn, UnpackKernel, Variant,
};
use crate::gemm::unpack::panel::pair_bytes;
use crate::quant::min_tiles::MIN_TILES;
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::simd::x86_64::avx512_int::Avx512Int;
use crate::simd::x86_64::avx512_pair::Avx512Pair;
use crate::types::PANEL_ROWS;
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX-512 with BF16.
#[derive(Clone, Copy)]
struct Pairs(());

impl Pairs {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn in_feature_region() -> Pairs {
        Pairs(())
    }

    /// Loads the weights of two k, interleaved in the lane of their row; values too small to count become zero.
    ///
    /// # Safety
    /// `w` points at 16 weights of one k and, with `WHOLE`, at those of the next k after them.
    #[inline(always)]
    unsafe fn weights<const WHOLE: bool>(self, w: *const u8) -> __m512bh {
        // SAFETY: the token proves the features; the bytes are readable (`# Safety`).
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
            let pairs =
                crate::simd::x86_64::avx512_int::flush_small_bf16(_mm512_permutexvar_epi16(low, rows));
            std::mem::transmute::<__m512i, __m512bh>(pairs)
        }
    }

    /// Broadcasts a pair of activations of one column to every row.
    ///
    /// # Safety
    /// `x` points at a pair.
    #[inline(always)]
    unsafe fn activations(self, x: *const f32) -> __m512bh {
        // SAFETY: the token proves the features; the pair is readable (`# Safety`).
        unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(x.cast::<i32>().read())) }
    }

    #[inline(always)]
    fn add(self, sum: __m512, w: __m512bh, x: __m512bh) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_dpbf16_ps(sum, w, x) }
    }
}

impl<const TO_L1: bool> FloatFormat<Avx512Int<TO_L1>> for Pairs {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;
    const VALUES: usize = 1;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        _d: Avx512Int<TO_L1>,
        w: *const u8,
        x: *const f32,
        y: &mut [__m512; C],
    ) {
        // SAFETY: the trait method's `# Safety`.
        unsafe {
            let w = self.weights::<WHOLE>(w);
            for c in 0..C {
                y[c] = self.add(y[c], w, self.activations(x.add(c)));
            }
        }
    }
}

impl FloatFormat<Avx512Pair> for Pairs {
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
        // SAFETY: the trait method's `# Safety`; the second panel is at the token's distance from the first.
        unsafe {
            let w = [self.weights::<WHOLE>(w), self.weights::<WHOLE>(w.add(d.panel()))];
            for c in 0..C {
                let x = self.activations(x.add(c));
                y[c] = [self.add(y[c][0], w[0], x), self.add(y[c][1], w[1], x)];
            }
        }
    }
}

/// [`Pairs`] of panels written by [`interleave`].
#[derive(Clone, Copy)]
struct Interleaved(Pairs);

impl FloatFormat<Avx512Pair> for Interleaved {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;
    const VALUES: usize = 1;

    // The last weights of an odd depth are paired with zeros.
    const PADDED: bool = true;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: Avx512Pair,
        w: *const u8,
        x: *const f32,
        y: &mut [[__m512; 2]; C],
    ) {
        // SAFETY: the trait method's `# Safety`; the second panel is at the token's distance from the first.
        unsafe {
            let w = std::mem::transmute::<[__m512; 2], [__m512bh; 2]>(d.load_floats(w));
            for c in 0..C {
                let x = self.0.activations(x.add(c));
                y[c] = [self.0.add(y[c][0], w[0], x), self.0.add(y[c][1], w[1], x)];
            }
        }
    }
}

/// Adds the features of the level, as the compiler spells them.
macro_rules! compiled {
    ($($function:item)*) => {
        $(#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")]
        $function)*
    };
}

compiled! {
    fn one<const C: usize, const TO_L1: bool>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
        floats::<_, _, C>(Avx512Int::<TO_L1>::in_feature_region(), Pairs::in_feature_region(), panel, k, t, out);
    }
    fn two<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
        let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
        floats::<_, _, C>(d, Pairs::in_feature_region(), panels, k, t, out);
    }
    fn two_interleaved<const C: usize>(panels: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
        let d = Avx512Pair::in_feature_region(panels.len() / 2, C, 0);
        floats::<_, _, C>(d, Interleaved(Pairs::in_feature_region()), panels, k, t, out);
    }
    /// Interleaves a panel for [`Interleaved`].
    fn interleave(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
        assert!(panel.len() == k * PANEL_ROWS * 2 && Some(out.len()) == pair_bytes(k));
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
    /// Computes the bfloat16 counterpart of [`Simd::f32_products`](crate::simd::Simd::f32_products).
    fn products(rounds: u64) -> u64 {
        const CHAINS: usize = 12;
        let token = Pairs::in_feature_region();
        // SAFETY: any bits are bfloat16.
        let x = unsafe { token.activations(std::hint::black_box(&1.0)) };
        let mut sums = std::hint::black_box([Avx512Int::<false>::in_feature_region().zeros(); CHAINS]);
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = token.add(*sum, x, x);
            }
        }
        std::hint::black_box(sums);
        rounds * CHAINS as u64 * 32
    }
}

const fn tiles<const TO_L1: bool>() -> [TileFn; 12] {
    [
        one::<1, TO_L1>,
        one::<2, TO_L1>,
        one::<3, TO_L1>,
        one::<4, TO_L1>,
        one::<5, TO_L1>,
        one::<6, TO_L1>,
        one::<7, TO_L1>,
        one::<8, TO_L1>,
        one::<9, TO_L1>,
        one::<10, TO_L1>,
        one::<11, TO_L1>,
        one::<12, TO_L1>,
    ]
}

pub(crate) static KERNELS: Bf16Kernels = Bf16Kernels {
    tiles: [tiles::<false>(), tiles::<true>()],
    many: GemmKernels {
        variant: Variant::Interleaved,
        levels: &[Level::Avx512Bf16, Level::Amx],
        port: Port::Any,
        tokens: 12,
        unpack: Some(UnpackKernel {
            bytes: pair_bytes,
            panel: interleave,
            min_tiles: MIN_TILES,
            tiles: [two_interleaved::<12>, two_interleaved::<11>],
        }),
        panels: 2,
        tiles: Some([two::<12>, two::<11>]),
        any_columns: false,
    },
    products,
};
