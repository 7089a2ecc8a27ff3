//! [`Architecture`]: one row of the table of architectures.

use crate::config::{ModelConfig, Reader};
use crate::conversion::Conversion;
use crate::error::Error;
use crate::hf_class::HfClass;

/// One supported architecture.
#[derive(Debug)]
pub struct Architecture {
    /// The value of `general.architecture`, which is also the prefix of its keys.
    pub name: &'static str,
    /// Models of this architecture, for people.
    pub models: &'static str,
    pub(crate) config: fn(&Reader<'_>) -> Result<ModelConfig, Error>,
    /// Which ways its models are converted between folders and GGUF.
    pub conversion: Conversion,
    /// Keys of either dialect that it reads and the others do not.
    pub(crate) own_keys: &'static [&'static str],
    pub(crate) hf: &'static [HfClass],
}

impl Architecture {
    /// The values of `model_type` in a `config.json` that this architecture computes.
    pub fn model_types(&self) -> impl Iterator<Item = &'static str> {
        self.hf.iter().map(|class| class.model_type)
    }
}
