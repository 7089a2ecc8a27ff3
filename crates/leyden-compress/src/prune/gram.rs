//! [`Gram`]: products X^T X of a matrix's inputs, from which outputs' errors follow without the inputs.

use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_kernels::PackedA;
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_tensor::{DType, TensorView};

/// Columns of a product that are computed at a time.
const COLUMNS: usize = 1024;
/// Rows of weights whose errors are computed at a time.
const ROWS: usize = 1024;

/// Sums of products of inputs with each other, over all rows of activations.
#[derive(Clone, Debug)]
pub struct Gram {
    k: usize,
    rows: u64,
    /// `[k, k]`; above the diagonal only blocks that begin left of it are filled.
    values: Vec<f64>,
}

impl Gram {
    /// Returns empty sums of `k` inputs.
    #[must_use]
    pub fn new(k: usize) -> Gram {
        Gram { k, rows: 0, values: vec![0.0; k * k] }
    }

    /// Returns the bytes of the sums of `k` inputs.
    #[must_use]
    pub fn bytes(k: usize) -> usize {
        k.saturating_mul(k).saturating_mul(size_of::<f64>())
    }

    /// Returns the number of inputs.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// Returns the number of rows in the sums.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the sum of squares of each input.
    pub fn squares(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.k).map(|i| self.values[i * self.k + i])
    }

    /// Adds rows of inputs `[n, k]`. The sums are the same with any number of threads.
    ///
    /// # Errors
    /// Memory is short.
    ///
    /// # Panics
    /// If `inputs` is not whole rows.
    pub fn add(&mut self, cpu: &Cpu, inputs: &[f32]) -> Result<(), Error> {
        let k = self.k;
        assert!(k > 0 && inputs.len().is_multiple_of(k), "{} inputs in rows of {k}", inputs.len());
        let n = inputs.len() / k;
        if n == 0 {
            return Ok(());
        }
        let mut turned = vec![0.0_f32; inputs.len()];
        for (i, row) in inputs.chunks_exact(k).enumerate() {
            row.iter().enumerate().for_each(|(j, x)| turned[j * n + i] = *x);
        }
        let (mut batch, mut out) = (PackedA::default(), Vec::new());
        for first in (0..k).step_by(COLUMNS) {
            let columns = COLUMNS.min(k - first);
            let weights = packed(cpu, &turned[first * n..][..columns * n], columns, n)?;
            // Products left of these columns are known by symmetry.
            let below = k - first;
            batch.fill(cpu.tier(), cpu.pool(), weights.act_format(), &turned[first * n..], n);
            out.clear();
            out.resize(below * columns, 0.0);
            multiply(
                cpu,
                &batch,
                &mut [Product { weights: &weights, bias: None, out: &mut out, write: Write::Set }],
            );
            for (row, products) in out.chunks_exact(columns).enumerate() {
                let sums = &mut self.values[(first + row) * k + first..][..columns];
                sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += f64::from(*product));
            }
        }
        self.rows += n as u64;
        Ok(())
    }

    /// Fills the upper triangle from the lower one, which is what sums are read from.
    pub fn finish(&mut self) {
        for i in 0..self.k {
            for j in i + 1..self.k {
                self.values[i * self.k + j] = self.values[j * self.k + i];
            }
        }
    }

    /// Returns the finished sums with rows and columns in reverse order, and `damping` times the mean of the diagonal
    /// added to it. Inputs that are always zero get 1 there.
    pub(crate) fn reversed(&self, damping: f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.values.iter().rev().copied().collect();
        let mean = self.squares().sum::<f64>() / self.k.max(1) as f64;
        for i in 0..self.k {
            let own = &mut values[i * self.k + i];
            // The papers' dampening; an input without activations must not make the matrix singular.
            *own = if *own == 0.0 { 1.0 } else { *own } + damping * mean;
        }
        values
    }

    /// Returns the sum of squares of the outputs of weights `[rows, k]` for the inputs in the finished sums.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn energy(&self, cpu: &Cpu, weights: &[f32]) -> Result<f64, Error> {
        let k = self.k;
        let (mut batch, mut out) = (PackedA::default(), Vec::new());
        let mut energy = 0.0_f64;
        for first in (0..k).step_by(COLUMNS) {
            let columns = COLUMNS.min(k - first);
            let values = &self.values[first * k..][..columns * k];
            let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            let sums = packed(cpu, &values, columns, k)?;
            for weights in weights.chunks(ROWS * k) {
                batch.fill(cpu.tier(), cpu.pool(), sums.act_format(), weights, k);
                out.clear();
                out.resize(weights.len() / k * columns, 0.0);
                multiply(
                    cpu,
                    &batch,
                    &mut [Product { weights: &sums, bias: None, out: &mut out, write: Write::Set }],
                );
                for (row, products) in weights.chunks_exact(k).zip(out.chunks_exact(columns)) {
                    let pairs = row[first..][..columns].iter().zip(products);
                    energy += pairs.map(|(w, p)| f64::from(*w) * f64::from(*p)).sum::<f64>();
                }
            }
        }
        Ok(energy.max(0.0))
    }
}

/// Packs a matrix `[rows, k]` of floats.
fn packed(cpu: &Cpu, values: &[f32], rows: usize, k: usize) -> Result<PackedWeights, Error> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = [rows, k];
    let view = TensorView::new("products of inputs", DType::F32, &shape, &bytes)?;
    PackedWeights::pack(cpu, &view).map_err(|error| Error::Resources(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_kernels::Tier;
    use leyden_testkit::random;

    #[test]
    fn sums_are_of_all_rows_and_give_the_energy_of_outputs() {
        let (k, n, rows) = (37, 50, 5);
        let value = |i: usize| random(i as u64) as u16 as f32 / 65536.0 - 0.5;
        let x: Vec<f32> = (0..n * k).map(value).collect();
        let w: Vec<f32> = (0..rows * k).map(|i| value(i + 100_000)).collect();
        let mut wanted = None;
        for threads in [1, 3] {
            let cpu = Cpu::new(Tier::best(), threads).unwrap();
            let mut gram = Gram::new(k);
            for part in x.chunks(20 * k) {
                gram.add(&cpu, part).unwrap();
            }
            gram.finish();
            assert_eq!(gram.rows(), n as u64);
            for i in 0..k {
                for j in 0..k {
                    let sum: f64 = x.chunks_exact(k).map(|x| f64::from(x[i]) * f64::from(x[j])).sum();
                    assert!((gram.values[i * k + j] - sum).abs() < 1e-5, "{i} {j}");
                }
            }
            let outputs = w.chunks_exact(k).flat_map(|w| {
                x.chunks_exact(k).map(move |x| w.iter().zip(x).map(|(w, x)| f64::from(w * x)).sum::<f64>())
            });
            let energy: f64 = outputs.map(|y| y * y).sum();
            assert!((gram.energy(&cpu, &w).unwrap() / energy - 1.0).abs() < 1e-4);
            assert_eq!(*wanted.get_or_insert_with(|| gram.values.clone()), gram.values);
        }
    }
}
