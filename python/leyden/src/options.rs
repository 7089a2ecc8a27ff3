//! Options by name: a key of a Python dictionary is an arm of a `match`, and another one is an error.

use crate::errors::refused;
use leyden::{
    BatchOptions, EmbedOptions, GenerateOptions, KvType, Level, LoadOptions, Make, Mirostat, MirostatVersion,
    PackCache,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Options of a model.
#[derive(Debug, Default)]
pub(crate) struct ModelOptions {
    pub(crate) load: LoadOptions,
    pub(crate) batch: BatchOptions,
}

/// Reads the options of a model.
pub(crate) fn of_model(given: &Bound<'_, PyDict>) -> PyResult<ModelOptions> {
    let mut options = ModelOptions::default();
    let mut parallel = 64;
    for (key, value) in given.iter() {
        let (load, batch) = (&mut options.load, &mut options.batch);
        match key.extract::<String>()?.as_str() {
            "threads" => load.threads = value.extract()?,
            "threads_batch" => load.threads_batch = value.extract()?,
            "exact" => load.exact = value.extract()?,
            "int8" => load.int8 = value.extract()?,
            "lora" => load.lora = value.extract::<Vec<(PathBuf, f32)>>()?,
            "isa" => {
                load.isa =
                    value.extract::<Option<String>>()?.map(|name| level(given.py(), &name)).transpose()?
            }
            "context" => batch.context = value.extract()?,
            "cache_tokens" => batch.cache_tokens = value.extract()?,
            "parallel" => parallel = value.extract::<usize>()?,
            "kv_type" => {
                let name: String = value.extract()?;
                let known = KvType::ALL.into_iter().find(|kind| kind.name() == name);
                batch.kv_type = known
                    .ok_or_else(|| refused(given.py(), format!("kv_type: {name} is not f32, f16 or q8_0")))?;
            }
            "pack_cache" => {
                if let Some(path) = value.extract::<Option<PathBuf>>()? {
                    load.packs = PackCache::Folder { path, make: Make::Missing, map: false };
                }
            }
            other => return Err(unknown(given.py(), other)),
        }
    }
    options.batch = options.batch.parallel(parallel);
    Ok(options)
}

fn level(py: Python<'_>, name: &str) -> PyResult<Level> {
    Level::from_name(name)
        .ok_or_else(|| refused(py, format!("isa: {name} is not the name of an instruction-set tier")))
}

/// Reads the options of an answer.
pub(crate) fn of_answer(given: &Bound<'_, PyDict>) -> PyResult<GenerateOptions> {
    let py = given.py();
    let mut options = GenerateOptions::default();
    for (key, value) in given.iter() {
        let sampling = &mut options.sampling;
        match key.extract::<String>()?.as_str() {
            "max_tokens" => options.max_tokens = value.extract()?,
            "temperature" => sampling.temperature = value.extract()?,
            "top_k" => sampling.top_k = value.extract()?,
            "top_p" => sampling.top_p = value.extract()?,
            "min_p" => sampling.min_p = value.extract()?,
            "typical_p" => sampling.typical = value.extract()?,
            "seed" => sampling.seed = value.extract()?,
            "repeat_penalty" => sampling.penalties.repeat = value.extract()?,
            "frequency_penalty" => sampling.penalties.frequency = value.extract()?,
            "presence_penalty" => sampling.penalties.presence = value.extract()?,
            "repeat_last_n" => sampling.penalties.window = value.extract()?,
            "mirostat" => sampling.mirostat = mirostat(py, value.extract()?)?,
            "logit_bias" => {
                let bias: std::collections::BTreeMap<u32, f32> = value.extract()?;
                sampling.logit_bias = bias.into_iter().collect();
            }
            "stop" => options.stop = value.extract()?,
            "logprobs" => options.logprobs = value.extract()?,
            other => return Err(unknown(py, other)),
        }
    }
    Ok(options)
}

fn mirostat(py: Python<'_>, version: u8) -> PyResult<Option<Mirostat>> {
    let version = match version {
        0 => return Ok(None),
        1 => MirostatVersion::V1,
        2 => MirostatVersion::V2,
        other => return Err(refused(py, format!("mirostat: {other} is not 0, 1 or 2"))),
    };
    Ok(Some(Mirostat { version, ..Mirostat::default() }))
}

/// Reads the options of vectors and labels.
pub(crate) fn of_embedder(given: &Bound<'_, PyDict>) -> PyResult<EmbedOptions> {
    let mut options = EmbedOptions::default();
    for (key, value) in given.iter() {
        match key.extract::<String>()?.as_str() {
            "pooling" => {
                let name: Option<String> = value.extract()?;
                options.pooling = name
                    .map(|name| {
                        name.parse().map_err(|what| refused(given.py(), format!("pooling: {name}: {what}")))
                    })
                    .transpose()?;
            }
            "normalize" => options.normalize = value.extract()?,
            "dimensions" => options.dimensions = value.extract()?,
            "truncate" => options.truncate = value.extract()?,
            "prompt_name" => options.prompt_name = value.extract()?,
            other => return Err(unknown(given.py(), other)),
        }
    }
    Ok(options)
}

fn unknown(py: Python<'_>, name: &str) -> PyErr {
    refused(py, format!("{name}: there is no such option"))
}
