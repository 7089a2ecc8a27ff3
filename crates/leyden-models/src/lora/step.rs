//! [`StepAdapters`]: adapters of a step's sequences, applied to the results of projections.

use super::adapter::{Adapter, AdapterSet, Factors};
use crate::batch::Batch;
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::memory::Aligned;
use leyden_kernels::{Cpu, PackedA};

/// Adapters of a step, and buffers for their results.
#[derive(Debug, Default)]
pub(crate) struct StepAdapters {
    /// Sets with the indices of their rows among all rows of the step, and among the wanted rows.
    sets: Vec<(AdapterSet, [Vec<usize>; 2])>,
    /// Number of rows of the step, and of wanted rows.
    counts: [usize; 2],
    activations: PackedA,
    input: Aligned<f32>,
    low: Aligned<f32>,
    results: Aligned<f32>,
}

impl StepAdapters {
    /// Begins a step. `wanted` are the indices of the rows that the last layers keep, ascending.
    pub(crate) fn begin(&mut self, batch: &Batch<'_>, wanted: &[usize]) {
        self.sets.clear();
        self.counts = [batch.tokens.len(), wanted.len()];
        let mut first = 0;
        for span in batch.spans {
            let rows = first..first + span.tokens;
            first = rows.end;
            if span.adapters.is_empty() {
                continue;
            }
            let kept = wanted.partition_point(|row| *row < rows.start);
            let kept = kept..wanted.partition_point(|row| *row < rows.end);
            let known = self.sets.iter_mut().find(|(set, _)| set == span.adapters);
            match known {
                Some((_, [all, some])) => {
                    all.extend(rows);
                    some.extend(kept);
                }
                None => self.sets.push((span.adapters.clone(), [rows.collect(), kept.collect()])),
            }
        }
    }

    /// Returns true if no row has an adapter.
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns true if any row has an adapter for one of these projections, given by their indices in
    /// [`Targets`](super::Targets).
    pub(crate) fn change<const N: usize>(&self, targets: [Option<usize>; N]) -> bool {
        let adapters = || self.sets.iter().flat_map(|(set, _)| set.iter());
        targets.iter().any(|target| adapters().any(|(adapter, _)| adapter.factors_of(*target).is_some()))
    }

    /// Adds the products of the step's adapters to the results of a projection `[rows, width]`. `target` is its index
    /// in [`Targets`](super::Targets); `input` `[rows, k]` has all rows of the step, or the wanted ones.
    pub(crate) fn add(
        &mut self,
        cpu: &Cpu,
        target: Option<usize>,
        [k, width]: [usize; 2],
        input: &[f32],
        out: &mut [f32],
    ) {
        let count = input.len() / k;
        let which = usize::from(count != self.counts[0]);
        assert_eq!(count, self.counts[which], "rows of a projection's input");
        let StepAdapters { sets, activations, input: some, low, results, .. } = self;
        for (set, rows) in &*sets {
            let rows = &rows[which];
            let factors =
                set.iter().filter_map(|(adapter, scale)| Some((adapter.factors_of(target)?, scale)));
            for (factors, scale) in factors.filter(|_| !rows.is_empty()) {
                let whole = rows.len() == count;
                let input = match whole {
                    true => input,
                    false => {
                        gather(rows, k, input, some);
                        &some[..]
                    }
                };
                let rank = factors.down.rows();
                low.resize(rows.len() * rank);
                product(cpu, activations, input, &factors.down, low, Write::Set);
                let scale = factors.scale * scale;
                low.iter_mut().for_each(|x| *x *= scale);
                if whole {
                    product(cpu, activations, low, &factors.up, out, Write::Add);
                    continue;
                }
                results.resize(rows.len() * width);
                product(cpu, activations, low, &factors.up, results, Write::Set);
                for (&row, results) in rows.iter().zip(results.chunks_exact(width)) {
                    let out = &mut out[row * width..(row + 1) * width];
                    out.iter_mut().zip(results).for_each(|(y, x)| *y += x);
                }
            }
        }
    }
}

impl Adapter {
    fn factors_of(&self, target: Option<usize>) -> Option<&Factors> {
        self.factors.get(target?)?.as_ref()
    }
}

/// Copies rows of `from` `[n, k]` to `to`.
fn gather(rows: &[usize], k: usize, from: &[f32], to: &mut Aligned<f32>) {
    to.resize(rows.len() * k);
    for (&row, to) in rows.iter().zip(to.chunks_exact_mut(k)) {
        to.copy_from_slice(&from[row * k..(row + 1) * k]);
    }
}

fn product(
    cpu: &Cpu,
    activations: &mut PackedA,
    input: &[f32],
    weights: &PackedWeights,
    out: &mut [f32],
    write: Write,
) {
    activations.fill(cpu.tier(), cpu.pool(), weights.act_format(), input, weights.k());
    multiply(cpu, activations, &mut [Product { weights, bias: None, out, write }]);
}
