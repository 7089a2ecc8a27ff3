//! Products of INT8 rows with zeros in every layout, measured in turns.

use std::time::Instant;

use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::{Cpu, OutlierChannels, PackedA};
use leyden_tensor::{DType, TensorView};
use serde::Serialize;

use super::args::{Args, Pattern};
use super::samples::{ENOUGH, MIN_SAMPLES, random};
use crate::cli::bench::median;
use crate::cli::failure::Failure;

/// Minimum number of multiplications of a sample: short beside the time slices of a busy machine.
const SAMPLE_MACS: usize = 20_000_000;

/// Product in one layout.
#[derive(Debug, Serialize)]
pub(super) struct InLayout {
    pub(super) tier: &'static str,
    pub(super) zeros_percent: u32,
    pub(super) layout: &'static str,
    pub(super) rows: usize,
    pub(super) k: usize,
    pub(super) columns: usize,
    pub(super) weight_bytes: usize,
    pub(super) samples: usize,
    pub(super) median_seconds: f64,
    /// Multiplications of the dense product per second.
    pub(super) macs_per_second: f64,
    /// Time of dense rows divided by the time of this layout.
    pub(super) times_dense: f64,
}

/// Measures the products of a matrix in each layout.
pub(super) fn measure(
    cpu: &Cpu,
    zeros_percent: u32,
    columns: usize,
    args: &Args,
) -> Result<Vec<InLayout>, Failure> {
    let (rows, k) = (args.shape.rows, args.shape.k);
    let dense = dense(cpu, zeros_percent, args)?;
    let mut layouts = dense.in_sparse_layouts(cpu).map_err(Failure::new)?;
    layouts.insert(0, dense);
    let mut state = 2_u32;
    let x: Vec<f32> = (0..columns * k).map(|_| random(&mut state)).collect();
    let mut input = PackedA::default();
    input.fill(cpu.tier(), cpu.pool(), layouts[0].act_format(), &x, k);
    let mut out = vec![0.0; rows * columns];
    let calls = (SAMPLE_MACS / (rows * k * columns).max(1)).max(1);
    let mut samples = vec![Vec::new(); layouts.len()];
    let begin = Instant::now();
    // The first turn reads weights into the caches, and does not count.
    for turn in 0..=args.repetitions {
        if turn > MIN_SAMPLES && begin.elapsed().as_secs_f64() > ENOUGH {
            break;
        }
        for (samples, weights) in samples.iter_mut().zip(&layouts) {
            let start = Instant::now();
            for _ in 0..calls {
                multiply(
                    cpu,
                    &input,
                    &mut [Product { weights, bias: None, out: &mut out, write: Write::Set }],
                );
            }
            if turn > 0 {
                samples.push(start.elapsed().as_secs_f64() / calls as f64);
            }
        }
    }
    let medians: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
    let in_layout = |(weights, seconds): (&PackedWeights, &f64)| InLayout {
        tier: cpu.tier().level().name(),
        zeros_percent,
        layout: weights.layout_name(),
        rows,
        k,
        columns,
        weight_bytes: weights.bytes(),
        samples: samples[0].len(),
        median_seconds: *seconds,
        macs_per_second: (rows * k * columns) as f64 / seconds,
        times_dense: medians[0] / seconds,
    };
    Ok(layouts.iter().zip(&medians).map(in_layout).collect())
}

/// Returns random INT8 rows with zeros.
fn dense(cpu: &Cpu, zeros_percent: u32, args: &Args) -> Result<PackedWeights, Failure> {
    let (rows, k) = (args.shape.rows, args.shape.k);
    let mut state = 1_u32;
    let mut kept = || (random(&mut state) + 1.0) * 50.0 >= zeros_percent as f32;
    let (tall, wide) = match args.pattern {
        Pattern::Any => (1, 1),
        Pattern::Inputs => (1, 4),
        Pattern::Outputs => (4, 1),
    };
    let in_row = k.div_ceil(wide);
    let blocks: Vec<bool> = (0..rows.div_ceil(tall) * in_row).map(|_| kept()).collect();
    let mut state = 3_u32;
    let value = |i: usize| {
        let x = random(&mut state);
        if blocks[i / k / tall * in_row + i % k / wide] { x } else { 0.0 }
    };
    let bytes: Vec<u8> = (0..rows * k).map(value).flat_map(f32::to_le_bytes).collect();
    let shape = [rows, k];
    let view = TensorView::new("weights", DType::F32, &shape, &bytes)?;
    let packed = PackedWeights::int8_rows(cpu, &view).map_err(Failure::new)?;
    let (mut packed, _) = packed.ok_or_else(|| Failure::usage("`--shape` is too deep for INT8 rows"))?;
    packed.set_outliers(OutlierChannels::LAST);
    Ok(packed)
}
