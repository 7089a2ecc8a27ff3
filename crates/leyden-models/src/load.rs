//! Loading of a network from a weight source: its tensors are found, checked and packed.

use crate::activation_sums::ActivationSums;
use crate::error::Error;
use crate::int8::{Int8Finish, Int8Report};
use crate::load_as::LoadAs;
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
    load_as(source, cpu, &LoadAs { packs: cache.clone(), ..LoadAs::default() }, progress)
}

/// Loads a model like [`load`], with options.
///
/// # Errors
/// As [`load_with`].
#[expect(clippy::needless_pass_by_value, reason = "the network keeps it")]
pub fn load_as(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    options: &LoadAs,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Arc<dyn Network>, PackReport), Error> {
    let mut damage = None;
    // Twice at most: with notes about damage no pack is read.
    loop {
        match load_once(&source, cpu, options, damage.take(), progress)? {
            Ok(loaded) => return Ok(loaded),
            Err(Damaged(notes)) => damage = Some(notes),
        }
    }
}

/// Notes about a pack of which only some INT8 rows can be used. Outlier channels are found with all of them unfinished,
/// so all are packed again.
struct Damaged(Vec<String>);

type LoadedModel = (Arc<dyn Network>, PackReport);

/// Loads a model, without reading its pack if there are `notes` about damage of it.
fn load_once(
    source: &Arc<dyn WeightSource>,
    cpu: &Cpu,
    options: &LoadAs,
    notes: Option<Vec<String>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Result<LoadedModel, Damaged>, Error> {
    let config = config_of(source.as_ref())?;
    let (form, whole_texts) = (stored_as(source.as_ref())?, config.needs_whole_texts());
    let mut loader = Loader::new(source.as_ref(), form, cpu, options, whole_texts, progress);
    if let Some(notes) = notes {
        loader.pack_again(notes);
    }
    let parts = Parts::load(&loader, &config)?;
    loader.check_all_used(&config)?;
    if source.truncated() {
        return Err(Error::truncated(&source.path().display().to_string()));
    }
    let loaded = loader.finish();
    let targets = Targets::new(loaded.targets, &config, source.as_ref())?;
    let mut network = Transformer::new(config, Arc::clone(source), parts, targets);
    if network.is_finished_in_part() {
        return Ok(Err(Damaged(loaded.packs.into_notes())));
    }
    let short = |e| Error::resources(&source.path().display().to_string(), e);
    let sums = match network.needs_outliers() {
        true => sums_of_random_tokens(cpu, &network)?,
        false => ActivationSums::default(),
    };
    let mut finish = Int8Finish { cpu, rule: options.layout, sums: &sums, layouts: Vec::new() };
    network.finish_int8(&mut finish).map_err(short)?;
    let layouts = finish.layouts;
    let (mut report, pack) = loaded.packs.finish(cpu, source.as_ref(), &network.matrices());
    network.keep_open(pack);
    report.int8 = Int8Report { layouts, ..loaded.int8 };
    report.notes.extend(loaded.rounding);
    Ok(Ok((Arc::new(network), report)))
}
