//! Preparation of models for the server: memory plan, options, description.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leyden::{Adapter, GenerateOptions, LoadOptions, Model, ModelFile, Pooling};
use leyden_engine::MAX_STATE_DRAFTS;
use leyden_kernels::attention::BLOCK_TOKENS;
use leyden_models::ModelConfig;
use leyden_server::{
    Abilities, About, Defaults, MemoryPlan, ModelInfo, Need, OnDemand, ServedAdapter, WorkerOptions,
    plan_memories,
};
use leyden_speech::Whisper;
use leyden_tensor::WeightSource;

use super::args::Args;
use super::directory;
use super::evidence::Required;
use super::settings::Settings;
use super::speech;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::growth;
use crate::cli::lora::{self, Named};
use crate::cli::notes::Notes;
use crate::cli::text;

/// Settings common to all models.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) options: LoadOptions,
    pub(super) threads: Option<usize>,
    pub(super) arithmetic: Arithmetic,
    pub(super) queue: usize,
    pub(super) queue_per_key: usize,
    pub(super) prompt_stall: Duration,
    pub(super) notes: Notes,
    /// Evidence that every model must have.
    pub(super) evidence: Option<Arc<Required>>,
}

impl Common {
    pub(super) fn of(args: &Args) -> Result<Common, Failure> {
        let queue = args.queue as usize;
        Ok(Common {
            evidence: Required::of(args)?.map(Arc::new),
            options: load_options(args),
            threads: args.threads,
            arithmetic: args.arithmetic,
            queue,
            // A key can take half of the queue.
            queue_per_key: if args.api_keys.is_some() || !args.api_key.is_empty() {
                queue.div_ceil(2)
            } else {
                queue
            },
            prompt_stall: Duration::from_millis(args.prompt_stall),
            notes: args.notes,
        })
    }
}

/// Returns the load options of all models.
fn load_options(args: &Args) -> LoadOptions {
    LoadOptions::new()
        .threads(args.threads)
        .threads_batch(args.threads_batch)
        .isa(args.arithmetic.isa)
        .exact(args.arithmetic.exact)
        .int8(args.arithmetic.int8)
        .packs(args.packs.cache())
        .replicas(args.replicas)
}

/// Returns the load options of a model with these settings.
pub(super) fn options(common: &Common, settings: &Settings) -> LoadOptions {
    let options = common.options.clone().draft(settings.draft.clone());
    settings.lora.iter().fold(options, |options, lora| options.lora(&lora.path, lora.scale))
}

/// Returns the memory that a model needs besides its weights.
pub(super) fn need(settings: &Settings, model: &Model, name: &str) -> Result<Need, Failure> {
    let config = model.config();
    if let Some(ctx) = settings.context
        && ctx > config.context
    {
        let made_for = config.context;
        return Err(Failure::usage(format!(
            "--ctx {ctx}: the maximum context of {name} is {made_for} tokens"
        )));
    }
    let (parallel, step) = (settings.parallel(), step_tokens(settings, config, config.context));
    let shape = model.network().kv_shape(settings.kv_type).map_err(leyden::Error::from)?;
    // Draft tokens keep copies of recurrent states.
    let states = parallel + if settings.speculate { MAX_STATE_DRAFTS } else { 0 };
    let workspace = model.network().workspace_bytes(step, parallel) + states * shape.state_bytes();
    // A draft model has a cache of as many tokens.
    let (mut token_bytes, mut workspace) = (shape.token_bytes(), workspace);
    if let Some(draft) = model.draft() {
        token_bytes += draft.kv_shape(settings.kv_type).map_err(leyden::Error::from)?.token_bytes();
        workspace += draft.workspace_bytes(step, parallel);
    }
    Ok(Need {
        token_bytes: token_bytes as u64,
        workspace_bytes: workspace as u64,
        state_bytes: shape.state_bytes() as u64,
        state_cache: settings.state_cache,
        model_context: config.context,
        context: settings.context,
        parallel,
        kv_tokens: settings.kv_tokens,
    })
}

/// Returns the maximum number of tokens in a step: at least `context` for models that compute a text in one step.
fn step_tokens(settings: &Settings, config: &ModelConfig, context: usize) -> usize {
    let asked = settings.step_tokens;
    if config.needs_whole_texts() { asked.max(context) } else { asked }
}

/// Returns a model with its memory plan, ready for the server.
pub(super) fn ready(
    common: &Common,
    settings: &Settings,
    model: &Model,
    name: String,
    plan: &MemoryPlan,
) -> Result<leyden_server::Model, String> {
    if plan.shortened {
        common.notes.say(&format!(
            "{name}: context reduced to {} tokens from {}: the KV cache has no room for more",
            plan.context,
            model.config().context
        ));
    }
    if !model.has_chat_template() && model.config().generates() {
        common
            .notes
            .say(&format!("{name} has no chat template: the contents of messages are joined and continued"));
    }
    let calibrated =
        settings.calibration.ready(model).map_err(|what| format!("{name}: calibration: {what}"))?;
    Ok(leyden_server::Model {
        calibrated,
        aliases: settings.aliases.clone(),
        network: Arc::clone(model.network()),
        draft: model.draft().cloned(),
        cpus: model.replicas().to_vec(),
        adapters: adapters(settings, model),
        tokenizer: model.shared_tokenizer(),
        template: model.chat_template().cloned(),
        special_in_content: settings.special_in_content,
        bare_calls: settings.bare_calls,
        sampling: settings.sampling.clone(),
        defaults: defaults(model.weights().path())?,
        sequence_breakers: GenerateOptions::default().sequence_breakers,
        pooling: settings.pooling.or(model.pooling()).unwrap_or_default(),
        prompts: model.prompts().clone(),
        worker: WorkerOptions {
            kv_type: settings.kv_type,
            context: plan.context,
            kv_tokens: plan.kv_tokens,
            state_cache: usize::try_from(plan.state_cache).unwrap_or(usize::MAX),
            step_tokens: step_tokens(settings, model.config(), plan.context),
            parallel: settings.parallel(),
            queue: common.queue,
            queue_per_key: common.queue_per_key,
            prompt_stall: common.prompt_stall,
            speculate: settings.speculate,
            promise: settings.promise,
            panic_token: None,
        },
        info: info(model.weights()),
        name,
    })
}

/// Returns the defaults of requests to a model; only models named by the user have some.
fn defaults(path: &Path) -> Result<Defaults, String> {
    let Some(named) = directory::named(path) else { return Ok(Defaults::default()) };
    let leyden_hub::Defaults { system, messages, parameters } = named.defaults;
    let read = Defaults::read(system, &messages, &parameters.into());
    read.map(|(defaults, _)| defaults).map_err(|what| format!("{}: {what}", named.name))
}

/// Describes a model from its files, without its weights.
fn about(path: &Path, pooling: Option<Pooling>) -> Result<About, String> {
    let read = || -> Result<About, Failure> {
        let file = ModelFile::open(path)?;
        let tokenizer = file.tokenizer()?;
        let template = file.chat_template(tokenizer.as_ref())?;
        let source = file.into_source()?;
        let config = leyden_models::config_of(source.as_ref()).map_err(leyden::Error::from)?;
        let table = source.optional("token_embd.weight").map_err(leyden::Error::from)?;
        let vocabulary = table.map_or_else(|| tokenizer.vocab_size(), |table| table.rows());
        let of_file = Pooling::of_metadata(source.metadata()).map_err(leyden::Error::from)?;
        let pooling = pooling.or(of_file).unwrap_or_default();
        Ok(About::new(&config, pooling, tokenizer.as_ref(), template.as_ref(), vocabulary))
    };
    let about = read().map_err(|failure| failure.to_string())?;
    Ok(about.with_defaults(defaults(path)?))
}

/// Returns the model's adapters, in the order in which they were loaded.
fn adapters(settings: &Settings, model: &Model) -> Vec<ServedAdapter> {
    let served = |(lora, adapter): (&Named, &Arc<Adapter>)| ServedAdapter {
        name: lora.name.clone(),
        path: lora.path.display().to_string(),
        scale: lora.scale,
        adapter: Arc::clone(adapter),
        digest: directory::fingerprint_of(files_of(&lora.path)),
    };
    settings.lora.iter().zip(model.adapters()).map(served).collect()
}

/// Returns the files of an adapter: its file, or the files of its folder.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![path.to_owned()] };
    let files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files
}

/// Minimum size of the KV cache in tokens for a model loaded on demand, unless its context is shorter.
const MIN_TOKENS: usize = 2048;
/// Share of a model's memory beside its weights for its cache and workspace.
const FILLED: f64 = 0.9;

/// Model that is not loaded.
struct Known {
    config: ModelConfig,
    info: ModelInfo,
    /// Bytes of the weights in memory.
    weight_bytes: u64,
    /// Largest dimension of any tensor.
    longest: usize,
}

impl Known {
    /// Reads the description of a model file or folder.
    fn of(path: &Path) -> Result<Known, Failure> {
        let file = ModelFile::open(path)?;
        let weight_bytes = growth::memory_bytes(&file);
        let source = file.into_source()?;
        let config = leyden_models::config_of(source.as_ref()).map_err(leyden::Error::from)?;
        let sides = source.tensor_info().iter().flat_map(|tensor| tensor.shape.iter().copied());
        let longest = sides.max().unwrap_or_default();
        Ok(Known { config, info: info(source.as_ref()), weight_bytes, longest })
    }

    /// Returns the minimum memory of the model in bytes: weights, adapters, workspace and the smallest cache.
    fn least_bytes(&self, settings: &Settings, path: &Path) -> Result<u64, Failure> {
        let config = &self.config;
        let shown = path.display().to_string();
        let shape = config.kv_shape(&shown, settings.kv_type).map_err(leyden::Error::from)?;
        let context = settings.context.unwrap_or(config.context);
        let tokens = settings.kv_tokens.unwrap_or(context.min(MIN_TOKENS)).next_multiple_of(BLOCK_TOKENS);
        // For a model with logits, the largest dimension is that of the vocabulary.
        let logits = if config.generates() { settings.parallel() * self.longest } else { 0 };
        // The minimum is two checkpoints of states, unless --state-cache says otherwise.
        let state = shape.state_bytes();
        let asked = settings.state_cache.filter(|_| state > 0);
        let checkpoints = asked.map_or(2 * state, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let workspace = config
            .workspace_bytes(step_tokens(settings, config, config.context), logits)
            .saturating_add(settings.parallel() * state)
            .saturating_add(checkpoints);
        let of_adapters = settings.lora.iter().map(|lora| lora::memory_bytes(&lora.path));
        let of_adapters: u64 = of_adapters.sum::<Result<u64, String>>().map_err(Failure::new)?;
        let filled = ((shape.token_bytes() * tokens).saturating_add(workspace) as f64 / FILLED) as u64;
        Ok(self.weight_bytes.saturating_add(of_adapters).saturating_add(filled).saturating_add(1 << 20))
    }
}

/// Returns a model that is loaded when a request names it. Its file is checked now.
pub(super) fn on_demand(
    common: &Common,
    settings: Settings,
    name: String,
    path: PathBuf,
) -> Result<OnDemand, Failure> {
    if Whisper::is_at(&path) {
        if common.evidence.is_some() {
            let what = format!("{name}: --require-evidence: evidence of speech recognisers is not supported");
            return Err(Failure::usage(what));
        }
        return speech::on_demand((common.threads, common.arithmetic), settings, name, path);
    }
    if let Some(required) = &common.evidence {
        required.look(&path, &settings)?;
    }
    settings.calibration.look().map_err(|what| Failure::new(format!("{name}: calibration: {what}")))?;
    let known = Known::of(&path)?;
    let of_draft = |draft: &PathBuf| Known::of(draft)?.least_bytes(&settings, draft);
    let draft_bytes = settings.draft.as_ref().map_or(Ok(0), of_draft)?;
    let made_for = known.config.context;
    if let Some(ctx) = settings.context.filter(|ctx| *ctx > made_for) {
        return Err(Failure::usage(format!("ctx {ctx}: the maximum context of {name} is {made_for} tokens")));
    }
    let least_bytes = known.least_bytes(&settings, &path)?.saturating_add(draft_bytes);
    let (common, of_load) = (common.clone(), settings.clone());
    let (called, place) = (name.clone(), path.clone());
    let load = move |available: Option<u64>| {
        let failed = |failure: Failure| failure.to_string();
        // The file may have been replaced: its needs are compared with the memory again before its weights are read.
        let needed = Known::of(&path).and_then(|known| known.least_bytes(&of_load, &path)).map_err(failed)?;
        let needed = needed.saturating_add(draft_bytes);
        if let Some(available) = available.filter(|available| needed > *available) {
            let (needed, available) = (text::bytes(needed), text::bytes(available));
            return Err(format!("{}: it takes {needed} by now, and has {available}", path.display()));
        }
        if let Some(required) = &common.evidence {
            required.check(&path, &of_load).map_err(failed)?;
        }
        let options = options(&common, &of_load);
        let model = Model::open(&path, &options).map_err(|error| error.to_string())?;
        let need = need(&of_load, &model, &called).map_err(failed)?;
        let needs = vec![need; model.replicas().len()];
        let adapters: usize = model.adapters().iter().map(|adapter| adapter.bytes()).sum();
        let of_draft = model.draft().map_or(0, |draft| draft.weight_bytes());
        let taken = (model.network().weight_bytes() + of_draft + adapters) as u64;
        let left = available.map(|bytes| bytes.saturating_sub(taken));
        let plans = plan_memories(&needs, left).map_err(|(_, what)| what)?;
        ready(&common, &of_load, &model, called.clone(), &plans[0]).map(Into::into)
    };
    let described = (place, settings.pooling);
    Ok(OnDemand {
        name,
        adapters: settings.lora.iter().filter_map(|lora| lora.name.clone()).collect(),
        aliases: settings.aliases,
        abilities: Abilities::of(&known.config),
        info: known.info,
        context: settings.context.unwrap_or(made_for),
        least_bytes,
        idle: settings.idle,
        preload: settings.preload,
        describe: Arc::new(move || about(&described.0, described.1)),
        load: Arc::new(load),
    })
}

/// Returns the published facts about a model.
fn info(weights: &dyn WeightSource) -> ModelInfo {
    let (mut parameters, mut types) = (0, HashMap::<&str, usize>::new());
    for tensor in weights.tensor_info() {
        parameters += tensor.shape.iter().product::<usize>() as u64;
        *types.entry(tensor.type_name).or_default() += tensor.bytes;
    }
    let bytes = types.values().sum::<usize>() as u64;
    let most = types.into_iter().max_by_key(|(name, bytes)| (*bytes, *name)).map_or("", |(name, _)| name);
    let config = weights.config_json();
    let architecture = match config {
        Some(config) => config.opt_str("model_type").ok().flatten(),
        None => weights.metadata().opt_str("general.architecture").ok().flatten(),
    };
    let files = weights.file_metadata().unwrap_or_default();
    let ending =
        weights.paths().first().and_then(|path| path.extension().map(|e| e.to_string_lossy().into_owned()));
    ModelInfo {
        architecture: architecture.unwrap_or_default().to_owned(),
        format: match (config, ending.as_deref()) {
            (Some(_), Some("onnx")) => "onnx",
            (Some(_), Some("bin")) => "pytorch",
            (Some(_), _) => "safetensors",
            (None, _) => "gguf",
        }
        .to_owned(),
        weights: most.to_owned(),
        parameters,
        bytes,
        modified: files.iter().find_map(|file| file.modified().ok()).unwrap_or_else(SystemTime::now),
        digest: directory::fingerprint(weights),
    }
}

/// Checks, before the weights are read, that they fit the memory together.
pub(super) fn weights_fit(paths: &[PathBuf], usable: Option<u64>) -> Result<(), Failure> {
    let mut bytes = 0_u64;
    for path in paths.iter().filter(|path| !Whisper::is_at(path)) {
        bytes += growth::memory_bytes(&ModelFile::open(path)?);
    }
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    match usable {
        Some(usable) if bytes > usable => Err(Failure::new(format!(
            "{}: the weights need {}, but only {} of memory are available",
            names.join(", "),
            text::bytes(bytes),
            text::bytes(usable)
        ))
        .hint("use a smaller or quantised model, free memory, or load models in turns with --on-demand")),
        _ => Ok(()),
    }
}
