//! Timing, and random numbers for the data.

use std::time::Instant;

use crate::cli::bench::median;

/// A sample lasts about this long at least, in seconds: many turns of a clock.
const SAMPLE: f64 = 2e-3;
/// Enough samples once they took this long together, in seconds, and are at least [`FEWEST`].
const ENOUGH: f64 = 0.5;
const FEWEST: usize = 3;

/// Times `call`, which is told how often it was called before: at most so many samples, and the median of their seconds.
pub(super) fn sampled(repetitions: usize, mut call: impl FnMut(usize)) -> (usize, f64) {
    let mut turn = 0;
    let mut sample = |calls: usize| {
        let start = Instant::now();
        for _ in 0..calls {
            call(turn);
            turn += 1;
        }
        start.elapsed().as_secs_f64() / calls as f64
    };
    // The first call touches everything; the second says how many make a sample.
    sample(1);
    let calls = ((SAMPLE / sample(1).max(1e-9)).ceil() as usize).clamp(1, 1_000);
    let mut samples = Vec::new();
    let start = Instant::now();
    while samples.len() < repetitions {
        if samples.len() >= FEWEST && start.elapsed().as_secs_f64() > ENOUGH {
            break;
        }
        samples.push(sample(calls));
    }
    (samples.len(), median(&samples))
}

/// A number from -1 to 1, from a linear congruential generator (Numerical Recipes): any will do.
pub(super) fn random(state: &mut u32) -> f32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*state >> 8) as f32 / (1 << 23) as f32 - 1.0
}
