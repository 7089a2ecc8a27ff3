//! The model under test and what is known about it.

use std::path::Path;
use std::sync::Arc;

use leyden_kernels::{Ceilings, Cpu, Tier};
use leyden_models::Decoder;
use leyden_tensor::DType;

use super::{Args, loading};
use crate::cli::failure::Failure;
use crate::cli::{model_file, packs};
use leyden::{LoadOptions, Model};

/// A loaded model and its size.
pub(super) struct Loaded {
    /// The file, as it was found.
    pub(super) file: String,
    /// Architecture and most common weight type.
    pub(super) kind: String,
    /// Bytes of all weights in the file.
    pub(super) bytes: u64,
    /// Numbers in them.
    pub(super) parameters: u64,
    /// Multiplications of one token in all layers, without the output matrix and attention.
    pub(super) layer_macs: u64,
    /// Those of the output matrix.
    pub(super) head_macs: u64,
    /// Whether most weights are floats.
    pub(super) float: bool,
    pub(super) decoder: Arc<Decoder>,
    pub(super) tier: Tier,
    threads: usize,
}

impl Loaded {
    /// Opens and packs the model.
    pub(super) fn open(args: &Args) -> Result<Loaded, Failure> {
        let options =
            LoadOptions { threads: args.threads.first().copied(), isa: args.isa, packs: args.packs.cache() };
        let bar = loading();
        let mut progress = |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        };
        let model = match &args.model {
            Some(path) => Model::open_with(model_file::locate(path)?, &options, &mut progress)?,
            None => Model::embedded(&options)?,
        };
        bar.finish_and_clear();
        packs::tell(&model);
        Ok(Loaded::new(&model))
    }

    fn new(model: &Model) -> Loaded {
        let weights = model.weights();
        let info = weights.tensor_info();
        let mut by_type: Vec<(DType, u64)> = Vec::new();
        let (mut bytes, mut parameters, mut layer_macs, mut head_macs) = (0, 0, 0, 0);
        for t in info {
            let count = t.shape.iter().map(|n| *n as u64).product::<u64>();
            bytes += t.bytes as u64;
            parameters += count;
            let Some(found) = t.dtype else { continue };
            match by_type.iter_mut().find(|(dtype, _)| *dtype == found) {
                Some((_, n)) => *n += count,
                None => by_type.push((found, count)),
            }
            let in_layers = t.name.starts_with("blk.") || t.name.contains(".layers.");
            match t.shape.len() {
                2 if in_layers => layer_macs += count,
                2 => head_macs = head_macs.max(count),
                _ => {}
            }
        }
        by_type.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let dtype = by_type.first().map_or(DType::F32, |(dtype, _)| *dtype);
        Loaded {
            file: weights.path().display().to_string(),
            kind: format!("{} {dtype}", model.config().architecture),
            bytes,
            parameters,
            layer_macs,
            head_macs,
            float: matches!(dtype, DType::F32 | DType::F16 | DType::BF16),
            decoder: Arc::clone(model.decoder()),
            tier: model.cpu().tier(),
            threads: model.cpu().pool().members(),
        }
    }

    /// The team of a test.
    pub(super) fn cpu(&self, threads: Option<usize>) -> Result<Arc<Cpu>, Failure> {
        let threads = threads.unwrap_or(self.threads);
        if !(1..=1024).contains(&threads) {
            return Err(Failure::usage("`-t` takes 1 to 1024 threads"));
        }
        Cpu::new(self.tier, threads)
            .map(Arc::new)
            .map_err(|error| Failure::new(format!("cannot start {threads} threads: {error}")))
    }

    /// Threads of a test.
    pub(super) fn threads(&self, asked: Option<usize>) -> usize {
        asked.unwrap_or(self.threads)
    }

    /// What the machine could do at most with as many threads as the tests use at most.
    pub(super) fn ceilings(&self, threads: &[usize]) -> Result<Ceilings, Failure> {
        let cpu = self.cpu(threads.iter().copied().max())?;
        Ceilings::measure(&cpu).map_err(|error| Failure::new(error.to_string()))
    }

    /// The file's name alone.
    pub(super) fn name(&self) -> String {
        Path::new(&self.file).file_name().map_or(self.file.clone(), |n| n.to_string_lossy().into_owned())
    }
}
