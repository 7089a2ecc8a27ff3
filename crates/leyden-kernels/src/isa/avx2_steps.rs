//! Tiles of five and six columns on AVX2, which take all sixteen registers: sums of 16 rows fill twelve, codes two, and what
//! is left holds an activation and a product. The compiler, which fetches ahead and adds in another order, would keep
//! some of the sums in memory; so the steps are written in assembly, and a step needs what is there and no more.

use super::avx2_dot::V;
use std::arch::asm;

// The compiler is not told that a step writes no memory: it would read ahead what the sums of later ones begin at, and keep that
// in memory again.

/// Makes a function that adds to the sums of so many columns the products of step `G` of a panel whose codes fill a lane in
/// turn, `[step][16][4 bytes]`, and of activations `[step][columns][4 bytes]`.
macro_rules! step {
    ($name:ident, $multiply:literal, $add:literal, $columns:literal: $($c:literal $low:ident $high:ident),*) => {
        /// # Safety
        /// The processor has AVX2; codes and activations are there.
        #[target_feature(enable = "avx2")]
        #[inline]
        unsafe fn $name<const G: usize>(sums: &mut [V; $columns], w: *const u8, a: *const i8) {
            let [$([$low, $high]),*] = sums;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "vmovdqu {w0}, ymmword ptr [{w} + {step}]",
                    "vmovdqu {w1}, ymmword ptr [{w} + {step} + 32]",
                    $(
                        concat!("vpbroadcastd {y}, dword ptr [{a} + {word} + 4 * ", $c, "]"),
                        concat!($multiply, " {t}, {w0}, {y}"),
                        concat!($multiply, " {y}, {w1}, {y}"),
                        concat!($add, " {", stringify!($low), "}, {", stringify!($low), "}, {t}"),
                        concat!($add, " {", stringify!($high), "}, {", stringify!($high), "}, {y}"),
                    )*
                    w = in(reg) w,
                    a = in(reg) a,
                    step = const 64 * G,
                    word = const 4 * $columns * G,
                    w0 = out(ymm_reg) _,
                    w1 = out(ymm_reg) _,
                    y = out(ymm_reg) _,
                    t = out(ymm_reg) _,
                    $($low = inout(ymm_reg) *$low, $high = inout(ymm_reg) *$high,)*
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}

step!(bytes_by_5, "vpmaddubsw", "vpaddw", 5: 0 l0 h0, 1 l1 h1, 2 l2 h2, 3 l3 h3, 4 l4 h4);
step!(bytes_by_6, "vpmaddubsw", "vpaddw", 6: 0 l0 h0, 1 l1 h1, 2 l2 h2, 3 l3 h3, 4 l4 h4, 5 l5 h5);
step!(words_by_5, "vpmaddwd", "vpaddd", 5: 0 l0 h0, 1 l1 h1, 2 l2 h2, 3 l3 h3, 4 l4 h4);
step!(words_by_6, "vpmaddwd", "vpaddd", 6: 0 l0 h0, 1 l1 h1, 2 l2 h2, 3 l3 h3, 4 l4 h4, 5 l5 h5);

/// Whether tiles of so many columns are multiplied here.
pub(super) const fn has(columns: usize) -> bool {
    matches!(columns, 5 | 6)
}

/// Adds the products of step `G`: of unsigned bytes, four a lane, in sums of 16 bits, or with `WORDS` of signed integers of 16
/// bits, two a lane, in sums of 32.
///
/// # Safety
/// The processor has AVX2; codes and activations are there.
#[inline(always)]
pub(super) unsafe fn step<const WORDS: bool, const C: usize, const G: usize>(
    sums: &mut [V; C],
    w: *const u8,
    a: *const i8,
) {
    let sums = std::ptr::from_mut(sums);
    // SAFETY: the caller's promise; there are as many columns as the type says.
    unsafe {
        match (WORDS, C) {
            (false, 5) => bytes_by_5::<G>(&mut *sums.cast(), w, a),
            (false, 6) => bytes_by_6::<G>(&mut *sums.cast(), w, a),
            (true, 5) => words_by_5::<G>(&mut *sums.cast(), w, a),
            (true, 6) => words_by_6::<G>(&mut *sums.cast(), w, a),
            _ => unreachable!(),
        }
    }
}

/// Runs [`step`] for each of the numbers that lie in a range that is known when this is compiled.
macro_rules! steps {
    ($words:literal, $sums:expr, $w:expr, $a:expr, $range:expr, $($g:literal)*) => {{
        $(
            if $range.contains(&$g) {
                $crate::isa::avx2_steps::step::<$words, _, $g>($sums, $w, $a);
            }
        )*
    }};
}
pub(super) use steps;
