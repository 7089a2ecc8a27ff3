//! The measured model and its sizes.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_kernels::attention::KvType;
use leyden_kernels::gemm::act_format_of;
use leyden_kernels::memory::Pages;
use leyden_kernels::placement::{PlacementRequest, placement};
use leyden_kernels::topology::Topology;
use leyden_kernels::{ActFormat, Cpu, Meter, Tier};
use leyden_models::Network;
use leyden_tensor::DType;

use super::args::Args;
use super::test_case::Test;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::notes::Notes;
use crate::cli::{model_file, packs};
use leyden::{LoadOptions, Model, PackCache};

/// Network, and the CPUs of each replica.
type Team = (Arc<dyn Network>, Vec<Arc<Cpu>>);

/// Loads the model for a placement, with a progress bar.
fn load(origin: &Origin, request: &PlacementRequest) -> Result<Model, Failure> {
    let PlacementRequest { replicas, threads, threads_batch } = *request;
    let packs = origin.packs.clone();
    let Arithmetic { isa, exact, int8 } = origin.arithmetic;
    let options = LoadOptions::new().threads(threads).threads_batch(threads_batch);
    let options = options.isa(isa).exact(exact).int8(int8).replicas(replicas).packs(packs);
    let bar = loading();
    let mut progress = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let model = match &origin.path {
        Some(path) => Model::open_with(path, &options, &mut progress)?,
        None => Model::embedded(&options)?,
    };
    bar.finish_and_clear();
    packs::report(&model, Notes::default());
    Ok(model)
}

/// Returns a progress bar for the loading of weights.
fn loading() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("loading {wide_bar} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    bar
}

impl Placed {
    fn new(model: &Model, pages: Pages) -> Placed {
        let unplaced = model.unplaced().map(str::to_owned);
        Placed { pages, network: Arc::clone(model.network()), unplaced }
    }
}

/// Loaded model and its sizes.
pub(super) struct Loaded {
    /// Path of the file.
    pub(super) file: String,
    /// Architecture and most common weight type.
    pub(super) kind: String,
    /// Bytes of all weights in the file.
    pub(super) bytes: u64,
    /// Number of weights.
    pub(super) parameters: u64,
    /// Activation format of most weights.
    pub(super) grid: ActFormat,
    pub(super) tier: Tier,
    topology: Topology,
    origin: Origin,
    placed: RefCell<Option<Placed>>,
}

/// Arguments to open the model.
struct Origin {
    path: Option<PathBuf>,
    arithmetic: Arithmetic,
    packs: PackCache,
}

/// Weights and their placement.
struct Placed {
    pages: Pages,
    network: Arc<dyn Network>,
    unplaced: Option<String>,
}

/// Threads of each replica of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Threads {
    pub(super) generate: usize,
    pub(super) prompt: usize,
}

impl Loaded {
    /// Opens and packs the model, with the weights placed as for the first test.
    pub(super) fn open(args: &Args, topology: Topology, tests: &[Test]) -> Result<Loaded, Failure> {
        let path = args.model().map(|model| model_file::locate(model)).transpose()?;
        let origin = Origin { path, arithmetic: args.arithmetic, packs: args.packs.cache() };
        let request = tests.first().map(Test::request).unwrap_or_default();
        let model = load(&origin, &request)?;
        Ok(Loaded::new(&model, placement(&topology, &request).weights, topology, origin))
    }

    fn new(model: &Model, pages: Pages, topology: Topology, origin: Origin) -> Loaded {
        let weights = model.weights();
        let info = weights.tensor_info();
        let mut by_type: Vec<(DType, u64)> = Vec::new();
        let (mut bytes, mut parameters) = (0, 0);
        for t in info {
            let count = t.shape.iter().map(|n| *n as u64).product::<u64>();
            bytes += t.bytes as u64;
            parameters += count;
            let Some(found) = t.dtype else { continue };
            match by_type.iter_mut().find(|(dtype, _)| *dtype == found) {
                Some((_, n)) => *n += count,
                None => by_type.push((found, count)),
            }
        }
        by_type.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let dtype = by_type.first().map_or(DType::F32, |(dtype, _)| *dtype);
        Loaded {
            file: weights.path().display().to_string(),
            kind: format!("{} {dtype}", model.config().architecture),
            bytes,
            parameters,
            grid: act_format_of(dtype, origin.arithmetic.exact).unwrap_or(ActFormat::F32),
            tier: model.cpu().tier(),
            topology,
            origin,
            placed: RefCell::new(Some(Placed::new(model, pages))),
        }
    }

    /// Returns the weights, placed as for a test, and the CPUs of its replicas.
    pub(super) fn team(&self, test: &Test) -> Result<Team, Failure> {
        let request = test.request();
        let placement = placement(&self.topology, &request);
        let mut placed = self.placed.borrow_mut();
        let network = match &*placed {
            Some(have) if have.pages == placement.weights => Arc::clone(&have.network),
            _ => {
                // The old copy is dropped first, because two may not fit.
                *placed = None;
                let model = load(&self.origin, &request)?;
                let new = placed.insert(Placed::new(&model, placement.weights.clone()));
                Arc::clone(&new.network)
            }
        };
        let cpu = |replica| Cpu::placed(self.tier, replica, &Pages::AsTouched).map(Arc::new);
        let cpus = placement.replicas.iter().map(cpu).collect::<Result<_, _>>();
        Ok((network, cpus.map_err(|error| Failure::new(format!("cannot start threads: {error}")))?))
    }

    /// Returns the bytes of weights that a step of `tokens` tokens reads.
    pub(super) fn step_bytes(&self, tokens: usize) -> Option<usize> {
        let placed = self.placed.borrow();
        Some(placed.as_ref()?.network.step_bytes(tokens))
    }

    /// Returns the multiplications by weights in a step of `tokens` tokens with logits for `outputs` of them.
    pub(super) fn step_macs(&self, tokens: usize, outputs: usize) -> Option<u64> {
        let placed = self.placed.borrow();
        Some(placed.as_ref()?.network.step_macs(tokens, outputs))
    }

    /// Returns the bytes of keys and values of one token.
    pub(super) fn kv_token_bytes(&self, kv_type: KvType) -> Option<usize> {
        let placed = self.placed.borrow();
        Some(placed.as_ref()?.network.kv_shape(kv_type).ok()?.token_bytes())
    }

    /// Returns the note about weights that the operating system did not place, if any.
    pub(super) fn unplaced(&self) -> Option<String> {
        self.placed.borrow().as_ref()?.unplaced.clone()
    }

    /// Returns the threads of each replica of a test.
    pub(super) fn threads(&self, test: &Test) -> Threads {
        let placement = placement(&self.topology, &test.request());
        let first = placement.replicas.first();
        first.map_or(Threads { generate: 1, prompt: 1 }, |r| Threads {
            generate: r.threads,
            prompt: r.threads_batch,
        })
    }

    /// Returns a meter of the machine's limits, with the largest number of threads of the tests.
    pub(super) fn meter(&self, tests: &[Test]) -> Result<Meter, Failure> {
        let all = |test: &Test| {
            let threads = self.threads(test);
            test.replicas * threads.generate.max(threads.prompt)
        };
        let cores = placement(&self.topology, &PlacementRequest::default()).replicas[0].threads;
        let most = tests.iter().map(all).max().unwrap_or(1);
        // More threads than cores do not compute more, unless a single team is requested to have them.
        let threads = most.min(cores.max(tests.iter().filter_map(|t| t.threads).max().unwrap_or(1)));
        let cpu = Cpu::new(self.tier, threads)
            .map_err(|error| Failure::new(format!("cannot start {threads} threads: {error}")))?;
        Meter::new(cpu).map_err(Failure::new)
    }

    /// Returns the file name without its folder.
    pub(super) fn name(&self) -> String {
        Path::new(&self.file).file_name().map_or(self.file.clone(), |n| n.to_string_lossy().into_owned())
    }
}
