//! [`Architecture`]: a row of the table of supported architectures.

use crate::config::{ModelConfig, Reader};
use crate::conversion::Conversion;
use crate::error::Error;
use crate::hf_class::HfClass;

/// One supported architecture.
#[derive(Debug)]
pub struct Architecture {
    /// Value of `general.architecture`, which is also the prefix of the architecture's GGUF keys.
    pub name: &'static str,
    /// Names of well-known models of this architecture, for documentation.
    pub models: &'static str,
    pub(crate) config: fn(&Reader<'_>) -> Result<ModelConfig, Error>,
    /// Supported directions of conversion between Hugging Face folders and GGUF.
    pub conversion: Conversion,
    /// Keys of GGUF or `config.json` that only this architecture reads.
    pub(crate) own_keys: &'static [&'static str],
    pub(crate) hf: &'static [HfClass],
}

impl Architecture {
    /// Returns the values of `model_type` in a `config.json` that select this architecture.
    pub fn model_types(&self) -> impl Iterator<Item = &'static str> {
        self.hf.iter().map(|class| class.model_type)
    }
}
