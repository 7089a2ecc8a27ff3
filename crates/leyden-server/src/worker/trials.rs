//! Measurement of a machine's speed before the first request, for admission under a promise.

use super::active::Active;
use leyden_engine::Generator;
use leyden_engine::schedule::SchedulerOptions;
use std::time::{Duration, Instant};

/// Numbers of sequences and tokens of each step. The first one reads the weights into memory and is not counted.
const STEPS: [(usize, usize); 9] =
    [(1, 1), (1, 1), (1, 64), (4, 1), (8, 1), (1, 128), (2, 1), (16, 1), (1, 32)];
/// Time after which no further step is begun.
const MOST: Duration = Duration::from_secs(3);

/// Computes some steps and records their times. A step that fails is left out: requests then show the speed.
pub(super) fn measure(generator: &mut Generator<Active>, options: &SchedulerOptions) {
    let begun = Instant::now();
    for (i, (sequences, tokens)) in STEPS.into_iter().enumerate() {
        let fits = sequences * tokens <= options.step_tokens && tokens <= options.context;
        if !fits || sequences > options.running || begun.elapsed() > MOST {
            continue;
        }
        let from = Instant::now();
        if let Ok(load) = generator.trial(sequences, tokens)
            && i > 0
        {
            generator.calibrate(load, from.elapsed());
        }
    }
}
