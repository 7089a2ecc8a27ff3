//! Conformance: every format on every tier of this machine against the definition computed from file rows.

use super::*;
use crate::context::Cpu;
use crate::cpu::isa::{Level, Tier};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::microkernel::kernels::{GemmKernels, TileFn};
use crate::gemm::registry::{EXACT, kernels_of};
use crate::memory::aligned::Aligned;
use crate::ops::Activation;
use crate::quant::packed_a::PackedA;
use crate::quant::quantize::quantise_group;
use crate::simd::scalar::Scalar;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::TensorView;
use leyden_tensor::quant;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Mutex;

/// Kernels that ran, by level and address.
static RAN: Mutex<BTreeSet<(Level, usize)>> = Mutex::new(BTreeSet::new());

/// Records that a kernel runs.
pub(super) fn runs(level: Level, kernel: TileFn) {
    RAN.lock().unwrap().insert((level, kernel as usize));
}

/// Small deterministic generator.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }

    pub(super) fn float(&mut self) -> f32 {
        self.next() as f32 / (1_u32 << 30) as f32 - 1.0
    }
}

/// Kind of generated file bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    /// Any bits, with scales kept finite.
    Random,
    /// Quantised values, scales and minima all at their largest magnitude.
    Extreme,
}

/// Offsets of the half-precision factors in a block.
fn factors(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::IQ4NL | DType::IQ4XS => &[0],
        DType::Q1_0 | DType::IQ1S | DType::IQ2XXS | DType::IQ2XS | DType::IQ2S => &[0],
        DType::IQ3XXS | DType::IQ3S => &[0],
        DType::TQ1_0 => &[52],
        DType::TQ2_0 => &[64],
        DType::Q4_1 | DType::Q5_1 | DType::Q4K | DType::Q5K => &[0, 2],
        DType::Q2K => &[80, 82],
        DType::Q3K => &[108],
        DType::Q6K => &[208],
        _ => &[],
    }
}

pub(super) fn weights(dtype: DType, rows: usize, k: usize, fill: Fill, rng: &mut Rng) -> Vec<u8> {
    let n = dtype.row_bytes(k).unwrap() * rows;
    let mut bytes: Vec<u8> =
        (0..n).map(|_| if fill == Fill::Extreme { 0xff } else { rng.next() as u8 }).collect();
    match dtype {
        DType::F32 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|b| *b = rng.float().to_le_bytes()),
        DType::F16 => {
            bytes
                .as_chunks_mut::<2>()
                .0
                .iter_mut()
                .for_each(|b| *b = quant::f32_to_f16(rng.float()).to_le_bytes());
        }
        DType::BF16 => {
            bytes
                .as_chunks_mut::<2>()
                .0
                .iter_mut()
                .for_each(|b| *b = quant::f32_to_bf16(rng.float()).to_le_bytes());
        }
        _ => {
            for block in bytes.chunks_mut(dtype.block_bytes()) {
                if fill == Fill::Extreme {
                    // The most negative quantised value of signed formats.
                    match dtype {
                        DType::Q8_0 => block.fill(0x80),
                        DType::Q6K => block[192..208].fill(0x80),
                        // The largest number, and a power of two that keeps sums finite.
                        DType::MXFP4 => {
                            block.fill(0x77);
                            block[0] = 200;
                        }
                        // The most negative number of the activation format, and the largest scale.
                        DType::IQ4NL => block.fill(0),
                        DType::IQ4XS => block[8..].fill(0),
                        _ => {}
                    }
                }
                if dtype == DType::MXFP4 && fill == Fill::Random {
                    block[0] = 110 + block[0] % 16;
                }
                if dtype == DType::IQ1M {
                    // The factor's highest bits.
                    block[55] &= 0xbf;
                }
                for &at in factors(dtype) {
                    let d = if fill == Fill::Extreme { 65504.0 } else { rng.float() * 0.01 };
                    block[at..at + 2].copy_from_slice(&quant::f32_to_f16(d).to_le_bytes());
                }
            }
        }
    }
    bytes
}

/// Computes a product by its definition, from the file's rows alone: decoded quantised values times quantised
/// activations. Returns the value in exact arithmetic and a bound on the rounding of the f32 chain.
fn definition((dtype, exact): (DType, bool), row: &[u8], x: &[f32]) -> (f64, f64) {
    let mut w = vec![0.0; x.len()];
    quant::decode_row(dtype, row, &mut w);
    let mut a: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
    let act_format = kernels_of(dtype, exact).unwrap().format.act_format;
    if act_format == ActFormat::BF16 {
        a = x.iter().map(|v| f64::from(quant::bf16_to_f32(quant::f32_to_bf16(*v)))).collect();
    }
    let group = act_format.group();
    if group > 0 {
        for (a, x) in a.chunks_mut(group).zip(x.chunks(group)) {
            let mut quants = [0; 128];
            let d = if group == 32 {
                let quants: &mut [i8; 32] = (&mut quants[..32]).try_into().unwrap();
                quantise_group(Scalar, x.try_into().unwrap(), quants)
            } else {
                quantise_group::<_, 128>(Scalar, x.try_into().unwrap(), &mut quants)
            };
            a.iter_mut().zip(quants).for_each(|(a, c)| *a = f64::from(d) * f64::from(c));
        }
    }
    let terms = w.iter().zip(&a).map(|(w, a)| f64::from(*w) * a);
    let magnitude: f64 = terms.clone().map(f64::abs).sum();
    // One rounding per multiply-add of the chain, plus those of decoding: each at most 2^-24 of the magnitude.
    // Minima cancel against quantised values inside a term, so its magnitude counts both.
    let minima = matches!(dtype, DType::Q4_1 | DType::Q5_1 | DType::Q2K | DType::Q4K | DType::Q5K);
    let spread = if minima { 8.0 } else { 2.0 };
    (terms.sum(), magnitude * spread * (x.len() as f64 + 16.0) * 2f64.powi(-24) + 1e-30)
}

fn silu<'a>(gate: &'a PackedWeights, up: &'a PackedWeights) -> Gated<'a> {
    Gated { activation: Activation::Silu, gate, up }
}

fn product(cpu: &Cpu, w: &PackedWeights, x: &[f32]) -> Vec<f32> {
    let mut a = PackedA::default();
    a.fill(cpu.tier(), cpu.pool(), w.act_format(), x, w.k());
    let mut out = vec![f32::NAN; w.rows() * a.m];
    multiply(cpu, &a, &mut [Product { weights: w, bias: None, out: &mut out, write: Write::Set }]);
    out
}

/// Returns every tier of this machine, and variants found on others: one that uses another level's kernels for wide
/// tiles of BF16, and those that prefetch weights into the other cache.
fn tiers() -> impl Iterator<Item = Tier> {
    let others = Tier::available().into_iter().filter_map(Tier::other_prefetch_level);
    Tier::available().into_iter().chain(others).chain([Tier::best_where(true)])
}

/// Asserts that a product on a tier is the `same` as on the scalar path, which it returns.
fn same_on_every_tier(
    weights: &TensorView<'_>,
    x: &[f32],
    same: fn(f32, f32) -> bool,
    what: &str,
) -> Vec<f32> {
    let on = |tier| {
        let cpu = Cpu::new(tier, 1).unwrap();
        product(&cpu, &PackedWeights::pack(&cpu, weights).unwrap(), x)
    };
    let want = on(Tier::SCALAR);
    for tier in tiers().filter(|tier| *tier != Tier::SCALAR) {
        assert!(on(tier).iter().zip(&want).all(|(a, b)| same(*a, *b)), "{what} on {}", tier.level());
    }
    want
}

/// Asserts that a product has the same bits on all tiers as on the scalar path.
fn same_bits_on_every_tier(weights: &TensorView<'_>, x: &[f32], what: &str) {
    same_on_every_tier(weights, x, |a, b| a.to_bits() == b.to_bits(), what);
}

/// Every type of the tensor crate: one without a kernel fails the first test below.
fn dtypes() -> impl Iterator<Item = DType> {
    DType::all()
}

/// Every type, and a second time with `exact` those that have other kernels for exact products.
fn kinds() -> impl Iterator<Item = (DType, bool)> {
    dtypes().map(|dtype| (dtype, false)).chain(EXACT.iter().map(|f| (f.format.dtype, true)))
}

#[test]
fn every_dtype_has_a_format_and_panels_hold_the_files_bits() {
    for dtype in dtypes() {
        let f = kernels_of(dtype, false).unwrap();
        let k = dtype.block_len() * 2;
        let file = dtype.row_bytes(k).unwrap() * PANEL_ROWS;
        let panel = (f.format.panel_bytes)(k).unwrap();
        // Packed as other formats with the same values.
        let other = match dtype {
            DType::TQ1_0 | DType::TQ2_0 => Some(DType::Q2K),
            DType::Q1_0 => Some(DType::Q4_0),
            _ => None,
        };
        if let Some(other) = other {
            assert_eq!(Some(panel), other.row_bytes(k).map(|bytes| bytes * PANEL_ROWS), "{dtype}");
            continue;
        }
        assert!(panel >= file && panel < file + 64, "{dtype}: {panel} bytes for {file}");
    }
}

#[test]
fn every_tier_runs_kernels_of_its_own() {
    for tier in Tier::available().into_iter().filter(|t| *t != Tier::SCALAR) {
        let level = tier.level();
        for (dtype, exact) in kinds() {
            let kernels = kernels_of(dtype, exact).unwrap();
            let own = (kernels.tiles)(tier);
            // Kernels that a level takes from another are those of that level.
            let few = tier.for_few().level();
            assert_eq!(own.len(), few.columns(kernels.format.act_format), "{dtype} on {level}");
            for below in Level::native().filter(|l| *l < level) {
                let lower = Tier::unproved(below);
                // Odd numbers of columns and floats gain nothing from matrix products.
                let every = if level == Level::I8mm && below == Level::DotProd { 2 } else { 1 };
                let floats = kernels.format.act_format.is_float();
                let shared = match (level, below) {
                    (Level::DotProd, Level::Neon) | (Level::AvxVnni, Level::Avx2) => floats,
                    _ => {
                        few == below
                            || level.common() == below && kernels.format.act_format != ActFormat::BF16
                    }
                };
                if every == 2 && floats || shared {
                    continue;
                }
                for (c, (a, b)) in own.iter().zip((kernels.tiles)(lower)).enumerate() {
                    let same = std::ptr::fn_addr_eq(*a, *b);
                    assert!(
                        !same || (c + 1) % every != 0,
                        "{dtype} of {} columns on {level} and {below}",
                        c + 1
                    );
                }
            }
        }
    }
}

#[test]
fn every_format_agrees_with_its_definition_and_across_tiers() {
    let mut rng = Rng(7);
    // Every number of columns of a tile, alone and beside others, and rows and depths cut at every place.
    let shapes = [
        (7, 1, 2),
        (16, 3, 3),
        (17, 2, 4),
        (33, 5, 5),
        (48, 1, 7),
        (257, 2, 9),
        (40, 1, 24),
        (64, 3, 33),
        (130, 2, 47),
        (19, 3, 97),
    ];
    let shapes: Vec<_> = (1..=Level::MAX_COLUMNS).map(|n| (1, 1, n)).chain(shapes).collect();
    for (dtype, exact) in kinds() {
        let cpu = Cpu::new(Tier::SCALAR, 1).unwrap().with_exact(exact);
        let others: Vec<Cpu> = tiers()
            .flat_map(|tier| [(tier, 1), (tier, 3)])
            .filter(|other| *other != (Tier::SCALAR, 1))
            .map(|(tier, threads)| Cpu::new(tier, threads).unwrap().with_exact(exact))
            .collect();
        let unit = dtype.block_len().max(if dtype.block_len() == 1 { 1 } else { 32 });
        for &(rows, blocks, n) in &shapes {
            let k = unit * blocks;
            for fill in [Fill::Random, Fill::Extreme] {
                let bytes = weights(dtype, rows, k, fill, &mut rng);
                let shape = [rows, k];
                let view = TensorView::new("w", dtype, &shape, &bytes).unwrap();
                let extreme = [1.0, -1.0][rng.next() as usize % 2];
                // Mostly small compared with the largest, as real activations are, or not: the sums of the former fit
                // 16 bits.
                let power = [1, 3][rng.next() as usize % 2];
                let x: Vec<f32> = (0..n * k)
                    .map(|_| if fill == Fill::Extreme { extreme } else { rng.float().powi(power) * 3.0 })
                    .collect();
                let packed = PackedWeights::pack(&cpu, &view).unwrap();
                let want = product(&cpu, &packed, &x);
                for (c, x) in x.chunks(k).enumerate() {
                    for r in 0..rows {
                        let (exact, bound) = definition((dtype, exact), view.row(r), x);
                        let got = f64::from(want[c * rows + r]);
                        assert!(
                            (got - exact).abs() <= bound || got.is_infinite() && exact.abs() > 3.4e38,
                            "{dtype} {fill:?} {rows}x{k} column {c} row {r}: {got}, want {exact} within {bound}"
                        );
                    }
                }
                for cpu in &others {
                    let packed = PackedWeights::pack(cpu, &view).unwrap();
                    let got = product(cpu, &packed, &x);
                    let same = got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits());
                    let (level, threads) = (cpu.tier().level(), cpu.pool().members());
                    assert!(same, "{dtype} {fill:?} {rows}x{k} n {n} on {level} x{threads}");
                }
            }
        }
    }
    every_kernel_ran();
}

#[test]
fn shapes_that_are_no_multiple_of_anything_give_the_same_bits_on_every_tier() {
    let mut rng = Rng(23);
    // The last depth is that of a real model. Two of its panels fill L2, which matters when panels are multiplied
    // together with many columns.
    let many = kernels_of(DType::Q4_0, false).unwrap().gemm(Tier::best()).is_some();
    let deep = if many { (49, 29_568, 45) } else { (17, 29_568, 5) };
    let shapes: [(usize, usize, usize); 8] = [
        (1, 32, 45),
        (257, 96, 1),
        (257, 96, 45),
        (33, 641, 1),
        (33, 641, 47),
        (1, 29_568, 1),
        (7, 29_568, 1),
        deep,
    ];
    for dtype in dtypes() {
        for (rows, k, n) in shapes {
            if !k.is_multiple_of(dtype.block_len()) {
                continue;
            }
            let bytes = weights(dtype, rows, k, Fill::Random, &mut rng);
            let shape = [rows, k];
            let view = TensorView::new("w", dtype, &shape, &bytes).unwrap();
            let x: Vec<f32> = (0..n * k).map(|_| rng.float()).collect();
            same_bits_on_every_tier(&view, &x, &format!("{dtype} {rows}x{k} n {n}"));
        }
    }
}

/// Rounded activations and weights of every magnitude, among them values too small to count, infinities and NaN, which
/// become NaN everywhere.
#[test]
fn bfloat16_of_any_bits_gives_the_same_bits_on_every_tier() {
    let mut rng = Rng(31);
    // Rows of an odd depth, and columns for tiles of one panel and of two.
    for (rows, k, n) in [(16, 129, 1), (48, 515, 47)] {
        // Lowest exponents: those around the smallest value that counts, whose sums would cancel to subnormal numbers
        // if slightly smaller values were not flushed to zero; larger ones; many; all finite ones; and all.
        for (least, most) in [(0, 20), (69, 72), (64, 78), (64, 190), (0, 255), (0, 256)] {
            let mut bits = || (rng.next() << 1 & 0x807f_ffff) | (least + rng.next() % (most - least)) << 23;
            let bytes: Vec<u8> = (0..rows * k).flat_map(|_| ((bits() >> 16) as u16).to_le_bytes()).collect();
            let x: Vec<f32> = (0..n * k).map(|_| f32::from_bits(bits())).collect();
            let shape = [rows, k];
            let view = TensorView::new("w", DType::BF16, &shape, &bytes).unwrap();
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let what = format!("exponents {least}..{most}, {rows}x{k}, n {n}");
            let found = same_on_every_tier(&view, &x, same, &what);
            // Otherwise the bits would not be compared.
            assert!(found.iter().any(|y| !y.is_nan()) || most > 190, "{what}: no numbers");
        }
    }
}

#[test]
fn gated_products_have_the_same_bits_however_many_threads_share_them() {
    let mut rng = Rng(29);
    let (rows, k) = (257, 256);
    let shape = [rows, k];
    let types = [(DType::Q4_0, DType::Q4_0), (DType::Q4K, DType::Q6K), (DType::Q8_0, DType::Q5_1)];
    // One tile, and tiles of several widths.
    let types = types.into_iter().chain([(DType::F16, DType::F16)]);
    for ((gate, up), n) in types.flat_map(|types| [(types, 1), (types, 47)]) {
        let x: Vec<f32> = (0..n * k).map(|_| rng.float()).collect();
        let files = [gate, up].map(|dtype| weights(dtype, rows, k, Fill::Random, &mut rng));
        let swiglu_rows = |tier: Tier, threads: usize| {
            let cpu = Cpu::new(tier, threads).unwrap();
            let packed = [(gate, &files[0]), (up, &files[1])].map(|(dtype, bytes)| {
                PackedWeights::pack(&cpu, &TensorView::new("w", dtype, &shape, bytes).unwrap()).unwrap()
            });
            let mut input = PackedA::default();
            input.fill(tier, cpu.pool(), packed[0].act_format(), &x, k);
            let mut out = vec![f32::NAN; rows * n];
            swiglu(&cpu, &input, &silu(&packed[0], &packed[1]), &mut out);
            out.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        let want = swiglu_rows(Tier::SCALAR, 1);
        for tier in Tier::available() {
            for threads in [1, 2, 8] {
                assert!(
                    swiglu_rows(tier, threads) == want,
                    "{gate}, {up} x {n} on {} x{threads}",
                    tier.level()
                );
            }
        }
    }
}

#[test]
fn gated_products_are_quantised_as_their_floats_would_be() {
    let mut rng = Rng(37);
    let emulated = std::env::var_os("LEYDEN_TEST_RUNNER").is_some();
    // Grids whose groups divide the rows, and more than whole units; floats with rows that are no whole panels.
    let act_formats = [
        (ActFormat::Q8Block32, 544),
        (ActFormat::Q8Block128, 640),
        (ActFormat::F32, 521),
        (ActFormat::BF16, 521),
        (ActFormat::Q8Block32, 2080),
    ];
    for (gate, up, k) in
        [(DType::Q8_0, DType::Q8_0, 64), (DType::Q4K, DType::Q6K, 256), (DType::F16, DType::F16, 33)]
    {
        for (act_format, rows) in act_formats {
            let shape = [rows, k];
            let files = [gate, up].map(|dtype| weights(dtype, rows, k, Fill::Random, &mut rng));
            for n in [1, 5, 47, 70] {
                let x: Vec<f32> = (0..n * k).map(|_| rng.float()).collect();
                for (tier, threads) in Tier::available().into_iter().flat_map(|tier| [(tier, 1), (tier, 3)]) {
                    // The scalar path takes an emulator a minute for each; three threads do the same work as one, and
                    // share it.
                    if emulated && (tier, threads) == (Tier::SCALAR, 1) {
                        continue;
                    }
                    let cpu = Cpu::new(tier, threads).unwrap();
                    let [gate, up] = [(gate, &files[0]), (up, &files[1])].map(|(dtype, bytes)| {
                        PackedWeights::pack(&cpu, &TensorView::new("w", dtype, &shape, bytes).unwrap())
                            .unwrap()
                    });
                    let mut input = PackedA::default();
                    input.fill(tier, cpu.pool(), gate.act_format(), &x, k);
                    let mut floats = vec![0.0; rows * n];
                    swiglu(&cpu, &input, &silu(&gate, &up), &mut floats);
                    let (mut want, mut got) = (PackedA::default(), PackedA::default());
                    want.fill(tier, cpu.pool(), act_format, &floats, rows);
                    // The contents left by an earlier batch do not matter.
                    got.fill(tier, cpu.pool(), act_format, &vec![1e9; rows * (n + 1)], rows);
                    swiglu_packed(
                        &cpu,
                        &input,
                        &silu(&gate, &up),
                        act_format,
                        &mut got,
                        &mut Aligned::default(),
                    );
                    assert_eq!(want.tiles(), got.tiles());
                    for t in 0..want.tiles() {
                        let [want, got] = [&want, &got].map(|all| format!("{:?}", all.tile(t)));
                        assert!(
                            want == got,
                            "{} x {n} for {act_format:?}, {} x{threads}",
                            gate.dtype(),
                            tier.level()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn results_are_the_same_past_the_caches() {
    let mut rng = Rng(31);
    let (rows, k, n) = (1024, 32, 520);
    let shape = [rows, k];
    let cpus = tiers().map(|tier| Cpu::new(tier, 4).unwrap()).collect::<Vec<_>>();
    let [gate, up] = ["gate", "up"].map(|name| {
        let bytes = weights(DType::Q8_0, rows, k, Fill::Random, &mut rng);
        PackedWeights::pack(&cpus[0], &TensorView::new(name, DType::Q8_0, &shape, &bytes).unwrap()).unwrap()
    });
    let [x, bias] = [n * k, rows].map(|len| (0..len).map(|_| rng.float()).collect::<Vec<_>>());
    let mut input = PackedA::default();
    let mut room = Aligned::zeroed(rows * n + 1);
    let mut results = |cpu: &Cpu, first: usize, bias: Option<&[f32]>, swiglu_rows: bool| {
        let out = &mut room[first..first + rows * n];
        assert_eq!(
            Epilogue::new(out, rows, None, Write::Set).is_non_temporal(),
            first == 0,
            "whole lines alone"
        );
        assert!(
            !Epilogue::new(out, rows, None, Write::Add).is_non_temporal()
                && !Epilogue::new(out, 8, None, Write::Set).is_non_temporal()
        );
        out.fill(f32::NAN);
        input.fill(cpu.tier(), cpu.pool(), gate.act_format(), &x, k);
        if swiglu_rows {
            swiglu(cpu, &input, &silu(&gate, &up), out);
        } else {
            multiply(cpu, &input, &mut [Product { weights: &gate, bias, out, write: Write::Set }]);
        }
        out.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    for (bias, swiglu_rows) in [(None, false), (Some(&bias[..]), false), (None, true)] {
        let want = results(&cpus[0], 1, bias, swiglu_rows);
        for cpu in &cpus {
            for first in [0, 1] {
                let what =
                    format!("{}, bias {}, swiglu_rows {swiglu_rows}", cpu.tier().level(), bias.is_some());
                assert!(results(cpu, first, bias, swiglu_rows) == want, "{what}, from {first} on");
            }
        }
    }
}

/// Fails if a kernel of a tier of this machine did not run, or a tier has none of its own. Prints the tiers that ran
/// and those that the machine lacks.
fn every_kernel_ran() {
    let ran = RAN.lock().unwrap();
    let address = |kernel: &TileFn| *kernel as usize;
    for level in Level::native() {
        let Some(tier) = Tier::new(level) else {
            report(&format!("conformance: {level} did not run, the machine lacks {}", level.features()));
            continue;
        };
        let few = tier.for_few().level();
        let ran = |kernel| [level, few].into_iter().any(|level| ran.contains(&(level, address(kernel))));
        let mut own = BTreeSet::new();
        for (dtype, exact) in kinds() {
            let kernels = kernels_of(dtype, exact).unwrap();
            for tier in [tier].into_iter().chain(tier.other_prefetch_level()) {
                for (c, kernel) in (kernels.tiles)(tier).iter().enumerate() {
                    assert!(ran(kernel), "{dtype} of {} columns on {level}", c + 1);
                }
            }
            let tiers = |level| {
                let tier = Tier::unproved(level);
                [tier].into_iter().chain(tier.other_prefetch_level())
            };
            let tiles = |level| tiers(level).flat_map(kernels.tiles);
            let many = |level| {
                let apart = |many: &'static GemmKernels| many.unpack.as_ref().map(|unpack| &unpack.tiles);
                tiers(level)
                    .filter_map(|tier| kernels.gemm(tier))
                    .flat_map(move |many| many.tiles.iter().chain(apart(many)))
                    .flatten()
            };
            for kernel in many(level) {
                assert!(ran(kernel), "{dtype} of many columns on {level}");
            }
            let all = |level| tiles(level).chain(many(level)).map(address);
            let below: BTreeSet<usize> = Level::native().filter(|l| *l < level).flat_map(all).collect();
            own.extend(all(level).filter(|kernel| !below.contains(kernel)));
        }
        assert!(!own.is_empty(), "{level} has no kernel of its own");
        report(&format!("conformance: {level} ran {} kernels of its own", own.len()));
    }
}

/// Prints even in a passing test, where `eprintln!` would be captured.
fn report(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Greatest magnitude of 128 values with which quantised values equal the values.
const LARGEST: f32 = 120.49;

#[test]
fn sums_around_the_edge_of_16_bits() {
    // Two panels, which many tokens are multiplied with together.
    let (rows, k, n) = (32, 512, 48);
    // Quantised weights of the largest magnitude of Q6_K, Q5_K and Q4_K, whose blocks have 16, 32 and 32 values; and
    // activations of the largest magnitude.
    for (largest, block) in [(63, 16_usize), (32, 16), (16, 16), (31, 32), (15, 32)] {
        for over in [0, 1] {
            let sum = i32::from(i16::MAX) / largest + over;
            let x: Vec<f32> = (0..n * k)
                .map(|i| {
                    let place = i32::try_from(i % block).unwrap();
                    let code = (sum - place * 120).clamp(0, 120) as f32;
                    // The largest value, so that quantised values equal the values; and both signs.
                    let sign = if i / k % 3 == 0 { -1.0 } else { 1.0 };
                    if (i / block) % 2 == 0 {
                        sign * code
                    } else {
                        f32::from(u8::from(i % 128 == 127)) * LARGEST
                    }
                })
                .collect();
            for dtype in [DType::Q2K, DType::Q3K, DType::Q4K, DType::Q5K, DType::Q6K, DType::IQ4XS] {
                for byte in [0_u8, 0xff] {
                    let shape = [rows, k];
                    let mut bytes = weights(dtype, rows, k, Fill::Extreme, &mut Rng(1));
                    for block in bytes.chunks_mut(dtype.block_bytes()) {
                        // Quantised values come first in Q6_K and last elsewhere; scales stay the largest.
                        if dtype == DType::Q6K {
                            block[..192].fill(byte)
                        } else {
                            block[84..].fill(byte)
                        }
                        if dtype == DType::IQ1M {
                            // The factor's highest bits.
                            block[55] &= 0xbf;
                        }
                        for &at in factors(dtype) {
                            block[at..at + 2].copy_from_slice(&quant::f32_to_f16(0.5).to_le_bytes());
                        }
                    }
                    let view = TensorView::new("w", dtype, &shape, &bytes).unwrap();
                    same_bits_on_every_tier(&view, &x, &format!("{dtype} of {byte:#x} with sums of {sum}"));
                }
            }
        }
    }
}

#[test]
fn sums_of_aligned_codes_and_activations_around_the_edges() {
    let (rows, k, n) = (32, 512, 48);
    let mut rng = Rng(13);
    // With the largest quantised values and scales, activations of about 43 make sums over three blocks of IQ4_XS of
    // 2^24; those of about 64 make sums over 16 values of Q6_K of 2^15, and those of about 66 of Q5_K.
    for dtype in [DType::IQ4XS, DType::Q6K, DType::Q5K] {
        for code in [0_u8, 0xff, 0x0f] {
            let shape = [rows, k];
            let mut bytes = weights(dtype, rows, k, Fill::Extreme, &mut rng);
            for block in bytes.chunks_mut(dtype.block_bytes()) {
                let quants = match dtype {
                    DType::Q6K => 0..192,
                    DType::Q5K => 16..176,
                    _ => 8..136,
                };
                for byte in &mut block[quants] {
                    *byte = if rng.next().is_multiple_of(64) { 0x31 } else { code };
                }
                if dtype == DType::IQ4XS {
                    // Scales of -32, except for a few.
                    block[2..8].fill(if rng.next().is_multiple_of(4) { 0xff } else { 0 });
                }
                if dtype == DType::IQ1M {
                    // The factor's highest bits.
                    block[55] &= 0xbf;
                }
                for &at in factors(dtype) {
                    block[at..at + 2].copy_from_slice(&quant::f32_to_f16(0.5).to_le_bytes());
                }
            }
            let view = TensorView::new("w", dtype, &shape, &bytes).unwrap();
            for about in 36..76 {
                let x: Vec<f32> = (0..n * k)
                    .map(|i| {
                        // The largest value, so that quantised values equal the values; and both signs.
                        let code =
                            if i % 128 == 127 { LARGEST } else { (about + rng.next() as i32 % 2) as f32 };
                        if i / k % 3 == 0 { -code } else { code }
                    })
                    .collect();
                same_bits_on_every_tier(&view, &x, &format!("{dtype} of {code:#x}, activations of {about}"));
            }
        }
    }
}

#[test]
fn a_column_does_not_depend_on_its_batch() {
    let mut rng = Rng(11);
    for tier in Tier::available() {
        for (dtype, exact) in kinds() {
            let cpu = Cpu::new(tier, 2).unwrap().with_exact(exact);
            let (rows, k, n) = (40, 512, 19);
            let bytes = weights(dtype, rows, k, Fill::Random, &mut rng);
            let shape = [rows, k];
            let packed =
                PackedWeights::pack(&cpu, &TensorView::new("w", dtype, &shape, &bytes).unwrap()).unwrap();
            let x: Vec<f32> = (0..n * k).map(|_| rng.float()).collect();
            let together = product(&cpu, &packed, &x);
            for c in 0..n {
                let alone = product(&cpu, &packed, &x[c * k..(c + 1) * k]);
                assert_eq!(alone, together[c * rows..(c + 1) * rows], "{dtype} column {c}");
            }
        }
    }
}

#[test]
fn bias_residual_and_gate() {
    let mut rng = Rng(3);
    let (rows, k, n) = (37, 64, 6);
    let shape = [rows, k];
    let a = weights(DType::Q8_0, rows, k, Fill::Random, &mut rng);
    let b = weights(DType::Q4_0, rows, k, Fill::Random, &mut rng);
    let x: Vec<f32> = (0..n * k).map(|_| rng.float()).collect();
    let bias: Vec<f32> = (0..rows).map(|_| rng.float()).collect();
    let mut digests = Vec::new();
    for tier in Tier::available() {
        let cpu = Cpu::new(tier, 2).unwrap();
        let a = PackedWeights::pack(&cpu, &TensorView::new("a", DType::Q8_0, &shape, &a).unwrap()).unwrap();
        let b = PackedWeights::pack(&cpu, &TensorView::new("b", DType::Q4_0, &shape, &b).unwrap()).unwrap();
        let (pa, pb) = (product(&cpu, &a, &x), product(&cpu, &b, &x));
        let mut batch = PackedA::default();
        batch.fill(tier, cpu.pool(), ActFormat::Q8Block32, &x, k);
        let (mut set, mut add) = (vec![0.0; rows * n], vec![1.5; rows * n]);
        multiply(
            &cpu,
            &batch,
            &mut [
                Product { weights: &a, bias: Some(&bias), out: &mut set, write: Write::Set },
                Product { weights: &b, bias: None, out: &mut add, write: Write::Add },
            ],
        );
        let mut swiglu_rows = vec![0.0; rows * n];
        swiglu(&cpu, &batch, &silu(&a, &b), &mut swiglu_rows);
        for i in 0..rows * n {
            assert_eq!(set[i], pa[i] + bias[i % rows]);
            assert_eq!(add[i], 1.5 + pb[i]);
            let want = f64::from(pa[i]) / (1.0 + (-f64::from(pa[i])).exp()) * f64::from(pb[i]);
            assert!((f64::from(swiglu_rows[i]) - want).abs() <= 1e-6 * (1.0 + want.abs()));
        }
        digests.push(swiglu_rows.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
    }
    assert!(digests.windows(2).all(|w| w[0] == w[1]), "swiglu_rows products differ between tiers");
}

#[test]
fn a_nan_activation_reaches_every_result_of_its_column_only() {
    let mut rng = Rng(5);
    let cpu = Cpu::new(Tier::best(), 1).unwrap();
    for dtype in dtypes() {
        let shape = [20, 256];
        let bytes = weights(dtype, 20, 256, Fill::Random, &mut rng);
        let packed =
            PackedWeights::pack(&cpu, &TensorView::new("w", dtype, &shape, &bytes).unwrap()).unwrap();
        let mut x = vec![0.5; 2 * 256];
        x[300] = f32::NAN;
        let y = product(&cpu, &packed, &x);
        assert!(y[..20].iter().all(|v| v.is_finite()) && y[20..].iter().all(|v| v.is_nan()), "{dtype}");
    }
}
