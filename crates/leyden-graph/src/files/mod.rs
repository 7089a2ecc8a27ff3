//! Inputs of graphs from files, and outputs as JSON.

mod image;
mod json;
mod npy;

use crate::error::Error;
use crate::outline::GraphInput;
use crate::value::Value;
use std::path::Path;

pub use json::to_json;

/// Maximum size of an input's file, bytes.
const MAX_BYTES: u64 = 4 << 30;

/// Reads the value of an input from a file: `.npy` (NumPy), `.json` (nested lists), `.png`, `.jpg` or `.jpeg` (RGB from
/// 0 to 255, resized to the input's size where the graph fixes it).
///
/// # Errors
/// The file cannot be read, or does not fit the input. The error names both.
pub fn read_input(path: &Path, input: &GraphInput) -> Result<Value, Error> {
    let label = path.display().to_string();
    let failed = |e: Error| e.node(&input.name, "input").file(&label);
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    let length = std::fs::metadata(path).map_err(|e| failed(e.to_string().into()))?.len();
    if length > MAX_BYTES {
        return Err(failed(format!("{length} bytes are more than {MAX_BYTES}").into()));
    }
    let bytes = std::fs::read(path).map_err(|e| failed(e.to_string().into()))?;
    let tensor = match extension.as_str() {
        "npy" => npy::read(&bytes),
        "json" => json::read(&bytes, input),
        "png" | "jpg" | "jpeg" => image::read(&bytes, input),
        other => Err(format!("files of kind `{other}` are not read; use .npy, .json, .png or .jpg").into()),
    };
    tensor.map(Value::Tensor).map_err(failed)
}
