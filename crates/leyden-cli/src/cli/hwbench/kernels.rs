//! Timing of the products of one weight type on one tier.

use leyden_kernels::gemm::{PackedWeights, Product, Write, kernel_choice, multiply};
use leyden_kernels::memory::Aligned;
use leyden_kernels::{ActFormat, Cpu, Level, PackedA};
use leyden_tensor::{DType, TensorView, quant};
use serde::Serialize;

use super::args::Args;
use super::machine::Machine;
use super::samples::{random, sampled};
use crate::cli::failure::Failure;

/// Number of different rows of weights, which are repeated.
const DIFFERENT: usize = 61;
/// Number of rows per thread for the scalar path, which is hundreds of times slower.
const PLAIN_ROWS: usize = 32;

/// Weights of one type, in several copies.
#[derive(Debug)]
pub(super) struct Weights {
    dtype: DType,
    rows: usize,
    k: usize,
    copies: Vec<PackedWeights>,
    /// First rows, for the scalar path.
    few: PackedWeights,
}

/// Measurement of a product.
#[derive(Debug, Serialize)]
pub(super) struct Timed {
    #[serde(rename = "type")]
    pub(super) dtype: &'static str,
    pub(super) tier: &'static str,
    /// True if the dispatcher chooses this tier for this number of columns.
    pub(super) picked: bool,
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) columns: usize,
    /// Name of the kernel, and the minimum of tiles for which panels are unpacked.
    pub(super) kernel: String,
    /// Bytes of packed weights in one copy, and number of copies.
    pub(super) weight_bytes: usize,
    pub(super) copies: usize,
    /// True if the copies together exceed the caches.
    pub(super) beyond_caches: bool,
    pub(super) samples: usize,
    pub(super) median_seconds: f64,
    pub(super) macs_per_second: f64,
    pub(super) weight_bytes_per_second: f64,
    /// Share of the bandwidth of all threads; `None` if the weights fit the caches.
    pub(super) bandwidth_share: Option<f64>,
    /// Share of the tier's peak rate of products.
    pub(super) products_share: f64,
}

impl Weights {
    /// Creates random weights, in copies of `bytes` in all, at least one copy.
    pub(super) fn new(
        cpu: &Cpu,
        dtype: DType,
        [rows, k]: [usize; 2],
        bytes: usize,
    ) -> Result<Weights, Failure> {
        let row_bytes = dtype.row_bytes(k).ok_or_else(|| {
            Failure::usage(format!(
                "--shape: the depth {k} is not a multiple of {dtype}'s block of {}",
                dtype.block_len()
            ))
        })?;
        let mut state = 1_u32;
        let mut different = vec![0; row_bytes * rows.min(DIFFERENT)];
        for row in different.chunks_exact_mut(row_bytes) {
            let values: Vec<f32> = (0..k).map(|_| random(&mut state)).collect();
            if dtype.encodes() {
                quant::encode_row(dtype, &values, row);
                continue;
            }
            // Random bits are valid weights. Clearing the highest exponent bit of each 16-bit number avoids infinities.
            row.iter_mut().zip(values.iter().cycle()).for_each(|(byte, v)| *byte = v.to_bits() as u8 & 0xbf);
        }
        let total = row_bytes.checked_mul(rows).ok_or_else(|| Failure::usage("`--shape` is too large"))?;
        let mut file = Vec::new();
        file.try_reserve_exact(total)
            .map_err(|_| Failure::new(format!("no memory for {total} bytes of weights")))?;
        file.extend(different.iter().cycle().take(total));
        let pack = |rows: usize| {
            let shape = [rows, k];
            let tensor = TensorView::new("weights", dtype, &shape, &file[..row_bytes * rows])?;
            PackedWeights::pack(cpu, &tensor).map_err(Failure::new)
        };
        let mut copies = vec![pack(rows)?];
        for _ in 1..bytes.div_ceil(copies[0].bytes().max(1)) {
            copies.push(pack(rows)?);
        }
        let few = pack(rows.min(PLAIN_ROWS * cpu.pool().members()))?;
        Ok(Weights { dtype, rows, k, copies, few })
    }

    /// Returns the activation format.
    pub(super) fn act_format(&self) -> ActFormat {
        self.copies[0].act_format()
    }

    /// Times products with `columns` columns on the tier of `cpu`.
    pub(super) fn time(&self, cpu: &Cpu, columns: usize, args: &Args, machine: &Machine) -> Timed {
        let plain = cpu.tier().level() == Level::Scalar;
        let copies = if plain { std::slice::from_ref(&self.few) } else { &self.copies[..] };
        let rows = if plain { self.few.rows() } else { self.rows };
        let mut state = 2_u32;
        // As in models, most activations are small relative to the largest.
        let x: Vec<f32> = (0..columns * self.k).map(|_| (0..4).map(|_| random(&mut state)).sum()).collect();
        let mut input = PackedA::default();
        input.fill(cpu.tier(), cpu.pool(), self.act_format(), &x, self.k);
        let mut out = Aligned::zeroed(rows * columns);
        let (samples, seconds) = sampled(args.repetitions, |turn| {
            let weights = &copies[turn % copies.len()];
            let product = Product { weights, bias: None, out: &mut out, write: Write::Set };
            multiply(cpu, &input, &mut [product]);
        });
        let weight_bytes = copies[0].bytes();
        let beyond_caches = weight_bytes.saturating_mul(copies.len()) > crate::cli::bench::cache_bytes();
        let macs = (rows * self.k) as f64 * columns as f64 / seconds;
        let read = weight_bytes as f64 / seconds;
        let peak = machine.macs(cpu.tier().level(), self.act_format());
        Timed {
            dtype: self.dtype.name(),
            tier: cpu.tier().level().name(),
            picked: false,
            rows,
            k: self.k,
            columns,
            kernel: kernel_choice(&copies[0], &input).to_string(),
            weight_bytes,
            copies: copies.len(),
            beyond_caches,
            samples,
            median_seconds: seconds,
            macs_per_second: macs,
            weight_bytes_per_second: read,
            bandwidth_share: beyond_caches.then(|| read / machine.read_bytes()),
            products_share: macs / peak,
        }
    }
}
