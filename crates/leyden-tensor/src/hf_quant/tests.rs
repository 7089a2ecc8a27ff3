//! Compared bit for bit with compressed-tensors and the formulas of GPTQ and AWQ (`tests/golden/make_hf_quant.py`).

use super::matrix::{Codes, Matrix};
use super::*;
use crate::{DType, quant, run_sequentially};

const FILE: &[u8] = include_bytes!("../../tests/golden/hf_quant.safetensors");
const GPTQ: &str = r#"{"quant_method": "gptq", "bits": 4}"#;
const COMPRESSED: &str = r#"{"quant_method": "compressed-tensors", "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}"#;

fn quantised(config: &str) -> Result<Option<HfQuantised>, Error> {
    let text = format!(r#"{{"quantization_config": {config}}}"#);
    HfQuantised::of(&Json::parse(text.as_bytes(), "config.json").unwrap())
}

fn fnv(values: &[f32]) -> String {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    let bytes = values.iter().flat_map(|v| v.to_le_bytes());
    format!("{:016x}", bytes.fold(0xcbf2_9ce4_8422_2325, step))
}

fn values(tensor: &OwnedTensor) -> Vec<f32> {
    let mut out = vec![0.0; tensor.shape.iter().product()];
    quant::decode_row(tensor.dtype, &tensor.bytes, &mut out);
    out
}

#[test]
fn every_method_decodes_to_its_references_bits() {
    let file = Safetensors::from_vec(FILE.to_vec(), "model.safetensors").unwrap();
    let gptq = |bits: u32, version: &str| {
        format!(r#"{{"quant_method": "gptq", "bits": {bits}, "checkpoint_format": "{version}"}}"#)
    };
    let blocks = r#"{"quant_method": "fp8", "weight_block_size": [24, 32]}"#;
    let cases = [
        ("gptq_v1", gptq(4, "gptq"), DType::Q4_0),
        // Its own zero points need one bit more.
        ("gptq_v2", gptq(4, "gptq_v2"), DType::Q5_0),
        ("gptq_2bits", gptq(2, "gptq"), DType::Q4_0),
        ("gptq_3bits", gptq(3, "gptq"), DType::Q4_0),
        ("gptq_8bits", gptq(8, "gptq"), DType::Q8_0),
        ("gptq_order", gptq(4, "gptq"), DType::F16),
        ("awq", r#"{"quant_method": "awq", "bits": 4, "version": "gemm"}"#.to_owned(), DType::Q5_0),
        ("packed", COMPRESSED.to_owned(), DType::Q4_0),
        ("packed_channel", COMPRESSED.to_owned(), DType::Q5_0),
        ("packed_8bits", COMPRESSED.replace(": 4", ": 8"), DType::Q8_0),
        ("int8", COMPRESSED.replace("pack", "int"), DType::Q8_0),
        ("float8", COMPRESSED.replace("pack", "float"), DType::F16),
        ("float8_rows", COMPRESSED.replace("pack", "float"), DType::F16),
        ("blocks", blocks.to_owned(), DType::F16),
    ];
    let mut read = std::collections::BTreeSet::new();
    for (case, config, dtype) in &cases {
        let method = quantised(config).unwrap().unwrap();
        let name = format!("{case}.weight");
        assert!(method.holds(&file, &name) && !method.holds(&file, "absent.weight"), "{case}");
        let tensor =
            method.compose(&file, &name, std::slice::from_ref(&name), &[32, 64], &run_sequentially).unwrap();
        assert_eq!((tensor.dtype, &tensor.shape[..]), (*dtype, &[32, 64][..]), "{case}");
        assert_eq!(fnv(&values(&tensor)), file.metadata().str(case).unwrap(), "{case}");
        // The size in memory is known before, whichever name the codes have.
        let codes = ["qweight", "weight_packed", "weight"].map(|part| format!("{case}.{part}"));
        let known = codes.iter().find_map(|codes| method.memory_bytes(&file, codes));
        assert_eq!(known, Some(tensor.bytes.len()), "{case}");
        // Rounding is reported: at most half of the last bit in half precision, relative to a row's largest value.
        let lossy = ["gptq_order", "blocks"].contains(case);
        assert!((tensor.loss > 0.0) == lossy && tensor.loss <= 1.0 / 2048.0, "{case}: {}", tensor.loss);
        read.extend(tensor.parts);
        let stack =
            method.compose(&file, "stack", &[name.clone(), name], &[2, 32, 64], &run_sequentially).unwrap();
        let half = stack.bytes.len() / 2;
        assert_eq!(stack.shape, [2, 32, 64], "{case}");
        assert!(stack.bytes[..half] == tensor.bytes && stack.bytes[half..] == tensor.bytes, "{case}");
    }
    let all: std::collections::BTreeSet<_> = file.tensor_names().into_iter().map(str::to_owned).collect();
    assert_eq!(read, all, "every tensor of the file is a part of some matrix");
}

#[test]
fn variants_that_are_not_read_are_refused_by_key() {
    for (config, message) in [
        (r#"{"quant_method": "gptq", "bits": 5}"#, "bits: `5` is not supported; supported: 2, 3, 4, 8"),
        (
            r#"{"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}"#,
            "checkpoint_format: `marlin`",
        ),
        (r#"{"quant_method": "awq", "bits": 4, "version": "gemv"}"#, "version: `gemv` is not supported"),
        (r#"{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}"#, "format: `nvfp4"),
        (
            r#"{"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-csr"}}"#,
            "sparsity_config.format: `sparse-csr`",
        ),
        (
            r#"{"quant_method": "compressed-tensors", "sparsity_config": {"format": "dense", "warp": 1}}"#,
            "sparsity_config.warp: is not a known key",
        ),
        (r#"{"quant_method": "leyden-sparse", "version": 2}"#, "version: `2` is not supported; supported: 1"),
        (r#"{"quant_method": "leyden-sparse"}"#, "version: required"),
        (r#"{"quant_method": "leyden-sparse", "version": 1, "warp": 1}"#, "warp: is not a known key"),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"format": "marlin-24"}}}"#,
            "config_groups.group_0.format: `marlin-24`",
        ),
        (r#"{"quant_method": "fp8", "fmt": "e5m2"}"#, "fmt: `e5m2` is not supported; supported: e4m3"),
        (r#"{"quant_method": "gptq", "bits": 4, "format": "marlin"}"#, "format: `marlin`"),
        (
            r#"{"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*mlp.*": {}, "+:.*attn.*": {"bits": 8}}}"#,
            "dynamic: `8 bits of some matrices` is not supported; supported: 4",
        ),
        (r#"{"quant_method": "gptq", "bits": 4, "warp": 2}"#, "warp: is not a known key, and may change"),
        (
            r#"{"quant_method": "gptq", "bits": 4, "is_marlin_format": true}"#,
            "is_marlin_format: true asks for",
        ),
        (r#"{"quant_method": "gptq", "bits": 4, "rotation": "hadamard"}"#, "rotation: `hadamard` asks for"),
        (r#"{"quant_method": "awq", "bits": 4, "warp": 2}"#, "warp: is not a known key"),
        (r#"{"quant_method": "awq", "bits": 4, "w_bit": 3}"#, "w_bit: 3 asks for another number of bits"),
        (r#"{"quant_method": "fp8", "warp": [1]}"#, "warp: is not a known key"),
        (r#"{"quant_method": "compressed-tensors", "warp": "x"}"#, "warp: is not a known key"),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"warp": 1}}}"#,
            "config_groups.group_0.warp: is not a known key",
        ),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"strategy": "token"}}}}"#,
            "config_groups.g.weights.strategy: `token` asks for scales of another kind",
        ),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"dynamic": true}}}}"#,
            "config_groups.g.weights.dynamic: true asks for",
        ),
        (
            r#"{"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"warp": 1}}}}"#,
            "config_groups.g.weights.warp: is not a known key",
        ),
    ] {
        let error = quantised(config).unwrap_err().to_string();
        assert!(error.starts_with("config.json: quantization_config.") && error.contains(message), "{error}");
    }
    assert_eq!(quantised(r#"{"quant_method": "bitsandbytes"}"#).unwrap(), None);
}

#[test]
fn descriptions_of_usual_programs_are_read() {
    for config in [
        // GPTQModel, AutoGPTQ, Optimum, AutoAWQ, llm-compressor, transformers.
        r#"{"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq", "desc_act": false, "group_size": 128,
            "lm_head": false, "pack_dtype": "int32", "sym": true, "dynamic": {"-:.*mlp.*": {}, "+:.*q_proj": {"bits": 4}},
            "meta": {"damp_percent": 0.01, "quantizer": ["gptqmodel:2.0.0"], "static_groups": false}}"#,
        r#"{"quant_method": "gptq", "bits": 4, "group_size": 128, "damp_percent": 0.01, "desc_act": true, "sym": true,
            "static_groups": false, "true_sequential": true, "model_name_or_path": null, "model_file_base_name": "model"}"#,
        r#"{"quant_method": "gptq", "bits": 4, "dataset": "c4", "tokenizer": null, "use_cuda_fp16": false,
            "model_seqlen": 2048, "block_name_to_quantize": "model.layers", "batch_size": 1, "pad_token_id": null,
            "exllama_config": {"version": 1}, "max_input_length": null, "modules_in_block_to_quantize": [["a"]]}"#,
        r#"{"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": null, "version": "gemm",
            "zero_point": true}"#,
        r#"{"quant_method": "compressed-tensors", "format": "int-quantized", "global_compression_ratio": 1.2, "ignore":
            ["lm_head"], "kv_cache_scheme": null, "quantization_status": "compressed", "version": "0.12", "sparsity_config":
            {}, "transform_config": {}, "config_groups": {"group_0": {"format": "int-quantized", "targets": ["Linear"],
            "input_activations": {"dynamic": true, "num_bits": 8}, "output_activations": null, "weights": {"actorder": null,
            "block_structure": null, "dynamic": false, "group_size": null, "num_bits": 8, "observer": "minmax",
            "observer_kwargs": {}, "strategy": "channel", "symmetric": true, "type": "int"}}}}"#,
        r#"{"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128],
            "scale_fmt": "ue8m0", "modules_to_not_convert": ["lm_head"]}"#,
    ] {
        assert!(quantised(config).unwrap().is_some(), "{config}");
    }
}

/// Name, type and shape of a tensor.
type Entry<'a> = (&'a str, &'a str, &'a [usize]);

fn file(tensors: &[Entry<'_>]) -> Safetensors {
    Safetensors::from_vec(plain_file(tensors), "m.safetensors").unwrap()
}

/// Returns a file of zeros.
fn plain_file(tensors: &[Entry<'_>]) -> Vec<u8> {
    let (mut header, mut at) = (Vec::new(), 0);
    for (name, dtype, shape) in tensors {
        let size = match *dtype {
            "I64" => 8,
            "I32" | "F32" => 4,
            "F16" => 2,
            _ => 1,
        };
        let end = at + size * shape.iter().product::<usize>();
        header
            .push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{at},{end}]}}"#));
        at = end;
    }
    let header = format!("{{{}}}", header.join(","));
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.extend(header.as_bytes());
    all.resize(all.len() + at, 0);
    all
}

#[test]
fn parts_that_do_not_fit_are_errors_that_name_one() {
    let awq = r#"{"quant_method": "awq", "bits": 4}"#;
    let fp8 = r#"{"quant_method": "fp8"}"#;
    const DEEP: usize = 1 << 50;
    const EIGHT: &str = r#"{"quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}"#;
    let cases: [(&str, &[Entry<'_>], &str); 15] = [
        (GPTQ, &[("w.qweight", "I32", &[8, 32])], "w.qzeros: required tensor is missing"),
        (GPTQ, &[("w.qweight", "I32", &[8, 32]), ("w.qzeros", "I32", &[2, 3])], "w.qzeros: want"),
        (
            GPTQ,
            &[("w.qweight", "I32", &[8, 32]), ("w.qzeros", "I32", &[2, 4]), ("w.scales", "F16", &[2, 31])],
            "w.scales: want",
        ),
        (
            GPTQ,
            &[("w.qweight", "I32", &[8, 8]), ("w.qzeros", "I32", &[3, 1]), ("w.scales", "F16", &[3, 8])],
            "w: want groups of inputs of one size",
        ),
        (GPTQ, &[("w.qweight", "F16", &[8, 32])], "w.qweight: want a matrix of I32"),
        (awq, &[("w.qweight", "I32", &[64, 4]), ("w.qzeros", "I32", &[2, 5])], "w.qzeros: want"),
        (
            COMPRESSED,
            &[("w.weight_packed", "I32", &[4, 5]), ("w.weight_shape", "I64", &[2])],
            "w.weight_shape: want the rows of weight_packed",
        ),
        (fp8, &[("w.weight", "F8_E4M3", &[4, 64])], "w.weight_scale: required tensor is missing"),
        (
            fp8,
            &[("w.weight", "F8_E4M3", &[300, 64]), ("w.weight_scale_inv", "F32", &[7, 1])],
            "w.weight_scale_inv: want a scale for the matrix, each row, or each block",
        ),
        (
            fp8,
            &[("w.weight", "F8_E4M3", &[4, 64]), ("w.weight_scale", "I32", &[1])],
            "w.weight_scale: want type F32, F16, BF16 or F8_E8M0",
        ),
        // A depth without any bytes in the file.
        (
            GPTQ,
            &[("w.qweight", "I32", &[DEEP, 0]), ("w.qzeros", "I32", &[1, 0]), ("w.scales", "F16", &[1, 0])],
            "w: want groups of inputs of one size",
        ),
        (
            awq,
            &[("w.qweight", "I32", &[DEEP, 0]), ("w.qzeros", "I32", &[1, 0]), ("w.scales", "F16", &[1, 0])],
            "w: want groups of inputs of one size",
        ),
        (fp8, &[("w.weight", "F8_E4M3", &[0, DEEP]), ("w.weight_scale", "F32", &[1])], "w.weight: want two"),
        // Words of eight 4-bit values, where the configuration has eight bits.
        (
            EIGHT,
            &[("w.weight_packed", "I32", &[0, 8]), ("w.weight_shape", "I64", &[2])],
            "w.weight_packed: want words of as many values as num_bits",
        ),
        (
            GPTQ,
            &[("w.qweight", "I32", &[8, 32]), ("w.qzeros", "I32", &[2, 4]), ("w.scales", "F16", &[2, 32])],
            "w.weight: shape [32, 64] does not match the model's [4, 4]",
        ),
    ];
    for (config, tensors, message) in cases {
        let method = quantised(config).unwrap().unwrap();
        let error = method
            .compose(&file(tensors), "w.weight", &["w.weight".to_owned()], &[4, 4], &run_sequentially)
            .unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("m.safetensors: ") && error.contains(message), "{error}");
    }
}

/// Returns a file of one GPTQ matrix: two groups of 32 inputs, eight outputs, all zero points `zeros`.
fn one_word(zeros: u32) -> Safetensors {
    let entries: [Entry<'_>; 3] =
        [("w.qweight", "I32", &[8, 8]), ("w.qzeros", "I32", &[2, 1]), ("w.scales", "F16", &[2, 8])];
    let mut bytes = plain_file(&entries);
    let data = bytes.len() - (8 * 8 * 4 + 2 * 4 + 2 * 8 * 2);
    bytes[data + 256..][..4].copy_from_slice(&zeros.to_le_bytes());
    bytes[data + 264..]
        .chunks_exact_mut(2)
        .for_each(|s| s.copy_from_slice(&quant::f32_to_f16(1.0).to_le_bytes()));
    Safetensors::from_vec(bytes, "m.safetensors").unwrap()
}

/// Programs that write GPTQ's first version subtract one from the zero points of a whole word, and add it the
/// same way.
#[test]
fn zero_points_of_the_first_version_are_sums_of_words() {
    let zero_points = |stored: u32, version: &str| {
        let config = format!(r#"{{"quant_method": "gptq", "bits": 4, "checkpoint_format": "{version}"}}"#);
        let (method, file) = (quantised(&config).unwrap().unwrap(), one_word(stored));
        let tensor =
            method.compose(&file, "w.weight", &["w.weight".to_owned()], &[8, 64], &run_sequentially).unwrap();
        // All codes are 0, so that values are the negated zero points.
        values(&tensor).chunks_exact(64).map(|row| -row[0] as i32).collect::<Vec<_>>()
    };
    let meant = 0x1234_0f80_u32;
    let nibbles: Vec<i32> = (0..8).map(|i| (meant >> (4 * i) & 15) as i32).collect();
    assert_eq!(zero_points(meant, "gptq_v2"), nibbles);
    assert_eq!(zero_points(meant.wrapping_sub(0x1111_1111), "gptq"), nibbles);
    assert_eq!(zero_points(u32::MAX, "gptq"), [0, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn eight_bit_floats_that_are_no_numbers_are_refused() {
    let entries: [Entry<'_>; 2] = [("w.weight", "F8_E4M3", &[4, 4]), ("w.weight_scale", "F32", &[1])];
    let mut bytes = plain_file(&entries);
    let at = bytes.len() - 4 - 3;
    bytes[at] = 0xff;
    let file = Safetensors::from_vec(bytes, "m.safetensors").unwrap();
    let method = quantised(r#"{"quant_method": "fp8"}"#).unwrap().unwrap();
    let error = method
        .compose(&file, "w.weight", &["w.weight".to_owned()], &[4, 4], &run_sequentially)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "m.safetensors: w.weight: want numbers, not NaN");
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn a_panic_of_a_task_reaches_the_caller() {
    let codes = [0; 64];
    let without_scales = Matrix {
        rows: 2,
        k: 32,
        codes: Codes::Bytes(&codes),
        range: [-128, 127],
        scales: Vec::new(),
        groups: 1,
        sides: [1, 32],
        zeros: None,
        zero: 0,
        order: None,
    };
    let _ = without_scales.write(Target::Q8_0, &mut [0; 68], &run_sequentially);
}

/// Every row is computed by the caller's executor, in any order and on any threads, with the same bits.
#[test]
fn the_callers_executor_does_all_the_work() {
    let file = Safetensors::from_vec(FILE.to_vec(), "model.safetensors").unwrap();
    for (case, config) in [("gptq_v1", GPTQ), ("gptq_order", GPTQ)] {
        let method = quantised(config).unwrap().unwrap();
        let compose = |run: &Run<'_>| {
            let name = format!("{case}.weight");
            method.compose(&file, &name, std::slice::from_ref(&name), &[32, 64], run).unwrap()
        };
        let wanted = compose(&run_sequentially);
        let tasks = std::cell::Cell::new(0);
        let backwards = compose(&|n, task| {
            tasks.set(tasks.get() + n);
            (0..n).rev().for_each(task);
        });
        let spread = compose(&|n, task| {
            std::thread::scope(|scope| (0..n).for_each(|i| drop(scope.spawn(move || task(i)))));
        });
        assert!(tasks.get() >= 4, "{case}: 32 rows are {} tasks", tasks.get());
        for other in [backwards, spread] {
            assert_eq!((&other.bytes, other.loss), (&wanted.bytes, wanted.loss), "{case}");
        }
        let nothing = compose(&|_, _| {});
        assert!(nothing.bytes.iter().all(|byte| *byte == 0), "{case}: rows are computed beside the executor");
    }
}
