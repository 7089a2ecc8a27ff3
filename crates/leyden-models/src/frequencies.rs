//! Rotary frequencies of a model, with scaling.

use crate::config::{RopeConfig, RopeScaling};
use leyden_kernels::ops::{ln, pow};
use std::f64::consts::TAU;

/// Frequencies in radians per position, one per pair, and the factor on cosine and sine.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    pub(crate) values: Vec<f64>,
    pub(crate) scale: f64,
}

/// YaRN's ramp: pairs that turn more often than FAST times over the original context are kept, those that turn
/// less often than SLOW times are divided (the paper's beta and alpha for Llama).
const FAST: f64 = 32.0;
const SLOW: f64 = 1.0;

impl Frequencies {
    /// Frequencies for `rope`, each further divided by its entry of `divisors` where there are any.
    pub(crate) fn new(rope: &RopeConfig, divisors: Option<&[f32]>) -> Frequencies {
        let base = f64::from(rope.base);
        let dims = rope.dims as f64;
        let plain = (0..rope.dims / 2).map(|i| pow(base, -2.0 * i as f64 / dims));
        let mut scale = 1.0;
        let mut values: Vec<f64> = match rope.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / f64::from(factor)).collect(),
            RopeScaling::Yarn { factor, original_context } => {
                let factor = f64::from(factor);
                scale = 1.0 + 0.1 * ln(factor.max(1.0));
                // The pair that makes `turns` turns over the original context.
                let pair = |turns: f64| dims * ln(original_context as f64 / (turns * TAU)) / (2.0 * ln(base));
                let low = pair(FAST).floor().max(0.0);
                let high = pair(SLOW).ceil().min(dims - 1.0);
                let kept = |i: usize| 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                plain.enumerate().map(|(i, f)| f / factor * (1.0 - kept(i)) + f * kept(i)).collect()
            }
        };
        if let Some(divisors) = divisors {
            values.iter_mut().zip(divisors).for_each(|(f, d)| *f /= f64::from(*d));
        }
        Frequencies { values, scale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_kernels::ops::RopePairs;

    fn rope(scaling: RopeScaling) -> RopeConfig {
        RopeConfig { pairs: RopePairs::Interleaved, dims: 64, base: 10_000.0, scaling }
    }

    #[test]
    fn plain_and_linear() {
        let f = Frequencies::new(&rope(RopeScaling::None), None);
        assert_eq!(f.values[0], 1.0);
        assert!((f.values[16] - 0.01).abs() < 1e-15);
        let half = Frequencies::new(&rope(RopeScaling::Linear { factor: 2.0 }), None);
        assert!(f.values.iter().zip(&half.values).all(|(a, b)| (a / 2.0 - b).abs() < 1e-18));
        let divided = Frequencies::new(&rope(RopeScaling::None), Some(&[8.0; 32]));
        assert!(f.values.iter().zip(&divided.values).all(|(a, b)| (a / 8.0 - b).abs() < 1e-18));
    }

    #[test]
    fn yarn_keeps_fast_pairs_and_divides_slow_ones() {
        let plain = Frequencies::new(&rope(RopeScaling::None), None);
        let y = Frequencies::new(&rope(RopeScaling::Yarn { factor: 4.0, original_context: 4096 }), None);
        assert_eq!(y.values[0], plain.values[0]);
        assert!((y.values[31] - plain.values[31] / 4.0).abs() < 1e-18);
        assert!((y.scale - (1.0 + 0.1 * 4f64.ln())).abs() < 1e-15);
    }
}
