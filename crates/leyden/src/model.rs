//! [`Model`]: loaded weights, tokenizer and chat template, with the threads that compute.

use crate::batch::Batch;
use crate::chat_format::ChatFormat;
use crate::draft;
use crate::error::Error;
use crate::model_file::{self, ModelFile};
use crate::options::{BatchOptions, SessionOptions};
use crate::service::Service;
use crate::session::{self, Parts, Session};
use leyden_constrain::{Compiled, Grammar, Vocabulary};
use leyden_kernels::gemm::LayoutRule;
use leyden_kernels::placement::{PlacementRequest, Replicas, placement};
use leyden_kernels::topology::Topology;
use leyden_kernels::{Cpu, Level, Tier};
use leyden_models::{
    Adapter, AdapterSet, LoadAs, ModelConfig, Network, PackCache, PackReport, Pooling, Prompts,
};
use leyden_tasks::TaskModel;
use leyden_tensor::{Gguf, Metadata, WeightSource};
use leyden_text::{ChatTemplate, Message, Rendered, Tokenizer};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Embedded model: 4 million parameters, trained on public-domain stories; see `model/README.md`.
static STORYTELLER: &[u8] = include_bytes!("../model/storyteller-q8_0.gguf");

/// Name of the embedded model in place of a path.
pub const EMBEDDED: &str = "<embedded storyteller>";

/// Options of loading a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Number of threads of each replica for decode; by default one per physical core that this process may use.
    pub threads: Option<usize>,
    /// Number of threads of each replica for prefill; by default as many as for decode.
    pub threads_batch: Option<usize>,
    /// Instruction-set tier; by default the best of this machine.
    pub isa: Option<Level>,
    /// True to keep activations in F32 in products with BF16 weights. By default they are rounded to bfloat16, which is
    /// faster on processors with instructions for it.
    pub exact: bool,
    /// Cache of packed weights between starts; by default none.
    pub packs: PackCache,
    /// True to multiply matrices stored as floats in 8-bit integers. Of an encoder they have a scale per output row, or
    /// per 32 values where that loses too much, and attention is computed in 8-bit integers too; of a decoder they have
    /// a scale per 32 values. Matrices that would still lose too much stay in floats.
    pub int8: bool,
    /// Rule for the layouts of encoders' matrices in 8-bit integers; by default the fastest in a measurement. Results do
    /// not depend on it.
    pub int8_layout: Option<LayoutRule>,
    /// Default LoRA adapters, PEFT folders or GGUF files, each with its scale.
    pub lora: Vec<(PathBuf, f32)>,
    /// File or folder of a draft model: a smaller model with the same vocabulary, which drafts tokens of answers. Answers
    /// are the same without it. By default none.
    pub draft: Option<PathBuf>,
    /// Number of replicas: teams of threads that compute at the same time on one copy of the weights; one by default.
    pub replicas: Replicas,
}

impl LoadOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Sets [`threads`](Self::threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> LoadOptions {
        self.threads = threads.into();
        self
    }

    /// Sets [`threads_batch`](Self::threads_batch).
    #[must_use]
    pub fn threads_batch(mut self, threads: impl Into<Option<usize>>) -> LoadOptions {
        self.threads_batch = threads.into();
        self
    }

    /// Sets [`isa`](Self::isa).
    #[must_use]
    pub fn isa(mut self, level: impl Into<Option<Level>>) -> LoadOptions {
        self.isa = level.into();
        self
    }

    /// Sets [`exact`](Self::exact).
    #[must_use]
    pub fn exact(mut self, exact: bool) -> LoadOptions {
        self.exact = exact;
        self
    }

    /// Sets [`int8`](Self::int8).
    #[must_use]
    pub fn int8(mut self, int8: bool) -> LoadOptions {
        self.int8 = int8;
        self
    }

    /// Sets [`int8_layout`](Self::int8_layout).
    #[must_use]
    pub fn int8_layout(mut self, rule: impl Into<Option<LayoutRule>>) -> LoadOptions {
        self.int8_layout = rule.into();
        self
    }

    /// Sets [`packs`](Self::packs).
    #[must_use]
    pub fn packs(mut self, cache: PackCache) -> LoadOptions {
        self.packs = cache;
        self
    }

    /// Adds an adapter to [`lora`](Self::lora).
    #[must_use]
    pub fn lora(mut self, path: impl Into<PathBuf>, scale: f32) -> LoadOptions {
        self.lora.push((path.into(), scale));
        self
    }

    /// Sets [`draft`](Self::draft).
    #[must_use]
    pub fn draft(mut self, path: impl Into<Option<PathBuf>>) -> LoadOptions {
        self.draft = path.into();
        self
    }

    /// Sets [`replicas`](Self::replicas).
    #[must_use]
    pub fn replicas(mut self, replicas: Replicas) -> LoadOptions {
        self.replicas = replicas;
        self
    }
}

/// Loaded model. Sessions and batches share its weights.
pub struct Model {
    network: Arc<dyn Network>,
    /// Processor of each replica.
    cpus: Vec<Arc<Cpu>>,
    unplaced: Option<String>,
    source: Arc<dyn WeightSource>,
    tokenizer: Arc<dyn Tokenizer>,
    /// Vocabulary for grammars, created when the first one is compiled.
    vocabulary: OnceLock<Arc<Vocabulary>>,
    template: Option<Arc<ChatTemplate>>,
    /// Form of its answers, detected when the first conversation with tools or reasoning needs it.
    chat_format: OnceLock<ChatFormat>,
    pooling: Option<Pooling>,
    prompts: Prompts,
    /// Unknown keys of the tokenizer's files.
    unread: Vec<String>,
    /// Adapters that it was opened with, in order, and the set of them with their scales.
    adapters: (Vec<Arc<Adapter>>, AdapterSet),
    draft: Option<Arc<dyn Network>>,
    load_time: Duration,
    packs: PackReport,
    /// The options `int8` and `exact`.
    arithmetic: (bool, bool),
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("path", &self.source.path()).finish_non_exhaustive()
    }
}

impl Model {
    /// Opens a model: a GGUF file, or a folder in the layout of the Hugging Face hub with `config.json`, safetensors
    /// and `tokenizer.json`.
    ///
    /// # Errors
    /// A file cannot be read, is damaged or of an unsupported kind, or memory or threads are short.
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Model, Error> {
        Model::open_with(path, options, &mut |_, _| {})
    }

    /// Opens a model like [`open`](Self::open). `progress` is called with the bytes of weights packed so far, and the
    /// total.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &LoadOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Model, Error> {
        let start = Instant::now();
        Model::load(ModelFile::open(path.as_ref())?, options, start, progress)
    }

    /// Loads a model from the bytes of a GGUF file; `name` stands for the path in errors.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str, options: &LoadOptions) -> Result<Model, Error> {
        let start = Instant::now();
        Model::load(ModelFile::Gguf(Gguf::from_vec(bytes, name)?), options, start, &mut |_, _| {})
    }

    /// Returns the bytes of the GGUF file that [`Model::embedded`] loads.
    #[must_use]
    pub fn embedded_file() -> &'static [u8] {
        STORYTELLER
    }

    /// Loads the model inside this library: a toy that continues old-fashioned stories.
    ///
    /// # Errors
    /// Memory or threads are short.
    pub fn embedded(options: &LoadOptions) -> Result<Model, Error> {
        let start = Instant::now();
        let file = Gguf::from_static(STORYTELLER, EMBEDDED)?;
        Model::load(ModelFile::Gguf(file), options, start, &mut |_, _| {})
    }

    fn load(
        file: ModelFile,
        options: &LoadOptions,
        start: Instant,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Model, Error> {
        let model_file::Parts { source, tokenizer, template, prompts, unread } = file.into_parts()?;
        let pooling = Pooling::of_metadata(source.metadata())?;
        let template = template.map(Arc::new);
        let tier = tier(options)?;
        let (topology, request) = (Topology::detect(), request(options)?);
        let placement = placement(&topology, &request);
        let placed =
            |replica| Cpu::placed(tier, replica, &placement.weights).map(|c| c.with_exact(options.exact));
        let place = |replica| Ok(Arc::new(placed(replica)?));
        let cpus: Vec<Arc<Cpu>> = placement.replicas.iter().map(place).collect::<Result<_, Error>>()?;
        let layout = match options.int8_layout {
            Some(rule) => rule,
            None => LayoutRule::default_rule().map_err(|what| Error::Option { name: "int8_layout", what })?,
        };
        let load_as = LoadAs { packs: options.packs.clone(), int8: options.int8, layout };
        let ((network, packs), unplaced) = if let [cpu] = &cpus[..] {
            let loaded = leyden_models::load_as(Arc::clone(&source), cpu, &load_as, progress)?;
            (loaded, cpu.unplaced())
        } else {
            // No replica can start before the weights are packed, so all cores pack them.
            let whole = leyden_kernels::placement::placement(&topology, &PlacementRequest::default());
            let loader = placed(&whole.replicas[0])?;
            let loaded = leyden_models::load_as(Arc::clone(&source), &loader, &load_as, progress)?;
            (loaded, loader.unplaced().or_else(|| cpus.iter().find_map(|cpu| cpu.unplaced())))
        };
        let adapter =
            |(path, scale): &(PathBuf, f32)| Ok((Arc::new(network.adapter(&cpus[0], path)?), *scale));
        let adapters =
            options.lora.iter().map(adapter).collect::<Result<Vec<(Arc<Adapter>, f32)>, Error>>()?;
        let all = adapters.iter().map(|(adapter, _)| Arc::clone(adapter)).collect();
        let adapters = (all, AdapterSet::new(adapters)?);
        let target = (tokenizer.as_ref(), network.as_ref());
        let draft = |path: &PathBuf| draft::load(path, target, &cpus[0], &load_as, progress);
        let draft = options.draft.as_ref().map(draft).transpose()?;
        let load_time = start.elapsed();
        let vocabulary = OnceLock::new();
        Ok(Model {
            network,
            cpus,
            unplaced,
            source,
            tokenizer,
            vocabulary,
            template,
            chat_format: OnceLock::new(),
            pooling,
            prompts,
            unread,
            adapters,
            draft,
            load_time,
            packs,
            arithmetic: (options.int8, options.exact),
        })
    }

    /// Opens a session: one conversation or one text.
    ///
    /// # Errors
    /// An option is out of range, or memory is short.
    pub fn session(&self, options: &SessionOptions) -> Result<Session, Error> {
        self.session_on(0, options)
    }

    /// Opens a session on a replica, given by its index. Sessions of different replicas compute at the same time, each
    /// in the thread that calls it; sessions of one replica take turns. Results do not depend on the replica.
    ///
    /// # Errors
    /// There is no such replica, an option is out of range, or memory is short.
    pub fn session_on(&self, replica: usize, options: &SessionOptions) -> Result<Session, Error> {
        Session::new(self.parts(replica)?, options)
    }

    /// Returns a [`Batch`], an engine for many texts at once.
    ///
    /// # Errors
    /// An option is out of range, or memory is short.
    pub fn batch(&self, options: &BatchOptions) -> Result<Batch, Error> {
        let pooling = options.pooling.or(self.pooling).unwrap_or_default();
        Batch::new(self.parts(options.replica)?, pooling, options)
    }

    /// Returns a [`Service`], an engine on a thread of its own for requests that arrive at any time.
    ///
    /// # Errors
    /// The model is an encoder, an option is out of range, or memory or threads are short.
    pub fn service(&self, options: &BatchOptions) -> Result<Service, Error> {
        if !self.config().generates() {
            return Err(Error::NotGenerative { file: self.metadata().file().to_owned() });
        }
        let batch = self.batch(options)?;
        let context = options.context.unwrap_or(self.config().context);
        Service::start(batch.into_worker(), context)
    }

    /// Returns the parts of the model for a session or batch on a replica.
    fn parts(&self, replica: usize) -> Result<Parts, Error> {
        let Some(cpu) = self.cpus.get(replica) else {
            let what = format!("there is no replica {replica}, only 0 to {}", self.cpus.len() - 1);
            return Err(Error::Option { name: "replica", what });
        };
        Ok(Parts {
            network: Arc::clone(&self.network),
            cpu: Arc::clone(cpu),
            tokenizer: Arc::clone(&self.tokenizer),
            template: self.template.clone(),
            file: self.metadata().file().to_owned(),
            adapters: self.adapters.1.clone(),
            draft: self.draft.clone(),
        })
    }

    /// Reads a LoRA adapter for this model from a PEFT folder or a GGUF file. The model's weights do not change; an
    /// answer is computed with the adapters in [`GenerateOptions::adapters`](crate::GenerateOptions::adapters).
    ///
    /// # Errors
    /// A file cannot be read or is damaged, the adapter is of an unsupported kind or does not fit the model, or memory
    /// is short.
    ///
    /// ```no_run
    /// use leyden::{AdapterSet, GenerateOptions, LoadOptions, Model};
    ///
    /// let model = Model::open("llama-3.2-1b.gguf", &LoadOptions::new())?;
    /// let adapter = model.adapter("my-adapter")?;
    /// let options = GenerateOptions::new().adapters(AdapterSet::new([(adapter, 1.0)])?);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn adapter(&self, path: impl AsRef<Path>) -> Result<Arc<Adapter>, Error> {
        Ok(Arc::new(self.network.adapter(&self.cpus[0], path.as_ref())?))
    }

    /// Returns the draft model, if it was opened with one.
    #[must_use]
    pub fn draft(&self) -> Option<&Arc<dyn Network>> {
        self.draft.as_ref()
    }

    /// Returns the adapters that the model was opened with, in the order of [`LoadOptions::lora`].
    #[must_use]
    pub fn adapters(&self) -> &[Arc<Adapter>] {
        &self.adapters.0
    }

    /// Returns these adapters with their scales, the default of answers.
    #[must_use]
    pub fn adapter_set(&self) -> &AdapterSet {
        &self.adapters.1
    }

    /// Compiles a schema or grammar for answers of this model.
    ///
    /// The first call also prepares the vocabulary, which takes about half a second for 128,000 tokens; a compilation
    /// takes about a millisecond.
    ///
    /// # Errors
    /// The grammar is refused, or the vocabulary cannot be used.
    ///
    /// ```
    /// use leyden::{GenerateOptions, Grammar, LoadOptions, Model, SessionOptions};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let compiled = model.compile(&Grammar::regex("(yes|no)")?)?;
    /// let options = GenerateOptions::new().follow(&compiled);
    /// let prompt = model.tokenize("Was it so?")?;
    /// let mut session = model.session(&SessionOptions::default())?;
    /// let answer = session.generate(&prompt, &options, &mut |_| std::ops::ControlFlow::Continue(()))?;
    /// assert!(answer.text == "yes" || answer.text == "no");
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn compile(&self, grammar: &Grammar) -> Result<Compiled, Error> {
        let vocabulary = match self.vocabulary.get() {
            Some(vocabulary) => vocabulary,
            None => {
                let made = Vocabulary::new(self.tokenizer.as_ref())?;
                self.vocabulary.get_or_init(|| made)
            }
        };
        Ok(vocabulary.compile(grammar)?)
    }

    /// Returns the tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &dyn Tokenizer {
        self.tokenizer.as_ref()
    }

    /// Returns a shared reference to the tokenizer.
    #[must_use]
    pub fn shared_tokenizer(&self) -> Arc<dyn Tokenizer> {
        Arc::clone(&self.tokenizer)
    }

    /// Returns the form of the model's answers.
    pub(crate) fn chat_format(&self) -> &ChatFormat {
        self.chat_format.get_or_init(|| ChatFormat::detect(self.template.as_deref(), self.tokenizer()))
    }

    /// Returns the chat template, if the model has one.
    #[must_use]
    pub fn chat_template(&self) -> Option<&Arc<ChatTemplate>> {
        self.template.as_ref()
    }

    /// Tokenizes a plain text, with the token that the model expects at the beginning.
    ///
    /// # Errors
    /// The text cannot be tokenized.
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(leyden_text::encode_prompt(self.tokenizer.as_ref(), text)?)
    }

    /// Tokenizes a conversation whose next message is the assistant's, rendered with the chat template, or joined if
    /// there is none. Special tokens spelled out in messages stay text.
    ///
    /// # Errors
    /// The template refuses the conversation, or the text cannot be tokenized.
    pub fn tokenize_chat(&self, messages: &[Message]) -> Result<Vec<u32>, Error> {
        self.tokenize_rendered(&self.render_chat(messages)?)
    }

    /// Renders a conversation whose next message is the assistant's. The result marks the text that comes from
    /// messages.
    ///
    /// # Errors
    /// The template refuses the conversation.
    pub fn render_chat(&self, messages: &[Message]) -> Result<Rendered, Error> {
        session::render(self.template.as_deref(), messages)
    }

    /// Tokenizes a rendered conversation. Special tokens spelled out in its messages stay text, so that they cannot end
    /// or begin a turn; see [`Rendered::with_special_in_content`].
    ///
    /// # Errors
    /// The text cannot be tokenized.
    pub fn tokenize_rendered(&self, prompt: &Rendered) -> Result<Vec<u32>, Error> {
        Ok(leyden_text::encode_rendered(self.tokenizer.as_ref(), prompt)?)
    }

    /// Returns true if the model has a chat template.
    #[must_use]
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    /// Returns the pooling of hidden states to vectors, if the model specifies it.
    #[must_use]
    pub fn pooling(&self) -> Option<Pooling> {
        self.pooling
    }

    /// Returns the prompts that the model expects before texts of each kind.
    #[must_use]
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Returns the parts that tasks read.
    pub(crate) fn task_model(&self) -> TaskModel<'_> {
        TaskModel {
            config: self.config(),
            tokenizer: self.tokenizer(),
            template: self.template.as_deref(),
            prompts: &self.prompts,
            vocabulary: self.network.vocabulary(),
            max_tokens: self.config().context,
            counts_excess: true,
            stop: &|| false,
        }
    }

    /// Returns the model's parameters.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        self.network.config()
    }

    /// Returns the file's metadata; for a folder, its configuration under GGUF keys.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.source.metadata()
    }

    /// Returns the weights as the file stores them.
    #[must_use]
    pub fn weights(&self) -> &dyn WeightSource {
        self.source.as_ref()
    }

    /// Returns the network: packed weights and their execution.
    #[must_use]
    pub fn network(&self) -> &Arc<dyn Network> {
        &self.network
    }

    /// Returns the processor of the first replica.
    #[must_use]
    pub fn cpu(&self) -> &Arc<Cpu> {
        &self.cpus[0]
    }

    /// Returns the processors of all replicas; at least one. A thread that serves a replica may call
    /// [`Cpu::bind_caller`] first, so that it runs on the cores of its team.
    #[must_use]
    pub fn replicas(&self) -> &[Arc<Cpu>] {
        &self.cpus
    }

    /// Returns the message if the operating system refused to place threads or weights on NUMA nodes.
    #[must_use]
    pub fn unplaced(&self) -> Option<&str> {
        self.unplaced.as_deref()
    }

    /// Returns the unknown keys of the model's files, which are ignored.
    #[must_use]
    pub fn unknown_keys(&self) -> Vec<String> {
        let mut all = leyden_models::unknown_keys(self.source.as_ref());
        all.extend(self.unread.iter().cloned());
        all
    }

    /// Returns the report about the cache of packed weights.
    #[must_use]
    pub fn packs(&self) -> &PackReport {
        &self.packs
    }

    /// Returns the options `int8` and `exact` with which the model was loaded.
    pub(crate) fn arithmetic(&self) -> (bool, bool) {
        self.arithmetic
    }

    /// Returns the time of loading.
    #[must_use]
    pub fn load_time(&self) -> Duration {
        self.load_time
    }
}

/// Returns the instruction-set tier of the options.
fn tier(options: &LoadOptions) -> Result<Tier, Error> {
    match options.isa {
        Some(level) => Tier::new(level).ok_or_else(|| {
            let have: Vec<&str> = Tier::available().iter().map(|t| t.level().name()).collect();
            let what =
                format!("this machine lacks {level} ({}); it has {}", level.features(), have.join(", "));
            Error::Option { name: "isa", what }
        }),
        None => Cpu::default_tier().map_err(|what| Error::Option { name: "isa", what }),
    }
}

/// Returns the placement request of the options.
fn request(options: &LoadOptions) -> Result<PlacementRequest, Error> {
    let in_range = |name, n: usize| match n {
        1..=1024 => Ok(()),
        _ => Err(Error::Option { name, what: format!("{n} is not between 1 and 1024") }),
    };
    options.threads.map_or(Ok(()), |n| in_range("threads", n))?;
    options.threads_batch.map_or(Ok(()), |n| in_range("threads-batch", n))?;
    if let Replicas::Count(n) = options.replicas {
        in_range("replicas", n)?;
    }
    let LoadOptions { threads, threads_batch, replicas, .. } = *options;
    Ok(PlacementRequest { replicas, threads, threads_batch })
}
