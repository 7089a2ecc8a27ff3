//! Running a test: the same engine step that answers requests, with tokens that are given.

use std::time::Instant;

use leyden_engine::{Engine, EngineOptions, Outputs, SequenceId, StepEntry, StepPlan};

use super::Args;
use super::model::Loaded;
use crate::cli::failure::Failure;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Tokens read at once.
    pub(super) prompt: usize,
    /// Tokens generated one by one, per sequence.
    pub(super) generate: usize,
    /// Tokens in the context before, not timed.
    pub(super) depth: usize,
    /// Sequences that generate together.
    pub(super) parallel: usize,
    /// Threads, if the arguments name them.
    pub(super) threads: Option<usize>,
}

impl Test {
    /// As llama-bench names it: `pp512`, `tg128 @ d4096`, and `x8` for eight sequences.
    pub(super) fn name(&self) -> String {
        let mut name = match (self.prompt, self.generate) {
            (p, 0) => format!("pp{p}"),
            (0, n) => format!("tg{n}"),
            (p, n) => format!("pp{p}+tg{n}"),
        };
        if self.parallel > 1 {
            name += &format!(" x{}", self.parallel);
        }
        if self.depth > 0 {
            name += &format!(" @ d{}", self.depth);
        }
        name
    }

    /// Tokens that are timed, of all sequences.
    pub(super) fn tokens(&self) -> usize {
        (self.prompt + self.generate) * self.parallel
    }
}

/// Repetitions of one test.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) test: Test,
    pub(super) time: String,
    pub(super) nanoseconds: Vec<u64>,
    /// Tokens per second of the other program, in the same order.
    pub(super) versus: Vec<f64>,
}

impl Measured {
    pub(super) fn new(test: Test) -> Measured {
        Measured { test, time: super::clock::now(), nanoseconds: Vec::new(), versus: Vec::new() }
    }

    pub(super) fn add(&mut self, nanoseconds: u64) {
        self.nanoseconds.push(nanoseconds);
    }

    /// Tokens per second of each repetition.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.nanoseconds.iter().map(|ns| self.test.tokens() as f64 * 1e9 / (*ns).max(1) as f64).collect()
    }
}

/// Mean, and standard deviation of a sample; 0 of a single value.
pub(super) fn mean_and_deviation(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    if x.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = x.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// The middle value, or the mean of the two in the middle.
pub(super) fn median(x: &[f64]) -> f64 {
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    match x.len() {
        0 => 0.0,
        n if n % 2 == 1 => x[n / 2],
        n => (x[n / 2 - 1] + x[n / 2]) / 2.0,
    }
}

/// An engine that is ready to repeat a test.
pub(super) struct Bench {
    engine: Engine,
    test: Test,
    batch: usize,
    vocabulary: u32,
    state: u32,
}

impl Bench {
    pub(super) fn new(model: &Loaded, test: &Test, args: &Args) -> Result<Bench, Failure> {
        let length = test.depth + test.prompt + test.generate;
        let tokens = length.next_multiple_of(64).saturating_mul(test.parallel);
        let engine = Engine::new(
            model.decoder.clone(),
            model.cpu(test.threads)?,
            EngineOptions {
                kv_type: args.kv_type,
                context: length,
                cache_tokens: tokens,
                step_tokens: args.batch_size.max(test.parallel),
            },
        )
        .map_err(failed)?;
        let vocabulary = u32::try_from(model.decoder.vocabulary()).unwrap_or(u32::MAX);
        Ok(Bench { engine, test: *test, batch: args.batch_size, vocabulary, state: 42 })
    }

    /// Touches weights, cache and workspace: a step as wide as the test's widest, and one token.
    pub(super) fn warm_up(&mut self) -> Result<(), Failure> {
        let sequence = self.engine.open();
        if self.test.prompt > 0 {
            self.read(sequence, self.test.prompt.min(self.batch))?;
        }
        if self.test.generate > 0 && self.test.prompt < self.engine.options().context {
            self.read(sequence, 1)?;
        }
        self.engine.close(sequence);
        Ok(())
    }

    /// Runs the test once; returns the time of what is timed, in nanoseconds.
    pub(super) fn run(&mut self) -> Result<u64, Failure> {
        let sequences: Vec<SequenceId> = (0..self.test.parallel).map(|_| self.engine.open()).collect();
        for &sequence in &sequences {
            self.read(sequence, self.test.depth)?;
        }
        let start = Instant::now();
        for &sequence in &sequences {
            self.read(sequence, self.test.prompt)?;
        }
        for _ in 0..self.test.generate {
            let entries = sequences.iter().map(|&sequence| self.entry(sequence, 1)).collect();
            self.step(&StepPlan { entries })?;
        }
        let time = start.elapsed();
        for sequence in sequences {
            self.engine.close(sequence);
        }
        Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Reads `tokens` random tokens into a sequence, as many a step as allowed.
    fn read(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), Failure> {
        let mut left = tokens;
        while left > 0 {
            let n = left.min(self.batch);
            let entries = vec![self.entry(sequence, n)];
            self.step(&StepPlan { entries })?;
            left -= n;
        }
        Ok(())
    }

    fn entry(&mut self, sequence: SequenceId, n: usize) -> StepEntry {
        let tokens = (0..n).map(|_| self.token()).collect();
        StepEntry { sequence, tokens, outputs: Outputs::Last }
    }

    /// A token from a linear congruential generator (Numerical Recipes): any will do.
    fn token(&mut self) -> u32 {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.state >> 8) % self.vocabulary.max(1)
    }

    fn step(&mut self, plan: &StepPlan) -> Result<(), Failure> {
        self.engine.step(plan).map(drop).map_err(failed)
    }
}

fn failed(error: leyden_engine::Error) -> Failure {
    leyden::Error::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics() {
        assert_eq!(mean_and_deviation(&[2.0]), (2.0, 0.0));
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, 2.0_f64.sqrt()));
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn names_are_those_of_llama_bench() {
        let test = Test { prompt: 0, generate: 128, depth: 4096, parallel: 8, threads: None };
        assert_eq!(test.name(), "tg128 x8 @ d4096");
        assert_eq!(test.tokens(), 1024);
        assert_eq!(Test { prompt: 512, parallel: 1, depth: 0, ..test }.name(), "pp512+tg128");
    }
}
