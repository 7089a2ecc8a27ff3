//! Models between the layout of the Hugging Face hub and GGUF: weights, configuration, tokenizer, chat template.
//!
//! [`to_gguf`] converts the decoders of `leyden-models`' registry that say so, [`to_folder`] those of the families in [`Family`].
//! What a tokenizer does is not looked up but compared: of the rules that either layout has a name for, the one is taken with
//! which both tokenizers make the same tokens of a sample of hard cases (`tokenizer/`), and none is guessed.
#![forbid(unsafe_code)]

mod error;
mod family;
mod folder;
mod gguf;
mod safetensors;
mod tokenizer;

pub use error::Error;
pub use family::Family;
pub use folder::to_folder;
pub use gguf::to_gguf;

use leyden_tensor::DType;
use std::ops::ControlFlow;

/// What a model became.
#[derive(Clone, Debug)]
pub struct Report {
    /// Tensors that were written.
    pub tensors: usize,
    /// Bytes of them.
    pub bytes: usize,
    /// The rule by which texts are cut into words, by GGUF's name.
    pub rule: String,
    /// Whether there was a chat template.
    pub template: bool,
    /// What the other layout has no word for, and what follows from it.
    pub note: Option<String>,
}

/// Hears how many bytes of all are written, and may say stop.
pub type Watch<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// Values of a tensor as another type.
pub(crate) fn cast(view: &leyden_tensor::TensorView<'_>, to: DType) -> Vec<u8> {
    if view.dtype() == to {
        return view.bytes().to_vec();
    }
    let row_bytes = to.row_bytes(view.cols()).unwrap_or(0);
    let mut bytes = vec![0; row_bytes * view.rows()];
    let mut row = vec![0.0; view.cols()];
    for (i, out) in bytes.chunks_exact_mut(row_bytes.max(1)).enumerate() {
        leyden_tensor::quant::decode_row(view.dtype(), view.row(i), &mut row);
        leyden_tensor::quant::encode_row(to, &row, out);
    }
    bytes
}
