//! Figures compared with llama-perplexity's, computed from its own log probabilities.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use leyden_eval::{LogitsFile, Row, compare, row_len, stats};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

/// Expected figures are in `goldens/README.md`; the rows of one file are the logits that are compared with the
/// other's.
#[test]
fn formulas_are_llama_perplexitys() {
    let mut base = LogitsFile::open(&golden("f16.kld")).unwrap();
    let mut model = LogitsFile::open(&golden("q4_k_m.kld")).unwrap();
    let header = base.header().clone();
    assert_eq!((header.context, header.vocabulary, header.windows.len()), (16, 4096, 2));
    let length = row_len(header.vocabulary);
    let mut all = Vec::new();
    for window in &header.windows {
        let (base, model) = (base.next_window().unwrap(), model.next_window().unwrap());
        for (i, (base, model)) in base.chunks(length).zip(model.chunks(length)).enumerate() {
            let float = |low: u16, high: u16| f32::from_bits(u32::from(low) | u32::from(high) << 16);
            let (scale, least) = (float(model[0], model[1]), float(model[2], model[3]));
            let logits: Vec<f32> =
                model[4..][..header.vocabulary].iter().map(|v| scale * f32::from(*v) + least).collect();
            let token = window[header.context / 2 + i + 1] as usize;
            all.push(compare(&logits, &Row::new(base, header.vocabulary).unwrap(), token));
        }
    }
    assert_eq!(all.len(), 14);
    let mean = |value: &dyn Fn(&leyden_eval::Compared) -> f64| {
        let (sum, squares) = all.iter().map(value).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        stats::mean_and_error(sum, squares, all.len())
    };
    let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-3, "{found} {wanted}");
    near(mean(&|c| f64::from(c.nll)).0.exp(), 199.7280);
    near(mean(&|c| f64::from(c.nll) - f64::from(c.nll_reference)).0, 0.12833);
    near(mean(&|c| c.kld).0, 0.09590);
    near(mean(&|c| c.kld).1, 0.02281);
    near(mean(&|c| f64::from(c.p_diff * c.p_diff)).0.sqrt(), 0.04151);
    near(mean(&|c| f64::from(u8::from(c.same_top))).0, 0.92857);
}

#[test]
fn damaged_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(golden("f16.kld")).unwrap();
    let mut vast = whole.clone();
    vast[8..20].fill(0xff);
    for (bytes, words) in [
        (whole[..whole.len() - 1].to_vec(), "instead of"),
        ([&whole[..], &[0]].concat(), "instead of"),
        (vast, "instead of"),
        (whole[..12].to_vec(), "cannot read"),
        (b"GGUF and some more bytes".to_vec(), "not a file of log probabilities"),
        ([&whole[..8], &[0; 12]].concat(), "0 windows"),
    ] {
        let path = folder.path().join("damaged.kld");
        std::fs::write(&path, bytes).unwrap();
        let told = LogitsFile::open(&path).unwrap_err().to_string();
        assert!(told.contains("damaged.kld: ") && told.contains(words), "{told}");
    }
}
