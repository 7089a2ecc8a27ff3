//! Loading of a network from a weight source: its tensors are found, checked and packed.

use crate::error::Error;
use crate::loader::Loader;
use crate::lora::Targets;
use crate::network::Network;
use crate::outliers::sums_of_random_tokens;
use crate::packs::{PackCache, PackReport};
use crate::source_config::{config_of, stored_as};
use crate::transformer::{Parts, Transformer};
use leyden_kernels::Cpu;
use leyden_tensor::WeightSource;
use std::sync::Arc;

/// Loads the model in `source` and packs its weights for `cpu`. `progress` is called with the number of bytes of
/// weights packed so far, and the total.
///
/// # Errors
/// The architecture is not supported; a size or tensor is missing, has the wrong shape or an unsupported type;
/// the file has tensors that the architecture does not use; or memory is short.
pub fn load(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Arc<dyn Network>, Error> {
    Ok(load_with(source, cpu, &PackCache::Off, progress)?.0)
}

/// Options of loading.
#[derive(Clone, Debug, Default)]
pub struct LoadAs {
    /// Cache of packed weights.
    pub packs: PackCache,
    /// True to multiply matrices that are stored as floats in 8-bit integers; [`PackReport::int8`] tells which.
    pub int8: bool,
}

/// Loads a model like [`load`], with a cache of packed weights.
///
/// # Errors
/// As [`load`]. Faults of the cache are no errors; the report's notes tell them.
pub fn load_with(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    cache: &PackCache,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Arc<dyn Network>, PackReport), Error> {
    load_as(source, cpu, &LoadAs { packs: cache.clone(), int8: false }, progress)
}

/// Loads a model like [`load`], with options.
///
/// # Errors
/// As [`load_with`].
pub fn load_as(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    options: &LoadAs,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Arc<dyn Network>, PackReport), Error> {
    let config = config_of(source.as_ref())?;
    let (form, packs) = (stored_as(source.as_ref())?, (&options.packs, options.int8));
    let loader = Loader::new(source.as_ref(), form, cpu, packs, config.needs_whole_texts(), progress);
    let parts = Parts::load(&loader, &config)?;
    loader.check_all_used(&config)?;
    if source.truncated() {
        return Err(Error::truncated(&source.path().display().to_string()));
    }
    let loaded = loader.finish();
    let targets = Targets::new(loaded.targets, &config, source.as_ref())?;
    let (mut report, pack) = loaded.packs.finish(cpu, source.as_ref(), &parts.matrices());
    report.int8 = loaded.int8;
    report.notes.extend(loaded.rounding);
    let mut network = Transformer::new(config, source, pack, parts, targets);
    if network.needs_outliers() {
        let sums = sums_of_random_tokens(cpu, &network)?;
        network.set_outliers(&sums);
    }
    Ok((Arc::new(network), report))
}
