//! Rotary frequencies (RoPE) of a model, with RoPE scaling: linear, Llama 3, YaRN, LongRoPE.

use crate::config::{RopeConfig, RopeScaling};
use leyden_kernels::ops::{ln, pow};
use std::f64::consts::TAU;

/// Frequencies in radians per position, one per pair, and the factor on cosine and sine.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    pub(crate) values: Vec<f64>,
    pub(crate) scale: f64,
}

impl Frequencies {
    /// Computes the frequencies for `rope`, each further divided by its entry in `divisors`, if given. LongRoPE's
    /// factors are passed as `divisors`.
    pub(crate) fn new(rope: &RopeConfig, divisors: Option<&[f32]>) -> Frequencies {
        let base = f64::from(rope.base);
        let dims = rope.dims as f64;
        let plain = (0..rope.dims / 2).map(|i| pow(base, -2.0 * i as f64 / dims));
        let mut scale = 1.0;
        let mut values: Vec<f64> = match rope.scaling {
            RopeScaling::None | RopeScaling::Undivided => plain.collect(),
            RopeScaling::Proportional { pairs, factor } => {
                plain.enumerate().map(|(i, f)| if i < pairs { f / f64::from(factor) } else { 0.0 }).collect()
            }
            RopeScaling::LongRope { attention, .. } => {
                scale = attention;
                plain.collect()
            }
            RopeScaling::Linear { factor } => plain.map(|f| f / f64::from(factor)).collect(),
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                let [factor, low, high] = [factor, low, high].map(f64::from);
                // Rotations over the original context: below `low` the frequency is divided, above `high` it is kept.
                let kept =
                    |f: f64| ((original_context as f64 * f / TAU - low) / (high - low)).clamp(0.0, 1.0);
                plain.map(|f| f / factor * (1.0 - kept(f)) + f * kept(f)).collect()
            }
            RopeScaling::Yarn { factor, original_context, ramp, attention } => {
                let factor = f64::from(factor);
                scale = attention;
                // Index of the pair that makes `turns` rotations over the original context.
                let pair = |turns: f32| {
                    dims * ln(original_context as f64 / (f64::from(turns) * TAU)) / (2.0 * ln(base))
                };
                let (mut low, mut high) = (pair(ramp.fast), pair(ramp.slow));
                if ramp.whole {
                    (low, high) = (low.floor(), high.ceil());
                }
                (low, high) = (low.max(0.0), high.min(dims - 1.0));
                let share = f64::from(ramp.extrapolated);
                let kept =
                    |i: usize| share * (1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0));
                plain.enumerate().map(|(i, f)| f / factor * (1.0 - kept(i)) + f * kept(i)).collect()
            }
        };
        if let Some(divisors) = divisors {
            values.iter_mut().zip(divisors).for_each(|(f, d)| *f /= f64::from(*d));
        }
        Frequencies { values, scale: scale * f64::from(rope.magnitude) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::YarnRamp;
    use leyden_kernels::ops::RopePairs;

    fn rope(scaling: RopeScaling) -> RopeConfig {
        RopeConfig { pairs: RopePairs::Interleaved, dims: 64, base: 10_000.0, scaling, magnitude: 1.0 }
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

    fn yarn(factor: f32, original_context: usize, ramp: YarnRamp) -> RopeScaling {
        RopeScaling::Yarn { factor, original_context, ramp, attention: 1.25 }
    }

    #[test]
    fn yarn_keeps_fast_pairs_and_divides_slow_ones() {
        let plain = Frequencies::new(&rope(RopeScaling::None), None);
        let y = Frequencies::new(&rope(yarn(4.0, 4096, YarnRamp::default())), None);
        assert_eq!(y.values[0], plain.values[0]);
        assert!((y.values[31] - plain.values[31] / 4.0).abs() < 1e-18);
        assert_eq!(y.scale, 1.25);
    }

    /// Values of transformers 5.23 for the published configurations, in F32.
    #[test]
    fn scaled_frequencies_are_those_of_transformers() {
        let check = |rope: RopeConfig, wanted: &[(usize, f64)]| {
            let found = Frequencies::new(&rope, None);
            for &(i, wanted) in wanted {
                let error = (found.values[i] - wanted).abs() / wanted;
                assert!(error < 1e-6, "{:?}: pair {i}: {} {wanted}", rope.scaling, found.values[i]);
            }
        };
        // Llama 3.2 1B.
        let scaling = RopeScaling::Llama3 { factor: 32.0, low: 1.0, high: 4.0, original_context: 8192 };
        check(
            RopeConfig { base: 500_000.0, ..rope(scaling) },
            &[
                (0, 1.0),
                (14, 0.003_211_446_106_433_868_4),
                (15, 0.001_290_548_010_729_253_3),
                (16, 0.000_429_556_705_057_621),
                (17, 9.708_286_233_944_818e-5),
                (18, 1.946_163_865_795_824_7e-5),
                (31, 9.418_306_490_260_875e-8),
            ],
        );
        // DeepSeek-R1-0528-Qwen3-8B.
        let scaling = yarn(4.0, 32_768, YarnRamp::default());
        check(
            RopeConfig { base: 1e6, dims: 128, ..rope(scaling) },
            &[
                (0, 1.0),
                (23, 0.006_978_305_988_013_744),
                (24, 0.005_375_321_488_827_467),
                (30, 0.001_064_360_956_661_403_2),
                (36, 0.000_179_841_154_022_142_3),
                (39, 6.490_394_298_452_884e-5),
                (40, 4.445_698_505_151_085_6e-5),
                (63, 3.102_344_408_034_696e-7),
            ],
        );
    }
}
