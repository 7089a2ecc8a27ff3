//! Any damage to packed weights whose checksums fit is refused, or leaves a matrix that can be multiplied with; any
//! damage to the file of a tiny model's packed weights is worked around. The first byte chooses, the rest are changes.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use leyden_kernels::gemm::{CHECKED_BYTES, PackedFile, PackedWeights, Product, Write, multiply};
use leyden_kernels::{Cpu, OutlierChannels, PackedA, Tier};
use leyden_models::{HfModel, Make, PackCache, load_with};
use leyden_tensor::{DType, Gguf, GgufWriter, TensorView, quant};
use xxhash_rust::xxh3::xxh3_64;

/// Sizes of the matrices, and number of tokens.
const ROWS: usize = 70;
const K: usize = 256;
const TOKENS: usize = 5;

struct Loaded {
    cpu: Cpu,
    /// One matrix in every layout.
    layouts: Vec<PackedWeights>,
    /// Bytes of the matrix in GGUF's types, for each layout of panels.
    stored: Vec<(DType, Vec<u8>)>,
    cache: PathBuf,
    /// Path of the pack, and its bytes.
    pack: (PathBuf, Vec<u8>),
}

fn model() -> Arc<HfModel> {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/leyden-engine/tests/fixtures/hf/llama");
    Arc::new(HfModel::open(Path::new(model)).unwrap())
}

fn cache(path: &Path, map: bool) -> PackCache {
    PackCache::Folder { path: path.to_owned(), make: Make::Missing, map }
}

fn loaded() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    LOADED.get_or_init(|| {
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        // Most blocks of four rows and four columns are zero, so that every layout takes the matrix.
        let value = |i: usize| {
            let block = i / K / 4 * (K / 4) + i % K / 4;
            if block * 37 % 10 < 8 { 0.0 } else { (i * 7919 % 1013) as f32 / 500.0 - 1.0 }
        };
        let values: Vec<f32> = (0..ROWS * K).map(value).collect();
        let floats: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = [ROWS, K];
        let view = TensorView::new("w", DType::F32, &shape, &floats).unwrap();
        let mut dense = PackedWeights::int8_rows(&cpu, &view).unwrap().unwrap().0;
        dense.set_outliers(OutlierChannels::of(&(0..K).map(|c| (c * 31 % 17) as f64).collect::<Vec<_>>()));
        let mut layouts = dense.in_sparse_layouts(&cpu).unwrap();
        assert_eq!(layouts.len(), 3, "sparse layouts");
        layouts.push(dense);
        let mut stored = Vec::new();
        for dtype in [DType::Q4K, DType::F16, DType::Q8_0] {
            let mut bytes = vec![0; dtype.row_bytes(ROWS * K).unwrap()];
            quant::encode_row(dtype, &values, &mut bytes);
            let view = TensorView::new("w", dtype, &shape, &bytes).unwrap();
            layouts.push(PackedWeights::pack(&cpu, &view).unwrap());
            stored.push((dtype, bytes));
        }
        let folder = std::env::temp_dir().join(format!("leyden-fuzz-packs-{}", std::process::id()));
        let (_, report) = load_with(model(), &cpu, &cache(&folder, false), &mut |_, _| {}).unwrap();
        let path = report.made.expect("a pack");
        let bytes = std::fs::read(&path).unwrap();
        Loaded { cpu, layouts, stored, cache: folder, pack: (path, bytes) }
    })
}

/// Changes bytes: each change has a place in two bytes, and a new value.
fn change(bytes: &mut [u8], changes: &[u8]) {
    for &[low, high, value] in changes.as_chunks().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
        bytes[at] = value;
    }
}

/// Returns the products with some tokens.
fn products(cpu: &Cpu, weights: &PackedWeights) -> Vec<u32> {
    let x: Vec<f32> = (0..TOKENS * weights.k()).map(|i| (i * 104_729 % 1009) as f32 / 500.0 - 1.0).collect();
    let mut input = PackedA::default();
    input.fill(cpu.tier(), cpu.pool(), weights.act_format(), &x, weights.k());
    let mut out = vec![0.0; TOKENS * weights.rows()];
    multiply(cpu, &input, &mut [Product { weights, bias: None, out: &mut out, write: Write::Set }]);
    out.iter().map(|y| y.to_bits()).collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Loaded { cpu, layouts, stored, cache: folder, pack: (path, pack) } = loaded();
    let Some((&[which, flags], rest)) = bytes.split_first_chunk() else { return };
    let in_place = flags & 1 == 1;
    let Some(good) = layouts.get(usize::from(which) % (layouts.len() + 1)) else {
        // A file: its beginning has the metadata.
        let mut file = pack.clone();
        change(&mut file, rest);
        file.truncate(file.len() - usize::from(flags >> 4) * file.len() / 16);
        std::fs::write(path, &file).unwrap();
        let (_, report) = load_with(model(), cpu, &cache(folder, in_place), &mut |_, _| {}).unwrap();
        assert!(report.read.is_some() || !report.notes.is_empty(), "{report:?}");
        return;
    };
    let form = good.rows_form();
    // The first changes are those of the form.
    let (of_form, rest) = rest.split_at((usize::from(flags >> 5) * 3).min(rest.len()));
    let mut kept = good.as_bytes().to_vec();
    change(&mut kept, rest);
    if flags & 2 == 2 {
        kept.truncate(kept.len() - usize::from(which));
    }
    let checksums = kept.chunks(CHECKED_BYTES).map(xxh3_64).collect();
    let mut writer = GgufWriter::new();
    writer.add_bytes("w", &kept).unwrap();
    let file = Gguf::from_vec(writer.to_vec().unwrap(), "fuzz.pack").unwrap();
    let file = PackedFile { bytes: file.file_bytes("w").unwrap(), checksums };
    let found = match &form {
        Some(form) => {
            let mut form = form.clone().into_bytes();
            change(&mut form, of_form);
            let form = String::from_utf8_lossy(&form);
            PackedWeights::rows_from_kept(cpu, ("w", [ROWS, K]), &form, &file, in_place).unwrap()
        }
        None => {
            let (dtype, bytes) = stored.iter().find(|row| row.0 == good.dtype()).unwrap();
            let shape = [ROWS, K];
            let view = TensorView::new("w", *dtype, &shape, bytes).unwrap();
            PackedWeights::from_kept(cpu, &view, &file, in_place).unwrap()
        }
    };
    let unchanged = kept == good.as_bytes() && of_form.is_empty();
    match found {
        Some(found) if unchanged => assert_eq!(products(cpu, &found), products(cpu, good)),
        Some(found) => drop(products(cpu, &found)),
        None => assert!(!unchanged, "{form:?} is refused"),
    }
});
