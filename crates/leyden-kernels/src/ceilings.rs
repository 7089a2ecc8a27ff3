//! Measured ceilings of the machine: bytes read and multiplications per second. A kernel's speed means little without
//! the ceiling measured beside it, above all on shared machines.

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

/// Upper limits of the machine's speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes per second that all threads together read from memory.
    pub read_bytes: f64,
    /// Multiply-adds of 8-bit integers per second.
    pub int8_macs: f64,
    /// Multiply-adds of 32-bit floats per second.
    pub f32_macs: f64,
    /// Multiply-adds of bfloat16 per second; those of 32-bit floats where bfloat16 instructions are missing or slower.
    pub bf16_macs: f64,
}

/// Bytes read to measure bandwidth: far more than any cache keeps for a single reader.
const BYTES: usize = 1 << 30;
/// Bytes of one task.
const PIECE: usize = 1 << 20;
const PASSES: usize = 4;

impl Ceilings {
    /// Returns the multiply-adds per second of weights with activations in `act_format`.
    #[must_use]
    pub fn macs(&self, act_format: ActFormat) -> f64 {
        match act_format {
            ActFormat::F32 => self.f32_macs,
            ActFormat::BF16 => self.bf16_macs,
            ActFormat::Q8Block32 | ActFormat::Q8Block128 | ActFormat::Q8Token(_) => self.int8_macs,
        }
    }

    /// Measures the multiply-adds per second of the team on its tier; bandwidth is left at zero. Takes milliseconds.
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

/// Measures ceilings with one team. Keeps the memory that it reads, because allocating and freeing pages disturbs the
/// next measurement.
#[derive(Debug)]
pub struct Meter {
    cpu: Cpu,
    bytes: HugeBuf,
}

impl Meter {
    /// Allocates and touches the memory that is read.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(cpu: Cpu) -> Result<Meter, Error> {
        let mut bytes =
            HugeBuf::zeroed(BYTES).map_err(|e| Error::memory("the measurement of bandwidth", BYTES, e))?;
        let out = Disjoint::new(bytes.as_mut_slice());
        cpu.pool().run(BYTES / PIECE, |i| {
            // SAFETY: pieces do not overlap, and each task has its own.
            let piece = unsafe { out.range(i * PIECE, PIECE) };
            // A host may merge pages of equal content; all of these differ.
            for (j, word) in piece.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *word = ((i * PIECE + j) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            }
        });
        Ok(Meter { cpu, bytes })
    }

    /// Measures for less than a second; takes the best of a few passes, because disturbances only slow a pass down.
    #[must_use]
    pub fn measure(&self) -> Ceilings {
        Ceilings { read_bytes: self.bandwidth(), ..Ceilings::products(&self.cpu) }
    }

    /// Measures the bytes per second that the team reads from memory.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.rate(BYTES)
    }

    /// Measures the bytes per second that the team reads of the same `bytes` bytes again and again, rounded up to whole
    /// pieces and at most the memory of [`bandwidth`](Self::bandwidth): from caches if these hold them.
    #[must_use]
    pub fn rate(&self, bytes: usize) -> f64 {
        let (cpu, pieces) = (&self.cpu, bytes.div_ceil(PIECE).clamp(1, BYTES / PIECE));
        let memory = &self.bytes.as_slice()[..pieces * PIECE];
        let mut best = 0.0_f64;
        for _ in 0..PASSES {
            let total = AtomicU64::new(0);
            let start = Instant::now();
            cpu.pool().run(pieces, |i| {
                let sum = read_on(cpu.tier(), &memory[i * PIECE..(i + 1) * PIECE]);
                total.fetch_add(sum, Ordering::Relaxed);
            });
            let seconds = start.elapsed().as_secs_f64();
            black_box(total);
            best = best.max(memory.len() as f64 / seconds);
        }
        best
    }
}

/// Sums words; prefetches ahead as the kernels do.
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

/// Measures the multiply-adds per second of all team members together; `run(n)` runs `n` rounds and returns their
/// number of multiply-adds.
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
