//! `cargo xtask embed`: the embedded model from its F16 weights, quantised to Q8_0 by our own encoder.

use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource, quant};
use std::path::Path;

/// Path of the F16 weights, from the root.
const FROM: &str = "../shared/demo-model/storyteller-f16.gguf";
const TO: &str = "crates/leyden/model/storyteller-q8_0.gguf";

/// llama.cpp's file type for files that are mostly Q8_0.
const FILE_TYPE_Q8_0: u32 = 7;
/// Version of the block layouts.
const QUANTIZATION_VERSION: u32 = 2;

/// Quantises every matrix to Q8_0 and keeps vectors in F32.
pub(crate) fn run(root: &Path, _: &[String]) -> Result<(), String> {
    let text = |e: leyden_tensor::Error| e.to_string();
    let source = Gguf::open(&root.join(FROM)).map_err(text)?;
    let mut writer = GgufWriter::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    writer.set("general.file_type", Value::U32(FILE_TYPE_Q8_0));
    writer.set("general.quantization_version", Value::U32(QUANTIZATION_VERSION));
    for name in source.tensor_names() {
        let view = source.require(name).map_err(text)?;
        let mut values = vec![0.0; view.rows() * view.cols()];
        for (i, row) in values.chunks_exact_mut(view.cols()).enumerate() {
            quant::decode_row(view.dtype(), view.row(i), row);
        }
        let dtype = if view.shape().len() == 2 { DType::Q8_0 } else { DType::F32 };
        let row_bytes =
            dtype.row_bytes(view.cols()).ok_or_else(|| format!("{name}: rows do not fit {dtype}"))?;
        let mut bytes = vec![0; row_bytes * view.rows()];
        for (row, out) in values.chunks_exact(view.cols()).zip(bytes.chunks_exact_mut(row_bytes)) {
            quant::encode_row(dtype, row, out);
        }
        writer.add_tensor(name, dtype, view.shape(), bytes).map_err(text)?;
    }
    writer.write_to(&root.join(TO)).map_err(text)?;
    println!("wrote {TO}");
    Ok(())
}
