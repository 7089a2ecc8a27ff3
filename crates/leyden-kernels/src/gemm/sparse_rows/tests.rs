//! Sparse rows against dense ones: the same bits on every tier, and damaged matrices that are refused.

use super::*;
use crate::gemm::epilogue::Write;
use crate::gemm::linear::{multiply, multiply_activated};
use crate::gemm::product::Product;
use crate::ops::Activation;
use crate::quant::packed_a::PackedA;
use crate::types::OutlierChannels;
use leyden_tensor::{DType, TensorView};

/// Pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn float(&mut self) -> f32 {
        self.below(2001) as f32 * 0.001 - 1.0
    }
}

/// Shape of the zeros of a matrix.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm) enum Pattern {
    /// Anywhere.
    Any,
    /// Whole blocks of this many rows and inputs.
    Blocks(usize, usize),
    /// An equal number of nonzero weights in each 64 inputs of a row.
    Balanced,
}

/// Returns a matrix of which about `zeros` percent are zero; some rows are all zeros, or of equal magnitude.
pub(in crate::gemm) fn matrix(rows: usize, k: usize, zeros: u64, pattern: Pattern) -> Vec<f32> {
    let mut numbers = Numbers((rows * k) as u64 + zeros);
    let mut w = vec![0.0; rows * k];
    let (tall, wide) = match pattern {
        Pattern::Blocks(tall, wide) => (tall, wide),
        Pattern::Any | Pattern::Balanced => (1, 1),
    };
    for (r, row) in w.chunks_mut(k).enumerate() {
        for (i, value) in row.iter_mut().enumerate() {
            let mut block = Numbers((r / tall * k + i / wide) as u64 * 2_654_435_761 + zeros);
            block.next();
            let kept = match pattern {
                Pattern::Balanced => (i * 37 + r * 11) as u64 % 64 * 100 >= zeros * 64,
                Pattern::Any | Pattern::Blocks(..) => block.below(100) >= zeros,
            };
            let x = match r % 9 {
                3 => 1.0,
                4 => -1.0,
                _ => numbers.float(),
            };
            *value = if kept && (zeros == 0 || r % 13 != 5) { x } else { 0.0 };
        }
    }
    w
}

pub(in crate::gemm) fn dense(cpu: &Cpu, w: &[f32], rows: usize, k: usize) -> PackedWeights {
    let bytes: Vec<u8> = w.iter().flat_map(|x| x.to_le_bytes()).collect();
    let shape = [rows, k];
    let view = TensorView::new("w", DType::F32, &shape, &bytes).unwrap();
    let mut packed = PackedWeights::int8_rows(cpu, &view).unwrap().unwrap().0;
    packed.set_outliers(OutlierChannels::of(&(0..k).map(|c| (c * 31 % 17) as f64).collect::<Vec<_>>()));
    packed
}

/// Returns tokens: random ones, the greatest magnitudes in both signs, zeros, and values that are not finite.
pub(in crate::gemm) fn tokens(m: usize, k: usize) -> Vec<f32> {
    let mut numbers = Numbers(m as u64);
    let mut x: Vec<f32> = (0..m * k).map(|_| numbers.float() * 3.0).collect();
    for (i, token) in x.chunks_mut(k).enumerate() {
        match i % 7 {
            1 => token.fill(7.0),
            2 => token.fill(-7.0),
            3 => token.fill(0.0),
            5 => token[i % k] = f32::NAN,
            6 => token[k - 1] = f32::INFINITY,
            _ => {}
        }
    }
    x
}

/// Returns the bits of a product that replaces, one with an activation function, and one that adds.
pub(in crate::gemm) fn products(cpu: &Cpu, weights: &PackedWeights, x: &[f32]) -> Vec<u32> {
    let (rows, m) = (weights.rows(), x.len() / weights.k());
    let bias: Vec<f32> = (0..rows).map(|r| r as f32 * 0.01).collect();
    let mut input = PackedA::default();
    input.fill(cpu.tier(), cpu.pool(), weights.act_format(), x, weights.k());
    let mut out = vec![0.5; 3 * m * rows];
    let [set, activated, added] =
        out.get_disjoint_mut([0..m * rows, m * rows..2 * m * rows, 2 * m * rows..3 * m * rows]).unwrap();
    multiply(cpu, &input, &mut [Product { weights, bias: Some(&bias), out: set, write: Write::Set }]);
    let product = Product { weights, bias: Some(&bias), out: activated, write: Write::Set };
    multiply_activated(cpu, &input, product, Activation::GeluPolynomial);
    multiply(cpu, &input, &mut [Product { weights, bias: None, out: added, write: Write::Add }]);
    // A NaN's sign and payload depend on the order of operands.
    out.iter().map(|y| if y.is_nan() { f32::NAN.to_bits() } else { y.to_bits() }).collect()
}

#[test]
fn sparse_rows_have_the_bits_of_dense_rows_on_every_tier() {
    use Pattern::{Any, Balanced, Blocks};
    let shapes = [
        (70, 384, 13, Any, [0, 30, 50, 80, 90, 97, 100].as_slice()),
        (16, 33, 1, Any, &[0, 50, 95]),
        (1, 16, 2, Any, &[0, 80]),
        (3, 7, 5, Any, &[0, 60]),
        (130, 100, 6, Blocks(4, 1), &[80, 90]),
        (65, 208, 25, Blocks(1, 4), &[50, 90]),
        (20, 1536, 12, Balanced, &[75, 90]),
        (48, 144, 24, Any, &[10, 99]),
    ];
    for (rows, k, m, pattern, all) in shapes {
        let x = tokens(m, k);
        for &zeros in all {
            let w = matrix(rows, k, zeros, pattern);
            let scalar = Cpu::new(Tier::SCALAR, 1).unwrap();
            let want = products(&scalar, &dense(&scalar, &w, rows, k), &x);
            for tier in Tier::available() {
                let cpu = Cpu::new(tier, 2).unwrap();
                let dense = dense(&cpu, &w, rows, k);
                for (kernel, tall) in SparseKernel::all(tier).flat_map(|kernel| [(kernel, 1), (kernel, 4)]) {
                    let sparse = dense.sparse_for(&cpu, kernel, tall).unwrap().unwrap();
                    assert_eq!(sparse.zeros(), dense.zeros());
                    let (got, window) = (products(&cpu, &sparse, &x), kernel.window);
                    let what = format!("{rows}x{k}, {zeros} % zeros, window {window}, lanes of {tall}");
                    assert!(got == want, "{what}, {}", tier.level());
                }
            }
        }
    }
}

#[test]
fn the_least_quantised_weight_is_multiplied_exactly() {
    // -128 is only found in files of Q8_0.
    let (rows, k) = (17, 64);
    let mut bytes = Vec::new();
    for r in 0..rows {
        for b in 0..k / 32 {
            bytes.extend(0x1400_u16.to_le_bytes());
            bytes.extend((0..32).map(|i| if (i + b + r) % 3 == 0 { -128_i8 as u8 } else { 0 }));
        }
    }
    let shape = [rows, k];
    let view = TensorView::new("w", DType::Q8_0, &shape, &bytes).unwrap();
    let x = tokens(5, k);
    let mut want = None;
    for tier in Tier::available() {
        let cpu = Cpu::new(tier, 1).unwrap();
        let mut dense = PackedWeights::int8_rows(&cpu, &view).unwrap().unwrap().0;
        assert!(dense.as_sparse_rows(&cpu).unwrap().is_none(), "outliers are set first");
        dense.set_outliers(OutlierChannels::LAST);
        let want = want.get_or_insert_with(|| products(&cpu, &dense, &x));
        for (kernel, tall) in SparseKernel::all(tier).flat_map(|kernel| [(kernel, 1), (kernel, 4)]) {
            let sparse = dense.sparse_for(&cpu, kernel, tall).unwrap().unwrap();
            assert!(products(&cpu, &sparse, &x) == *want, "{} on {}", kernel.window, tier.level());
        }
    }
}

#[test]
fn overlapping_windows_fill_groups() {
    let (rows, k) = (64, 1536);
    let cpu = Cpu::new(Tier::SCALAR, 1).unwrap();
    for (zeros, pattern, tall, wide, narrow) in [
        (80, Pattern::Any, 1, 0.80, 0.5),
        (90, Pattern::Any, 1, 0.75, 0.3),
        (90, Pattern::Blocks(4, 1), 1, 0.8, 0.3),
        (90, Pattern::Blocks(4, 1), 4, 0.7, 0.3),
        (90, Pattern::Balanced, 1, 0.85, 0.3),
    ] {
        let dense = dense(&cpu, &matrix(rows, k, zeros, pattern), rows, k);
        let nonzero = (1.0 - dense.zeros()) * (rows * k) as f64;
        for kernel in SparseKernel::all(Tier::SCALAR) {
            let sparse = dense.sparse_for(&cpu, kernel, tall).unwrap().unwrap();
            let Layout::SparseRows { form, .. } = sparse.layout else { panic!("sparse rows") };
            let fill = nonzero / (form.groups * LANES * tall * DEPTH) as f64;
            let least = if kernel.window == 64 { wide } else { narrow };
            assert!(
                fill >= least,
                "{zeros} % {pattern:?}, lanes of {tall}, window {}: {fill}",
                kernel.window
            );
        }
    }
}

#[test]
fn damaged_sparse_rows_are_found() {
    let (rows, k) = (40, 100);
    let cpu = Cpu::new(Tier::SCALAR, 2).unwrap();
    let dense = dense(&cpu, &matrix(rows, k, 70, Pattern::Any), rows, k);
    for (kernel, tall) in SparseKernel::all(Tier::SCALAR).flat_map(|kernel| [(kernel, 1), (kernel, 4)]) {
        let sparse = dense.sparse_for(&cpu, kernel, tall).unwrap().unwrap();
        let Layout::SparseRows { form, .. } = sparse.layout else { panic!("sparse rows") };
        let good = sparse.as_bytes().to_vec();
        let valid = |bytes: &[u8]| is_valid(&cpu, bytes, (rows, k), form);
        assert!(valid(&good));
        assert!(!valid(&good[1..]) && !valid(&[]), "another length");
        for other in [
            SparseForm { groups: form.groups + 1, ..form },
            SparseForm { groups: usize::MAX, ..form },
            SparseForm { window: 0, ..form },
            SparseForm { window: 128, ..form },
            SparseForm { tall: 5 - tall, ..form },
            SparseForm { tall: 0, ..form },
        ] {
            assert!(!is_valid(&cpu, &good, (rows, k), other), "{other:?}");
        }
        assert!(!is_valid(&cpu, &good, (rows + 64, k), form), "another number of panels");
        let [ends, constants, windows, _] =
            section_bytes(tall, rows.div_ceil(LANES * tall), form.groups).unwrap();
        let damaged = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            assert_ne!(bytes[at], byte);
            bytes[at] = byte;
            valid(&bytes)
        };
        assert!(!damaged(0, 255), "counts");
        let sum = ends + 4 * LANES * tall;
        assert!(!damaged(sum, good[sum] ^ 1), "initial sums");
        assert!(!damaged(ends + constants + 3, 1), "a window beyond the tokens");
        let first = ends + constants + windows;
        assert!(!damaged(first + 1, good[first]) && !damaged(first + 1, 255), "places");
        let weight = first + PLACES_BYTES;
        assert!(!damaged(weight, good[weight] ^ 1), "a weight");
    }
}
