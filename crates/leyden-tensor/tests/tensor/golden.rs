//! Encoders and decoders against gguf-py, bit for bit, and the K encoders' error against llama.cpp's.
//! `golden/make.py` makes the data and generates the same numbers as the functions here.

use leyden_tensor::{DType, quant};
use leyden_testkit::random;

/// Types, and where the 16-bit scales lie in a block.
const TYPES: [(DType, &str, &[u8], &[usize]); 26] = [
    (DType::F16, "f16", include_bytes!("../golden/f16.bin"), &[0]),
    (DType::BF16, "bf16", include_bytes!("../golden/bf16.bin"), &[0]),
    (DType::Q4_0, "q4_0", include_bytes!("../golden/q4_0.bin"), &[0]),
    (DType::Q8_0, "q8_0", include_bytes!("../golden/q8_0.bin"), &[0]),
    (DType::Q4K, "q4_k", include_bytes!("../golden/q4_k.bin"), &[0, 2]),
    (DType::Q6K, "q6_k", include_bytes!("../golden/q6_k.bin"), &[208]),
    (DType::Q4_1, "q4_1", include_bytes!("../golden/q4_1.bin"), &[0, 2]),
    (DType::Q5_0, "q5_0", include_bytes!("../golden/q5_0.bin"), &[0]),
    (DType::Q5_1, "q5_1", include_bytes!("../golden/q5_1.bin"), &[0, 2]),
    (DType::Q2K, "q2_k", include_bytes!("../golden/q2_k.bin"), &[80, 82]),
    (DType::Q3K, "q3_k", include_bytes!("../golden/q3_k.bin"), &[108]),
    (DType::Q5K, "q5_k", include_bytes!("../golden/q5_k.bin"), &[0, 2]),
    (DType::IQ4NL, "iq4_nl", include_bytes!("../golden/iq4_nl.bin"), &[0]),
    (DType::IQ4XS, "iq4_xs", include_bytes!("../golden/iq4_xs.bin"), &[0]),
    (DType::MXFP4, "mxfp4", include_bytes!("../golden/mxfp4.bin"), &[]),
    (DType::NVFP4, "nvfp4", include_bytes!("../golden/nvfp4.bin"), &[]),
    (DType::Q1_0, "q1_0", include_bytes!("../golden/q1_0.bin"), &[0]),
    (DType::TQ1_0, "tq1_0", include_bytes!("../golden/tq1_0.bin"), &[52]),
    (DType::TQ2_0, "tq2_0", include_bytes!("../golden/tq2_0.bin"), &[64]),
    (DType::IQ1S, "iq1_s", include_bytes!("../golden/iq1_s.bin"), &[0]),
    (DType::IQ1M, "iq1_m", include_bytes!("../golden/iq1_m.bin"), &[54]),
    (DType::IQ2XXS, "iq2_xxs", include_bytes!("../golden/iq2_xxs.bin"), &[0]),
    (DType::IQ2XS, "iq2_xs", include_bytes!("../golden/iq2_xs.bin"), &[0]),
    (DType::IQ2S, "iq2_s", include_bytes!("../golden/iq2_s.bin"), &[0]),
    (DType::IQ3XXS, "iq3_xxs", include_bytes!("../golden/iq3_xxs.bin"), &[0]),
    (DType::IQ3S, "iq3_s", include_bytes!("../golden/iq3_s.bin"), &[0]),
];

/// Types that gguf-py cannot encode, and the digest of our own encoders' bytes.
const OWN: [(DType, &str, &str); 7] = [
    (DType::Q4K, "q4_k", "c09d5dfdeffe5682"),
    (DType::Q6K, "q6_k", "e17e042152276dc0"),
    (DType::Q2K, "q2_k", "38a4f1c66c1c7cb3"),
    (DType::Q3K, "q3_k", "b1251e82b63db48d"),
    (DType::Q5K, "q5_k", "0050cc41c2359fdd"),
    (DType::IQ4NL, "iq4_nl", "81059ffb9b5d953b"),
    (DType::IQ4XS, "iq4_xs", "03c81c4d35feb650"),
];

fn is_own(dtype: DType) -> bool {
    OWN.iter().any(|own| own.0 == dtype)
}

fn golden(key: &str) -> &'static str {
    let mut lines = include_str!("../golden/digests.txt").lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no line {key} in digests.txt")).split(' ').next().unwrap_or_default()
}

fn values(n: usize, seed: u64) -> Vec<f32> {
    let value = |i| {
        let z = random((seed << 32) + i as u64);
        let bell = (0..4).map(|k| (z >> (16 * k) & 0xffff) as i32).sum::<i32>() - 131_070;
        bell as f32 * 2f32.powi((random(((seed + 1) << 32) + i as u64 / 32) & 7) as i32 - 20)
    };
    (0..n).map(value).collect()
}

fn blocks(dtype: DType, scales: &[usize], n: usize, seed: u64) -> Vec<u8> {
    let size = dtype.block_bytes();
    let mut bytes: Vec<u8> =
        (0..(n * size).div_ceil(8)).flat_map(|i| random((seed << 32) + i as u64).to_le_bytes()).collect();
    bytes.truncate(n * size);
    for block in bytes.chunks_exact_mut(size) {
        for at in scales {
            block[at + 1] &= 0xbf;
        }
    }
    bytes
}

fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn le_bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::NAN; bytes.len() / dtype.block_bytes() * dtype.block_len()];
    quant::decode_row(dtype, bytes, &mut out);
    out
}

fn encode(dtype: DType, x: &[f32]) -> Vec<u8> {
    let mut out = vec![0xaa; dtype.row_bytes(x.len()).expect("whole blocks")];
    quant::encode_row(dtype, x, &mut out);
    out
}

#[test]
fn small_goldens_match_byte_for_byte() {
    for (dtype, name, data, _) in TYPES {
        let own = is_own(dtype) || !dtype.encodes();
        let n = if own { 2 * dtype.block_len() } else { 256 };
        let encoded_len = dtype.row_bytes(n).unwrap();
        let (x, rest) = data.split_at(if own { 0 } else { 4 * n });
        let (encoded, decoded) = rest.split_at(encoded_len);
        if !own {
            let x: Vec<f32> = x.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            assert_eq!(encode(dtype, &x), encoded, "{name} encode");
        }
        assert_eq!(le_bytes(&decode(dtype, encoded)), decoded, "{name} decode");
    }
}

#[test]
fn large_runs_match_by_digest() {
    for (dtype, name, _, scales) in TYPES {
        let decoded = decode(dtype, &blocks(dtype, scales, 512, 3));
        assert_eq!(fnv(le_bytes(&decoded)), golden(&format!("decode {name}")), "decode {name}");
        if !is_own(dtype) && dtype.encodes() {
            let encoded = encode(dtype, &values(65536, 1));
            assert_eq!(fnv(encoded), golden(&format!("encode {name}")), "encode {name}");
        }
    }
}

#[test]
fn conversions_match_by_digest() {
    let halves = (0..=u16::MAX).flat_map(|bits| {
        let x = quant::f16_to_f32(bits);
        (if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).to_le_bytes()
    });
    assert_eq!(fnv(halves), golden("all-halves"));
    let floats: Vec<f32> =
        (0..1u32 << 20).map(|i| f32::from_bits(i.wrapping_mul(4093))).filter(|x| !x.is_nan()).collect();
    assert_eq!(fnv(floats.iter().flat_map(|&x| quant::f32_to_f16(x).to_le_bytes())), golden("to-half"));
    let even = &floats[..floats.len() / 2 * 2];
    assert_eq!(fnv(even.iter().flat_map(|&x| quant::f32_to_bf16(x).to_le_bytes())), golden("to-bf16"));
}

/// Our own encoders are at least as exact as llama.cpp's without importance matrix on the same data.
#[test]
fn own_encoders_are_no_less_exact_than_llama_cpp() {
    let x = values(65536, 1);
    for (dtype, name, _) in OWN {
        let decoded = decode(dtype, &encode(dtype, &x));
        let squares: f64 = x.iter().zip(&decoded).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        let rmse = (squares / x.len() as f64).sqrt();
        let reference: f64 = golden(&format!("rmse {name}")).parse().unwrap();
        assert!(rmse <= reference, "{name}: {rmse:.6e}, llama.cpp {reference:.6e}");
        eprintln!("{name}: {:.2} % of llama.cpp's error", 100.0 * rmse / reference);
    }
}

/// Our own encoders give the same bytes on every machine, and in every version unless a change says so.
#[test]
fn own_encoders_match_by_digest() {
    let x = values(65536, 1);
    for (dtype, name, want) in OWN {
        assert_eq!(fnv(encode(dtype, &x)), want, "{name}");
    }
}
