//! Any bytes as an importance matrix are refused by name, or a tiny model is quantised with it.
#![no_main]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::OnceLock;

use leyden_compress::{Imatrix, Options, Plan, Target, quantize};
use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource};

const TARGETS: [&str; 6] = ["Q4_K_M", "Q5_0", "Q2_K", "IQ4_XS", "Q3_K_S", "MXFP4"];
const MATRIX: &str = "blk.0.ffn_down.weight";
const COLUMNS: usize = 256;

/// Returns a model with one matrix `[2, 256]`, and the path of what it is quantised to.
fn model() -> &'static (Gguf, PathBuf) {
    static MODEL: OnceLock<(Gguf, PathBuf)> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut writer = GgufWriter::new();
        writer.set("general.architecture", Value::from("llama")).set("llama.block_count", Value::U32(1));
        let values = (0..2 * COLUMNS).flat_map(|i| ((i * 7919 % 1013) as f32 / 500.0 - 1.0).to_le_bytes());
        writer.add_tensor(MATRIX, DType::F32, &[2, COLUMNS], values.collect::<Vec<u8>>()).unwrap();
        let folder = std::env::temp_dir().join(format!("leyden-fuzz-imatrix-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        (Gguf::from_vec(writer.to_vec().unwrap(), "model.gguf").unwrap(), folder.join("out.gguf"))
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let named = |text: String| {
        assert!(text.starts_with("fuzz.gguf: ") && !text.contains(char::is_control), "{text:?}");
    };
    let imatrix = match Imatrix::from_vec(bytes.to_vec(), "fuzz.gguf") {
        Ok(imatrix) => imatrix,
        Err(error) => return named(error.to_string()),
    };
    assert!(!imatrix.is_empty());
    let (model, path) = model();
    let mut options = Options::new(Target::from_name(TARGETS[bytes.len() % TARGETS.len()]).unwrap());
    (options.imatrix, options.threads) = (Some(&imatrix), 1);
    let plan = Plan::new(model, &options).unwrap();
    match quantize(model, &plan, &options, path, &mut |_| ControlFlow::Continue(())) {
        Ok(report) => {
            assert!(report.tensors.iter().all(|tensor| tensor.relative_error.is_finite()), "{report:?}");
            assert_eq!(Gguf::open(path).unwrap().require(MATRIX).unwrap().shape(), [2, COLUMNS]);
        }
        Err(error) => named(error.to_string()),
    }
});
