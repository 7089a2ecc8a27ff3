//! What a model computes: one parameterised decoder described by data, one file per architecture.
//!
//! [`load`] reads the metadata, or the `config.json` of an [`HfModel`], through the architecture's entry in
//! [`ARCHITECTURES`], checks every size against the tensors, packs the weights or takes them from a [`PackCache`], and
//! gives a [`Decoder`]. [`Decoder::forward`] runs a [`Batch`] of tokens of any number of sequences through it.
#![forbid(unsafe_code)]

mod arch;
mod batch;
mod config;
mod decoder;
mod error;
mod frequencies;
mod hf;
mod layers;
mod load;
mod packs;
mod pooling;

pub use arch::{ARCHITECTURES, Architecture, config_of, config_of_json};
pub use batch::{Batch, Span, Workspace};
pub use config::{
    DecoderConfig, ExpertsConfig, RopeConfig, RopeScaling, YarnRamp, unknown_keys, unknown_keys_of_json,
};
pub use decoder::Decoder;
pub use error::{Error, ErrorKind};
pub use hf::HfModel;
pub use load::{load, load_with};
pub use packs::{Make, PackCache, PackReport};
pub use pooling::Pooling;
