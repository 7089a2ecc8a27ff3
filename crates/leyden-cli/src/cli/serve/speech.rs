//! Speech recognisers of the server: they are loaded on demand, or at the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use leyden_server::{Abilities, About, ModelInfo, OnDemand, SpeechModel};
use leyden_speech::{Weights, Whisper};

use super::directory;
use super::settings::Settings;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::transcribe::{precision, processor};

/// Returns a recogniser that is loaded when a request names it, or at the start with `preload`.
pub(super) fn on_demand(
    (threads, arithmetic): (Option<usize>, Arithmetic),
    settings: Settings,
    name: String,
    path: PathBuf,
) -> Result<OnDemand, Failure> {
    if !settings.lora.is_empty() {
        return Err(Failure::usage(format!("{name}: speech recognisers have no LoRA adapters")));
    }
    let (config, weights) = Whisper::outline_at(&path)?;
    let info = info(&path, weights);
    let weights = info.bytes;
    let called = name.clone();
    let shown = info.clone();
    let load = move |available: Option<u64>| {
        let needed = weights.saturating_mul(2);
        if available.is_some_and(|available| needed > available) {
            return Err(format!("{}: it takes {needed} bytes", path.display()));
        }
        let cpu = processor(threads, arithmetic).map_err(|failure| failure.to_string())?;
        let whisper = Whisper::load(&cpu, &path, precision(arithmetic)).map_err(|error| error.to_string())?;
        Ok(SpeechModel { name: called.clone(), whisper, cpu, info: shown.clone() }.into())
    };
    let sizes = (config.width, config.vocabulary);
    Ok(OnDemand {
        name,
        aliases: settings.aliases,
        adapters: Vec::new(),
        info,
        abilities: Abilities::speech(),
        context: config.text_context,
        least_bytes: weights.saturating_mul(2),
        idle: settings.idle,
        preload: settings.preload,
        describe: Arc::new(move || Ok(About::speech(sizes.0, sizes.1))),
        load: Arc::new(load),
    })
}

/// Returns the published facts about a recogniser.
fn info(path: &Path, weights: Weights) -> ModelInfo {
    let modified = weights.paths.iter().filter_map(|path| path.metadata().ok()?.modified().ok()).max();
    ModelInfo {
        architecture: "whisper".to_owned(),
        format: if path.is_dir() { "safetensors" } else { "ggml" }.to_owned(),
        weights: weights.main_type,
        parameters: weights.parameters,
        bytes: weights.bytes,
        modified: modified.unwrap_or_else(SystemTime::now),
        digest: directory::fingerprint_of(weights.paths),
    }
}
