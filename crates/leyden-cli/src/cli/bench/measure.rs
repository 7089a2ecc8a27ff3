//! Running a test: the engine's step with given tokens.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::time::Instant;

use leyden_engine::{Engine, EngineOptions, Outputs, SequenceId, StepEntry, StepPlan};
use leyden_kernels::Ceilings;
use leyden_kernels::attention::KvType;
use leyden_kernels::topology::{EnergyMeter, SysFs};

use super::model::Loaded;
use super::test_case::Test;
use crate::cli::failure::Failure;

/// Repetitions of one test.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) test: Test,
    pub(super) time: String,
    pub(super) nanoseconds: Vec<u64>,
    /// Energy of the machine in each repetition, in joules, if it can be read.
    pub(super) joules: Vec<f64>,
    /// Tokens per second of the other program in each repetition.
    pub(super) versus: Vec<f64>,
    /// Limits of the machine before each repetition; empty if not requested.
    pub(super) ceilings: Vec<Ceilings>,
}

impl Measured {
    pub(super) fn new(test: Test) -> Measured {
        let (nanoseconds, joules, versus, ceilings) = Default::default();
        Measured {
            test,
            time: leyden_dates::date_time(leyden_dates::unix_time()),
            nanoseconds,
            joules,
            versus,
            ceilings,
        }
    }

    pub(super) fn add(&mut self, sample: &Sample) {
        self.nanoseconds.push(sample.nanoseconds);
        self.joules.extend(sample.joules);
    }

    /// Returns the joules per token, if the energy of every repetition is known.
    pub(super) fn joules_per_token(&self) -> Option<f64> {
        let tokens = self.test.tokens() * self.nanoseconds.len();
        (tokens > 0 && self.joules.len() == self.nanoseconds.len())
            .then(|| self.joules.iter().sum::<f64>() / tokens as f64)
    }

    /// Returns the tokens per second of each repetition.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.nanoseconds.iter().map(|ns| self.test.tokens() as f64 * 1e9 / (*ns).max(1) as f64).collect()
    }
}

/// Returns the mean and the standard deviation of a sample, which is 0 for a single value.
pub(super) fn mean_and_deviation(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    if x.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = x.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// Returns the median.
pub(in crate::cli) fn median(x: &[f64]) -> f64 {
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    match x.len() {
        0 => 0.0,
        n if n % 2 == 1 => x[n / 2],
        n => (x[n / 2 - 1] + x[n / 2]) / 2.0,
    }
}

/// Time and energy of one repetition.
pub(super) struct Sample {
    /// Time from the start of the first replica to the end of the last.
    nanoseconds: u64,
    joules: Option<f64>,
}

/// Replicas of a test, ready to repeat it.
pub(super) struct Bench {
    teams: Vec<Team>,
    energy: Option<EnergyMeter>,
}

/// Replica: an engine with a thread that drives it.
struct Team {
    engine: Engine,
    test: Test,
    vocabulary: u32,
    state: u32,
    sequences: Vec<SequenceId>,
}

impl Bench {
    pub(super) fn new(model: &Loaded, test: &Test, kv_type: KvType) -> Result<Bench, Failure> {
        let length = test.depth + test.prompt + test.generate;
        let options = EngineOptions {
            kv_type,
            context: length,
            cache_tokens: length.next_multiple_of(64).saturating_mul(test.parallel),
            step_tokens: test.batch.max(test.parallel),
        };
        let (network, cpus) = model.team(test)?;
        let vocabulary = u32::try_from(network.vocabulary()).unwrap_or(u32::MAX);
        let mut teams = Vec::new();
        for (cpu, seed) in cpus.into_iter().zip(42..) {
            let engine = Engine::new(network.clone(), cpu, options).map_err(failed)?;
            teams.push(Team { engine, test: *test, vocabulary, state: seed, sequences: Vec::new() });
        }
        Ok(Bench { teams, energy: EnergyMeter::find(&SysFs::machine()) })
    }

    /// Touches weights, cache and workspace of every replica.
    pub(super) fn warm_up(&mut self) -> Result<(), Failure> {
        self.each(Team::warm_up).map(drop)
    }

    /// Runs the test once.
    pub(super) fn run(&mut self) -> Result<Sample, Failure> {
        self.each(Team::prepare)?;
        let start = Barrier::new(self.teams.len());
        let before = self.energy.as_ref().and_then(EnergyMeter::read);
        let times = self.each(|team| {
            start.wait();
            let start = Instant::now();
            team.run()?;
            Ok((start, Instant::now()))
        })?;
        let after = self.energy.as_ref().and_then(EnergyMeter::read);
        let first = times.iter().map(|time| time.0).min();
        let last = times.iter().map(|time| time.1).max();
        let time = last.zip(first).map_or(0, |(last, first)| (last - first).as_nanos());
        let joules = self.energy.as_ref().zip(before.zip(after));
        Ok(Sample {
            nanoseconds: u64::try_from(time).unwrap_or(u64::MAX),
            joules: joules.map(|(meter, (before, after))| meter.joules(&before, &after)),
        })
    }

    /// Calls `f` for all replicas at the same time, in threads on the CPUs of each replica.
    fn each<T: Send>(
        &mut self,
        f: impl Fn(&mut Team) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, Failure> {
        std::thread::scope(|scope| {
            let f = &f;
            let run = |team: &mut Team| {
                // If the thread cannot be placed it runs on other CPUs, with the same results.
                let _ = team.engine.cpu().bind_caller();
                f(team)
            };
            let threads: Vec<_> = self.teams.iter_mut().map(|team| scope.spawn(move || run(team))).collect();
            let results =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
            results.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

impl Team {
    /// Runs a step as large as the largest of the test, and one token.
    fn warm_up(&mut self) -> Result<(), Failure> {
        let sequence = self.engine.open();
        if self.test.prompt > 0 {
            self.read(sequence, self.test.prompt.min(self.test.batch))?;
        }
        if self.test.generate > 0 && self.test.prompt < self.engine.options().context {
            self.read(sequence, 1)?;
        }
        self.engine.close(sequence);
        Ok(())
    }

    /// Opens the sequences and computes their tokens before the test.
    fn prepare(&mut self) -> Result<(), Failure> {
        self.sequences = (0..self.test.parallel).map(|_| self.engine.open()).collect();
        for sequence in self.sequences.clone() {
            self.read(sequence, self.test.depth)?;
        }
        Ok(())
    }

    /// Runs the timed part of a test.
    fn run(&mut self) -> Result<(), Failure> {
        let sequences = std::mem::take(&mut self.sequences);
        for &sequence in &sequences {
            self.read(sequence, self.test.prompt)?;
        }
        for _ in 0..self.test.generate {
            let entries = sequences.iter().map(|&sequence| self.entry(sequence, 1)).collect();
            self.step(&StepPlan { entries })?;
        }
        for sequence in sequences {
            self.engine.close(sequence);
        }
        Ok(())
    }

    /// Computes `tokens` random tokens of a sequence, in steps of the maximum size.
    fn read(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), Failure> {
        let mut left = tokens;
        while left > 0 {
            let n = left.min(self.test.batch);
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

    /// Returns a token from a linear congruential generator (Numerical Recipes).
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
        let test = Test {
            prompt: 0,
            generate: 128,
            depth: 4096,
            parallel: 8,
            batch: 512,
            replicas: 2,
            threads: None,
            threads_batch: None,
        };
        assert_eq!(test.name(), "tg128 x8 @ d4096");
        assert_eq!((test.users(), test.tokens()), (16, 2048));
        assert_eq!(Test { prompt: 512, parallel: 1, depth: 0, ..test }.name(), "pp512+tg128");
    }
}
