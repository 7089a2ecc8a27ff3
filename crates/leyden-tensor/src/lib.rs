//! Weights: data types, quantised blocks with their scalar reference code, and the files that hold them.
//!
//! * [`DType`] names a storage format; [`quant`] encodes and decodes it, one value at a time, and is
//!   the oracle that every faster kernel is compared with.
//! * [`TensorView`] is a data type, a shape and borrowed bytes, checked to fit together. It is the only
//!   thing a file reader hands out.
//! * [`Gguf`] reads model files through a memory mapping, [`GgufWriter`] writes them. Both use
//!   [`Metadata`] and [`Value`].
//! * [`Onnx`] reads the graph and the initialisers of ONNX models.
//! * [`Safetensors`] reads weights in that format. [`HfFolder`] is a whole model in the Hugging Face layout, with its
//!   configuration as [`Json`]. Code that only needs weights takes either as a [`WeightSource`].
//!
//! Nothing here trusts a file: every count is bounded by the bytes that are left before anything is
//! allocated, and a bad file is an [`Error`] that names the file and the field.
//!
//! ```
//! use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource, quant};
//!
//! let values: Vec<f32> = (0..64).map(|i| i as f32 / 32.0 - 1.0).collect();
//! let mut bytes = vec![0; DType::Q8_0.row_bytes(64).expect("64 is a multiple of 32")];
//! quant::encode_row(DType::Q8_0, &values, &mut bytes);
//!
//! let mut writer = GgufWriter::new();
//! writer.set("general.architecture", Value::from("llama"));
//! writer.add_tensor("w", DType::Q8_0, &[2, 32], bytes)?;
//!
//! let file = Gguf::from_vec(writer.to_vec()?, "example.gguf")?;
//! assert_eq!(file.metadata().str("general.architecture")?, "llama");
//! let w = file.require("w")?;
//! let mut row = [0.0; 32];
//! quant::decode_row(w.dtype(), w.row(1), &mut row);
//! assert!((row[31] - values[63]).abs() < 0.01);
//! # Ok::<(), leyden_tensor::Error>(())
//! ```

mod dtype;
mod error;
mod file;
mod formats;
mod hf_quant;
pub mod quant;
mod run;
mod sparse;
mod tensor_size;
mod view;

pub use dtype::{DType, UnknownDType};
pub use error::{Context, Error, ErrorKind, Escaped};
pub use file::{
    Array, FileBytes, FolderFiles, Gguf, GgufWriter, HfFile, HfFolder, Json, KeyRule, KnownKey, KnownKeys,
    MAX_ALIGNMENT, MAX_HEADER_BYTES, MAX_KEYS, MAX_NAME_BYTES, MAX_TENSORS, Metadata, Onnx, OnnxAttribute,
    OnnxDim, OnnxFunction, OnnxGraph, OnnxNode, OnnxTensor, OnnxValue, RefusedKey, Safetensors, StackRows,
    Stacked, StrArray, TensorInfo, Value, ValueType, WeightSource, choice_key, empty_key, harmless_key,
    read_key, says_nothing,
};
pub use hf_quant::HfQuantised;
pub use run::{Run, run_sequentially};
pub use sparse::{SparsePart, SparseTensor, SparseValues};
pub use view::{OwnedTensor, TensorView};
