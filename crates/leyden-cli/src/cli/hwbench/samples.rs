//! Timing, and random numbers for the data.

use std::time::Instant;

use crate::cli::bench::median;

/// Minimum time of a sample in seconds: many ticks of the clock.
const SAMPLE: f64 = 2e-3;
/// Time in seconds after which sampling stops, if there are at least [`MIN_SAMPLES`] samples.
pub(super) const ENOUGH: f64 = 0.5;
pub(super) const MIN_SAMPLES: usize = 3;

/// Times `call`, whose argument is the number of earlier calls. Returns the number of samples, at most `repetitions`,
/// and their median in seconds.
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
    // The first call touches all memory; the second determines the number of calls in a sample.
    sample(1);
    let calls = ((SAMPLE / sample(1).max(1e-9)).ceil() as usize).clamp(1, 1_000);
    let mut samples = Vec::new();
    let start = Instant::now();
    while samples.len() < repetitions {
        if samples.len() >= MIN_SAMPLES && start.elapsed().as_secs_f64() > ENOUGH {
            break;
        }
        samples.push(sample(calls));
    }
    (samples.len(), median(&samples))
}

/// Returns a number from -1 to 1 from a linear congruential generator (Numerical Recipes).
pub(super) fn random(state: &mut u32) -> f32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*state >> 8) as f32 / (1 << 23) as f32 - 1.0
}
