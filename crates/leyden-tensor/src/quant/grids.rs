//! The codebooks of the IQ1, IQ2 and IQ3 formats: lattice points in eight or four dimensions, which blocks refer to
//! by index.
//!
//! `grids.bin` has each point as a 16-bit number: eight values of two bits or four values of four bits, the first in
//! the lowest bits; `tests/golden/make_grids.py` writes it from gguf-py's tables. Here each value becomes a byte.

const FILE: &[u8] = include_bytes!("grids.bin");

/// Codebook of IQ2_XXS.
pub(super) static IQ2_XXS: [[u8; 8]; 256] = eights(0, &IQ2_LEVELS);
/// Codebook of IQ2_XS.
pub(super) static IQ2_XS: [[u8; 8]; 512] = eights(256, &IQ2_LEVELS);
/// Codebook of IQ2_S.
pub(super) static IQ2_S: [[u8; 8]; 1024] = eights(768, &IQ2_LEVELS);
/// Codebook of IQ1_S and IQ1_M, whose values are one less.
pub(super) static IQ1: [[u8; 8]; 2048] = eights(1792, &[0, 1, 2, 0]);
/// Codebook of IQ3_XXS.
pub(super) static IQ3_XXS: [[u8; 4]; 256] = fours(3840, &[4, 12, 20, 28, 36, 44, 52, 62]);
/// Codebook of IQ3_S.
pub(super) static IQ3_S: [[u8; 4]; 512] = fours(4096, &[1, 3, 5, 7, 9, 11, 13, 15]);

const IQ2_LEVELS: [u8; 4] = [8, 25, 43, 0];

const _: () = assert!(FILE.len() == 2 * (4096 + 512));

const fn number(i: usize) -> usize {
    FILE[2 * i] as usize | (FILE[2 * i + 1] as usize) << 8
}

const fn eights<const N: usize>(first: usize, levels: &[u8; 4]) -> [[u8; 8]; N] {
    let mut all = [[0; 8]; N];
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 8 {
            all[i][j] = levels[number(first + i) >> (2 * j) & 3];
            j += 1;
        }
        i += 1;
    }
    all
}

const fn fours<const N: usize>(first: usize, levels: &[u8; 8]) -> [[u8; 4]; N] {
    let mut all = [[0; 4]; N];
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 4 {
            all[i][j] = levels[number(first + i) >> (4 * j) & 7];
            j += 1;
        }
        i += 1;
    }
    all
}

/// Returns the signs of eight values from seven bits: the eighth makes the number of negative values even.
#[inline(always)]
pub(super) fn even_signs(seven: u32) -> u8 {
    let seven = (seven & 127) as u8;
    seven | ((seven.count_ones() & 1) << 7) as u8
}

/// Writes a point's values times a factor, value `j` negated if bit `j` of `signs` is set.
#[inline(always)]
pub(super) fn signed(factor: f32, point: &[u8], signs: u8, out: &mut [f32]) {
    for (j, (value, &level)) in out.iter_mut().zip(point).enumerate() {
        let size = factor * f32::from(level);
        *value = if signs >> j & 1 == 1 { -size } else { size };
    }
}
