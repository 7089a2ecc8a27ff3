//! Quantisation of whole files, and the files and options that are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use leyden_compress::{Error, Imatrix, Options, Plan, Report, Target, quantize};
use leyden_kernels::gemm::PackedWeights;
use leyden_kernels::{Cpu, Tier};
use leyden_tensor::{Array, DType, Gguf, GgufWriter, Value, WeightSource, quant};
use leyden_testkit::random;
use std::ops::ControlFlow;
use std::path::Path;

/// Returns a normally distributed value, the same in every run.
fn bell(i: u64) -> f32 {
    (0..4).map(|k| random(4 * i + k) as u16 as f32 / 65536.0 - 0.5).sum()
}

/// Returns a model of two layers with grouped-query attention, in F16.
fn model(damage: Option<f32>) -> Vec<u8> {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", Value::from("llama")).set("llama.block_count", Value::U32(2));
    writer
        .set("llama.attention.head_count", Value::U32(8))
        .set("llama.attention.head_count_kv", Value::U32(2));
    writer.set("tokenizer.ggml.tokens", Value::Array(Array::from_strs(["a", "b"])));
    let mut seed = 0;
    let mut add = |name: &str, shape: &[usize]| {
        let n: usize = shape.iter().product();
        seed += 1;
        let mut x: Vec<f32> = (0..n as u64).map(|i| 0.05 * bell(i + (seed << 32))).collect();
        if name == "blk.1.ffn_up.weight"
            && let Some(value) = damage
        {
            x[300] = value;
        }
        let mut bytes = vec![0; 2 * n];
        quant::encode_row(DType::F16, &x, &mut bytes);
        writer.add_tensor(name, DType::F16, shape, bytes).unwrap();
    };
    add("token_embd.weight", &[64, 256]);
    for layer in 0..2 {
        add(&format!("blk.{layer}.attn_norm.weight"), &[256]);
        add(&format!("blk.{layer}.attn_q.weight"), &[256, 256]);
        add(&format!("blk.{layer}.attn_v.weight"), &[64, 256]);
        add(&format!("blk.{layer}.ffn_up.weight"), &[512, 256]);
        add(&format!("blk.{layer}.ffn_down.weight"), &[256, 96]);
    }
    writer.to_vec().unwrap()
}

fn source(damage: Option<f32>) -> Gguf {
    Gguf::from_vec(model(damage), "model.gguf").unwrap()
}

fn make(source: &Gguf, options: &Options<'_>, to: &Path) -> Result<Report, Error> {
    quantize(source, &Plan::new(source, options)?, options, to, &mut |_| ControlFlow::Continue(()))
}

fn options(name: &str) -> Options<'static> {
    Options::new(Target::from_name(name).unwrap())
}

#[test]
fn every_target_is_written_and_read_back() {
    let (source, folder) = (source(None), tempfile::tempdir().unwrap());
    let mut sizes = Vec::new();
    for target in Target::all() {
        let to = folder.path().join(target.name());
        let report = make(&source, &Options::new(target), &to).unwrap();
        let file = Gguf::open(&to).unwrap();
        assert_eq!(file.tensor_names(), source.tensor_names());
        assert_eq!(file.metadata().opt_str("general.architecture").unwrap(), Some("llama"));
        assert_eq!(
            file.metadata().get("tokenizer.ggml.tokens"),
            source.metadata().get("tokenizer.ggml.tokens")
        );
        assert_eq!(file.require("blk.0.attn_norm.weight").unwrap().dtype(), DType::F16, "norms stay");
        for tensor in &report.tensors {
            let bound = 0.002
                + 2.6
                    * 0.5_f64.powi(
                        tensor.choice.to.block_bytes() as i32 * 8 / tensor.choice.to.block_len() as i32,
                    );
            assert!(tensor.relative_error < bound, "{}: {tensor:?}", target.name());
        }
        sizes.push(std::fs::metadata(&to).unwrap().len());
    }
    assert!(sizes.first() > sizes.last());
}

/// Types that llama-quantize gives to the tensors of a model of this shape.
#[test]
fn mixes_are_llama_cpps() {
    let source = source(None);
    for (name, wanted) in [
        ("Q4_K_M", ["Q6_K", "Q4_K", "Q6_K", "Q4_K", "Q8_0"]),
        ("Q3_K_M", ["Q6_K", "Q3_K", "Q5_K", "Q3_K", "Q5_0"]),
        ("Q2_K", ["Q6_K", "Q2_K", "Q4_K", "Q2_K", "IQ4_NL"]),
        ("IQ4_XS", ["Q6_K", "IQ4_XS", "Q5_K", "IQ4_XS", "IQ4_NL"]),
        ("Q4_1", ["Q6_K", "Q4_1", "Q4_1", "Q4_1", "Q4_1"]),
        ("Q5_1", ["Q6_K", "Q5_1", "Q5_1", "Q5_1", "Q5_1"]),
        ("Q8_0", ["Q8_0"; 5]),
    ] {
        let plan = Plan::new(&source, &options(name)).unwrap();
        let of = |tensor: &str| plan.tensors.iter().find(|t| t.name == tensor).unwrap().to.name();
        let found = [
            "token_embd.weight",
            "blk.1.attn_q.weight",
            "blk.1.attn_v.weight",
            "blk.1.ffn_up.weight",
            "blk.1.ffn_down.weight",
        ]
        .map(of);
        assert_eq!(found, wanted, "{name}");
    }
}

#[test]
fn a_grid_that_was_trained_is_kept() {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", Value::from("llama"));
    // Blocks of 32 codes from -8 to 7, some without an extreme code, with scales of their own, in BF16.
    let x: Vec<f32> = (0..256_u64 * 64)
        .map(|i| {
            let block = i / 32;
            let d = (1.0 + random(block) as u8 as f32) / 4096.0;
            let code = (random(i + (1 << 40)) % 16) as f32 - 8.0;
            let reached = if block % 3 == 0 { code.clamp(-7.0, 5.0) } else { code };
            d * reached
        })
        .collect();
    let mut bytes = vec![0; 2 * x.len()];
    quant::encode_row(DType::BF16, &x, &mut bytes);
    writer.add_tensor("blk.0.attn_q.weight", DType::BF16, &[64, 256], bytes).unwrap();
    let source = Gguf::from_vec(writer.to_vec().unwrap(), "qat.gguf").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let report = make(&source, &options("Q4_0"), &folder.path().join("out.gguf")).unwrap();
    assert!(report.tensors[0].relative_error < 0.002, "{:?}", report.tensors[0]);
    let naive = {
        let (mut block, mut back) = (vec![0; DType::Q4_0.row_bytes(x.len()).unwrap()], vec![0.0; x.len()]);
        quant::encode_row(DType::Q4_0, &x, &mut block);
        quant::decode_row(DType::Q4_0, &block, &mut back);
        let errors: f64 = x.iter().zip(&back).map(|(x, b)| f64::from((x - b) * (x - b))).sum();
        (errors / x.iter().map(|x| f64::from(x * x)).sum::<f64>()).sqrt()
    };
    assert!(naive > 0.02, "a search for extremes alone loses the grid: {naive}");
}

/// A matrix gets one scale per row in a file under the same condition as in memory.
#[test]
fn rows_share_scales_where_they_do_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = Cpu::new(Tier::best(), 2).unwrap();
    // Also one value so large that the others of its row become 0.
    for damage in [None, Some(20.0), Some(6000.0)] {
        let (source, to) = (source(damage), folder.path().join("m.gguf"));
        make(&source, &options("INT8"), &to).unwrap();
        let file = Gguf::open(&to).unwrap();
        for name in ["blk.1.attn_q.weight", "blk.1.ffn_up.weight"] {
            let (_, losses) =
                PackedWeights::int8_rows(&cpu, &source.require(name).unwrap()).unwrap().unwrap();
            let found = PackedWeights::has_row_scales(&file.require(name).unwrap());
            assert_eq!(found, losses.are_small(), "{name}, {damage:?}: {losses:?}");
            assert_eq!(found, damage.is_none() || name == "blk.1.attn_q.weight", "{name}, {damage:?}");
        }
    }
}

#[test]
fn what_is_wrong_is_named_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out.gguf");
    let said = |result: Result<Report, Error>| result.unwrap_err().to_string();
    for value in [f32::NAN, f32::INFINITY] {
        let text = said(make(&source(Some(value)), &options("Q4_K_M"), &to));
        assert!(text.starts_with("model.gguf: blk.1.ffn_up.weight: row 1 has a value that is"), "{text}");
    }
    let whole = source(None);
    let plan = Plan::new(&whole, &options("Q4_0")).unwrap();
    let stopped = quantize(&whole, &plan, &options("Q4_0"), &to, &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Stopped)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    make(&whole, &options("Q4_0"), &to).unwrap();
    let small = Gguf::open(&to).unwrap();
    let again = said(make(&small, &options("Q2_K"), &folder.path().join("again.gguf")));
    assert_eq!(again.split(": ").nth(2), Some("Q4_0 is quantised already, and would lose precision twice"));
    assert!(
        said(make(&whole, &options("Q4_0"), &folder.path().join("none/out.gguf")))
            .contains("cannot create a file")
    );
    let mut other = options("Q4_0");
    other.overrides.push("attn_z=Q8_0".parse().unwrap());
    assert!(said(make(&whole, &other, &to)).starts_with("attn_z: no matrix of model.gguf"));
}

#[test]
fn importances_choose_where_errors_go() {
    let (whole, folder) = (source(None), tempfile::tempdir().unwrap());
    let file = folder.path().join("importances.gguf");
    let mut writer = GgufWriter::new();
    writer.set("general.type", Value::from("imatrix"));
    // Every other column meets activations a hundred times as large.
    let sums: Vec<u8> =
        (0..256).flat_map(|i| if i % 2 == 0 { 10_000.0_f32 } else { 1.0 }.to_le_bytes()).collect();
    writer.add_tensor("blk.0.attn_q.weight.in_sum2", DType::F32, &[1, 256], sums).unwrap();
    writer
        .add_tensor("blk.0.attn_q.weight.counts", DType::F32, &[1, 1], 5.0_f32.to_le_bytes().to_vec())
        .unwrap();
    writer.write_to(&file).unwrap();
    let imatrix = Imatrix::open(&file).unwrap();
    let of_important = |options: &Options<'_>| {
        let to = folder.path().join("out.gguf");
        make(&whole, options, &to).unwrap();
        let made = Gguf::open(&to).unwrap();
        let values = |source: &Gguf| {
            let view = source.require("blk.0.attn_q.weight").unwrap();
            let mut values = vec![0.0; 256 * 256];
            quant::decode_row(view.dtype(), view.bytes(), &mut values);
            values
        };
        let (was, is) = (values(&whole), values(&made));
        let pairs = was.iter().zip(&is).step_by(2);
        pairs.map(|(a, b)| f64::from((a - b) * (a - b))).sum::<f64>()
    };
    let mut with = options("Q4_K_S");
    with.imatrix = Some(&imatrix);
    assert!(of_important(&with) < 0.97 * of_important(&options("Q4_K_S")));
    // Importances of another shape belong to another model.
    let mut writer = GgufWriter::new();
    writer.set("general.type", Value::from("imatrix"));
    writer.add_tensor("blk.0.attn_q.weight.in_sum2", DType::F32, &[1, 8], vec![0; 32]).unwrap();
    writer.add_tensor("blk.0.attn_q.weight.counts", DType::F32, &[1, 1], vec![0; 4]).unwrap();
    writer.write_to(&file).unwrap();
    let foreign = Imatrix::open(&file).unwrap();
    with.imatrix = Some(&foreign);
    let text = make(&whole, &with, &folder.path().join("out.gguf")).unwrap_err().to_string();
    assert!(text.contains("blk.0.attn_q.weight: importances of 1 times 8 columns"), "{text}");
    assert!(Imatrix::open(&folder.path().join("out.gguf")).unwrap_err().to_string().contains("general.type"));
}
