//! Instruction counts of the hot loops. Unlike times, they are the same on every machine and under every load. Also
//! checks that vector instructions are inlined, not calls.
//!
//! A count is the difference between two depths, so code before and after a loop does not matter. It may exceed the
//! table's count by a twentieth. The table is for release builds: with debug assertions every step of a pointer is
//! checked, and the loops take two to eight times as many instructions. To regenerate it after a change of a kernel or
//! of the compiler, copy the output of:
//!
//! ```sh
//! cargo test --release -p leyden-kernels --test instruction_counts -- --include-ignored --nocapture
//! ```

#![expect(unsafe_code, reason = "a child process is traced")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arena;
mod symbols;
mod tracer;

use leyden_kernels::attention::{
    AttentionOptions, AttentionSpan, BLOCK_TOKENS, KvCache, KvShape, KvType, attention,
};
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::{Cpu, Level, PackedA, Tier};
use leyden_tensor::{DType, TensorView};
use std::io::{self, Write as _};

#[global_allocator]
static MEMORY: arena::Arena = arena::Arena::new();

/// Depth of a product for one count: a block of the widest formats, and every chain of the floats.
const DEPTH: usize = 256;

/// Number of rows in a panel.
const ROWS: usize = 16;

/// Instruction counts of the products of one instruction set.
struct Products {
    level: Level,
    /// One column, and the maximum number of columns of a tile.
    columns: [usize; 2],
    /// Instructions for [`DEPTH`] values of [`ROWS`] rows, for each of these numbers of columns.
    formats: &'static [(DType, [u64; 2])],
}

/// Formats that share these loops, and differ in unpacking alone, are left out.
const PRODUCTS: &[Products] = &[
    Products {
        level: Level::Avx2,
        columns: [1, 6],
        formats: &[
            (DType::Q4K, [932, 3542]),
            (DType::Q5K, [1404, 3841]),
            (DType::Q6K, [1587, 6700]),
            (DType::Q8_0, [1027, 4963]),
            (DType::Q4_0, [803, 3619]),
            (DType::IQ4XS, [1380, 5475]),
        ],
    },
    Products {
        level: Level::Avx2,
        columns: [1, 6],
        formats: &[(DType::F16, [1676, 6083]), (DType::BF16, [3472, 8012])],
    },
    Products {
        level: Level::AvxVnni,
        columns: [1, 6],
        formats: &[
            (DType::Q4K, [824, 2880]),
            (DType::Q5K, [1282, 3731]),
            (DType::Q6K, [1416, 4091]),
            (DType::Q8_0, [584, 2192]),
            (DType::Q4_0, [680, 2480]),
            (DType::IQ4XS, [1086, 3174]),
        ],
    },
    Products {
        // For one column of Q8_0 and Q4_0, 88 are for copying scales, with a single multiply port only. For twelve
        // columns two ports take the same count; a single port takes up to a fifth fewer, because zero points take no
        // products.
        level: Level::Avx512,
        columns: [1, 12],
        formats: &[
            (DType::Q4K, [541, 1865]),
            (DType::Q5K, [743, 2696]),
            (DType::Q6K, [798, 2708]),
            (DType::Q8_0, [727, 1739]),
            (DType::Q4_0, [535, 1739]),
            (DType::IQ4XS, [541, 2104]),
            (DType::F16, [1616, 4796]),
            (DType::BF16, [2272, 5196]),
        ],
    },
    Products { level: Level::Avx512Bf16, columns: [1, 12], formats: &[(DType::BF16, [1760, 3152])] },
];

/// Enough panels to multiply several with a tile together, and enough columns to unpack panels of quantised types
/// before: instructions for all of them. One format of each loop, because counting takes seconds each. Those of
/// [`Level::Avx512`] are of two panels at once; with a single multiply port the two are processed in turn, in a fifth
/// to a quarter fewer.
const MANY: &[(Level, DType, [usize; 2], u64)] = &[
    (Level::Avx2, DType::Q4K, [4, 24], 46279),
    // With such large and similar activations, sums of 16 products do not fit 16 bits, and are scaled twice as often.
    (Level::Avx2, DType::Q6K, [4, 24], 68766),
    (Level::Avx2, DType::Q8_0, [4, 24], 78762),
    (Level::Avx2, DType::IQ4XS, [4, 24], 75434),
    (Level::Avx2, DType::BF16, [4, 24], 114284),
    (Level::AvxVnni, DType::Q5K, [4, 24], 45220),
    (Level::AvxVnni, DType::Q8_0, [4, 24], 32576),
    // With a single multiply port: Winograd products, more instructions and fewer multiplications.
    (Level::Avx512, DType::Q4K, [4, 48], 59486),
    (Level::Avx512, DType::Q5K, [4, 48], 40204),
    (Level::Avx512, DType::Q4_0, [4, 48], 30832),
    (Level::Avx512, DType::F16, [4, 12], 23112),
    (Level::Avx512Bf16, DType::BF16, [4, 12], 14168),
];

/// Query rows and head dimension of attention, and the counts for one tile of cached tokens: scores, softmax, weighted
/// values and merging. A few rows read the cache directly; with many, halves are converted to floats first.
const ATTENTION: &[(Level, KvType, [usize; 2], u64)] = &[
    (Level::Avx2, KvType::F16, [4, 64], 12444),
    (Level::Avx2, KvType::Q8_0, [4, 64], 11620),
    (Level::Avx2, KvType::F32, [16, 32], 25752),
    (Level::Avx512, KvType::F16, [4, 64], 6475),
    (Level::Avx512, KvType::Q8_0, [4, 64], 5189),
    (Level::Avx512, KvType::F32, [16, 32], 12174),
];

/// Loop whose instructions are counted.
struct Loop {
    name: String,
    /// Multiply-adds in one unit of depth.
    macs: usize,
    /// Instructions in the table for one unit of depth.
    expected: u64,
    /// Runs the loop at a depth of one unit and then of two, both through [`tracer::counted`].
    run: Box<dyn Fn()>,
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the table is that of release builds")]
fn products() {
    let mut loops = Vec::new();
    for &Products { level, columns, formats } in PRODUCTS {
        for &(dtype, expected) in formats {
            for (columns, expected) in columns.into_iter().zip(expected) {
                loops.extend(product_loop(level, dtype, [1, columns], expected));
            }
        }
    }
    check("products", &loops);
}

#[test]
#[ignore = "takes minutes; the nightly run has it"]
fn products_of_many_panels() {
    let loops: Vec<Loop> = MANY
        .iter()
        .filter_map(|&(level, dtype, shape, expected)| product_loop(level, dtype, shape, expected))
        .collect();
    check("products_of_many_panels", &loops);
}

fn product_loop(level: Level, dtype: DType, shape: [usize; 2], expected: u64) -> Option<Loop> {
    let tier = tier(level)?;
    let [panels, columns] = shape;
    Some(Loop {
        name: format!("{level} {dtype} x {columns}, panels {panels}"),
        macs: DEPTH * panels * ROWS * columns,
        expected,
        run: Box::new(move || {
            product(tier, dtype, shape, DEPTH);
            product(tier, dtype, shape, 2 * DEPTH);
        }),
    })
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the table is that of release builds")]
fn attention_tiles() {
    let mut loops = Vec::new();
    for &(level, kv_type, [rows, dim], expected) in ATTENTION {
        let Some(tier) = tier(level) else { continue };
        loops.push(Loop {
            name: format!("{level} attention of {rows} rows of {dim}, {kv_type}"),
            macs: 2 * rows * dim * BLOCK_TOKENS,
            expected,
            run: Box::new(move || attend(tier, kv_type, [rows, dim])),
        });
    }
    check("attention_tiles", &loops);
}

/// Fails if an intrinsic is a function of its own because it was used where the instruction set is not known, for
/// example in a closure that the compiler did not inline into the function with the `target_feature`. Each instruction
/// is then a call, with its vectors in memory.
#[test]
#[cfg_attr(debug_assertions, ignore = "where nothing is inlined all are")]
fn no_intrinsic_is_a_call() {
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let Some(functions) = symbols::functions(&file) else {
        return skip("this executable has no symbols");
    };
    assert!(functions.iter().any(|name| name.contains("leyden_kernels")), "symbols of the kernels");
    let is_intrinsic =
        |name: &&String| name.contains("9core_arch") && (name.contains("_mm") || name.contains("4neon"));
    let calls: Vec<&String> = functions.iter().filter(is_intrinsic).collect();
    assert!(calls.is_empty(), "intrinsics that are functions: {calls:#?}");
}

/// Multiplies `panels` panels of depth `k`.
fn product(tier: Tier, dtype: DType, [panels, columns]: [usize; 2], k: usize) {
    let cpu = Cpu::new(tier, 1).unwrap();
    let rows = panels * ROWS;
    let bytes = vec![0x11; dtype.row_bytes(k).unwrap() * rows];
    let shape = [rows, k];
    let weights = PackedWeights::pack(&cpu, &TensorView::new("w", dtype, &shape, &bytes).unwrap()).unwrap();
    let mut input = PackedA::default();
    input.fill(tier, cpu.pool(), weights.act_format(), &vec![1.0; columns * k], k);
    let mut out = vec![0.0; columns * rows];
    let mut code = || {
        let write = Write::Set;
        multiply(&cpu, &input, &mut [Product { weights: &weights, bias: None, out: &mut out, write }]);
    };
    // Once before counting, so that detection at the first call is done.
    code();
    tracer::counted(code);
}

/// Computes the attention of one token's heads, which share their keys, over one tile and over two.
fn attend(tier: Tier, kv_type: KvType, [rows, head_dim]: [usize; 2]) {
    let cpu = Cpu::new(tier, 1).unwrap();
    let cache = KvCache::new(KvShape::uniform(1, 1, head_dim, kv_type), 2).unwrap();
    let queries = vec![1.0; rows * head_dim];
    let mut out = vec![0.0; rows * head_dim];
    let mut over = |tiles: usize| {
        let position = tiles * BLOCK_TOKENS - 1;
        let span = AttentionSpan { first: 0, tokens: 1, position, stored: position + 1, blocks: &[0, 1] };
        attention(&cpu, &cache, 0, &[span], &queries, &AttentionOptions::causal(0.3), &mut out);
    };
    over(1);
    tracer::counted(|| over(1));
    tracer::counted(|| over(2));
}

fn tier(level: Level) -> Option<Tier> {
    let tier = Tier::new(level);
    if tier.is_none() {
        // Not `eprintln!`, whose output is captured in a passing test.
        let _ = writeln!(io::stderr(), "skipped: instruction counts of {level}, which this machine lacks");
    }
    tier
}

/// Reports why a test does not run here, which is a failure where no test may skip.
fn skip(why: &str) {
    assert!(std::env::var_os("LEYDEN_CI").is_none(), "{why}");
    // Not `eprintln!`, whose output is captured in a passing test.
    let _ = writeln!(io::stderr(), "skipped: {why}");
}

/// In the child: runs the loops. In the test: compares the instructions between one unit of depth and two.
fn check(test: &str, loops: &[Loop]) {
    if tracer::is_child(test) {
        tracer::trace_me();
        loops.iter().for_each(|l| (l.run)());
        return;
    }
    if loops.is_empty() {
        return;
    }
    let counts = match tracer::count(test, 2 * loops.len()) {
        Ok(counts) => counts,
        Err(tracer::Failure::Forbidden(why)) => {
            return skip(&format!("processes cannot be traced here: {why}"));
        }
        Err(tracer::Failure::Broken(why)) => panic!("{test}: {why}"),
    };
    let mut grown = Vec::new();
    for (l, counts) in loops.iter().zip(counts.as_chunks::<2>().0) {
        let found = counts[1] - counts[0];
        let said = format!(
            "{}: {found} instructions, expected {}; {:.2} multiplications each",
            l.name,
            l.expected,
            l.macs as f64 / found as f64
        );
        if found * 20 > l.expected * 21 {
            grown.push(said.clone());
        }
        eprintln!("{said}");
    }
    assert!(grown.is_empty(), "more than a twentieth above the table:\n{}", grown.join("\n"));
}
