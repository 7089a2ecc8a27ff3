//! What this machine could do at most, measured: bytes read and products made per second. A figure of a kernel
//! means little without the ceiling measured beside it, above all on machines that are shared.

use crate::context::Cpu;
use crate::error::Error;
use crate::gemm::microkernel::{bf16_products, matrix_products};
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::prefetch::prefetch;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::types::ActFormat;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What a machine could do at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes per second that all threads together read from memory.
    pub read_bytes: f64,
    /// Multiplications of 8-bit integers, each with its addition, per second.
    pub int8_macs: f64,
    /// Multiplications of 32-bit floats, each with its addition, per second.
    pub f32_macs: f64,
    /// Multiplications of bfloat16, each with its addition: of 32-bit floats where there are no instructions for them, or
    /// slower ones.
    pub bf16_macs: f64,
}

/// Bytes that are read for the bandwidth: far more than any cache keeps of a single reader.
const BYTES: usize = 1 << 30;
/// Bytes of one piece of work.
const PIECE: usize = 1 << 20;
const PASSES: usize = 4;

impl Ceilings {
    /// Multiplications per second of weights with activations of an activation format.
    #[must_use]
    pub fn macs(&self, act_format: ActFormat) -> f64 {
        match act_format {
            ActFormat::F32 => self.f32_macs,
            ActFormat::BF16 => self.bf16_macs,
            ActFormat::Q8Block32 | ActFormat::Q8Block128 | ActFormat::Q8Token(_) => self.int8_macs,
        }
    }

    /// Multiplications per second, each with its addition, that the team makes on its tier; bandwidth is left at zero.
    /// Takes milliseconds.
    #[must_use]
    pub fn products(cpu: &Cpu) -> Ceilings {
        let tier = cpu.tier();
        let of_matrices = matrix_products(tier).map_or(0.0, |products| macs(cpu, products));
        let int8_macs = macs(cpu, |n| int8_on(tier, n)).max(of_matrices);
        let f32_macs = macs(cpu, |n| f32_on(tier, n));
        let bf16_macs = bf16_products(tier).map_or(0.0, |products| macs(cpu, products)).max(f32_macs);
        Ceilings { read_bytes: 0.0, int8_macs, f32_macs, bf16_macs }
    }
}

/// What measures ceilings with one team. It keeps the memory that it reads, as taking and
/// returning pages disturbs what is measured next.
#[derive(Debug)]
pub struct Meter {
    cpu: Cpu,
    bytes: HugeBuf,
}

impl Meter {
    /// Takes the memory that is read, and touches it.
    ///
    /// # Errors
    /// No memory for it.
    pub fn new(cpu: Cpu) -> Result<Meter, Error> {
        let mut bytes =
            HugeBuf::zeroed(BYTES).map_err(|e| Error::memory("the measurement of bandwidth", BYTES, e))?;
        let out = Disjoint::new(bytes.as_mut_slice());
        cpu.pool().run(BYTES / PIECE, |i| {
            // SAFETY: pieces do not overlap, and each task has its own.
            let piece = unsafe { out.range(i * PIECE, PIECE) };
            // Pages of equal content may be merged by a host; none are equal here.
            for (j, word) in piece.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = ((i * PIECE + j) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            }
        });
        Ok(Meter { cpu, bytes })
    }

    /// Measures for less than a second, and takes the best of a few passes: what disturbs a pass only ever slows it.
    #[must_use]
    pub fn measure(&self) -> Ceilings {
        Ceilings { read_bytes: self.bandwidth(), ..Ceilings::products(&self.cpu) }
    }

    /// Bytes per second that the team reads from memory.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        let (cpu, bytes) = (&self.cpu, self.bytes.as_slice());
        let mut best = 0.0_f64;
        for _ in 0..PASSES {
            let total = AtomicU64::new(0);
            let start = Instant::now();
            cpu.pool().run(BYTES / PIECE, |i| {
                let sum = read_on(cpu.tier(), &bytes[i * PIECE..(i + 1) * PIECE]);
                total.fetch_add(sum, Ordering::Relaxed);
            });
            let seconds = start.elapsed().as_secs_f64();
            black_box(total);
            best = best.max(BYTES as f64 / seconds);
        }
        best
    }
}

/// Sums words, and asks for lines ahead as the kernels do.
#[inline(always)]
fn read<I: Simd>(_isa: I, bytes: &[u8]) -> u64 {
    let mut sums = [0_u64; 32];
    for line in bytes.as_chunks::<256>().0 {
        for at in 0..4 {
            prefetch(line.as_ptr().wrapping_add(2048 + 64 * at));
        }
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |a, b| a.wrapping_add(*b))
}

dispatch! {
    fn read_on => read(bytes: &[u8]) -> u64
}

/// Products per second of all members together, where `run(n)` makes `n` rounds and says how many products those
/// were.
fn macs(cpu: &Cpu, run: impl Fn(u64) -> u64 + Sync) -> f64 {
    const ROUNDS: u64 = 200_000;
    let members = cpu.pool().members();
    let mut best = 0.0_f64;
    for _ in 0..PASSES {
        let total = AtomicU64::new(0);
        let start = Instant::now();
        cpu.pool().run(members * 16, |_| {
            total.fetch_add(run(ROUNDS / 16), Ordering::Relaxed);
        });
        best = best.max(total.into_inner() as f64 / start.elapsed().as_secs_f64());
    }
    best
}

#[inline(always)]
fn int8<I: Simd>(isa: I, rounds: u64) -> u64 {
    isa.int8_products(rounds)
}

#[inline(always)]
fn f32s<I: Simd>(isa: I, rounds: u64) -> u64 {
    isa.f32_products(rounds)
}

dispatch! {
    fn int8_on => int8(rounds: u64) -> u64
}
dispatch! {
    fn f32_on => f32s(rounds: u64) -> u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn products_are_counted_on_every_tier() {
        for tier in Tier::available() {
            assert!(int8_on(tier, 10) >= 10 && f32_on(tier, 10) >= 10);
            let bytes = vec![1; 1 << 12];
            assert_eq!(read_on(tier, &bytes), 0x0101_0101_0101_0101_u64.wrapping_mul(512));
        }
    }
}
