//! Round trips of every type and block, sizes, and files that lie.

use super::*;
use crate::{DType, HfQuantised, Json, OwnedTensor, Safetensors, quant};

const OWN: &str = r#"{"quantization_config": {"quant_method": "leyden-sparse", "version": 1}}"#;
const BITMASK: &str = r#"{"quantization_config": {"quant_method": "compressed-tensors",
    "sparsity_config": {"format": "sparse-bitmask", "global_sparsity": 0.5}}}"#;

type Part = (String, &'static str, Vec<usize>, Vec<u8>);

fn parts(sparse: &SparseTensor) -> Vec<Part> {
    sparse.parts("w").into_iter().map(|part| (part.name, part.type_name, part.shape, part.bytes)).collect()
}

fn file(parts: &[Part]) -> Safetensors {
    let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
    for (name, dtype, shape, bytes) in parts {
        let (start, end) = (data.len(), data.len() + bytes.len());
        data.extend(bytes);
        header.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", header.join(","));
    let all = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    Safetensors::from_vec(all, "m.safetensors").unwrap()
}

fn read(config: &str, parts: &[Part], shape: [usize; 2]) -> Result<OwnedTensor, String> {
    let method = HfQuantised::of(&Json::parse(config.as_bytes(), "config.json").unwrap()).unwrap().unwrap();
    let (file, name) = (file(parts), "w.weight".to_owned());
    assert!(method.holds(&file, &name));
    method
        .compose(&file, &name, std::slice::from_ref(&name), &shape, &crate::run_sequentially)
        .map_err(|error| error.to_string())
}

fn floats(tensor: &OwnedTensor) -> Vec<f32> {
    let view = tensor.view().unwrap();
    let mut out = vec![0.0; view.rows() * view.cols()];
    quant::decode_row(view.dtype(), view.bytes(), &mut out);
    out
}

/// Returns weights of which about `keep` of 100 blocks are not zero.
fn weights(rows: usize, k: usize, block: [usize; 2], keep: u64) -> Vec<f32> {
    let mix = |n: u64| {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let kept = |i: usize| {
        let at = (i / k / block[0] * (k / block[1]) + i % k / block[1]) as u64;
        mix(mix(at)) >> 32 & 0xffff < keep * 65536 / 100
    };
    let value = |i: usize| ((mix(i as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.25;
    (0..rows * k).map(|i| if kept(i) { value(i) } else { 0.0 }).collect()
}

#[test]
fn matrices_are_written_and_read_back() {
    for block in [[1, 1], [1, 4], [4, 1]] {
        for (rows, k) in [(64, 128), (4, 12), (8, 96)] {
            let w = weights(rows, k, block, 30);
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let sparse = SparseTensor::encode(&w, [rows, k], SparseValues::Float(dtype)).unwrap();
                let found = read(OWN, &parts(&sparse), [rows, k]).unwrap();
                let mut wanted = vec![0; dtype.row_bytes(w.len()).unwrap()];
                quant::encode_row(dtype, &w, &mut wanted);
                assert_eq!((found.dtype, &found.bytes), (dtype, &wanted), "{block:?} {rows} {k}");
                assert_eq!(found.parts.len(), 3);
            }
            for (values, dtype, step) in [
                (SparseValues::Int8, DType::Q8_0, 0.25 / 127.0),
                (SparseValues::Int4, DType::Q4_0, 0.25 / 7.0),
            ] {
                let sparse = SparseTensor::encode(&w, [rows, k], values).unwrap();
                let found = read(OWN, &parts(&sparse), [rows, k]).unwrap();
                assert_eq!(found.dtype, if k.is_multiple_of(32) { dtype } else { DType::F32 });
                let found = floats(&found);
                assert!(
                    w.iter().zip(&found).all(|(w, f)| (w - f).abs() <= 4.0 * step),
                    "{values:?} {rows} {k}"
                );
                assert!(w.iter().zip(&found).all(|(w, f)| *w != 0.0 || *f == 0.0), "zeros stay");
                // Integers that were decoded are the same integers when they are encoded again.
                if values == SparseValues::Int8 {
                    let again = SparseTensor::encode(&found, [rows, k], values).unwrap();
                    assert_eq!(parts(&again), parts(&sparse));
                }
            }
        }
    }
}

/// Bits for a weight, of which 32 are F32's.
#[test]
fn sizes_are_those_of_the_documentation() {
    let share = |block: [usize; 2], keep: u64, values: SparseValues| {
        let (rows, k) = (256, 1024);
        let sparse = SparseTensor::encode(&weights(rows, k, block, keep), [rows, k], values).unwrap();
        (4 * rows * k) as f64 / sparse.bytes() as f64
    };
    let (int8, int4) = (SparseValues::Int8, SparseValues::Int4);
    for (block, keep, values, least) in [
        ([1, 1], 20, int8, 13.3),
        ([1, 1], 10, int8, 24.0),
        ([4, 1], 20, int8, 17.2),
        ([4, 1], 10, int8, 33.0),
        ([1, 4], 10, int8, 33.0),
        ([1, 1], 20, int4, 19.0),
        ([1, 1], 10, int4, 30.0),
        ([4, 1], 20, int4, 28.0),
    ] {
        let found = share(block, keep, values);
        assert!(found > least && found < 1.2 * least, "{block:?} {keep} {values:?}: 1/{found:.1}");
    }
}

/// A matrix that is nearly empty would let a small file ask for much memory.
#[test]
fn matrices_that_are_nearly_empty_are_not_stored_sparse() {
    let mut w = vec![0.0; 1 << 16];
    w[5] = 1.0;
    assert!(SparseTensor::encode(&w, [256, 256], SparseValues::Int8).is_none());
    assert!(SparseTensor::encode(&[], [0, 0], SparseValues::Int8).is_none());
}

fn layout(numbers: [i64; 6]) -> Part {
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    ("w.sparse_layout".to_owned(), "I64", vec![6], bytes)
}

/// Returns a valid matrix of 2 by 32 in 8-bit integers, with nonzero values at 0, 3 and 40.
fn valid() -> Vec<Part> {
    let part =
        |name: &str, ty, shape: &[usize], bytes: &[u8]| (name.to_owned(), ty, shape.to_vec(), bytes.to_vec());
    let codes = positions::encode(&[0, 2, 36], 2);
    vec![
        layout([2, 32, 1, 1, 3, 2]),
        part("w.sparse_positions", "U8", &[codes.len()], &codes),
        part("w.sparse_values", "I8", &[3], &[1, 2, 0xff]),
        part("w.sparse_scales", "F16", &[2, 1], &[0, 0x3c, 0, 0x40]),
    ]
}

#[test]
fn valid_matrix_has_its_values_in_place() {
    let found = floats(&read(OWN, &valid(), [2, 32]).unwrap());
    let nonzero: Vec<_> = found.iter().enumerate().filter(|(_, v)| **v != 0.0).collect();
    assert_eq!(nonzero, [(0, &1.0), (3, &2.0), (40, &-2.0)]);
}

/// Every contradiction is an error that names file and tensor.
#[test]
fn files_that_lie_are_refused() {
    let with = |at: usize, part: Part| {
        let mut all = valid();
        all[at] = part;
        all
    };
    let part =
        |name: &str, ty, shape: &[usize], bytes: &[u8]| (name.to_owned(), ty, shape.to_vec(), bytes.to_vec());
    let positions = |bytes: &[u8]| with(1, part("w.sparse_positions", "U8", &[bytes.len()], bytes));
    let good = valid()[1].3.clone();
    let most = i64::MAX;
    let cases = [
        (with(0, layout([3, 32, 1, 1, 3, 2])), "w.sparse_layout: want the rows and columns"),
        (with(0, layout([2, -32, 1, 1, 3, 2])), "w.sparse_layout: want six numbers"),
        (with(0, layout([2, 32, 2, 2, 3, 2])), "w.sparse_layout: want blocks"),
        (with(0, layout([2, 32, 4, 1, 3, 2])), "w.sparse_layout: want blocks"),
        (with(0, layout([2, 32, 1, 1, 3, 16])), "w.sparse_layout: want a Rice parameter"),
        (with(0, layout([2, 32, 1, 1, 65, 2])), "w.sparse_layout: want no more nonzero blocks"),
        (with(0, layout([2, 32, 1, 1, most, 2])), "w.sparse_layout: want no more nonzero blocks"),
        (with(0, layout([2, 32, 1, 1, 4, 2])), "w.sparse_values: want all values"),
        (with(0, layout([2, 32, 1, 4, 3, 2])), "w.sparse_values: want all values"),
        (with(0, part("w.sparse_layout", "I64", &[5], &[0; 40])), "w.sparse_layout: want six numbers"),
        (with(0, part("w.sparse_layout", "F64", &[6], &[0; 48])), "w.sparse_layout: want six numbers"),
        (positions(&positions::encode(&[0, 2, 61], 2)), "w.sparse_positions: want codes"),
        (positions(&positions::encode(&[0, 2], 2)), "w.sparse_positions: want codes"),
        (positions(&positions::encode(&[0, 2, 3, 4], 2)), "w.sparse_positions: want codes"),
        (positions(&good[..1]), "w.sparse_positions: want codes"),
        (positions(&[0; 100]), "w.sparse_positions: want codes"),
        (positions(&[]), "w.sparse_positions: want codes"),
        (with(1, part("w.sparse_positions", "I8", &[good.len()], &good)), "w.sparse_positions: want U8"),
        (with(2, part("w.sparse_values", "I8", &[2], &[1, 2])), "w.sparse_values: want all values"),
        (with(2, part("w.sparse_values", "I8", &[4], &[1, 2, 3, 4])), "w.sparse_values: want all values"),
        (with(2, part("w.sparse_values", "I16", &[3], &[0; 6])), "w.sparse_values: want type"),
        (
            with(2, part("w.sparse_values", "U8", &[2], &[0x21, 0xf3])),
            "w.sparse_values: want zero in the half",
        ),
        (with(3, part("w.sparse_scales", "F16", &[1, 1], &[0, 0x3c])), "w.sparse_scales: want F16"),
        (with(3, part("w.sparse_scales", "F16", &[2, 3], &[0; 12])), "w.sparse_scales: want F16"),
        (with(3, part("w.sparse_scales", "F16", &[2, 0], &[])), "w.sparse_scales: want F16"),
        (with(3, part("w.sparse_scales", "F16", &[2, 1], &[0, 0x7c, 0, 0])), "w.sparse_scales: want finite"),
        (valid()[..3].to_vec(), "w.sparse_scales: want scales"),
        (valid()[1..].to_vec(), "w.sparse_layout: required tensor is missing"),
    ];
    for (parts, message) in cases {
        let error = read(OWN, &parts, [2, 32]).unwrap_err();
        assert!(error.starts_with("m.safetensors: ") && error.contains(message), "{message}: {error}");
    }
    // The size that the model asks for does not fit memory, or is out of proportion to the file.
    let large = with(0, layout([1 << 20, 1 << 20, 1, 1, 3, 2]));
    let error = read(OWN, &large, [1 << 20, 1 << 20]).unwrap_err();
    assert!(error.contains("at least one stored byte"), "{error}");
    let huge = with(0, layout([1 << 40, 1 << 40, 1, 1, 3, 2]));
    let error = read(OWN, &huge, [1 << 40, 1 << 40]).unwrap_err();
    assert!(error.contains("a size that fits memory"), "{error}");
}

/// Returns the tensors that compressed-tensors writes for a matrix of 2 by 10.
fn masked() -> Vec<Part> {
    let part = |name: &str, ty, shape: &[usize], bytes: Vec<u8>| (name.to_owned(), ty, shape.to_vec(), bytes);
    let numbers = |all: &[i64]| all.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let values: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    vec![
        part("w.shape", "I64", &[2], numbers(&[2, 10])),
        part("w.compressed", "F32", &[3], values),
        part("w.bitmask", "U8", &[2, 2], vec![0b1000_0001, 0, 0, 0b10]),
        part("w.row_offsets", "I64", &[2], numbers(&[0, 2])),
    ]
}

#[test]
fn bitmasks_of_compressed_tensors_are_read_and_checked() {
    let found = read(BITMASK, &masked(), [2, 10]).unwrap();
    let nonzero: Vec<_> = floats(&found).into_iter().enumerate().filter(|(_, value)| *value != 0.0).collect();
    assert_eq!((nonzero, found.parts.len()), (vec![(0, 1.0), (7, 2.0), (19, 3.0)], 4));
    // The format for 2:4 has no offsets, its shape is a column and its values are a matrix.
    let mut pairs = masked();
    pairs.pop();
    pairs[0].2 = vec![2, 1];
    assert!(read(&BITMASK.replace("sparse-bitmask", "sparse-24-bitmask"), &pairs, [2, 10]).is_ok());
    let with = |at: usize, change: &dyn Fn(&mut Part)| {
        let mut all = masked();
        change(&mut all[at]);
        all
    };
    let cases = [
        (with(0, &|p| p.3[0] = 3), "w.shape: want the rows"),
        (with(0, &|p| p.3[7] = 0x80), "w.shape: want the rows"),
        (with(1, &|p| (p.2, p.3) = (vec![2], vec![0; 8])), "w.compressed: want a value for each bit"),
        (with(1, &|p| (p.1, p.2, p.3) = ("I8", vec![3], vec![0; 3])), "w.compressed: want type"),
        (with(2, &|p| p.3[0] = 0xff), "w.compressed: want a value for each bit"),
        (with(2, &|p| (p.3[3], p.3[2]) = (4, 0)), "w.bitmask: want no bits behind"),
        (with(2, &|p| p.2 = vec![4, 1]), "w.bitmask: want U8"),
        (with(3, &|p| p.3[8] = 1), "w.row_offsets: want the number"),
        (with(3, &|p| (p.2, p.3) = (vec![1], vec![0; 8])), "w.row_offsets: want the number"),
    ];
    for (parts, message) in cases {
        let error = read(BITMASK, &parts, [2, 10]).unwrap_err();
        assert!(error.starts_with("m.safetensors: ") && error.contains(message), "{message}: {error}");
    }
}

/// No byte of a file can make a reader panic or give a matrix of another shape.
#[test]
fn changed_bytes_are_refused_or_read() {
    for (config, parts, shape) in [(OWN, valid(), [2, 32]), (BITMASK, masked(), [2, 10])] {
        for part in 0..parts.len() {
            for at in 0..parts[part].3.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut changed = parts.clone();
                    changed[part].3[at] = value;
                    match read(config, &changed, shape) {
                        Ok(tensor) => assert_eq!(floats(&tensor).len(), shape[0] * shape[1]),
                        Err(error) => assert!(error.starts_with("m.safetensors: w."), "{error}"),
                    }
                }
            }
        }
    }
}
