//! The sigmoid-weighted linear unit (Hendrycks and Gimpel, 2016) as the gate of SwiGLU.

use super::{Lanes, exp16};
use crate::isa::{Isa, dispatch};

/// `x / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn silu16(x: &Lanes) -> Lanes {
    let e = exp16(&std::array::from_fn(|i| -x[i]));
    std::array::from_fn(|i| x[i] / (1.0 + e[i]))
}

#[inline(always)]
fn silu_mul_impl<I: Isa>(_isa: I, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up of one length");
    let (chunks, rest) = gate.as_chunks_mut::<16>();
    for (g, u) in chunks.iter_mut().zip(up.as_chunks::<16>().0) {
        let s = silu16(g);
        for i in 0..16 {
            g[i] = s[i] * u[i];
        }
    }
    let mut last = [0.0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let s = silu16(&last);
    for (i, (g, u)) in rest.iter_mut().zip(up.as_chunks::<16>().1).enumerate() {
        *g = s[i] * u;
    }
}

dispatch! {
    /// `gate = silu(gate) * up`, element by element.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn silu_mul => silu_mul_impl(gate: &mut [f32], up: &[f32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Tier;

    #[test]
    fn close_to_the_definition_on_every_tier() {
        let x: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) * 0.2).collect();
        for tier in Tier::available() {
            let mut y = x.clone();
            silu_mul(tier, &mut y, &vec![2.0; x.len()]);
            for (x, y) in x.iter().zip(&y) {
                let want = 2.0 * f64::from(*x) / (1.0 + (-f64::from(*x)).exp());
                assert!((f64::from(*y) - want).abs() <= 1e-6 * (1e-6 + want.abs()), "{x}: {y} {want}");
            }
        }
    }
}
