//! Choice of a type for each tensor for a target size.

use std::ops::ControlFlow;
use std::path::Path;

use leyden::{LoadOptions, Model};
use leyden_compress::{Candidates, Options, Plan, Target, candidates, choose, probe};
use leyden_eval::{LogitsFile, Reference, Run, Windows, divergence, save_logits};
use leyden_tensor::{Gguf, WeightSource};

use super::super::failure::Failure;
use super::super::inputs::read_text;
use super::super::interrupt::Interrupt;
use super::super::notes::Notes;
use super::super::{progress, run};
use super::args::Args;

/// Tokens in a window of the calibration text.
const WINDOW: usize = 512;

/// Chooses the types of the plan's tensors with the smallest loss at the target size. Returns the most frequent type.
pub(super) fn fit(
    args: &Args,
    path: &Path,
    source: &Gguf,
    options: &Options<'_>,
    plan: &mut Plan,
    stop: &Interrupt,
) -> Result<Target, Failure> {
    let values: usize = plan.tensors.iter().map(|t| t.values()).sum();
    let budget = match (args.target_size, args.target_bpw) {
        (Some(size), _) => {
            // Bytes of the file beside tensors: metadata and vocabulary.
            let files: u64 = source.file_metadata().map_or(0, |all| all.iter().map(|meta| meta.len()).sum());
            let rest = usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(source_bytes(source)?);
            usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(rest)
        }
        (None, Some(bits)) => (bits * values as f64 / 8.0) as usize,
        (None, None) => return Err(Failure::usage("TYPE is missing")),
    };
    let bar = progress::bar("{msg} {wide_bar} {pos}/{len} {eta} left");
    let mut watch = |done: usize, all: usize, what: &str| {
        if let Some(bar) = &bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message(what.to_owned());
        }
        if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let all = candidates(source, plan, options, &mut |done, of| watch(done, of, "errors of types"))?;
    let Some(text) = &args.calibration else { return Err(Failure::usage("--calibration: missing")) };
    let costs = measured(args, path, source, options, plan, (&all, &read_text(text)?), &mut watch)?;
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    choose(plan, &all, &costs, budget)
        .map_err(|error| Failure::new(error).hint("raise the target, or use a smaller model"))?;
    let most = Target::all().max_by_key(|target| {
        let of_type = plan.tensors.iter().filter(|t| t.is_matrix() && t.to == target.base());
        of_type.map(|t| t.values()).sum::<usize>()
    });
    let base = most.map(|target| target.base());
    Ok(base.and_then(Target::of_dtype).unwrap_or(options.target))
}

fn source_bytes(source: &Gguf) -> Result<usize, Failure> {
    let mut bytes = 0;
    for info in source.tensor_info() {
        bytes += source.require(&info.name)?.bytes().len();
    }
    Ok(bytes)
}

/// Measures for each tensor the KL divergence per unit of error, with this tensor alone quantised.
fn measured(
    args: &Args,
    path: &Path,
    source: &Gguf,
    options: &Options<'_>,
    plan: &Plan,
    (all, text): (&[Candidates], &str),
    watch: &mut dyn FnMut(usize, usize, &str) -> ControlFlow<()>,
) -> Result<Vec<f64>, Failure> {
    let threads = (args.threads > 0).then_some(args.threads);
    let load = LoadOptions::new().threads(threads);
    let run_ = Run::default();
    let folder = args.temporary_folder()?;
    let kept = folder.path().join("reference.kld");
    let windows = {
        let model = run::load(path, &load, Notes::default())?;
        let context = WINDOW.min(model.config().context);
        let windows = Windows::of_text(&model, text, context, Some(args.calibration_chunks))?;
        save_logits(&model, &windows, &run_, &kept, &mut |p| watch(p.done, p.all, "reference"))?;
        windows
    };
    let mut costs = Vec::new();
    for candidates in all {
        let (name, tried) = (&plan.tensors[candidates.tensor].name, candidates.probe());
        if watch(costs.len(), all.len(), name).is_break() {
            return Err(Failure::interrupted());
        }
        let bytes = probe(source, options, name, tried.dtype)?;
        let model = Model::from_bytes(bytes, name, &load)?;
        let mut file = LogitsFile::open(&kept)?;
        let quiet = &mut |_: leyden_eval::Progress<'_>| ControlFlow::Continue(());
        let found = divergence(&model, &windows, &mut Reference::File(&mut file), &run_, quiet)?;
        // A divergence below the noise of measurement counts as nearly none.
        costs.push(found.kld.value.max(1e-8) / tried.error.max(f64::MIN_POSITIVE));
    }
    Ok(costs)
}
