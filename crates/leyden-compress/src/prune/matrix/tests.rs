//! Errors of the three methods on correlated inputs, and the zeros of every structure.

use super::*;
use leyden_kernels::Tier;
use leyden_testkit::random;

const ROWS: usize = 32;
const K: usize = 192;

/// Returns a normally distributed value, the same in every run.
fn bell(i: usize) -> f32 {
    (0..4).map(|part| random(4 * i as u64 + part) as u16 as f32 / 65536.0 - 0.5).sum()
}

fn weights() -> Vec<f32> {
    (0..ROWS * K).map(|i| bell(i + 1_000_000)).collect()
}

/// Returns sums of inputs that are mixtures of few causes, some inputs much larger than others.
fn inputs(cpu: &Cpu) -> Inputs {
    let (n, causes) = (512, 48);
    let mixing: Vec<f32> = (0..causes * K).map(|i| bell(i + 2_000_000)).collect();
    let mut gram = Gram::new(K);
    for row in 0..n {
        let cause: Vec<f32> = (0..causes).map(|i| bell(row * causes + i)).collect();
        let input = |j: usize| {
            let mixed: f32 = cause.iter().enumerate().map(|(i, c)| c * mixing[i * K + j]).sum();
            (mixed + 0.3 * bell(row * K + j + 3_000_000)) * if j.is_multiple_of(7) { 6.0 } else { 1.0 }
        };
        gram.add(cpu, &(0..K).map(input).collect::<Vec<f32>>()).unwrap();
    }
    gram.finish();
    Inputs { gram, upper: None }
}

const STRUCTURES: [Structure; 5] = [
    Structure::Unstructured,
    Structure::Groups { keep: 2, group: 4 },
    Structure::Groups { keep: 32, group: 64 },
    Structure::Inputs,
    Structure::Outputs,
];

/// Published order: SparseGPT's outputs have the least error, then Wanda's, then those of the smallest weights.
#[test]
fn errors_of_methods_are_in_the_published_order() {
    let cpu = Cpu::new(Tier::best(), 2).unwrap();
    let mut inputs = inputs(&cpu);
    for structure in STRUCTURES {
        let errors = Method::NAMES.map(|(_, method)| {
            let mut w = weights();
            let outcome = prune(&cpu, &mut w, K, (method, structure, 0.5), Some(&mut inputs)).unwrap();
            outcome.output_error.unwrap()
        });
        let [magnitude, wanda, sparsegpt] = errors;
        assert!(sparsegpt < 0.8 * wanda && wanda < 0.95 * magnitude, "{structure}: {errors:?}");
    }
}

#[test]
fn zeros_are_where_the_structure_has_them() {
    let cpu = Cpu::new(Tier::best(), 2).unwrap();
    let mut inputs = inputs(&cpu);
    for (_, method) in Method::NAMES {
        for structure in STRUCTURES {
            for sparsity in [0.5, 0.75] {
                let mut w = weights();
                prune(&cpu, &mut w, K, (method, structure, sparsity), Some(&mut inputs)).unwrap();
                let all_zeros = w.iter().filter(|w| **w == 0.0).count();
                let at = format!("{} {structure} {sparsity}", method.name());
                let wanted = structure.sparsity().unwrap_or(sparsity);
                assert_eq!(all_zeros, (wanted * (ROWS * K) as f64) as usize, "{at}");
                let zero = |i: usize| w[i] == 0.0;
                match structure {
                    Structure::Groups { keep, group } => {
                        for group_of in w.chunks_exact(group) {
                            assert_eq!(group_of.iter().filter(|w| **w != 0.0).count(), keep, "{at}");
                        }
                    }
                    Structure::Inputs => {
                        let whole = |b: &[f32]| b.iter().all(|w| (*w == 0.0) == (b[0] == 0.0));
                        assert!(w.chunks_exact(BLOCK).all(whole), "{at}");
                    }
                    Structure::Outputs => {
                        let same = |i: usize| zero(i) == zero(i / (BLOCK * K) * BLOCK * K + i % K);
                        assert!((0..w.len()).all(same), "{at}");
                    }
                    Structure::Unstructured if method == Method::Wanda => {
                        let zeros = |row: &[f32]| row.iter().filter(|w| **w == 0.0).count();
                        assert!(w.chunks_exact(K).all(|row| zeros(row) == all_zeros / ROWS), "{at}");
                    }
                    Structure::Unstructured => {}
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let results = [1, 2, 5].map(|threads| {
        let cpu = Cpu::new(Tier::best(), threads).unwrap();
        let mut inputs = inputs(&cpu);
        let mut all = Vec::new();
        for (_, method) in Method::NAMES {
            for structure in STRUCTURES {
                let mut w = weights();
                let outcome = prune(&cpu, &mut w, K, (method, structure, 0.6), Some(&mut inputs)).unwrap();
                all.extend(w.iter().map(|w| w.to_bits()));
                all.push(outcome.output_error.unwrap() as f32 as u32);
            }
        }
        all
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}

/// Inputs that never occur cost nothing, and their weights go first; fewer texts than inputs are no error.
#[test]
fn inputs_that_are_always_zero_go_first() {
    let cpu = Cpu::new(Tier::best(), 1).unwrap();
    let mut gram = Gram::new(64);
    for row in 0..4 {
        let x: Vec<f32> = (0..64).map(|j| if j < 32 { bell(row * 64 + j) } else { 0.0 }).collect();
        gram.add(&cpu, &x).unwrap();
    }
    gram.finish();
    let mut inputs = Inputs { gram, upper: None };
    for method in [Method::Wanda, Method::SparseGpt] {
        let mut w: Vec<f32> = (0..8 * 64).map(|i| bell(i + 9)).collect();
        let task = (method, Structure::Unstructured, 0.5);
        let outcome = prune(&cpu, &mut w, 64, task, Some(&mut inputs)).unwrap();
        assert!(outcome.output_error.unwrap().is_finite() && w.iter().all(|w| w.is_finite()));
        if method == Method::Wanda {
            assert!(w.chunks_exact(64).all(|row| row[32..].iter().all(|w| *w == 0.0)));
        }
    }
}
