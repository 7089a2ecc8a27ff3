//! Rotary position embedding (Su et al., 2021): pairs of a head's values are rotated by angles proportional to the
//! position.

use super::trigonometry::sin_cos;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// Pairing of a head's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// Neighbours: (0, 1), (2, 3), …; the order of Llama weights in GGUF.
    Interleaved,
    /// Halves: (0, n/2), (1, n/2 + 1), …; the order of Hugging Face and most other architectures.
    Halves,
}

/// Rotation of one position: cosine and sine per pair.
#[derive(Clone, Debug, Default)]
pub struct Rotation {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rotation {
    /// Sets the rotation of `position`. Pair i is rotated by `position * frequencies[i]` radians; cosine and sine are
    /// multiplied by `scale` (1 except for YaRN).
    pub fn set(&mut self, position: usize, frequencies: &[f64], scale: f64) {
        self.cos.clear();
        self.sin.clear();
        for f in frequencies {
            let (s, c) = sin_cos(position as f64 * f);
            self.cos.push((c * scale) as f32);
            self.sin.push((s * scale) as f32);
        }
    }
}

#[inline(always)]
fn rope_impl<I: Simd>(_isa: I, heads: &mut [f32], head_dim: usize, pairs: RopePairs, rotation: &Rotation) {
    let n = rotation.cos.len();
    assert!(2 * n <= head_dim && rotation.sin.len() == n, "{n} pairs in a head of {head_dim}");
    for head in heads.chunks_exact_mut(head_dim) {
        let head = &mut head[..2 * n];
        match pairs {
            RopePairs::Interleaved => {
                let pairs = head.as_chunks_mut::<2>().0.iter_mut();
                for ((p, c), s) in pairs.zip(&rotation.cos).zip(&rotation.sin) {
                    *p = [p[0].mul_add(*c, -(p[1] * s)), p[0].mul_add(*s, p[1] * c)];
                }
            }
            RopePairs::Halves => {
                let (a, b) = head.split_at_mut(n);
                for (((a, b), c), s) in a.iter_mut().zip(b).zip(&rotation.cos).zip(&rotation.sin) {
                    (*a, *b) = (a.mul_add(*c, -(*b * s)), a.mul_add(*s, *b * c));
                }
            }
        }
    }
}

dispatch! {
    /// Rotates the leading values of every head in `heads`.
    ///
    /// # Panics
    /// If the rotation has more pairs than a head.
    pub fn rope => rope_impl(heads: &mut [f32], head_dim: usize, pairs: RopePairs, rotation: &Rotation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn both_pairings_turn_the_same_pairs_on_every_tier() {
        let freq: Vec<f64> = (0..16).map(|i| 1.0 / 10f64.powi(i / 4)).collect();
        let mut rotation = Rotation::default();
        rotation.set(1234, &freq, 1.0);
        let halves: Vec<f32> = (0..96).map(|i| (i as f32 * 0.7).sin()).collect();
        // A head of 48 values, 32 of them rotated: the same values as neighbours instead of halves.
        let mut inter = halves.clone();
        for (h, x) in halves.chunks(48).zip(inter.chunks_mut(48)) {
            for i in 0..16 {
                (x[2 * i], x[2 * i + 1]) = (h[i], h[16 + i]);
            }
        }
        let mut want: Option<Vec<f32>> = None;
        for tier in Tier::available() {
            let (mut a, mut b) = (halves.clone(), inter.clone());
            rope(tier, &mut a, 48, RopePairs::Halves, &rotation);
            rope(tier, &mut b, 48, RopePairs::Interleaved, &rotation);
            for (a, b) in a.chunks(48).zip(b.chunks(48)) {
                for i in 0..16 {
                    assert_eq!((a[i], a[16 + i]), (b[2 * i], b[2 * i + 1]));
                }
                assert_eq!(a[32..], b[32..]);
            }
            assert_eq!(*want.get_or_insert_with(|| a.clone()), a, "{tier:?}");
        }
        let x = halves[0];
        let y = halves[16];
        let (s, c) = (1234f64.sin() as f32, 1234f64.cos() as f32);
        assert!((want.unwrap()[0] - (x * c - y * s)).abs() < 1e-6);
    }
}
