//! Rows that no format can hold exactly, or at all: every encoder has a defined, finite result.

use leyden_tensor::{DType, quant};
use proptest::prelude::*;

/// A block type, the largest magnitude that it can represent with either sign, and by which part of a
/// block's largest magnitude a value may be missed at most.
const BLOCK_TYPES: [(DType, f32, f32); 13] = [
    (DType::Q4_0, F16_MAX * 8.0, 7.0),
    (DType::Q8_0, F16_MAX * 127.0, 120.0),
    (DType::Q4K, F16_MAX * 63.0, 6.0),
    (DType::Q6K, F16_MAX * 128.0 * 32.0, 28.0),
    (DType::Q4_1, F16_MAX, 14.0),
    (DType::Q5_0, F16_MAX * 16.0, 15.0),
    (DType::Q5_1, F16_MAX, 29.0),
    (DType::Q2K, F16_MAX * 15.0, 1.1),
    (DType::Q3K, F16_MAX * 32.0 * 4.0, 2.5),
    (DType::Q5K, F16_MAX * 63.0, 12.0),
    (DType::IQ4NL, F16_MAX * 127.0, 6.0),
    (DType::IQ4XS, F16_MAX * 32.0 * 127.0, 6.0),
    // Values beyond 3/4 of the next power of two are clipped.
    (DType::MXFP4, 1.5 * 1.7014118e38, 3.9),
];

const F16_MAX: f32 = 65504.0;

fn round_trip(dtype: DType, x: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = vec![0; dtype.row_bytes(x.len()).expect("whole blocks")];
    quant::encode_row(dtype, x, &mut bytes);
    let mut out = vec![f32::NAN; x.len()];
    quant::decode_row(dtype, &bytes, &mut out);
    (bytes, out)
}

#[test]
fn zero_rows_are_exact() {
    for (dtype, ..) in BLOCK_TYPES {
        for zero in [0.0, -0.0] {
            let (_, out) = round_trip(dtype, &[zero; 256]);
            assert!(out.iter().all(|&v| v == 0.0), "{dtype}");
        }
    }
}

#[test]
fn nan_counts_as_zero_and_does_not_spread() {
    let clean: Vec<f32> = (0..512).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    for (dtype, ..) in BLOCK_TYPES {
        let (mut with_nan, mut with_zero) = (clean.clone(), clean.clone());
        for i in [0, 5, 31, 32, 300] {
            with_nan[i] = if i % 2 == 0 { f32::NAN } else { -f32::NAN };
            with_zero[i] = 0.0;
        }
        assert_eq!(round_trip(dtype, &with_nan), round_trip(dtype, &with_zero), "{dtype}");
        assert!(round_trip(dtype, &[f32::NAN; 256]).1.iter().all(|&v| v == 0.0), "{dtype}");
    }
}

#[test]
fn infinite_and_huge_values_saturate() {
    for (dtype, largest, _) in BLOCK_TYPES {
        for huge in [f32::INFINITY, f32::MAX, 1e30, 1e12] {
            let mut x = [1.0; 256];
            x[3] = huge;
            x[200] = -huge;
            let (_, out) = round_trip(dtype, &x);
            assert!(out.iter().all(|v| v.is_finite()), "{dtype} {huge}: {out:?}");
            // Within one step of the largest code of the sign that has fewer codes.
            assert!(out[3] >= largest.min(huge) * 0.8, "{dtype} {huge}: {}", out[3]);
            assert!(out[200] <= -largest.min(huge) * 0.05, "{dtype} {huge}: {}", out[200]);
        }
        let (_, out) = round_trip(dtype, &[f32::NEG_INFINITY; 256]);
        assert!(out.iter().all(|&v| v.is_finite() && v < -60_000.0), "{dtype}: {}", out[0]);
    }
}

#[test]
fn tiny_values_vanish_or_stay_close() {
    for (dtype, ..) in BLOCK_TYPES {
        for scale in [f32::from_bits(1), f32::MIN_POSITIVE, 1e-30, 1e-12, 1e-8, 1e-6, 1e-4] {
            let x: Vec<f32> = (0..256).map(|i| scale * ((i % 17) as f32 - 8.0)).collect();
            let (_, out) = round_trip(dtype, &x);
            // A minimum may survive where the scale vanishes, and then stands for the largest value too.
            let range = if matches!(dtype, DType::Q4_1 | DType::Q5_1) { 16.0 } else { 8.0 };
            for (a, b) in x.iter().zip(&out) {
                assert!((a - b).abs() <= scale * range + 1e-45, "{dtype} {scale:e}: {a:e} became {b:e}");
            }
        }
    }
}

#[test]
fn constant_and_one_sided_rows() {
    for (dtype, ..) in BLOCK_TYPES {
        for c in [1.0, -1.0, 1e-3, -123.456, 60_000.0] {
            let (_, out) = round_trip(dtype, &[c; 256]);
            // A power of two as the scale leaves the gaps between 4-bit floats, up to a quarter.
            let part = if dtype == DType::MXFP4 { 0.25 } else { 0.01 };
            assert!(out.iter().all(|v| (v - c).abs() <= c.abs() * part), "{dtype} {c}: {}", out[0]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bits at all: finite output, and no value is missed by more than the step of its type on
    /// the range of its block (plus the rounding of the 16-bit factors).
    #[test]
    fn any_row_has_a_bounded_error(bits in prop::collection::vec(any::<u32>(), 256), scale in -40i32..40) {
        let x: Vec<f32> = bits.iter().map(|b| (f64::from(*b as i32) * 2f64.powi(scale - 31)) as f32).collect();
        let amax = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        for (dtype, largest, steps) in BLOCK_TYPES {
            let (_, out) = round_trip(dtype, &x);
            prop_assert!(out.iter().all(|v| v.is_finite()));
            if amax < largest * 0.5 {
                // Half-precision factors have an absolute grid of 2^-24 (times the largest scale).
                let slack = 2f32.powi(-24) * 64.0 * 16.0;
                for (a, b) in x.iter().zip(&out) {
                    prop_assert!((a - b).abs() <= amax / steps + slack, "{dtype}: {a:e} became {b:e}, amax {amax:e}");
                }
            }
        }
    }

    #[test]
    fn arbitrary_bit_patterns_never_panic(bits in prop::collection::vec(any::<u32>(), 256)) {
        let x: Vec<f32> = bits.iter().map(|b| f32::from_bits(*b)).collect();
        for dtype in DType::encodable() {
            let (bytes, out) = round_trip(dtype, &x);
            if dtype.block_len() > 1 {
                prop_assert!(out.iter().all(|v| v.is_finite()), "{dtype}");
            }
            prop_assert_eq!(bytes.len(), dtype.row_bytes(256).unwrap());
        }
    }

    /// Decoding accepts every bit pattern, and what was decoded is encoded to something that decodes
    /// no worse: at F16, BF16 and F32 to the very same bits.
    #[test]
    fn arbitrary_blocks_decode(bytes in prop::collection::vec(any::<u8>(), 210 * 4)) {
        for dtype in DType::all() {
            let n = bytes.len() / dtype.block_bytes();
            let mut out = vec![0.0; n * dtype.block_len()];
            quant::decode_row(dtype, &bytes[..n * dtype.block_bytes()], &mut out);
        }
    }
}
