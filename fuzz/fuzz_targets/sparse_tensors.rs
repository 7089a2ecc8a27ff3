//! Any bytes as the tensors of a sparse matrix are refused by name, or decoded to a matrix of the asked-for shape. The
//! first bytes choose the format, the type of the values and the sizes; the rest is cut into the tensors.
#![no_main]

use leyden_tensor::{HfQuantised, Json, Safetensors, quant, run_sequentially};

const OWN: &str = r#"{"quantization_config": {"quant_method": "leyden-sparse", "version": 1}}"#;
const BITMASK: &str = r#"{"quantization_config": {"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-bitmask"}}}"#;
const TYPES: [(&str, usize); 6] = [("F32", 4), ("F16", 2), ("BF16", 2), ("I8", 1), ("U8", 1), ("I16", 2)];

/// Returns a safetensors file.
fn file(parts: &[(&str, &str, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
    for (name, dtype, shape, bytes) in parts {
        let (start, end) = (data.len(), data.len() + bytes.len());
        data.extend(bytes);
        header.push(format!(
            r#""w.{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, rows, k, high, blocks, parameter, codes], rest)) = bytes.split_first_chunk::<7>()
    else {
        return;
    };
    let (rows, k) = (usize::from(rows), usize::from(k));
    let (ty, size) = TYPES[usize::from(kind >> 1) % TYPES.len()];
    let (codes, rest) = rest.split_at(usize::from(codes).min(rest.len()));
    let (values, scales) = rest.split_at(rest.len() / 2 / size * size);
    let scales = &scales[..scales.len() / 2 * 2];
    let numbers = |all: &[usize]| all.iter().flat_map(|n| (*n as u64).to_le_bytes()).collect::<Vec<u8>>();
    let (config, parts) = if kind & 1 == 0 {
        let (high, wide) = (usize::from(high & 7), usize::from(high >> 3 & 7));
        let layout = [rows, k, high, wide, usize::from(blocks), usize::from(parameter & 31)];
        let groups = (scales.len() / 2).checked_div(rows).unwrap_or(0);
        let scales = scales[..2 * rows * groups].to_vec();
        let parts = vec![
            ("sparse_layout", "I64", vec![6], numbers(&layout)),
            ("sparse_positions", "U8", vec![codes.len()], codes.to_vec()),
            ("sparse_values", ty, vec![values.len() / size], values.to_vec()),
            ("sparse_scales", "F16", vec![rows, groups], scales),
        ];
        (OWN, parts)
    } else {
        let columns = codes.len().checked_div(rows).unwrap_or(0);
        let parts = vec![
            ("shape", "I64", vec![2], numbers(&[rows, k])),
            ("bitmask", "U8", vec![rows, columns], codes[..rows * columns].to_vec()),
            ("compressed", ty, vec![values.len() / size], values.to_vec()),
        ];
        (BITMASK, parts)
    };
    let Ok(file) = Safetensors::from_vec(file(&parts), "fuzz.safetensors") else { return };
    let config = Json::parse(config.as_bytes(), "config.json").unwrap();
    let method = HfQuantised::of(&config).unwrap().unwrap();
    let name = "w.weight".to_owned();
    match method.compose(&file, &name, std::slice::from_ref(&name), &[rows, k], &run_sequentially) {
        Ok(made) => {
            let view = made.view().unwrap();
            assert_eq!(view.shape(), [rows, k]);
            quant::decode_row(view.dtype(), view.bytes(), &mut vec![0.0; rows * k]);
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.safetensors: w."), "{error}"),
    }
});
