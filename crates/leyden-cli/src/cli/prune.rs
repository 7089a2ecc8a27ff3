//! `leyden prune`: a model with a part of its weights zero.

mod args;
mod calibration;
mod report;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden::{LoadOptions, Model, ModelFile};
use leyden_compress::{
    Options, Plan, Prunable, PruneInputs, PruneOptions, PrunePlan, PrunedMatrix, Target, prune, quantize,
};
use leyden_convert::{to_folder, to_sparse_folder};
use leyden_files::TemporaryFolder;
use leyden_kernels::Cpu;
use leyden_models::config_of;
use leyden_tensor::Gguf;

use super::failure::Failure;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::progress::Progress;
use super::{convert, inputs, model_file, run};

pub(crate) use args::Args;
use calibration::Texts;
use report::Report;

/// Sparsity of an encoder above which pruning without training is refused.
const MAX_ENCODER_SPARSITY: f64 = 0.6;
/// Groups of layers that a model is divided into by default.
const GROUPS: usize = 8;
/// Steps of the progress bar for each half of a group: reading texts, and pruning.
const STEPS: usize = 1000;

/// Prunes and writes.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(Some(&args.out), out, &mut err);
    let sparsity = args.checked_sparsity()?;
    let path = model_file::locate(&args.model)?;
    check_output(args, &path)?;
    check_encoder(args, &path, sparsity)?;
    let (stop, start) = (Interrupt::install()?, Instant::now());
    let folder = TemporaryFolder::beside(&args.out).map_err(|error| {
        Failure::new(format!("{}: cannot create a folder beside it: {error}", args.out.display()))
    })?;
    let dense = match path.is_dir() {
        true => {
            let file = folder.path().join("dense.gguf");
            convert::folder(&path, &file, None, &stop)?;
            file
        }
        false => path.clone(),
    };
    let options = PruneOptions { method: args.method, structure: args.pattern, sparsity };
    let mut job = Job { args, options, stop: &stop, folder: &folder, texts: None };
    let mut plan = PrunePlan::new(&Gguf::open(&dense)?, &options)?;
    if args.by_sensitivity() {
        job.allocate(&dense, &mut plan)?;
    }
    let (file, matrices) = job.prune(&dense, &plan)?;
    job.finish(&file)?;
    let tokens = job.texts.as_ref().map_or(0, Texts::tokens);
    let report =
        Report { args, sparsity, plan: &plan, matrices: &matrices, tokens, seconds: start.elapsed() };
    report.write(out)
}

/// Fails if the output cannot be written, or is an input.
fn check_output(args: &Args, path: &Path) -> Result<(), Failure> {
    if args.writes_gguf() {
        inputs::can_be_written(&args.out)?;
    } else if args.out.symlink_metadata().is_ok() {
        let out = args.out.display();
        return Err(Failure::new(format!("{out}: is there already"))
            .hint("name another folder, or remove it; a name that ends in .gguf makes a file"));
    }
    let files = inputs::of_model(path);
    inputs::none_is(&args.out, files.iter().map(PathBuf::as_path).chain(args.calibration.as_deref()))
}

/// Refuses sparsities at which encoders are known to fail without training.
fn check_encoder(args: &Args, path: &Path, sparsity: f64) -> Result<(), Failure> {
    let source = ModelFile::open(path)?.into_source()?;
    let config = config_of(source.as_ref()).map_err(leyden::Error::from)?;
    if config.generates() || sparsity <= MAX_ENCODER_SPARSITY || args.i_know {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--sparsity {sparsity}: an encoder that is pruned beyond 60 % without training loses its accuracy: BERT-base has an F1 of \
         57 at 80 % on SQuAD and 15 at 90 %, where the dense model has 88.5"
    ))
    .hint("train it with zeros instead, as docs/prune.md says; --i-know prunes it all the same"))
}

/// The run of a command.
struct Job<'a> {
    args: &'a Args,
    options: PruneOptions,
    stop: &'a Interrupt,
    folder: &'a TemporaryFolder,
    /// Calibration texts, once a model has tokenized them.
    texts: Option<Texts>,
}

impl Job<'_> {
    /// Loads a model, and tokenizes the calibration text the first time. Returns `None` without a calibration text.
    fn load(&mut self, path: &Path) -> Result<Option<Model>, Failure> {
        let Some(text) = &self.args.calibration else { return Ok(None) };
        let options = LoadOptions::new().threads(self.args.threads);
        let model = run::load(path, &options, Notes::silent())?;
        if self.texts.is_none() {
            self.texts = Some(Texts::read(self.args, text, &model)?);
        }
        Ok(Some(model))
    }

    /// Sets the sparsity of each layer by the outliers of its inputs.
    fn allocate(&mut self, dense: &Path, plan: &mut PrunePlan) -> Result<(), Failure> {
        let model = self.load(dense)?;
        let (Some(model), Some(texts)) = (model, &self.texts) else { return Ok(()) };
        let bar = Progress::new("sensitivity {wide_bar} {percent} % {eta} left");
        let sums = texts
            .squares(&model, &mut |share| bar.step((share * STEPS as f64) as usize, 2 * STEPS, self.stop))?;
        let of = |name: &str| sums.iter().find(|(own, _)| *own == name).map(|(_, sums)| sums.squares.clone());
        let source = Gguf::open(dense)?;
        plan.allocate(&source, &of, &mut |done, all| {
            bar.step(STEPS + STEPS * done / all.max(1), 2 * STEPS, self.stop)
        })?;
        Ok(())
    }

    /// Prunes all layers, group by group. Returns the last file that was written, and the results.
    fn prune(&mut self, dense: &Path, plan: &PrunePlan) -> Result<(PathBuf, Vec<PrunedMatrix>), Failure> {
        let memory = usize::try_from(self.args.memory).unwrap_or(usize::MAX);
        let most = self.args.layers.unwrap_or(plan.layers().div_ceil(GROUPS));
        let groups = match self.args.calibration {
            Some(_) => plan.groups(most, memory),
            // Nothing that a layer's zeros change is measured.
            None => std::iter::once(0..plan.layers()).collect(),
        };
        let cpu =
            self.args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let tier = Cpu::default_tier().map_err(Failure::usage)?;
        let cpu = Cpu::new(tier, cpu.max(1)).map_err(|error| Failure::new(error.to_string()))?;
        let bar = Progress::new("{msg} {wide_bar} {percent} % {eta} left");
        let all_steps = 2 * STEPS * groups.len();
        let (mut file, mut results) = (dense.to_owned(), Vec::new());
        for (i, layers) in groups.iter().enumerate() {
            let matrices: Vec<&Prunable> =
                plan.matrices.iter().filter(|matrix| layers.contains(&matrix.layer)).collect();
            let names: Vec<String> = matrices.iter().map(|matrix| matrix.name.clone()).collect();
            let at = 2 * STEPS * i;
            bar.message(&format!("layers {} to {}", layers.start, layers.end.saturating_sub(1)));
            let mut inputs = PruneInputs::new();
            if let Some(model) = self.load(&file)?
                && let Some(texts) = &self.texts
            {
                inputs = texts.inputs(&model, &names, &mut |share| {
                    bar.step(at + (share * STEPS as f64) as usize, all_steps, self.stop)
                })?;
            }
            let is_last = i + 1 == groups.len();
            let to = match is_last && self.args.writes_gguf() && !self.args.int8 {
                true => self.args.out.clone(),
                false => self.folder.path().join(format!("pruned-{i}.gguf")),
            };
            let source = Gguf::open(&file)?;
            let task = (&matrices[..], &self.options);
            results.extend(prune(&cpu, &source, task, &mut inputs, &to, &mut |p| {
                let done = STEPS as f64 * p.done as f64 / p.all.max(1) as f64;
                bar.step(at + STEPS + done as usize, all_steps, self.stop)
            })?);
            drop(source);
            // The file of the group before, which is never the input.
            if file.starts_with(self.folder.path()) {
                let _ = std::fs::remove_file(&file);
            }
            file = to;
        }
        Ok((file, results))
    }

    /// Writes the output from the last file, unless it is that file.
    fn finish(&self, file: &Path) -> Result<(), Failure> {
        let bar = Progress::new("writing {wide_bar} {percent} % {eta} left");
        if self.args.writes_gguf() {
            let Some(target) = Target::from_name("INT8").filter(|_| self.args.int8) else { return Ok(()) };
            let source = Gguf::open(file)?;
            let mut options = Options::new(target);
            options.threads = self.args.threads.unwrap_or(0);
            let plan = Plan::new(&source, &options)?;
            quantize(&source, &plan, &options, &self.args.out, &mut |p| bar.step(p.done, p.all, self.stop))?;
            return Ok(());
        }
        let mut watch = |done, all| bar.step(done, all, self.stop);
        match self.args.sparse {
            Some(values) => to_sparse_folder(file, &self.args.out, values, &mut watch),
            None => to_folder(file, &self.args.out, None, &mut watch),
        }
        .map_err(convert::failure)?;
        Ok(())
    }
}
