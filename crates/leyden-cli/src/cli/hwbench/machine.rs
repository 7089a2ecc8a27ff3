//! Limits of the machine, and cost of a parallel job.

use std::time::Instant;

use leyden_kernels::{ActFormat, Ceilings, Cpu, Level, Meter, Pool, Tier};
use serde::Serialize;

use super::bar::Bar;
use crate::cli::bench::median;
use crate::cli::failure::Failure;

/// Number of empty jobs timed together, because a single one is too short for the clock.
const JOBS: usize = 2_000;
/// Number of samples of a median.
const SAMPLES: usize = 9;

/// Peak rates of the machine.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) bandwidth: Vec<Bandwidth>,
    pub(super) peaks: Vec<Peaks>,
    pub(super) barriers: Vec<Barrier>,
}

/// Read bandwidth of memory.
#[derive(Debug, Serialize)]
pub(super) struct Bandwidth {
    pub(super) threads: usize,
    pub(super) bytes_per_second: f64,
}

/// Peak rates of products in registers on one tier, with all threads.
#[derive(Debug, Serialize)]
pub(super) struct Peaks {
    pub(super) tier: &'static str,
    pub(super) int8_macs_per_second: f64,
    pub(super) f32_macs_per_second: f64,
    pub(super) bf16_macs_per_second: f64,
}

/// Cost of an empty parallel job.
#[derive(Debug, Serialize)]
pub(super) struct Barrier {
    pub(super) threads: usize,
    pub(super) microseconds: f64,
}

impl Machine {
    /// Returns the number of steps of the bar in [`Machine::measure`].
    pub(super) fn steps(tiers: &[Tier], threads: usize) -> usize {
        1 + usize::from(threads > 1) + tiers.len() + threads
    }

    pub(super) fn measure(best: Tier, tiers: &[Tier], threads: usize, bar: &Bar) -> Result<Machine, Failure> {
        let mut bandwidth = Vec::new();
        for threads in if threads > 1 { vec![1, threads] } else { vec![1] } {
            bar.next(format!("bandwidth x{threads}"));
            let bytes_per_second = Meter::new(start(best, threads)?).map_err(Failure::new)?.bandwidth();
            bandwidth.push(Bandwidth { threads, bytes_per_second });
        }
        let mut peaks = Vec::new();
        for &tier in tiers {
            bar.next(format!("{} products", tier.level()));
            let Ceilings { int8_macs, f32_macs, bf16_macs, .. } = Ceilings::products(&start(tier, threads)?);
            peaks.push(Peaks {
                tier: tier.level().name(),
                int8_macs_per_second: int8_macs,
                f32_macs_per_second: f32_macs,
                bf16_macs_per_second: bf16_macs,
            });
        }
        let mut barriers = Vec::new();
        for threads in 1..=threads {
            bar.next(format!("barrier x{threads}"));
            barriers.push(Barrier { threads, microseconds: barrier(&start(best, threads)?) });
        }
        Ok(Machine { bandwidth, peaks, barriers })
    }

    /// Returns the bytes per second that all threads together read.
    pub(super) fn read_bytes(&self) -> f64 {
        self.bandwidth.iter().map(|b| b.bytes_per_second).fold(0.0, f64::max)
    }

    /// Returns the peak products per second of a tier for an activation format.
    pub(super) fn macs(&self, level: Level, grid: ActFormat) -> f64 {
        let peaks = self.peaks.iter().find(|p| p.tier == level.name());
        peaks.map_or(0.0, |p| {
            let (int8_macs, f32_macs) = (p.int8_macs_per_second, p.f32_macs_per_second);
            let bf16_macs = p.bf16_macs_per_second;
            Ceilings { read_bytes: self.read_bytes(), int8_macs, f32_macs, bf16_macs }.macs(grid)
        })
    }
}

/// Starts a team of threads on a tier.
pub(super) fn start(tier: Tier, threads: usize) -> Result<Cpu, Failure> {
    Cpu::new(tier, threads).map_err(|error| Failure::new(format!("cannot start {threads} threads: {error}")))
}

/// Returns the microseconds of an empty job with an index for each thread, from its publication to its end.
fn barrier(cpu: &Cpu) -> f64 {
    let pool: &Pool = cpu.pool();
    let sample = || {
        let start = Instant::now();
        for _ in 0..JOBS {
            pool.run(pool.members(), |i| {
                std::hint::black_box(i);
            });
        }
        start.elapsed().as_secs_f64() * 1e6 / JOBS as f64
    };
    sample();
    let samples: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
    median(&samples)
}
