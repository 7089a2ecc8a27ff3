//! [`Whisper`]: a loaded model.

use crate::error::Error;
use crate::network::{Config, Network, Precision, Source};
use crate::vocabulary::Vocabulary;
use leyden_kernels::Cpu;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A loaded model: network, vocabulary and settings.
#[derive(Debug)]
pub struct Whisper {
    pub(crate) network: Network,
    pub(crate) vocabulary: Vocabulary,
    /// Layers and heads of the decoder that follow the audio, for times of words.
    pub(crate) alignment: Vec<(usize, usize)>,
}

/// Sizes of a model's weights as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// Files.
    pub paths: Vec<PathBuf>,
    /// Type with the most bytes.
    pub main_type: String,
    /// Number of values.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
}

impl Whisper {
    /// Returns true for a Hugging Face folder of a Whisper or a GGML file of whisper.cpp, judged by `config.json` or the
    /// first bytes.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        Source::is_at(path)
    }

    /// Reads the sizes of a model and of its weights, without loading it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn outline_at(path: &Path) -> Result<(Config, Weights), Error> {
        let source = Source::open(path)?;
        let mut weights = Weights { paths: source.weight_paths(), ..Weights::default() };
        let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
        for (name, values, bytes) in source.sizes() {
            weights.parameters += values;
            weights.bytes += bytes;
            *by_type.entry(name).or_default() += bytes;
        }
        weights.main_type = by_type.into_iter().max_by_key(|row| row.1).map_or_else(String::new, |row| row.0);
        Ok((source.config().clone(), weights))
    }

    /// Loads a model.
    ///
    /// # Errors
    /// A file is missing, damaged, or of another model, or memory is short. The error names file and field.
    pub fn load(cpu: &Cpu, path: &Path, precision: Precision) -> Result<Whisper, Error> {
        let source = Source::open(path)?;
        let vocabulary = Vocabulary::load(&source)?;
        let alignment = alignment(&source)?;
        let network = Network::of(cpu, &source, precision)?;
        Ok(Whisper { network, vocabulary, alignment })
    }

    /// Returns the network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the codes of the languages that the model knows; `en` alone for a model of English.
    #[must_use]
    pub fn languages(&self) -> Vec<&'static str> {
        match self.vocabulary.languages.is_empty() {
            true => vec!["en"],
            false => self.vocabulary.languages.iter().map(|(_, code)| *code).collect(),
        }
    }

    /// Returns the bytes of memory of the weights, and those of one transcription beside its audio.
    #[must_use]
    pub fn memory(&self) -> (usize, usize) {
        (self.network.bytes(), self.network.working_bytes())
    }
}

/// Returns the heads that follow the audio: `alignment_heads` of `generation_config.json`, else all heads of the later
/// half of the layers, as OpenAI's code takes where none are known.
fn alignment(source: &Source) -> Result<Vec<(usize, usize)>, Error> {
    let stack = source.config().decoder;
    let all =
        || (stack.layers / 2..stack.layers).flat_map(|l| (0..stack.heads).map(move |h| (l, h))).collect();
    let Some(json) = source.generation() else { return Ok(all()) };
    let Some(listed) = json.get("alignment_heads") else { return Ok(all()) };
    let size = |value: &serde_json::Value| usize::try_from(value.as_u64()?).ok();
    let pair = |value: &serde_json::Value| match &value.as_array()?[..] {
        [layer, head] => Some((size(layer)?, size(head)?)),
        _ => None,
    };
    let read = || listed.as_array()?.iter().map(pair).collect::<Option<Vec<_>>>();
    let pairs = read().ok_or_else(|| json.wrong_type("alignment_heads", "array of layers and heads"))?;
    if let Some((layer, head)) = pairs.iter().find(|(l, h)| *l >= stack.layers || *h >= stack.heads) {
        let message = format!("the decoder has no head {head} in a layer {layer}");
        return Err(Error::model(message).item("alignment_heads").file(json.file()));
    }
    Ok(if pairs.is_empty() { all() } else { pairs })
}
