//! Any bytes as the tensors of a matrix quantised by GPTQ, AWQ, compressed-tensors or FP8 are refused by name, or
//! converted to a matrix of the asked-for shape. The first bytes choose method, bits, sizes and one damaged shape or type;
//! the rest fills the tensors. Bytes that begin like JSON are a `config.json`.
#![no_main]

use leyden_tensor::{HfQuantised, Json, Safetensors, quant, run_sequentially};

/// Name, type and shape of a tensor.
type Part = (&'static str, &'static str, Vec<usize>);

const TYPES: [(&str, usize); 9] = [
    ("I32", 4),
    ("U32", 4),
    ("I64", 8),
    ("F16", 2),
    ("BF16", 2),
    ("F32", 4),
    ("I8", 1),
    ("F8_E4M3", 1),
    ("F8_E8M0", 1),
];

/// Returns a safetensors file with these tensors, filled with `bytes` again and again.
fn file(parts: &[Part], bytes: &[u8]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
    let mut bytes = bytes.iter().cycle();
    for (name, dtype, shape) in parts {
        let size = TYPES.iter().find(|row| row.0 == *dtype).unwrap().1 * shape.iter().product::<usize>();
        let (start, end) = (data.len(), data.len() + size);
        data.extend((0..size).map(|_| bytes.next().copied().unwrap_or(0)));
        header.push(format!(
            r#""w.{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// Returns configuration and tensors of a matrix `[rows, k]` in groups of `k / groups` inputs.
fn matrix(kind: u8, bits: usize, floats: &'static str, [rows, k, groups]: [usize; 3]) -> (String, Vec<Part>) {
    let words = |values: usize| (values * bits).div_ceil(32);
    let optional = |flag: u8, part: Part| (kind & flag != 0).then_some(part);
    let (method, more, parts) = match kind & 3 {
        0 => {
            let format = if kind & 64 == 0 { "gptq" } else { "gptq_v2" };
            let parts = vec![
                Some(("qweight", "I32", vec![words(k), rows])),
                Some(("qzeros", "I32", vec![groups, words(rows)])),
                Some(("scales", floats, vec![groups, rows])),
                optional(16, ("g_idx", "I32", vec![k])),
            ];
            ("gptq", format!(r#""bits": {bits}, "checkpoint_format": "{format}""#), parts)
        }
        1 => {
            let parts = vec![
                Some(("qweight", "I32", vec![k, rows.div_ceil(8)])),
                optional(16, ("qzeros", "I32", vec![groups, rows.div_ceil(8)])),
                Some(("scales", floats, vec![groups, rows.next_multiple_of(8)])),
            ];
            ("awq", r#""bits": 4, "version": "gemm""#.to_owned(), parts)
        }
        2 if kind & 64 == 0 => {
            let scales = if kind & 128 == 0 { rows } else { 1 };
            let each = 32 / bits;
            let parts = vec![
                Some(("weight_packed", "I32", vec![rows, k.div_ceil(each)])),
                Some(("weight_shape", "I64", vec![2])),
                Some(("weight_scale", floats, vec![scales, groups])),
                optional(16, ("weight_zero_point", "I32", vec![rows.div_ceil(each), groups])),
                optional(32, ("weight_g_idx", "I32", vec![k])),
            ];
            let groups = format!(r#""config_groups": {{"group_0": {{"weights": {{"num_bits": {bits}}}}}}}"#);
            ("compressed-tensors", format!(r#""format": "pack-quantized", {groups}"#), parts)
        }
        _ => {
            let own = if kind & 32 == 0 { "I8" } else { "F8_E4M3" };
            let (method, name, more) = match kind & 3 {
                2 => ("compressed-tensors", "weight_scale", r#""format": "int-quantized""#),
                _ => ("fp8", "weight_scale_inv", r#""weight_block_size": [2, 32]"#),
            };
            let shape =
                if kind & 128 == 0 { vec![rows.div_ceil(2), k.div_ceil(32)] } else { vec![rows, groups] };
            let parts = vec![
                Some(("weight", own, vec![rows, k])),
                Some((name, floats, shape.clone())),
                optional(16, ("weight_zero_point", "I8", shape)),
            ];
            (method, more.to_owned(), parts)
        }
    };
    let config = format!(r#"{{"quantization_config": {{"quant_method": "{method}", {more}}}}}"#);
    (config, parts.into_iter().flatten().collect())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"{") {
        let Ok(config) = Json::parse(bytes, "config.json") else { return };
        let text =
            HfQuantised::of(&config).map_or_else(|error| error.to_string(), |_| "config.json: ".to_owned());
        assert!(text.starts_with("config.json: ") && !text.contains(char::is_control), "{text:?}");
        return;
    }
    let Some((&[kind, settings, rows, k, groups, damage, other], rest)) = bytes.split_first_chunk::<7>()
    else {
        return;
    };
    let bits = [4, 8, 2, 3][usize::from(settings & 3)];
    let floats = ["F16", "BF16", "F32", "F8_E8M0"][usize::from(settings >> 2 & 3)];
    // Rows and groups may be none, sizes need not divide.
    let groups = usize::from(groups % 9);
    let k = if settings & 16 == 0 { 32 * groups.max(1) } else { usize::from(k) };
    let [rows, k] = [usize::from(rows), k];
    let (config, mut parts) = matrix(kind, bits, floats, [rows, k, groups]);
    let n = parts.len();
    if let Some((_, dtype, shape)) = parts.get_mut(usize::from(damage) % 16) {
        match shape.get_mut(usize::from(damage) / 16 % 4) {
            Some(size) => *size = usize::from(other),
            None => *dtype = TYPES[usize::from(other) % TYPES.len()].0,
        }
    }
    // Not the whole tensor, if the shape of compressed-tensors is to be right.
    let file = {
        let mut file = file(&parts, rest);
        if settings & 32 == 0 && n > 1 && parts[1].0 == "weight_shape" {
            let sizes = [rows, k].map(|n| (n as u64).to_le_bytes()).concat();
            let before: usize = parts[..1].iter().map(|part| 4 * part.2.iter().product::<usize>()).sum();
            let header = u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
            if let Some(place) = file.get_mut(8 + header + before..).and_then(|data| data.get_mut(..16)) {
                place.copy_from_slice(&sizes);
            }
        }
        file
    };
    let Ok(file) = Safetensors::from_vec(file, "fuzz.safetensors") else { return };
    let config = Json::parse(config.as_bytes(), "config.json").unwrap();
    let method = HfQuantised::of(&config).unwrap().unwrap();
    for (part, ..) in &parts {
        let name = format!("w.{part}");
        let _ = (method.is_needless(&file, &name), method.memory_bytes(&file, &name));
    }
    let name = "w.weight".to_owned();
    if !method.holds(&file, &name) {
        return;
    }
    let shape = [if kind & 3 == 1 { rows.next_multiple_of(8) } else { rows }, k];
    match method.compose(&file, &name, std::slice::from_ref(&name), &shape, &run_sequentially) {
        Ok(made) => {
            let view = made.view().unwrap();
            assert_eq!(view.shape(), shape);
            quant::decode_row(view.dtype(), view.bytes(), &mut vec![0.0; shape[0] * k]);
        }
        Err(error) => assert!(error.to_string().starts_with("fuzz.safetensors: w"), "{error}"),
    }
});
