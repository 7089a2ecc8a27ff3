//! Files written and read, real ones too; damaged and absurd ones; quantised blocks against the reference.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gguf_files;
mod gguf_malformed;
mod gguf_split;
mod golden;
mod onnx_files;
mod quant_edges;
mod safetensors_files;
mod safetensors_malformed;
mod torch_files;
