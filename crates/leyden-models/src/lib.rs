//! Forward pass of supported models: one parameterised transformer described by data, with one file per architecture.
//!
//! [`load`] reads the GGUF metadata, or the `config.json` of an [`HfModel`], through the architecture's entry in
//! [`ARCHITECTURES`], checks every size against the tensors, packs the weights or takes them from a [`PackCache`],
//! and returns a [`Network`]. [`Network::forward`] computes a [`Batch`] of tokens of any number of sequences.
#![forbid(unsafe_code)]

mod activation_sums;
mod arch;
mod architecture;
mod batch;
mod config;
mod conversion;
mod error;
mod frequencies;
mod gliner;
pub mod heads;
mod hf;
mod hf_class;
mod input_form;
mod int8;
mod layers;
mod load;
mod load_as;
mod loader;
mod lora;
mod modules;
mod network;
mod onnx;
mod outliers;
mod packs;
mod pooling;
mod prompts;
mod source_config;
mod span_search;
mod state_rounds;
mod stored;
mod token_heads;
mod transformer;
mod unknown_keys;
mod vector_form;
mod workspace;

pub use activation_sums::{ActivationSums, MatrixInput, MatrixSums};
pub use arch::{ARCHITECTURES, config_of_json, ties_embeddings};
pub use architecture::Architecture;
pub use batch::{Batch, Span};
pub use config::{
    AltUpConfig, ClassifierConfig, DeltaNetConfig, DenseActivation, DenseConfig, ExpertsConfig, HeadConfig,
    Labelled, LatentConfig, LayerConfig, Mamba2Config, ModelConfig, NormConfig, NormKind, NormPlacement,
    QkNorm, RecurrentConfig, RopeConfig, RopeScaling, Scores, SharedExpert, SpanConfig, SparseConfig,
    Temperature, Values, VectorDense, YarnRamp,
};
pub use conversion::{Conversion, FolderTensor, GgufTensor, ToFolder, ToGguf};
pub use error::{Error, ErrorKind};
pub use hf::HfModel;
pub use input_form::MessageForm;
pub use int8::Int8Report;
pub use load::{load, load_as, load_with};
pub use load_as::LoadAs;
pub use lora::{Adapter, AdapterSet};
pub use network::Network;
pub use packs::{Make, PackCache, PackReport};
pub use pooling::Pooling;
pub use prompts::Prompts;
pub use source_config::config_of;
pub use span_search::{LabelledSpan, choose_spans};
pub use state_rounds::StateCheckpoint;
pub use unknown_keys::{unknown_keys, unknown_keys_of_json};
pub use vector_form::{Similarity, VectorForm};
pub use workspace::Workspace;
