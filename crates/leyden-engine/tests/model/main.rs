//! Whole models, compared with the results of llama.cpp and transformers (`tests/golden`), and with themselves under
//! every tier, team, batch and division of the prompt.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod architectures;
mod checkpoints;
mod converted;
mod converted_encoders;
mod decoders;
mod encoder_gguf;
mod encoders;
mod gemma3;
mod gliner;
mod golden;
mod heads;
mod invariance;
mod mixtures;
mod onnx_encoders;
mod quantised;
mod real_weights;
mod recurrent;
mod samplers;
mod scheduling;
mod scoring;
mod shared;
mod sparse_layouts;
mod speculation;
mod tinystories;
mod weight_types;
mod windows;
