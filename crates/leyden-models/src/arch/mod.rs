//! Architectures: how each one's metadata becomes a [`DecoderConfig`]. One file each, one line in the table.

use crate::config::{DecoderConfig, Reader};
use crate::error::Error;
use leyden_tensor::Metadata;

mod llama;
mod qwen2;
mod qwen3;

/// One supported architecture.
#[derive(Debug)]
pub struct Architecture {
    /// The value of `general.architecture`, which is also the prefix of its keys.
    pub name: &'static str,
    /// Models of this architecture, for people.
    pub models: &'static str,
    config: fn(&Reader<'_>) -> Result<DecoderConfig, Error>,
}

/// Every supported architecture.
pub static ARCHITECTURES: &[Architecture] = &[llama::ARCHITECTURE, qwen2::ARCHITECTURE, qwen3::ARCHITECTURE];

/// The configuration of the model that the metadata describes.
///
/// # Errors
/// The architecture is missing or not supported, or a size is missing, impossible or not supported; the error
/// names the key.
pub fn config_of(meta: &Metadata) -> Result<DecoderConfig, Error> {
    let name = meta.str("general.architecture")?;
    let found = ARCHITECTURES.iter().find(|a| a.name == name);
    let arch = found.ok_or_else(|| Error::unknown_architecture(meta.file(), name))?;
    (arch.config)(&Reader { meta, prefix: arch.name })
}
